package s3fake

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"
)

// client returns an AWS client that does not retry, signing as account.
func client(s *Server, account string, set ...func(*s3.Options)) *s3.Client {
	o := s3.Options{
		BaseEndpoint: aws.String(s.URL),
		Region:       "us-east-1",
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(account, "secret", ""),
		Retryer:      aws.NopRetryer{},
		HTTPClient:   s.HTTPClient(),
		// As a loaded configuration has it; a bare s3.Options sends none.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
	}
	return s3.New(o, set...)
}

func start(t *testing.T, opts *Options) (*Server, *s3.Client) {
	s := New(t, opts)
	c := client(s, "host")
	_, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("b")})
	require.NoError(t, err)
	return s, c
}

func put(t *testing.T, c *s3.Client, key, body string) error {
	t.Helper()
	_, err := c.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String("b"), Key: aws.String(key), Body: strings.NewReader(body),
	})
	return err
}

func get(ctx context.Context, c *s3.Client, key string) (string, error) {
	out, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String(key)})
	if err != nil {
		return "", err
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	return string(body), err
}

func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return fmt.Sprint(err)
}

func TestKeepsObjectsWithTheirMetadata(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	s, c := start(t, &Options{Clock: func() time.Time { return now }})
	out, err := c.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String("b"), Key: aws.String("a dir/ü+%2F&"), Body: strings.NewReader("one\ntwo\n"),
		Metadata: map[string]string{"segments": "abc"}, ContentType: aws.String("application/jsonl"),
	})
	require.NoError(t, err)
	require.Equal(t, []string{"a dir/ü+%2F&"}, s.Keys("b", "a"))
	require.Equal(t, "one\ntwo\n", string(s.Body("b", "a dir/ü+%2F&")))

	got, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("a dir/ü+%2F&")})
	require.NoError(t, err)
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", string(body))
	require.Equal(t, map[string]string{"segments": "abc"}, got.Metadata)
	require.Equal(t, "application/jsonl", *got.ContentType)
	require.Equal(t, *out.ETag, *got.ETag)
	require.Equal(t, now.Truncate(time.Second), *got.LastModified, "S3 keeps whole seconds")

	head, err := c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("b"), Key: aws.String("a dir/ü+%2F&")})
	require.NoError(t, err)
	require.EqualValues(t, 8, *head.ContentLength)
	_, err = c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("b"), Key: aws.String("other")})
	require.Equal(t, "NotFound", code(err))
	_, err = get(t.Context(), c, "other")
	require.Equal(t, "NoSuchKey", code(err))
	_, err = c.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String("none")})
	require.Equal(t, "NotFound", code(err))

	_, err = c.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: aws.String("b")})
	require.Equal(t, "BucketNotEmpty", code(err))
	_, err = c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String("b"), Key: aws.String("a dir/ü+%2F&")})
	require.NoError(t, err)
	require.Empty(t, s.Keys("b", ""))
	_, err = c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("b")})
	require.Equal(t, "BucketAlreadyOwnedByYou", code(err))
	_, err = c.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: aws.String("b")})
	require.NoError(t, err)
	require.Equal(t, "NoSuchBucket", code(put(t, c, "k", "")))
	require.Equal(t, map[string]int{
		"CreateBucket": 2, "DeleteBucket": 2, "PutObject": 2, "GetObject": 2, "HeadObject": 2, "HeadBucket": 1, "DeleteObject": 1,
	}, s.Counts())
}

func TestForksHaveObjectsOfTheirOwn(t *testing.T) {
	s, c := start(t, nil)
	require.NoError(t, put(t, c, "k", "v"))
	fork := s.Fork(t)
	require.NoError(t, put(t, client(fork, "host"), "k2", "v2"))
	require.NoError(t, put(t, c, "k", "new"))
	require.Equal(t, []string{"k", "k2"}, fork.Keys("b", ""))
	require.Equal(t, "v", string(fork.Body("b", "k")))
	require.Equal(t, []string{"k"}, s.Keys("b", ""))
}

func TestGivesPiecesOfAnObject(t *testing.T) {
	_, c := start(t, nil)
	require.NoError(t, put(t, c, "k", "0123456789"))
	for text, want := range map[string]string{"bytes=0-3": "0123", "bytes=4-9": "456789", "bytes=8-99": "89"} {
		out, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k"), Range: &text})
		require.NoError(t, err)
		body, err := io.ReadAll(out.Body)
		require.NoError(t, err)
		require.NoError(t, out.Body.Close())
		require.Equal(t, want, string(body))
	}
	for text, want := range map[string]string{"bytes=10-12": "InvalidRange", "bytes=-3": "NotImplemented"} {
		_, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k"), Range: &text})
		require.Equal(t, want, code(err))
	}
}

