package redisstore

import (
	_ "embed"

	"github.com/sessionstore/sessionstore/internal/redisutil"
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

	appendScript  = redisutil.Minify(appendSource)
	carryScript   = redisutil.Minify(pushSource + appendSource)
	deleteScript  = redisutil.Minify(deleteSource)
	noteScript    = redisutil.Minify(noteSource)
	forgetScript  = redisutil.Minify(forgetSource)
	foldScript    = redisutil.Minify(foldSource)
	confirmScript = redisutil.Minify(confirmSource)
)
