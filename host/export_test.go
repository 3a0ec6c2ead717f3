package host

import "time"

// Tests that wait for it should not wait long.
func init() { lingering = 200 * time.Millisecond }
