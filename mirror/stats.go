package mirror

// Stats are counters since New, and gauges of the moment. As JSON they suit
// expvar.
type Stats struct {
	Frames  int64 `json:"frames"`  // that came in, foreign and broken ones too
	Foreign int64 `json:"foreign"` // frames whose path is no transcript
	Broken  int64 `json:"broken"`  // frames that were cut off

	Batches int64 `json:"batches"` // stored
	Entries int64 `json:"entries"` // stored
	Bytes   int64 `json:"bytes"`   // stored

	Retries  int64 `json:"retries"`  // calls of the store after the first one of a batch
	Timeouts int64 `json:"timeouts"` // calls that exceeded CallTimeout
	Panics   int64 `json:"panics"`   // in the store and in callbacks

	GivenUpBatches int64 `json:"givenUpBatches"` // spilled ones too
	GivenUpEntries int64 `json:"givenUpEntries"`
	Unusable       int64 `json:"unusable"`  // entries that no store can hold
	Spilled        int64 `json:"spilled"`   // entries written to files
	Delivered      int64 `json:"delivered"` // entries delivered from files

	PendingEntries int `json:"pendingEntries"` // in memory, not stored yet
	PendingBytes   int `json:"pendingBytes"`
	InFlight       int `json:"inFlight"` // keys that are being appended to
	HeldKeys       int `json:"heldKeys"` // keys whose batches go to files
}
