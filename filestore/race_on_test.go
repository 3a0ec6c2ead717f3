//go:build race

package filestore_test

// raceDetector: code is ten times slower with it.
const raceDetector = true