func TestHasTheLimitsOfS3(t *testing.T) {
	_, c := start(t, nil)
	require.NoError(t, put(t, c, strings.Repeat("k", 1024), ""))
	require.Equal(t, "KeyTooLongError", code(put(t, c, strings.Repeat("k", 1025), "")))
	with := func(n int) error {
		_, err := c.PutObject(t.Context(), &s3.PutObjectInput{
			Bucket: aws.String("b"), Key: aws.String("m"), Metadata: map[string]string{"name": strings.Repeat("x", n-4)},
		})
		return err
	}
	require.NoError(t, with(2048))
	require.Equal(t, "MetadataTooLarge", code(with(2049)))
	_, err := c.GetBucketAcl(t.Context(), &s3.GetBucketAclInput{Bucket: aws.String("b")})
	require.Equal(t, "NotImplemented", code(err))
}

func TestListsPageByPage(t *testing.T) {
	s, c := start(t, &Options{PageSize: 2})
	for _, key := range []string{"p/a/1", "p/a/2", "p/a/3", "p/a0", "p/b/1", "p/é", "p-x/1", "p/B", "p/A"} {
		require.NoError(t, put(t, c, key, key))
	}
	all := func(in s3.ListObjectsV2Input) (keys []string) {
		in.Bucket = aws.String("b")
		pages := s3.NewListObjectsV2Paginator(c, &in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			require.NoError(t, err)
			if n := len(page.Contents) + len(page.CommonPrefixes); pages.HasMorePages() && in.MaxKeys == nil {
				require.Equal(t, 2, n, "a page that is not the last is full")
			} else {
				require.LessOrEqual(t, n, 2)
			}
			from := len(keys)
			for _, o := range page.Contents {
				require.EqualValues(t, len(*o.Key), *o.Size)
				keys = append(keys, *o.Key)
			}
			for _, p := range page.CommonPrefixes {
				keys = append(keys, *p.Prefix)
			}
			slices.Sort(keys[from:]) // within the page
		}
		return keys
	}
	prefix, slash := aws.String("p/"), aws.String("/")
	require.Equal(t, []string{"p/A", "p/B", "p/a/1", "p/a/2", "p/a/3", "p/a0", "p/b/1", "p/é"}, all(s3.ListObjectsV2Input{Prefix: prefix}))
	require.Equal(t, []string{"p/A", "p/B", "p/a/", "p/a0", "p/b/", "p/é"}, all(s3.ListObjectsV2Input{Prefix: prefix, Delimiter: slash}))
	require.Equal(t, []string{"p-x/", "p/"}, all(s3.ListObjectsV2Input{Delimiter: slash}))
	require.Equal(t, []string{"p/b/1", "p/é"}, all(s3.ListObjectsV2Input{Prefix: prefix, StartAfter: aws.String("p/a0")}))
	require.Equal(t, []string{"p/a/"}, all(s3.ListObjectsV2Input{Prefix: prefix, Delimiter: slash, MaxKeys: aws.Int32(1), StartAfter: aws.String("p/a")})[:1])
	require.Empty(t, all(s3.ListObjectsV2Input{Prefix: aws.String("q")}))
	for _, r := range s.Log() {
		if text := r.Query.Get("continuation-token"); text != "" {
			require.Contains(t, text, "+")
		}
	}
}

