//go:build !unix

package memdir

import "strings"

const openNonblock = 0

func isNotDirectory(err error) bool {
	return err != nil && strings.Contains(err.Error(), "not a directory")
}
