package memory_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memmap"
)

// meddled is a store with which others meddle right before a list, once.
type meddled struct {
	memory.Store
	before func() error
}

func (m *meddled) List(ctx context.Context, path string) ([]memory.FileInfo, error) {
	if f := m.before; f != nil {
		m.before = nil
		if err := f(); err != nil {
			return nil, err
		}
	}
	return m.Store.List(ctx, path)
}

func meddledTool(t *testing.T, options *memory.Options) (*memory.Tool, *meddled) {
	t.Helper()
	inner, err := memmap.New("scope")
	require.NoError(t, err)
	s := &meddled{Store: inner}
	tool, err := memory.New(s, options)
	require.NoError(t, err)
	return tool, s
}

func TestAViewBesideACreateShowsTheFile(t *testing.T) {
	tool, s := meddledTool(t, nil)
	s.before = func() error { return s.Write(t.Context(), "/memories/f", []byte("hello"), "", memory.Limits{}) }
	r := tool.Run(t.Context(), []byte(`{"command":"view","path":"/memories/f"}`))
	require.False(t, r.IsError, r.Text())
	require.Contains(t, r.Text(), "hello")
	require.NotContains(t, r.Text(), "/memories/f/")
}

// gone is what the first Read and Write of a file that comes and goes see.
type gone struct {
	*meddled
	read bool
}

func (g *gone) Read(ctx context.Context, path string, max int64) (memory.File, error) {
	if !g.read {
		g.read = true
		return memory.File{}, memory.ErrNotFound
	}
	return g.meddled.Read(ctx, path, max)
}

func TestARenameIsRefusedWhenAFileMovesWhileRedactIsAsked(t *testing.T) {
	var s *meddled
	var tool *memory.Tool
	asked := false
	tool, s = meddledTool(t, &memory.Options{Redact: func(_ context.Context, path, text string) (string, error) {
		if strings.HasPrefix(path, "/memories/pub") && text == "secret" {
			return "", memory.Refusal("no")
		}
		if path == "/memories/pub/a" && !asked {
			asked = true
			return text, s.Rename(context.Background(), "/memories/m/d", "/memories/m/e")
		}
		return text, nil
	}})
	require.NoError(t, s.Write(t.Context(), "/memories/m/a", []byte("text"), "", memory.Limits{}))
	require.NoError(t, s.Write(t.Context(), "/memories/m/d/s", []byte("secret"), "", memory.Limits{}))
	r := tool.Run(t.Context(), []byte(`{"command":"rename","old_path":"/memories/m","new_path":"/memories/pub"}`))
	require.True(t, r.IsError, r.Text())
	require.True(t, asked)
	require.Contains(t, r.Text(), "left as it is")
	files, err := s.List(t.Context(), "/memories/pub")
	require.NoError(t, err)
	require.Empty(t, files)
}

// Two renames of one tool at once: neither moves what the other has not shown.
func TestRenamesOfOneToolWaitForEachOtherWhileRedactIsAsked(t *testing.T) {
	var asking, most atomic.Int32
	tool, s := meddledTool(t, &memory.Options{Redact: func(_ context.Context, _, text string) (string, error) {
		most.Store(max(most.Load(), asking.Add(1)))
		for range 100 {
			runtime.Gosched()
		}
		asking.Add(-1)
		return text, nil
	}})
	var wg sync.WaitGroup
	for i := range 50 {
		require.NoError(t, s.Write(t.Context(), fmt.Sprintf("/memories/%d", i), []byte("text"), "", memory.Limits{}))
	}
	for i := range 50 {
		wg.Go(func() {
			r := tool.Run(t.Context(), fmt.Appendf(nil, `{"command":"rename","old_path":"/memories/%d","new_path":"/memories/to/%d"}`, i, i))
			assert.False(t, r.IsError, r.Text())
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, most.Load())
}

func TestOverwriteGoesOnWhenTheFileIsThereAgain(t *testing.T) {
	_, s := meddledTool(t, nil)
	require.NoError(t, s.Write(t.Context(), "/memories/f", []byte("old"), "", memory.Limits{}))
	tool, err := memory.New(&gone{meddled: s}, &memory.Options{Overwrite: true})
	require.NoError(t, err)
	create := []byte(`{"command":"create","path":"/memories/f","file_text":"new"}`)
	r := tool.Run(t.Context(), create)
	require.False(t, r.IsError, r.Text())

	outage := errors.New("outage")
	s.before = func() error { return outage }
	tool, err = memory.New(&gone{meddled: s}, &memory.Options{Overwrite: true})
	require.NoError(t, err)
	r = tool.Run(t.Context(), create)
	require.ErrorIs(t, r.Err, outage)
	require.Contains(t, r.Text(), "Nothing was changed")
}
