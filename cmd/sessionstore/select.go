package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sessionstore/sessionstore"
)

// minPrefix is how much of a session id has to be given.
const minPrefix = 4

// parseKey reads PROJECT/SESSION#SUBPATH as Key.String writes it. Project and
// subpath may be missing. A part may be quoted.
func parseKey(arg string) (sessionstore.Key, error) {
	var key sessionstore.Key
	first, rest, err := cutPart(arg, "/#")
	if err != nil {
		return key, err
	}
	key.SessionID = first
	if after, ok := strings.CutPrefix(rest, "/"); ok {
		key.ProjectKey = first
		if key.SessionID, rest, err = cutPart(after, "#"); err != nil {
			return key, err
		}
	}
	if sub, ok := strings.CutPrefix(rest, "#"); ok {
		if sub == "" {
			return key, usagef("%s names no subpath behind the #", arg)
		}
		key.Subpath, err = parseSubpath(sub)
	}
	return key, err
}

// cutPart takes one part, up to one of the characters in stops.
func cutPart(s, stops string) (part, rest string, err error) {
	if strings.HasPrefix(s, `"`) {
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return "", "", usagef("%s: the quoted part has no end", s)
		}
		part, err = strconv.Unquote(quoted)
		return part, s[len(quoted):], err
	}
	if i := strings.IndexAny(s, stops); i >= 0 {
		return s[:i], s[i:], nil
	}
	return s, "", nil
}

func parseSubpath(s string) (string, error) {
	var segs []string
	for {
		seg, rest, err := cutPart(s, "/")
		if err != nil {
			return "", err
		}
		segs = append(segs, seg)
		if rest == "" {
			return strings.Join(segs, "/"), nil
		}
		s = strings.TrimPrefix(rest, "/")
	}
}

// findSession finds the session that an argument names, in one project or, if
// project is empty, in all of them. The subpath is taken as given.
func findSession(ctx context.Context, h *handle, arg, project string) (sessionstore.Key, error) {
	want, err := parseKey(arg)
	if err != nil {
		return want, err
	}
	if want.ProjectKey != "" && project != "" && want.ProjectKey != project {
		return want, usagef("%s names another project than --project %s", arg, name(project))
	}
	want.ProjectKey = cmp.Or(want.ProjectKey, project)
	projects := []string{want.ProjectKey}
	if want.ProjectKey == "" {
		if projects, err = sessionstore.ListProjects(ctx, h.store); err != nil {
			return want, err
		}
	}
	exact, similar, err := matching(ctx, h, want, projects)
	if err != nil {
		return want, err
	}
	if len(exact) == 0 && (len(similar) == 0 || want.ProjectKey != "") {
		if exact, err = onlySubpaths(ctx, h, want, projects); err != nil {
			return want, err
		}
	}
	key, err := pick(h, arg, want.SessionID, exact, similar)
	if h.unread && errors.Is(err, sessionstore.ErrNotFound) {
		return key, fmt.Errorf("no session %s in what can be read of %s", arg, h.name)
	}
	return key, err
}

// matching looks in the lists for sessions that have the wanted id, or one that
// begins with it. A command that only reads goes on where a project can't be
// listed; one that changes something must know that it has the right session.
func matching(ctx context.Context, h *handle, want sessionstore.Key, projects []string) (exact, similar []sessionstore.Key, err error) {
	for _, p := range projects {
		sessions, err := sessionstore.ListSessions(ctx, h.store, p)
		if err != nil && h.mode == reading {
			err = h.passOver(ctx, err)
		}
		if err != nil {
			return nil, nil, err
		}
		for _, s := range sessions {
			found := sessionstore.Key{ProjectKey: p, SessionID: s.SessionID, Subpath: want.Subpath}
			if s.SessionID == want.SessionID {
				exact = append(exact, found)
			} else if len(want.SessionID) >= minPrefix && strings.HasPrefix(s.SessionID, want.SessionID) {
				similar = append(similar, found)
			}
		}
	}
	return exact, similar, nil
}

// onlySubpaths finds sessions with the wanted id that have no main transcript.
// They are in no list of sessions. A store may not be able to tell.
func onlySubpaths(ctx context.Context, h *handle, want sessionstore.Key, projects []string) (found []sessionstore.Key, err error) {
	for _, p := range projects {
		subpaths, err := sessionstore.ListSubkeys(ctx, h.store, p, want.SessionID)
		switch {
		case errors.Is(err, errors.ErrUnsupported), errors.Is(err, sessionstore.ErrInvalidKey):
			err = nil // it is none
		case err != nil && h.mode == reading:
			err = h.passOver(ctx, err)
		}
		if err != nil {
			return nil, err
		}
		if len(subpaths) > 0 {
			found = append(found, sessionstore.Key{ProjectKey: p, SessionID: want.SessionID, Subpath: want.Subpath})
		}
	}
	return found, nil
}

