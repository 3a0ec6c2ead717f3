package memory_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/memory"
)

// refusing is a store whose deletes fail in one way.
type refusing struct {
	memory.Store
	err error
}

func (f refusing) Delete(context.Context, string) error { return f.err }

// definite is a failure of which a store knows that it changed nothing.
type definite struct{}

func (definite) Error() string { return "no space" }
func (definite) NothingDone()  {}

func TestDefiniteFailuresAreNotSaidToBeUnsure(t *testing.T) {
	for err, want := range map[error]string{
		definite{}:           "Nothing was changed",
		errors.New("outage"): "it is not sure",
	} {
		tool, newErr := memory.New(refusing{err: &memory.OpError{Package: "p", Op: "delete", Err: err}}, nil)
		require.NoError(t, newErr)
		r := tool.Run(t.Context(), []byte(`{"command":"delete","path":"/memories/a"}`))
		require.True(t, r.IsError)
		require.Contains(t, r.Text(), want)
		require.ErrorIs(t, r.Err, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tool, err := memory.New(refusing{err: errors.New("was asked")}, nil)
	require.NoError(t, err)
	r := tool.Run(ctx, []byte(`{"command":"delete","path":"/memories/a"}`))
	require.Contains(t, r.Text(), "Nothing was changed")
	require.ErrorIs(t, r.Err, context.Canceled)
}

func TestAFieldThatIsThereTwiceIsRefused(t *testing.T) {
	tool, err := memory.New(refusing{}, nil)
	require.NoError(t, err)
	for _, input := range []string{
		`{"command":"delete","path":"/memories/a","path":"/memories"}`,
		`{"command":"delete","path":"/memories/a","p\u0061th":"/memories"}`,
	} {
		r := tool.Run(t.Context(), []byte(input))
		require.Equal(t, "Error: The field `path` is there twice.", r.Text())
	}
	r := tool.Run(t.Context(), []byte(`{"command":"delete","x":{"a":1,"a":2},"path":"/memories/a"}`))
	require.False(t, r.IsError, r.Text())
}
