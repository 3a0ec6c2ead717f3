//go:build race

package conformance

// oneIn says which part of the cases runs against a mistake that is not
// theirs.
const oneIn = 4
