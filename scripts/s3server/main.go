// Command s3server serves S3 over a directory, for this library's tests. It is
// versitygw with one account, or more with -iam, and no other interface, in a module of its own so
// that the library does not inherit what it depends on.
//
// GET /ready-PID, where PID is the number of its process, answers 200 once the
// server takes requests. The number tells whoever started it that the answer
// does not come from some other server on the same port.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:7070", "`host:port` to listen on")
	dir := flag.String("dir", "", "existing `directory` that holds the buckets")
	access := flag.String("access", "", "access `key`")
	secret := flag.String("secret", "", "secret `key`")
	region := flag.String("region", "us-east-1", "region `name`")
	iam := flag.String("iam", "", "`directory` with users.json, further accounts that bucket policies name")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := serve(ctx, *dir, &embedgw.Config{
		RootUserAccess:    *access,
		RootUserSecret:    *secret,
		Region:            *region,
		IAMDir:            *iam,
		Ports:             []string{*addr},
		HealthPath:        fmt.Sprintf("/ready-%d", os.Getpid()),
		MaxConnections:    4096,
		MaxRequests:       2048,
		MultipartMaxParts: 10000,
		KeepAlive:         true,
		Quiet:             true,
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "s3server:", err)
		os.Exit(1)
	}
}

// serve returns when ctx is done, after the requests at hand.
func serve(ctx context.Context, dir string, cfg *embedgw.Config) error {
	if dir == "" {
		return errors.New("-dir is required")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	attrs, opts, err := metadata(dir)
	if err != nil {
		return err
	}
	be, err := posix.New(dir, attrs, opts)
	if err != nil {
		return err
	}
	return embedgw.RunVersityGW(ctx, be, cfg)
}

// metadata keeps ETags and the like in extended attributes, and in a folder
// beside dir where the file system has none (some kinds of tmpfs).
func metadata(dir string) (meta.MetadataStorer, posix.PosixOpts, error) {
	if (meta.XattrMeta{}).Test(dir) == nil {
		return meta.XattrMeta{}, posix.PosixOpts{}, nil
	}
	side := filepath.Join(filepath.Dir(dir), "sidecar")
	if err := os.MkdirAll(side, 0o755); err != nil {
		return nil, posix.PosixOpts{}, err
	}
	sc, err := meta.NewSideCar(side)
	return sc, posix.PosixOpts{SideCarDir: side}, err
}
