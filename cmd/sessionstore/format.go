package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore"
)

// name writes a part of a key so that it is safe to print and can be given
// back as an argument.
func name(part string) string { return sessionstore.Key{ProjectKey: part}.String() }

// plural writes a number and its noun. Nouns in -y change it to -ies.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		return number(int64(n)) + " " + stem + "ies"
	}
	return number(int64(n)) + " " + noun + "s"
}

// number groups digits by three.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size writes a number of bytes.
func size(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, prefix := float64(n)/unit, 0
	for f >= 999.5 && prefix < len("kMGTP")-1 {
		f /= unit
		prefix++
	}
	if f < 9.95 {
		return fmt.Sprintf("%.1f %cB", f, "kMGTP"[prefix])
	}
	return fmt.Sprintf("%.0f %cB", f, "kMGTP"[prefix])
}

// age writes how long ago something was, in one unit.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "0s" // the clock of the storage is ahead
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d < 100*day:
		return fmt.Sprintf("%dd", d/day)
	case d < 2*365*day:
		return fmt.Sprintf("%dmo", d/(365*day/12))
	}
	return fmt.Sprintf("%dy", d/(365*day))
}

// parseAge reads what --older-than takes: 90m, 12h, 30d, 2w.
func parseAge(s string) (time.Duration, error) {
	units := map[byte]time.Duration{
		's': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour,
	}
	if s != "" {
		unit := units[s[len(s)-1]]
		n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
		if d := time.Duration(n) * unit; err == nil && unit > 0 && d/unit == time.Duration(n) {
			return d, nil
		}
	}
	return 0, usagef("age %s: write a number and s, m, h, d or w, such as 30d", s)
}

func localTime(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04") }

// jsonTime is the same moment as a number in milliseconds says, for people.
func jsonTime(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// table prints rows in columns. The last column holds names; it is cut at its
// front to the width of a terminal.
func (a *app) table(header []string, rows [][]string) { a.tableCut(header, rows, cutFront) }

// tableCut is table with another way to cut the last column.
func (a *app) tableCut(header []string, rows [][]string, cutLast func(string, int) string) {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], textWidth(cell))
		}
	}
	last := len(header) - 1
	used := 0
	for _, w := range widths[:last] {
		used += w + 2
	}
	st := a.style()
	for n, row := range append([][]string{header}, rows...) {
		var b strings.Builder
		for i, cell := range row {
			if i == last {
				if a.out.is {
					cell = cutLast(cell, max(15, a.out.width-used))
				}
				b.WriteString(cell)
				continue
			}
			b.WriteString(cell + strings.Repeat(" ", widths[i]-textWidth(cell)+2))
		}
		line := strings.TrimRight(b.String(), " ")
		if n == 0 {
			line = st.dim(line)
		}
		a.printf("%s\n", line)
	}
}

func (a *app) age(ms int64) string { return age(a.now().Sub(time.UnixMilli(ms))) }
