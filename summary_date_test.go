package sessionstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuickAndSlowDatesAgree(t *testing.T) {
	for _, text := range []string{
		"2026-11-30T16:44:04.123Z", "2026-11-30T16:44:04Z", "2026-11-30T16:44:04.123456789Z", "2024-02-29T00:00:00.9999Z",
		"1969-12-31T23:59:59.9996Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999+23:59", "2026-11-30T16:44:04.5-05:30",
		"1900-01-01T00:00:00.0001Z",
	} {
		quick, ok := parseDate([]byte(text))
		require.True(t, ok, text)
		slow, ok := parseOddDate([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, slow, quick, text)
	}
}

func FuzzQuickDateAgreesWithTheSlowOne(f *testing.F) {
	for _, text := range []string{
		"2026-11-30T16:44:04.123Z", "2023-11-14T2:13:21Z", "2023-11-14T02:13:21,5Z", "2023-02-31T02:13:21Z",
		"2023-11-14T02:13:21+24:00", "2023-11-14T24:00:00Z", "2023-11-14t02:13:21z", "2023-11-14T02:13:21.Z",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		quick, ok := parseDate(text)
		slow, slowOK := parseOddDate(text)
		require.Equal(t, slowOK, ok, "%q", text)
		if ok {
			require.Equal(t, slow, quick, "%q", text)
		}
	})
}
