package redisstore

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// wire dials for a client and disturbs its connections.
type wire struct {
	trips atomic.Int64 // how often an answer was waited for
	bytes atomic.Int64 // how much was read
	lose  atomic.Int64 // how many answers to EXEC still get lost

	mu    sync.Mutex
	down  bool
	conns map[*wireConn]struct{}
}

var errDown = errors.New("the network is down")

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	down := w.down
	w.mu.Unlock()
	if down {
		return nil, errDown
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &wireConn{Conn: conn, w: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns == nil {
		w.conns = make(map[*wireConn]struct{})
	}
	w.conns[c] = struct{}{}
	return c, nil
}

// cut takes the network away, or gives it back.
func (w *wire) cut(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
	if down {
		for c := range w.conns {
			c.Conn.Close()
		}
	}
}

type wireConn struct {
	net.Conn
	w     *wire
	wrote atomic.Bool
	exec  atomic.Bool
}

func (c *wireConn) Write(p []byte) (int, error) {
	c.wrote.Store(true)
	if bytes.HasSuffix(p, []byte("\r\nexec\r\n")) {
		c.exec.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *wireConn) Read(p []byte) (int, error) {
	if c.wrote.Swap(false) {
		c.w.trips.Add(1)
	}
	exec := c.exec.Swap(false)
	n, err := c.Conn.Read(p)
	c.w.bytes.Add(int64(n))
	if exec && err == nil && c.w.lose.Add(-1) >= 0 {
		// Wait for the whole answer: then the server has done its work.
		_ = c.Conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		for err == nil {
			_, err = c.Conn.Read(p)
		}
		c.Close()
		return 0, errors.New("the answer was lost")
	}
	return n, err
}

func (c *wireConn) Close() error {
	c.w.mu.Lock()
	delete(c.w.conns, c)
	c.w.mu.Unlock()
	_ = c.Conn.Close() // perhaps for the second time
	return nil
}
