//go:build !race

package conformance

const oneIn = 1
