package mirror

func init() { fsync = false }
