package s3store

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/testenv"
)

// mortal is an S3 server of the test's own, which it may kill.
type mortal struct {
	testenv.S3Server
	program, addr, dir string
	iam                string // directory with further accounts; empty if there are none

	process *exec.Cmd
	log     bytes.Buffer
	up      sync.RWMutex // held while the server is down
}

func newMortal(t *testing.T) *mortal { return newMortalWith(t, "") }

func newMortalWith(t *testing.T, iam string) *mortal {
	t.Helper()
	shared := testenv.S3(t) // where there is no server to test with, this one is not started either
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := &mortal{program: filepath.Join(root, ".build", "s3server"), addr: l.Addr().String(), dir: t.TempDir(), iam: iam}
	require.NoError(t, l.Close())
	if _, err := os.Stat(m.program); err != nil {
		t.Skip("there is no S3 server program here; run ./scripts/install s3")
	}
	m.S3Server = testenv.S3Server{Endpoint: "http://" + m.addr, Region: shared.Region, AccessKey: "own", SecretKey: "ownsecret"}
	m.start(t)
	t.Cleanup(m.kill)
	return m
}

func (m *mortal) start(t *testing.T) {
	t.Helper()
	m.process = exec.Command(m.program, "-addr", m.addr, "-dir", m.dir, "-access", m.AccessKey, "-secret", m.SecretKey, "-region", m.Region, "-iam", m.iam)
	m.process.Stdout, m.process.Stderr = &m.log, &m.log
	require.NoError(t, m.process.Start())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	require.Eventually(t, func() bool {
		r, err := client.Get(fmt.Sprintf("%s/ready-%d", m.Endpoint, m.process.Process.Pid))
		if err == nil {
			r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusOK
	}, 30*time.Second, 10*time.Millisecond, "the server did not come up: %s", &m.log)
}

func (m *mortal) kill() {
	m.process.Process.Kill() // SIGKILL
	m.process.Wait()
}

// await returns when the server is not down.
func (m *mortal) await() {
	m.up.RLock()
	defer m.up.RUnlock()
}

func TestServerIsKilledAmidAppends(t *testing.T) {
	m := newMortal(t)
	client := backend{server: m.S3Server}.client(t, newWire(t))
	_, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("bucket")})
	require.NoError(t, err)

	const writers, batches, kills = 4, 40, 4
	entries := func(w, n int) []sessionstore.Entry {
		return []sessionstore.Entry{
			sessionstore.Entry(fmt.Sprintf(`{"type":"mode","w":%d,"n":%d}`, w, n)),
			sessionstore.Entry(fmt.Sprintf(`{"type":"user","uuid":"%d-%d"}`, w, n)),
		}
	}
	var stored atomic.Int64
	progress := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for w := range writers {
		s, err := New(client, "bucket", &Options{CompactAfter: 5})
		require.NoError(t, err)
		s.timing.compactEvery = 0
		wg.Go(func() {
			for n := range batches {
				for s.Append(t.Context(), fakeKey, entries(w, n)) != nil { // as often as it takes
					m.await()
				}
				stored.Add(1)
				select {
				case progress <- struct{}{}:
				default:
				}
			}
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	for k := range kills {
		for stored.Load() < int64((k+1)*writers*batches/(kills+1)) {
			<-progress
		}
		m.up.Lock()
		m.kill()
		m.start(t)
		m.up.Unlock()
	}
	wg.Wait()

	s, err := New(client, "bucket", nil)
	require.NoError(t, err)
	defer s.Close()
	for _, why := range []string{"after the last append", "after a compaction"} {
		got, err := s.Load(t.Context(), fakeKey)
		require.NoError(t, err, why)
		require.Len(t, got, 2*writers*batches, why)
		for w := range writers {
			var own []sessionstore.Entry
			for n := range batches {
				own = append(own, entries(w, n)...)
			}
			requireOrder(t, got, own)
		}
		require.NoError(t, s.Compact(t.Context(), fakeKey))
	}
}
