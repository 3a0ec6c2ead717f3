// Command rclones3 is rclone with nothing but "serve s3" and local directories:
// for this library's tests, an S3 server that shares no code with scripts/s3server.
// It is a module of its own so that the library does not inherit what it depends on.
package main

import (
	_ "github.com/rclone/rclone/backend/local"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/serve/s3"
)

func main() { cmd.Main() }
