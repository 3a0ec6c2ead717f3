package pgstore

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/internal/pgutil"
)

// Errors are told apart by SQLSTATE and severity, never by their text.
func TestWhatAnErrorMeans(t *testing.T) {
	server := func(severity, code string) error {
		return &pgconn.PgError{SeverityUnlocalized: severity, Code: code, Message: "duplicate key, deadlock, could not serialize"}
	}
	for _, test := range []struct {
		name    string
		err     error
		tries   int
		nothing bool // nothing has been stored for sure
	}{
		{"serialization failure", server("ERROR", "40001"), pgutil.ConflictTries, true},
		{"deadlock", server("ERROR", "40P01"), pgutil.ConflictTries, true},
		{"unique violation", server("ERROR", "23505"), 1, true},
		{"no such table", server("ERROR", "42P01"), 1, true},
		{"cancelled by the server", server("ERROR", "57014"), 1, true},
		{"disk full", server("ERROR", "53100"), 1, true},
		{"administrator ends the server", server("FATAL", "57P01"), 1, false},
		{"another backend crashed", server("WARNING", "57P02"), 1, false},
		{"pooler lost the server", server("ERROR", "08P01"), 1, false},
		{"completion unknown", server("ERROR", "40003"), 1, false},
		{"connection ends", io.ErrUnexpectedEOF, 1, false},
		{"time is up", context.DeadlineExceeded, 1, false},
		{"closed connection", fmt.Errorf("x: %w", pgconn.ErrConnClosed), 1, false},
		{"no connection", &pgconn.ConnectError{}, 1, true},
		{"nothing was sent", unsent{}, pgutil.LostTries, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			wrapped := fmt.Errorf("outer: %w", test.err)
			require.Equal(t, test.tries, pgutil.TriesFor(wrapped))
			require.Equal(t, test.nothing, pgutil.StoredNothing(wrapped))
		})
	}
}

type unsent struct{}

func (unsent) Error() string     { return "nothing was sent" }
func (unsent) SafeToRetry() bool { return true }

func TestRetriesEnd(t *testing.T) {
	conflict := &pgconn.PgError{Code: pgutil.DeadlockDetected}
	calls := 0
	op := func() error { calls++; return conflict }

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, (&Store{}).retry(ctx, op), conflict)
	require.Equal(t, 1, calls, "the context is over")

	calls = 0
	require.ErrorIs(t, (&Store{inTx: true}).retry(t.Context(), op), conflict)
	require.Equal(t, 1, calls, "the caller's transaction is over")
}
