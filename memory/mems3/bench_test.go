package mems3

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/memory"
)

var benchText = []byte(strings.Repeat("- a line of notes about something\n", 4<<10/34))

// benchTool returns a tool on a store with one file of 4 KB.
func benchTool(b *testing.B, s *Store) *memory.Tool {
	b.Helper()
	require.NoError(b, s.Write(b.Context(), "/memories/notes.md", benchText, "", memory.Limits{}))
	tool, err := memory.New(s, nil)
	require.NoError(b, err)
	return tool
}

func loop(b *testing.B, f func(i int) error) {
	b.SetBytes(int64(len(benchText)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := f(i); err != nil {
			b.Fatal(err)
		}
	}
}

func command(b *testing.B, tool *memory.Tool, input string) error {
	r := tool.Run(b.Context(), []byte(input))
	if r.IsError {
		return fmt.Errorf("%s: %w", r.Text(), r.Err)
	}
	return nil
}

// edit is the i-th edit: after the first one it exchanges one letter.
func edit(i int) string {
	if i == 0 {
		return `{"command":"insert","path":"/memories/notes.md","insert_line":0,"insert_text":"first: x"}`
	}
	letters := "xy"
	if i%2 == 0 {
		letters = "yx"
	}
	return fmt.Sprintf(`{"command":"str_replace","path":"/memories/notes.md","old_str":"first: %c","new_str":"first: %c"}`, letters[0], letters[1])
}

// BenchmarkView compares a view with reading the same bytes by the bare client.
func BenchmarkView(b *testing.B) {
	bucket := newBucket(b)
	s, err := New(bucket.client, bucket.name, "scope", nil)
	require.NoError(b, err)
	tool := benchTool(b, s)
	b.Run("4KB/op", func(b *testing.B) {
		loop(b, func(int) error { return command(b, tool, `{"command":"view","path":"/memories/notes.md"}`) })
	})
	b.Run("4KB/floor", func(b *testing.B) {
		loop(b, func(int) error {
			name := s.name("/memories/notes.md")
			out, err := bucket.client.GetObject(b.Context(), &s3.GetObjectInput{Bucket: &bucket.name, Key: &name})
			require.NoError(b, err)
			_, err = io.ReadAll(out.Body)
			return errors.Join(err, out.Body.Close())
		})
	})
}

// BenchmarkEdit compares an edit, which reads and writes, with writing the same
// bytes by the bare client.
func BenchmarkEdit(b *testing.B) {
	bucket := newBucket(b)
	s, err := New(bucket.client, bucket.name, "scope", nil)
	require.NoError(b, err)
	tool := benchTool(b, s)
	n := 0
	b.Run("4KB/op", func(b *testing.B) {
		loop(b, func(int) error { n++; return command(b, tool, edit(n-1)) })
	})
	b.Run("4KB/floor", func(b *testing.B) {
		loop(b, func(int) error {
			name := s.base + "floor"
			_, err := bucket.client.PutObject(b.Context(), &s3.PutObjectInput{Bucket: &bucket.name, Key: &name, Body: bytes.NewReader(benchText)})
			return err
		})
	})
}
