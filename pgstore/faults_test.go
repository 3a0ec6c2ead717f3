package pgstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
)

// link is the way from one pool to its server. It can be cut, and it can lose
// the reply to a statement.
type link struct {
	mu    sync.Mutex
	cut   bool
	lose  string // the command tag of the reply to lose; empty: none
	lost  int    // replies lost
	halt  int    // end the connection that receives more bytes than this; 0: none
	trips int    // times that something was sent and answered
	conns map[net.Conn]bool
}

var errCut = errors.New("the link is cut")

// through makes the connections of a pool go over the link.
func (l *link) through(configure func(*pgxpool.Config)) func(*pgxpool.Config) {
	return func(config *pgxpool.Config) {
		if configure != nil {
			configure(config)
		}
		config.ConnConfig.DialFunc = l.dial
	}
}

func (l *link) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	if cut {
		return nil, errCut
	}
	inner, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		l.conns = make(map[net.Conn]bool)
	}
	l.conns[inner] = true
	return &linkConn{Conn: inner, link: l}, nil
}

// Cut ends all connections and lets no new ones be made.
func (l *link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns {
		c.Close()
	}
}

// Lose loses the next reply with this command tag: the server has done
// everything up to its ReadyForQuery, and the client sees the connection end.
func (l *link) Lose(tag string) { l.set(func() { l.lose = tag }) }

// HaltAfter ends the next connection that receives more bytes than n.
func (l *link) HaltAfter(n int) { l.set(func() { l.halt = n }) }

func (l *link) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// RoundTrips runs f and counts how often the client waited for the server.
func (l *link) RoundTrips(f func()) int {
	l.set(func() { l.trips = 0 })
	f()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trips
}

type linkConn struct {
	net.Conn
	link    *link
	pending []byte // received and not given on
	sent    bool   // since the last receipt
	got     int
}

func (c *linkConn) Write(b []byte) (int, error) {
	c.link.set(func() { c.sent = true })
	return c.Conn.Write(b)
}

func (c *linkConn) Read(b []byte) (int, error) {
	if len(c.pending) == 0 {
		if err := c.receive(); err != nil {
			c.Conn.Close()
			return 0, err
		}
	}
	n := copy(b, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}

func (c *linkConn) receive() error {
	buf := make([]byte, 64<<10)
	n, err := c.Conn.Read(buf)
	if err != nil {
		return err
	}
	c.pending = buf[:n]
	c.got += n
	l := c.link
	l.mu.Lock()
	if c.sent {
		l.trips++
		c.sent = false
	}
	tag, halt := l.lose, l.halt
	l.mu.Unlock()
	if halt > 0 && c.got > halt {
		l.set(func() { l.halt = 0 })
		return errCut
	}
	if tag == "" {
		return nil
	}
	for !c.replyEnds() {
		n, err := c.Conn.Read(buf)
		if err != nil {
			return err
		}
		c.pending = append(c.pending, buf[:n]...)
	}
	if strings.HasPrefix(c.tagOfReply(), tag) {
		l.set(func() { l.lose = ""; l.lost++ })
		return errCut
	}
	return nil
}

// replyEnds reports whether pending is a whole reply, up to ReadyForQuery.
func (c *linkConn) replyEnds() bool {
	ends := false
	c.messages(func(kind byte, _ []byte) { ends = kind == 'Z' })
	return ends
}

// tagOfReply is the tag of the last command that the reply confirms.
func (c *linkConn) tagOfReply() (tag string) {
	c.messages(func(kind byte, body []byte) {
		if kind == 'C' {
			tag = strings.TrimSuffix(string(body), "\x00")
		}
	})
	return tag
}

func (c *linkConn) messages(f func(kind byte, body []byte)) {
	for rest := c.pending; len(rest) >= 5; {
		n := int(binary.BigEndian.Uint32(rest[1:5])) + 1
		if n > len(rest) {
			f(0, nil)
			return
		}
		f(rest[0], rest[5:n])
		rest = rest[n:]
	}
}

func (c *linkConn) Close() error {
	c.link.set(func() { delete(c.link.conns, c.Conn) })
	return c.Conn.Close()
}
