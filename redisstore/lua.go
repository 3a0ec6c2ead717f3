package redisstore

import (
	_ "embed"
	"strings"
)

// The steps that must be atomic. They are sent as text each time: a script that
// the server has forgotten (SCRIPT FLUSH, a restart, a failover) would fail in
// the middle of a transaction whose other commands count.
var (
	//go:embed lua/push.lua
	pushSource string
	//go:embed lua/append.lua
	appendSource string
	//go:embed lua/delete.lua
	deleteSource string
	//go:embed lua/note.lua
	noteSource string
	//go:embed lua/forget.lua
	forgetSource string
	//go:embed lua/fold.lua
	foldSource string
	//go:embed lua/confirm.lua
	confirmSource string

	appendScript  = minify(appendSource)
	carryScript   = minify(pushSource + appendSource)
	deleteScript  = minify(deleteSource)
	noteScript    = minify(noteSource)
	forgetScript  = minify(forgetSource)
	foldScript    = minify(foldSource)
	confirmScript = minify(confirmSource)
)

// minify takes out comments and blanks: the server hashes the text of a script
// at every call. No string in the scripts has "--" or one of these pairs.
func minify(source string) string {
	blanks := strings.NewReplacer(" = ", "=", " == ", "==", " ~= ", "~=", " + ", "+", " - ", "-", " * ", "*",
		" .. ", "..", ", ", ",", "{ ", "{", " }", "}", " < ", "<", " > ", ">")
	var b strings.Builder
	for line := range strings.Lines(source) {
		line, _, _ = strings.Cut(line, "--")
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(blanks.Replace(line))
			b.WriteByte('\n')
		}
	}
	return b.String()
}
