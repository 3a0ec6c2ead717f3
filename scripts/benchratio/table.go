package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// result is one benchmark of one package, over all its runs.
type result struct {
	pkg, name string
	values    map[string][]float64 // by unit, in the order of the runs
}

// median returns the median of a unit, and whether there was any.
func (r *result) median(unit string) (float64, bool) {
	if r == nil || len(r.values[unit]) == 0 {
		return 0, false
	}
	v := slices.Sorted(slices.Values(r.values[unit]))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2, true
	}
	return v[len(v)/2], true
}

// parse reads what go test -bench prints: "pkg: path" lines, and lines of a
// name, a number of iterations, and pairs of value and unit. Other lines are
// not its business.
func parse(in io.Reader) ([]*result, error) {
	var results []*result
	index := make(map[[2]string]*result)
	pkg := ""
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if p, ok := strings.CutPrefix(line, "pkg: "); ok {
			pkg = p
			continue
		}
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		if _, err := strconv.Atoi(f[1]); err != nil {
			continue
		}
		key := [2]string{pkg, f[0]}
		if index[key] == nil {
			index[key] = &result{pkg, f[0], make(map[string][]float64)}
			results = append(results, index[key])
		}
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			index[key].values[f[i+1]] = append(index[key].values[f[i+1]], v)
		}
	}
	trimProcs(results)
	return results, lines.Err()
}

var procs = regexp.MustCompile(`-\d+$`)

// trimProcs removes the -N that go test adds for GOMAXPROCS. It adds none when
// that is 1, so a -N counts only if all benchmarks have the same.
func trimProcs(results []*result) {
	if len(results) == 0 {
		return
	}
	suffix := procs.FindString(results[0].name)
	for _, r := range results {
		if procs.FindString(r.name) != suffix {
			return
		}
	}
	for _, r := range results {
		r.name = strings.TrimSuffix(r.name, suffix)
	}
}

// row is an operation and its floor; one of them may be missing.
type row struct {
	pkg, name string
	op, floor *result
}

// pair joins siblings, in the order in which the first of them appeared.
func pair(results []*result) []*row {
	var rows []*row
	index := make(map[[2]string]*row)
	for _, r := range results {
		name, role := split(r.name)
		key := [2]string{r.pkg, name}
		if role == "" {
			key[1] += "\x00" // X alone is no sibling of X/floor
		}
		if index[key] == nil {
			index[key] = &row{pkg: r.pkg, name: strings.TrimPrefix(name, "Benchmark")}
			rows = append(rows, index[key])
		}
		if role == "floor" {
			index[key].floor = r
		} else {
			index[key].op = r
		}
	}
	return rows
}

// split takes the element op or floor out of a name.
func split(name string) (rest, role string) {
	elements := strings.Split(name, "/")
	for i := len(elements) - 1; i > 0; i-- {
		if e := elements[i]; e == "op" || e == "floor" {
			return strings.Join(slices.Delete(elements, i, i+1), "/"), e
		}
	}
	return name, ""
}

// render prints one table for each package.
func render(out io.Writer, rows []*row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	pkg := "\x00"
	for _, r := range rows {
		if r.pkg != pkg {
			w.Flush() // the next package has columns of its own
			pkg = r.pkg
			fmt.Fprintf(out, "\n%s\n", pkg)
			fmt.Fprintln(w, "op\tfloor\top/floor\top MB/s\tfloor MB/s\top B\top allocs\truns\t  benchmark")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t  %s\n",
			cell(r.op, "ns/op", duration), cell(r.floor, "ns/op", duration), ratio(r),
			cell(r.op, "MB/s", number), cell(r.floor, "MB/s", number),
			cell(r.op, "B/op", integer), cell(r.op, "allocs/op", integer), runs(r), r.name)
	}
	return w.Flush()
}

func cell(r *result, unit string, format func(float64) string) string {
	v, ok := r.median(unit)
	if !ok {
		return "-"
	}
	return format(v)
}

func ratio(r *row) string {
	op, ok1 := r.op.median("ns/op")
	floor, ok2 := r.floor.median("ns/op")
	if !ok1 || !ok2 || floor == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fx", op/floor)
}

func runs(r *row) int {
	if r.op != nil {
		return len(r.op.values["ns/op"])
	}
	return len(r.floor.values["ns/op"])
}

func duration(ns float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}} {
		if ns >= unit.size {
			return number(ns/unit.size) + unit.name
		}
	}
	return number(ns) + "ns"
}

// number prints three significant digits, or all before the point.
func number(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func integer(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
