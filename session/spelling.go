package session

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/sessionstore/sessionstore"
)

// Spellings returns the project keys of a store that stand for the directory of
// one key: the key itself first and, on Windows, those that differ from it only
// in letter case. Agents take a directory as it is written when they are
// started, so the sessions of c:\x and C:\x lie under two keys.
//
// On other systems the store isn't asked: directories that differ in case are
// different ones there. Disks that ignore case, as those of macOS may, are no
// exception, because nothing about a store tells that its sessions ran on one.
func Spellings(ctx context.Context, store sessionstore.SessionStore, projectKey string) ([]string, error) {
	return spellings(ctx, store, projectKey, runtime.GOOS)
}

func spellings(ctx context.Context, store sessionstore.SessionStore, projectKey, system string) ([]string, error) {
	if system != "windows" {
		return []string{projectKey}, nil
	}
	all, err := sessionstore.ListProjects(ctx, store)
	if err != nil {
		return nil, opError("spellings", sessionstore.Key{ProjectKey: projectKey}, err)
	}
	others := slices.DeleteFunc(all, func(p string) bool { return p == projectKey || !strings.EqualFold(p, projectKey) })
	return append([]string{projectKey}, others...), nil
}

// sameDir compares two working directories as a system does.
func sameDir(a, b, system string) bool {
	a, b = filepath.Clean(a), filepath.Clean(b)
	return a == b || system == "windows" && strings.EqualFold(a, b)
}
