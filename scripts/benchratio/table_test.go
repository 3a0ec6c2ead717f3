package main

import (
	"strings"
	"testing"
)

const output = `goos: linux
pkg: example.com/a
cpu: some
BenchmarkAppend/20x2KB/op-2      100   3000 ns/op   20.0 MB/s   512 B/op   7 allocs/op
BenchmarkAppend/20x2KB/op-2      100   9000 ns/op   10.0 MB/s   512 B/op   7 allocs/op
BenchmarkAppend/20x2KB/op-2      100   4000 ns/op   15.0 MB/s   512 B/op   7 allocs/op
BenchmarkAppend/20x2KB/floor-2   100   1000 ns/op   60.0 MB/s     0 B/op   0 allocs/op
BenchmarkAppend/20x2KB/floor-2   100   3000 ns/op   40.0 MB/s     0 B/op   0 allocs/op
BenchmarkLoad/floor/10MB-2         5   2000000 ns/op
BenchmarkLoad/op/10MB-2            5   2500000 ns/op
--- BENCH: BenchmarkLoad/op/10MB-2
    some_test.go:1: Benchmark chatter 1 2
BenchmarkAlone-2   1000000   12.5 ns/op
PASS
ok  	example.com/a	1.2s
pkg: example.com/b
BenchmarkAlone/floor-2   10   7 ns/op
BenchmarkAlone-2         10   14 ns/op
PASS
`

func table(t *testing.T, in string) string {
	t.Helper()
	results, err := parse(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := render(&out, pair(results)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// row returns the cells of the n-th line that ends with name.
func cells(t *testing.T, table, name string, n int) []string {
	t.Helper()
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 1 && f[len(f)-1] == name {
			if n--; n < 0 {
				return f[:len(f)-1]
			}
		}
	}
	t.Fatalf("no line for %s in:\n%s", name, table)
	return nil
}

func TestRatioIsOfTheMedians(t *testing.T) {
	got := strings.Join(cells(t, table(t, output), "Append/20x2KB", 0), " ")
	if want := "4.00µs 2.00µs 2.00x 15.0 50.0 512 7 3"; got != want {
		t.Errorf("row = %s, want %s", got, want)
	}
}

func TestSiblingsMayDifferInAnyElement(t *testing.T) {
	got := strings.Join(cells(t, table(t, output), "Load/10MB", 0), " ")
	if want := "2.50ms 2.00ms 1.25x - - - - 1"; got != want {
		t.Errorf("row = %s, want %s", got, want)
	}
}

func TestBenchmarkWithoutSiblingIsListedAlone(t *testing.T) {
	all := table(t, output)
	for n, want := range []string{"12.5ns - - - - - - 1", "- 7.00ns - - - - - 1", "14.0ns - - - - - - 1"} {
		if got := strings.Join(cells(t, all, "Alone", n), " "); got != want {
			t.Errorf("row %d = %s, want %s", n, got, want)
		}
	}
}

func TestPackagesAreListedApart(t *testing.T) {
	all := table(t, output)
	for _, pkg := range []string{"\nexample.com/a\n", "\nexample.com/b\n"} {
		if strings.Count(all, pkg) != 1 {
			t.Errorf("table has no heading %q:\n%s", pkg, all)
		}
	}
}

func TestNumberInANameIsNotMistakenForGOMAXPROCS(t *testing.T) {
	all := table(t, "BenchmarkX/size-10/op 1 20 ns/op\nBenchmarkX/size-10/floor 1 10 ns/op\nBenchmarkY/size-10 1 5 ns/op\nBenchmarkY/size-20 1 6 ns/op\n")
	for _, name := range []string{"X/size-10", "Y/size-10", "Y/size-20"} {
		cells(t, all, name, 0)
	}
}

func TestMalformedValueIsAnError(t *testing.T) {
	if _, err := parse(strings.NewReader("BenchmarkX 10 fast ns/op\n")); err == nil {
		t.Error("parse() = nil, want an error")
	}
}