func TestListsGoWrongOnDemand(t *testing.T) {
	page := func(t *testing.T, fault PageFault, token *string) *s3.ListObjectsV2Output {
		_, c := start(t, &Options{PageSize: 2, Pages: fault})
		for _, key := range []string{"a/1", "a/2", "a/3", "b"} {
			require.NoError(t, put(t, c, key, ""))
		}
		in := &s3.ListObjectsV2Input{Bucket: aws.String("b"), Delimiter: aws.String("/"), ContinuationToken: token}
		if fault == MissingToken {
			in.MaxKeys = aws.Int32(1)
		}
		out, err := c.ListObjectsV2(t.Context(), in)
		require.NoError(t, err)
		return out
	}
	t.Run("MissingToken", func(t *testing.T) {
		out := page(t, MissingToken, nil)
		require.True(t, *out.IsTruncated)
		require.Nil(t, out.NextContinuationToken)
	})
	t.Run("RepeatedPrefixes", func(t *testing.T) {
		first := page(t, RepeatedPrefixes, nil)
		second := page(t, RepeatedPrefixes, first.NextContinuationToken)
		require.Equal(t, "a/", *first.CommonPrefixes[0].Prefix)
		require.Equal(t, "a/", *second.CommonPrefixes[0].Prefix)
		require.Equal(t, "b", *second.Contents[0].Key)
	})
	t.Run("SameToken", func(t *testing.T) {
		s, c := start(t, &Options{PageSize: 2, Pages: SameToken})
		for i := range 3 {
			require.NoError(t, put(t, c, fmt.Sprint(i), ""))
		}
		var token *string
		for range 3 {
			out, err := c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("b"), ContinuationToken: token})
			require.NoError(t, err)
			require.True(t, *out.IsTruncated)
			if token != nil {
				require.Equal(t, *token, *out.NextContinuationToken)
			}
			token = out.NextContinuationToken
		}
		require.Equal(t, 3, s.Counts()["ListObjectsV2"])
	})
	t.Run("TokenThatLostItsPlus", func(t *testing.T) {
		_, c := start(t, nil)
		_, err := c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("b"), ContinuationToken: aws.String(" &=YQ==")})
		require.Equal(t, "InvalidArgument", code(err))
	})
}

func TestVerifiesWhatARequestSaysOfItsBody(t *testing.T) {
	_, c := start(t, nil)
	in := func() *s3.PutObjectInput {
		return &s3.PutObjectInput{Bucket: aws.String("b"), Key: aws.String("k"), Body: strings.NewReader("body")}
	}
	sum := md5.Sum([]byte("other"))
	wrong := in()
	wrong.ContentMD5 = aws.String(base64.StdEncoding.EncodeToString(sum[:]))
	_, err := c.PutObject(t.Context(), wrong)
	require.Equal(t, "BadDigest", code(err))
	wrong = in()
	wrong.ChecksumSHA256 = aws.String("AAAA")
	_, err = c.PutObject(t.Context(), wrong)
	require.Equal(t, "BadDigest", code(err))
	for _, algorithm := range []types.ChecksumAlgorithm{"", types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmSha1, types.ChecksumAlgorithmSha256} {
		right := in()
		right.ChecksumAlgorithm = algorithm
		_, err = c.PutObject(t.Context(), right)
		require.NoError(t, err, algorithm)
	}
}

func TestConditionsOfAPut(t *testing.T) {
	for _, ignored := range []bool{false, true} {
		_, c := start(t, &Options{IgnoreConditions: ignored})
		in := func(body string) *s3.PutObjectInput {
			return &s3.PutObjectInput{Bucket: aws.String("b"), Key: aws.String("k"), Body: strings.NewReader(body)}
		}
		first := in("1")
		first.IfNoneMatch = aws.String("*")
		out, err := c.PutObject(t.Context(), first)
		require.NoError(t, err)
		again := in("2")
		again.IfNoneMatch = aws.String("*")
		_, err = c.PutObject(t.Context(), again)
		stale := in("3")
		stale.IfMatch = aws.String(`"no"`)
		_, err2 := c.PutObject(t.Context(), stale)
		if ignored {
			require.NoError(t, errors.Join(err, err2))
			continue
		}
		require.Equal(t, "PreconditionFailed", code(err))
		require.Equal(t, "PreconditionFailed", code(err2))
		right := in("4")
		right.IfMatch = out.ETag
		_, err = c.PutObject(t.Context(), right)
		require.NoError(t, err)
	}
}

func TestConditionsOfADelete(t *testing.T) {
	for _, ignored := range []bool{false, true} {
		_, c := start(t, &Options{IgnoreConditions: ignored})
		require.NoError(t, put(t, c, "k", "1"))
		remove := func(etag string) error {
			_, err := c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String("b"), Key: aws.String("k"), IfMatch: &etag})
			return err
		}
		if ignored {
			require.NoError(t, remove(`"no"`))
			continue
		}
		require.Equal(t, "PreconditionFailed", code(remove(`"no"`)))
		require.NoError(t, remove(`"c4ca4238a0b923820dcc509a6f75849b"`))
		require.Equal(t, "PreconditionFailed", code(remove(`"c4ca4238a0b923820dcc509a6f75849b"`)))
	}
}