func pick(h *handle, arg, id string, exact, similar []sessionstore.Key) (sessionstore.Key, error) {
	candidates := exact
	if len(exact) == 0 {
		candidates = similar
	}
	switch {
	case len(candidates) == 1:
		return candidates[0], nil
	case len(candidates) == 0 && len(id) < minPrefix:
		return sessionstore.Key{}, notFoundf("no session %s in %s; give at least %d characters of an id", arg, h.name, minPrefix)
	case len(candidates) == 0:
		return sessionstore.Key{}, notFoundf("no session %s in %s; \"sessionstore ls --all%s\" lists them", arg, h.name, h.flag)
	}
	names := make([]string, len(candidates))
	for i, k := range candidates {
		names[i] = k.Main().String()
	}
	slices.Sort(names)
	const shown = 4
	if n := len(names) - shown; n > 1 {
		names = append(names[:shown], number(int64(n))+" more")
	}
	return sessionstore.Key{}, usagef("%s is ambiguous: %s; give one of these, or --project",
		arg, strings.Join(names, ", "))
}

// findSubpath finds the subpath transcript that the reader means: all of its
// name, or enough of the last part, with or without "agent-".
func findSubpath(ctx context.Context, h *handle, session sessionstore.Key, arg string) (sessionstore.Key, error) {
	key := session
	key.Subpath = arg
	subpaths, err := sessionstore.ListSubkeys(ctx, h.store, session.ProjectKey, session.SessionID)
	if errors.Is(err, errors.ErrUnsupported) {
		return key, key.Validate() // it can't be looked up, so it is taken as it is
	}
	if slices.Contains(subpaths, arg) {
		return key, nil
	}
	if err != nil {
		return key, err
	}
	var similar []string
	for _, sub := range subpaths {
		last := sub[strings.LastIndexByte(sub, '/')+1:]
		if strings.HasPrefix(last, arg) || strings.HasPrefix(strings.TrimPrefix(last, "agent-"), arg) {
			similar = append(similar, sub)
		}
	}
	switch len(similar) {
	case 0:
		return key, notFoundf("session %v has no transcript %s; \"sessionstore subagents%s %s\" lists what it has", session.Main(), arg, h.flag, name(session.SessionID))
	case 1:
		key.Subpath = similar[0]
		return key, nil
	}
	return key, usagef("%s is ambiguous: %s", arg, strings.Join(similar, ", "))
}

// projectIn is projectArg for a store: a project of it goes before a directory
// that has the same name here. ./NAME is the directory.
func projectIn(ctx context.Context, h *handle, arg string) (string, error) {
	if !strings.ContainsAny(arg, `/\"~`) && isDir(arg) {
		if projects, err := sessionstore.ListProjects(ctx, h.store); err == nil && slices.Contains(projects, arg) {
			return arg, nil
		}
	}
	return projectArg(arg)
}

// looksLikeKey recognises the keys of agents, which are made of absolute paths.
// In the directory where an agent keeps its sessions they are directories too.
func looksLikeKey(s string) bool {
	return strings.HasPrefix(s, "-") && !strings.ContainsAny(s, `/\`)
}

// projectArg turns an argument into a project key. A directory stands for the
// sessions that ran in it.
func projectArg(arg string) (string, error) {
	if strings.HasPrefix(arg, `"`) {
		part, rest, err := cutPart(arg, "")
		if err == nil && rest != "" {
			err = usagef("%s: text behind the quoted part", arg)
		}
		return part, err
	}
	if looksLikeKey(arg) {
		return arg, nil
	}
	dir, err := expandHome(arg)
	if err != nil {
		return "", err
	}
	if looksLikePath(dir) || isDir(dir) {
		return sessionstore.ProjectKey(dir)
	}
	return arg, nil
}

// looksLikePath recognises paths by their form, because the directory of an
// old session may be gone.
func looksLikePath(s string) bool {
	return s == "." || s == ".." || strings.HasPrefix(s, "/") ||
		strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../")
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// scopeFlags are --project and --session.
type scopeFlags struct{ project, session string }

// scope turns them into the scope of Copy and Verify.
func (f scopeFlags) scope(ctx context.Context, h *handle) (sessionstore.Key, error) {
	project := ""
	if f.project != "" {
		var err error
		if project, err = projectIn(ctx, h, f.project); err != nil {
			return sessionstore.Key{}, err
		}
	}
	if f.session != "" {
		return findSession(ctx, h, f.session, project)
	}
	return sessionstore.Key{ProjectKey: project}, nil
}
