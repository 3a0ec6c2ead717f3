// Package osdir is what stores in a directory need of the operating system
// beyond package os: locks between processes, and what the disk takes for one
// name.
package osdir

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	lockPollMin = 100 * time.Microsecond
	lockPollMax = 10 * time.Millisecond
)

// Lock waits until it holds the lock, flock(2), of a file or directory against
// other open files, of this process too. Closing the file releases it. On
// systems without flock it does nothing.
func Lock(ctx context.Context, f *os.File, exclusive bool) error {
	pause := lockPollMin
	for {
		held, err := tryLock(f, exclusive)
		if held || err != nil {
			return err
		}
		// flock can wait by itself, but then nothing could cancel it.
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		pause = min(2*pause, lockPollMax)
	}
}

// TryLock is Lock without waiting. It reports whether it holds the lock.
func TryLock(f *os.File, exclusive bool) (bool, error) { return tryLock(f, exclusive) }

// Unlock releases the lock of a file that stays open.
func Unlock(f *os.File) error { return unlock(f) }

// FoldsCase finds out, without writing, whether the disk takes names that
// differ only in letter case for one. It asks for a name in the root with the
// case of its letters swapped. If there is none it asks for dir itself.
func FoldsCase(root *os.Root, dir string) bool {
	for _, name := range someNames(root) {
		if other := swapCase(name); other != name {
			a, errA := root.Lstat(name)
			b, errB := root.Lstat(other)
			return errA == nil && errB == nil && os.SameFile(a, b)
		}
	}
	abs, err := filepath.Abs(dir)
	if dir == "" || err != nil {
		return false
	}
	other := filepath.Join(filepath.Dir(abs), swapCase(filepath.Base(abs)))
	if other == abs {
		return false
	}
	a, errA := os.Stat(abs)
	b, errB := os.Stat(other)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

func someNames(root *os.Root) []string {
	dir, err := root.Open(".")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(64)
	return names
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return r
	}, s)
}
