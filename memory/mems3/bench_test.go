package mems3

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/memory/memorytest"
)

func BenchmarkTool(b *testing.B) {
	bucket := newBucket(b)
	s, err := New(bucket.client, bucket.name, "scope", nil)
	require.NoError(b, err)
	file, other := s.name(memorytest.BenchPath), s.base+"floor"
	memorytest.Bench(b, s, func() error {
		out, err := bucket.client.GetObject(b.Context(), &s3.GetObjectInput{Bucket: &bucket.name, Key: &file})
		if err != nil {
			return err
		}
		_, err = io.ReadAll(out.Body)
		return errors.Join(err, out.Body.Close())
	}, func(data []byte) error {
		_, err := bucket.client.PutObject(b.Context(), &s3.PutObjectInput{Bucket: &bucket.name, Key: &other, Body: bytes.NewReader(data)})
		return err
	})
}
