// Package deps asserts what importing a room of this module pulls in: nobody
// who uses one store compiles the client library of another.
package deps

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/sessionstore/sessionstore"

// rooms names, for each package that others import, the packages of this
// module it may pull in, and the foreign modules.
var rooms = map[string]struct{ inside, foreign []string }{
	"":                   {inside: []string{"internal/"}},
	"inmemory":           {inside: []string{"", "internal/"}},
	"filestore":          {inside: []string{"", "internal/"}},
	"conformance":        {inside: []string{"", "internal/"}},
	"internal/attempt":   {},
	"internal/osdir":     {},
	"internal/pgutil":    {inside: []string{"internal/idset"}, foreign: []string{"github.com/jackc/", "golang.org/x/"}},
	"internal/redisutil": {inside: []string{"internal/keyenc"}, foreign: []string{"github.com/redis/go-redis/", "github.com/cespare/xxhash/", "go.uber.org/atomic"}},
	"internal/s3util":    {inside: []string{"internal/keyenc"}, foreign: []string{"github.com/aws/"}},
	"internal/s3fake":    {foreign: []string{"github.com/aws/"}},
	"internal/standin":   {inside: []string{"", "internal/"}},
	"internal/idset":     {},
	"internal/jsonl":     {inside: []string{"internal/jsonscan"}},
	"internal/jsonscan":  {},
	"internal/keyenc":    {},
	"internal/recorded":  {inside: []string{"", "internal/"}},
	"internal/testenv":   {},
	"internal/testuser":  {},
	"cmd/sessionstore":   {inside: []string{"", "internal/", "inmemory", "filestore", "pgstore", "redisstore", "s3store", "session", "mirror", "resume", "host", "memory", "memory/"}, foreign: []string{"github.com/aws/", "github.com/jackc/", "github.com/redis/go-redis/", "github.com/cespare/xxhash/", "go.uber.org/atomic", "golang.org/x/text/", "golang.org/x/sync/", "github.com/spf13/", "github.com/schollz/progressbar/v3", "github.com/mitchellh/colorstring", "github.com/rivo/uniseg", "golang.org/x/term", "golang.org/x/sys/", "github.com/tidwall/"}},
	"session":            {inside: []string{"", "internal/"}},
	"mirror":             {inside: []string{"", "internal/"}},
	"resume":             {inside: []string{"", "internal/", "filestore", "session"}},
	"host":               {inside: []string{"", "internal/", "filestore", "session", "mirror", "resume"}},
	"examples/logstore":  {inside: []string{"", "internal/"}},
	"examples/agenthost": {inside: []string{"", "internal/", "filestore", "session", "mirror", "resume", "host"}},
	"s3store":            {inside: []string{"", "internal/"}, foreign: []string{"github.com/aws/"}},
	"memory":             {inside: []string{"", "internal/"}},
	"memory/memorytest":  {inside: []string{"", "internal/", "memory"}},
	"memory/memmap":      {inside: []string{"", "internal/", "memory"}},
	"memory/memdir":      {inside: []string{"", "internal/", "memory"}},
	"memory/memredis":    {inside: []string{"", "internal/", "memory"}, foreign: []string{"github.com/redis/go-redis/", "github.com/cespare/xxhash/", "go.uber.org/atomic"}},
	"memory/mempg":       {inside: []string{"", "internal/", "memory"}, foreign: []string{"github.com/jackc/", "golang.org/x/"}},
	"memory/mems3":       {inside: []string{"", "internal/", "memory"}, foreign: []string{"github.com/aws/"}},
	"pgstore":            {inside: []string{"", "internal/"}, foreign: []string{"github.com/jackc/", "golang.org/x/"}},
	"redisstore":         {inside: []string{"", "internal/"}, foreign: []string{"github.com/redis/go-redis/", "github.com/cespare/xxhash/", "go.uber.org/atomic"}},
	"scripts/benchratio": {},
}

func TestRoomsImportOnlyWhatTheyMay(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}}", module+"/...").Output()
	require.NoError(t, err)
	for _, path := range strings.Fields(string(out)) {
		room := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		if room == "internal/deps" {
			continue
		}
		allowed, ok := rooms[room]
		require.True(t, ok, "%s is not in the table of rooms", path)
		t.Run(path, func(t *testing.T) {
			out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", path).Output()
			require.NoError(t, err)
			for _, dep := range strings.Fields(string(out)) {
				inside, ours := strings.CutPrefix(dep, module)
				switch inside = strings.TrimPrefix(inside, "/"); {
				case dep == path:
				case ours:
					require.True(t, slices.ContainsFunc(allowed.inside, matches(inside)), "%s must not import %s", path, dep)
				default:
					require.True(t, slices.ContainsFunc(allowed.foreign, matches(dep)), "%s must not import %s", path, dep)
				}
			}
		})
	}
}

// matches compares with an entry of the table; one that ends in / stands for
// all below.
func matches(path string) func(string) bool {
	return func(entry string) bool {
		return path == entry || strings.HasSuffix(entry, "/") && strings.HasPrefix(path, entry)
	}
}
