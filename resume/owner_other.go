//go:build !unix

package resume

import "io/fs"

// isOurs: the directory for temporary files is the user's own on these systems.
func isOurs(fs.FileInfo) bool { return true }
