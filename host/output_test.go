package host

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A store that is slow must not cost what the agent had printed: the output is
// silent only when a read finds nothing.
func TestOutputOfAnAgentThatHasEndedIsReadToTheEnd(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close() // a child of the agent has it
	_, err = w.WriteString("frame")
	require.NoError(t, err)
	exited := make(chan struct{})
	close(exited)
	if r.SetReadDeadline(time.Now().Add(-time.Hour)) != nil {
		t.Skip("pipes have no deadlines here")
	}
	out := output{r, exited}
	text := make([]byte, 5)
	_, err = io.ReadFull(out, text)
	require.NoError(t, err)
	require.Equal(t, "frame", string(text))
	_, err = out.Read(text)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}
