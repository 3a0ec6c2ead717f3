package s3store

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

// policy is the one that docs/s3.md gives.
type policy struct {
	Version   string
	Statement []map[string]any
}

func documentedPolicy(t *testing.T) (p policy) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "s3.md"))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "## Permissions")
	_, rest, _ = strings.Cut(rest, "```json\n")
	snippet, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(snippet, "my-bucket", "bucket")), &p))
	require.Len(t, p.Statement, 2)
	return p
}

// without returns the policy with one action less.
func (p policy) without(t *testing.T, action string) policy {
	t.Helper()
	less := policy{Version: p.Version}
	found := false
	for _, st := range p.Statement {
		actions := actionsOf(st)
		kept := slices.DeleteFunc(slices.Clone(actions), func(a string) bool { return a == action })
		found = found || len(kept) < len(actions)
		if len(kept) > 0 {
			next := map[string]any{}
			for name, v := range st {
				next[name] = v
			}
			next["Action"] = kept
			less.Statement = append(less.Statement, next)
		}
	}
	require.True(t, found, action)
	return less
}

func actionsOf(statement map[string]any) (actions []string) {
	switch a := statement["Action"].(type) {
	case string:
		actions = []string{a}
	case []any:
		for _, one := range a {
			actions = append(actions, one.(string))
		}
	case []string:
		actions = a
	}
	return actions
}

// guarded is a server with a bucket that an account may use only as the policy
// says.
type guarded struct {
	*mortal
	root *s3.Client
	user backend
}

func newGuarded(t *testing.T) guarded {
	t.Helper()
	const access, secret = "app", "appsecret"
	dir := t.TempDir()
	users := `{"accessAccounts":{"app":{"access":"app","secret":"appsecret","role":"user"}}}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "users.json"), []byte(users), 0o600))
	g := guarded{mortal: newMortalWith(t, dir)}
	g.root = backend{server: g.S3Server}.client(t, newWire(t))
	_, err := g.root.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("bucket")})
	require.NoError(t, err)
	server := g.S3Server
	server.AccessKey, server.SecretKey = access, secret
	g.user = backend{server: server, bucket: "bucket"}
	return g
}

func (g guarded) allow(t *testing.T, p policy) {
	t.Helper()
	for _, st := range p.Statement {
		st["Principal"] = "app"
	}
	text, err := json.Marshal(p)
	require.NoError(t, err)
	_, err = g.root.PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: aws.String("bucket"), Policy: aws.String(string(text))})
	require.NoError(t, err)
}

func TestDocumentedPolicyIsEnough(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	g.allow(t, documentedPolicy(t))
	require.NoError(t, useAll(t, g.user.store(t, Options{Prefix: "agents", CompactAfter: -1})))
	require.NoError(t, useAll(t, g.user.store(t, Options{Prefix: "agents/a/b", CompactAfter: 1})))
	// Outside the prefix it has no rights.
	s := g.user.store(t, Options{Prefix: "others"})
	require.ErrorContains(t, s.Append(t.Context(), testKey, []sessionstore.Entry{title("t")}), "AccessDenied")
	_, err := s.ListProjects(t.Context())
	require.ErrorContains(t, err, "AccessDenied")
}

func TestDocumentedPolicyIsTheLeast(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	p := documentedPolicy(t)
	var actions []string
	for _, st := range p.Statement {
		actions = append(actions, actionsOf(st)...)
	}
	require.ElementsMatch(t, []string{"s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"}, actions)
	for _, action := range actions {
		g.allow(t, p)
		s := g.user.store(t, Options{Prefix: "agents/" + action[len("s3:"):], CompactAfter: -1})
		s.timing.closeWait = time.Millisecond
		require.NoError(t, useAll(t, s))
		g.allow(t, p.without(t, action))
		require.ErrorContains(t, useAll(t, s), "AccessDenied", action)
		g.allow(t, p) // for the end of the store
	}
}

// useAll does all that a store can do, until something fails.
func useAll(t *testing.T, s *Store) error {
	t.Helper()
	ctx := t.Context()
	sub, project := testKey, testKey.ProjectKey
	sub.Subpath = "subagents/agent-1"
	steps := []func() error{
		func() error { return s.Append(ctx, testKey, []sessionstore.Entry{title("t")}) },
		func() error { return s.Append(ctx, testKey, []sessionstore.Entry{title("u")}) },
		func() error { return s.Append(ctx, sub, []sessionstore.Entry{title("t")}) },
		func() error { _, err := s.Load(ctx, testKey); return err },
		func() error {
			for _, err := range s.Stream(ctx, sub) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		func() error { _, err := s.ListProjects(ctx); return err },
		func() error { _, err := s.ListSessions(ctx, project); return err },
		func() error { _, err := s.ListSessionSummaries(ctx, project); return err },
		func() error { _, err := s.ListOrphans(ctx, project); return err },
		func() error { _, err := s.ListSubkeys(ctx, project, testKey.SessionID); return err },
		func() error { return s.Compact(ctx, testKey) },
		func() error { _, err := s.Repair(ctx, project); return err },
		func() error { return s.Delete(ctx, sub) },
		func() error { _, err := s.Purge(ctx, time.Now().Add(time.Hour)); return err },
		func() error { return s.Append(ctx, testKey, []sessionstore.Entry{title("t")}) },
		func() error { return s.Delete(ctx, testKey) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
