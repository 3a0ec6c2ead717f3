// Command benchratio reads the output of go test -bench and prints a table of
// how much an operation costs beside its floor: the least work that any
// implementation would have to do, measured by a sibling benchmark.
//
// Siblings differ in one element of their name, op and floor:
//
//	BenchmarkAppend/20x2KB/op     and  BenchmarkAppend/20x2KB/floor
//	BenchmarkLoad/op/10MB         and  BenchmarkLoad/floor/10MB
//
// Each number is the median of the runs of its benchmark, and the ratio is that
// of the medians. Benchmarks without a sibling are listed alone.
package main

import (
	"fmt"
	"os"
)

func main() {
	results, err := parse(os.Stdin)
	if err == nil && len(results) == 0 {
		err = fmt.Errorf("no benchmark results in the input")
	}
	if err == nil {
		err = render(os.Stdout, pair(results))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchratio:", err)
		os.Exit(1)
	}
}
