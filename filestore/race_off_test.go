//go:build !race

package filestore_test

const raceDetector = false
