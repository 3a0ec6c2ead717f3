package sessionstore

import (
	"bytes"
	"regexp"
	"strconv"
	"time"
)

// closingQuote returns the index of the quote that ends the string whose text
// starts at start.
func closingQuote(data []byte, start int) int {
	for i := start; ; i++ {
		i += bytes.IndexByte(data[i:], '"')
		behind := i // the backslashes before the quote
		for behind > start && data[behind-1] == '\\' {
			behind--
		}
		if (i-behind)%2 == 0 {
			return i
		}
	}
}

var isoDate = regexp.MustCompile(`^(\d{4}|[+-]\d{6})(?:-(\d\d)(?:-(\d\d))?)?` +
	`(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:[Zz]|([+-]\d\d):?(\d\d))?)?$`)

// parseDate reads a timestamp as Date.parse of JavaScript does, as far as the
// text has the form of ISO 8601, and takes UTC where there is no zone. Like
// V8 it lets the 31st of a shorter month run into the next one.
func parseDate(text []byte) (ms int64, ok bool) {
	// Nearly all are of this form, and a store may parse one for every entry.
	const form = "2006-01-02T15:04:05"
	var t time.Time
	// What the library takes beyond this (hours of one digit, zones of 24 h) is
	// for the other one to judge.
	usual := len(text) > len(form) && text[13] == ':' && text[16] == ':' && text[19] != ',' && text[len(text)-1] == 'Z'
	if usual && t.UnmarshalText(text) == nil {
		return t.UnixMilli(), true
	}
	return parseOddDate(text)
}

func parseOddDate(text []byte) (ms int64, ok bool) {
	m := isoDate.FindSubmatch(text)
	if m == nil || string(m[1]) == "-000000" {
		return 0, false
	}
	number := func(i, missing, low, high int) int {
		if m[i] == nil {
			return missing
		}
		n, err := strconv.Atoi(string(m[i]))
		if err != nil || n < low || n > high {
			ok = false
		}
		return n
	}
	ok = true
	year, month, day := number(1, 0, -999999, 999999), number(2, 1, 1, 12), number(3, 1, 1, 31)
	hour, minute, second := number(4, 0, 0, 24), number(5, 0, 0, 59), number(6, 0, 0, 59)
	zoneHour, zoneMinute := number(8, 0, -23, 23), number(9, 0, 0, 59)
	if len(m[8]) > 0 && m[8][0] == '-' {
		zoneMinute = -zoneMinute
	}
	fraction, _ := strconv.Atoi((string(m[7]) + "000")[:3])
	if hour == 24 && (minute != 0 || second != 0 || len(bytes.Trim(m[7], "0")) > 0) {
		return 0, false
	}
	t := time.Date(year, time.Month(month), day, hour-zoneHour, minute-zoneMinute, second, 0, time.UTC)
	ms = t.UnixMilli() + int64(fraction)
	const limit = 8.64e15 // of a JavaScript date
	return ms, ok && -limit <= ms && ms <= limit
}