func TestTrailersAreReadOrRefused(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		s := New(t, &Options{TLS: true, RefuseTrailers: refuse})
		s.CreateBucket("b")
		// What cannot be read twice has its checksum behind it.
		stream := func(c *s3.Client) error {
			_, err := c.PutObject(t.Context(), &s3.PutObjectInput{
				Bucket: aws.String("b"), Key: aws.String("k"),
				Body: io.MultiReader(bytes.NewReader(make([]byte, 100<<10)), strings.NewReader("end")), ContentLength: aws.Int64(100<<10 + 3),
			})
			return err
		}
		err := stream(client(s, "host"))
		if refuse {
			require.Equal(t, "InvalidRequest", code(err))
		} else {
			require.NoError(t, err)
			require.Len(t, s.Body("b", "k"), 100<<10+3)
		}
		require.NotEmpty(t, s.Log()[0].Header.Get("X-Amz-Trailer"))
		require.NoError(t, put(t, client(s, "host", func(o *s3.Options) {
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		}), "k", "seekable"))
	}
}

func TestDeletesInBatches(t *testing.T) {
	s, c := start(t, nil)
	batch := func(keys ...string) (*s3.DeleteObjectsOutput, error) {
		var ids []types.ObjectIdentifier
		for _, k := range keys {
			ids = append(ids, types.ObjectIdentifier{Key: aws.String(k)})
		}
		return c.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String("b"), Delete: &types.Delete{Objects: ids}})
	}
	require.NoError(t, put(t, c, "a&<b", ""))
	require.NoError(t, put(t, c, "held", ""))
	s.Intercept(func(Request) *Fault {
		return &Fault{KeyError: func(key string) string {
			if key == "held" {
				return "AccessDenied"
			}
			return ""
		}}
	})
	out, err := batch("a&<b", "held", "unknown")
	require.NoError(t, err)
	require.Len(t, out.Deleted, 2)
	require.Len(t, out.Errors, 1)
	require.Equal(t, "AccessDenied", *out.Errors[0].Code)
	require.Equal(t, []string{"held"}, s.Keys("b", ""))
	_, err = batch(make([]string, 1001)...)
	require.Equal(t, "MalformedXML", code(err))

	_, c = start(t, &Options{RequireMD5: true})
	_, err = batch("x")
	require.Equal(t, "MissingContentMD5", code(err))
}

func TestFaultsOfChosenRequests(t *testing.T) {
	puts := func(r Request) bool { return r.Op == "PutObject" }
	t.Run("ErrorReply", func(t *testing.T) {
		s, c := start(t, nil)
		s.Once(puts, Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"})
		require.Equal(t, "SlowDown", code(put(t, c, "k", "v")))
		require.Empty(t, s.Keys("b", ""))
		require.NoError(t, put(t, c, "k", "v"))
	})
	t.Run("LostReply", func(t *testing.T) {
		s, c := start(t, nil)
		s.Once(puts, Fault{LoseReply: true})
		require.ErrorContains(t, put(t, c, "k", "v"), "EOF")
		require.Equal(t, "v", string(s.Body("b", "k")))
	})
	t.Run("CutBody", func(t *testing.T) {
		s, c := start(t, nil)
		require.NoError(t, put(t, c, "k", strings.Repeat("x", 100)))
		s.Once(func(r Request) bool { return r.Op == "GetObject" }, Fault{CutBody: true})
		_, err := get(t.Context(), c, "k")
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		body, err := get(t.Context(), c, "k")
		require.NoError(t, err)
		require.Len(t, body, 100)
	})
	t.Run("DeadHost", func(t *testing.T) {
		s, c := start(t, nil)
		other := client(s, "other")
		s.Kill("host", 2)
		require.NoError(t, put(t, c, "1", ""))
		require.NoError(t, put(t, other, "2", ""))
		require.NoError(t, put(t, c, "3", ""))
		require.Error(t, put(t, c, "4", ""))
		require.Error(t, put(t, c, "5", ""))
		require.NoError(t, put(t, other, "6", ""))
		require.Equal(t, []string{"1", "2", "3", "6"}, s.Keys("b", ""))
		s.Heal()
		require.NoError(t, put(t, c, "7", ""))
	})
	t.Run("Pause", func(t *testing.T) {
		s, c := start(t, nil)
		before, after, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{})
		s.Once(puts, Fault{
			Before: func() { before <- struct{}{}; <-goOn },
			After:  func() { after <- struct{}{}; <-goOn },
		})
		done := make(chan error)
		go func() { done <- put(t, c, "k", "v") }()
		<-before
		require.Empty(t, s.Keys("b", ""))
		goOn <- struct{}{}
		<-after
		require.Equal(t, []string{"k"}, s.Keys("b", ""), "the effect is there before the reply")
		goOn <- struct{}{}
		require.NoError(t, <-done)
	})
}
