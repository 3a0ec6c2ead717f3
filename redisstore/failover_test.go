package redisstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/conformance"
)

func TestConformanceThroughSentinel(t *testing.T) {
	_, b := startSentinel(t)
	h := b.harness()
	h.Short = true
	h.Outage = nil // tested elsewhere; to look for a master takes long
	h.Require &^= conformance.Outage
	conformance.Run(t, h)
}

// writer appends like a host: it repeats a batch until it is stored.
type writer struct {
	s      *Store
	stored []string // texts of the batches that were acknowledged
	failed int
}

func (w *writer) run(t *testing.T, batches int, between func(n int)) {
	for n := range batches {
		batch := []sessionstore.Entry{user(fmt.Sprint(n)), bare(fmt.Sprint(n))}
		between(n)
		for try := 0; ; try++ {
			err := w.s.Append(t.Context(), mainKey, batch)
			if err == nil {
				break
			}
			w.failed++
			require.Less(t, try, 10, "%v", err)
		}
		w.stored = append(w.stored, texts(batch)...)
	}
}

// checkOrder checks that nothing is there twice or out of order, and returns
// how many acknowledged entries are missing.
func (w *writer) checkOrder(t *testing.T, got []sessionstore.Entry) int {
	t.Helper()
	have := texts(got)
	i := 0
	for _, text := range w.stored {
		if i < len(have) && have[i] == text {
			i++
		}
	}
	require.Equal(t, len(have), i, "entries that are there twice or out of order")
	return len(w.stored) - len(have)
}

func masterOf(t *testing.T, s *Store, nodes []*server) *server {
	t.Helper()
	master, err := s.client.(*redis.ClusterClient).MasterForKey(t.Context(), s.names(mainKey).meta)
	require.NoError(t, err)
	for _, n := range nodes {
		if n.addr == master.Options().Addr {
			return n
		}
	}
	t.Fatal("the master is none of the nodes")
	return nil
}

func TestClusterMasterDiesDuringAppends(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	nodes := startCluster(t)
	b := clusterOf(nodes)
	for name, o := range map[string]Options{
		"Asynchronous": {RetryFor: 30 * time.Second},
		"Waiting":      {RetryFor: 30 * time.Second, WaitReplicas: 1, WaitTimeout: 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := b.open(t, o, nil)
			w := &writer{s: s}
			dead := masterOf(t, s, nodes)
			back := make(chan struct{})
			w.run(t, 100, func(n int) {
				if n != 50 {
					return
				}
				dead.kill()
				go func() { // as a replica of the one that has taken over
					defer close(back)
					time.Sleep(3 * time.Second)
					dead.start(t)
				}()
			})
			<-back
			got, err := s.Load(t.Context(), mainKey)
			require.NoError(t, err)
			lost := w.checkOrder(t, got)
			t.Log("failed appends:", w.failed, "acknowledged entries lost:", lost)
			if o.WaitReplicas > 0 {
				require.Zero(t, lost)
			}
			require.Equal(t, []string{"s"}, sessions(t, s, "p"))
			healthy(t, nodes)
		})
	}
}

// healthy waits until every master has a replica again.
func healthy(t *testing.T, nodes []*server) {
	t.Helper()
	for _, n := range nodes {
		eventually(t, 30*time.Second, "the cluster is whole again", func() bool {
			repl := n.do(t, "info", "replication")
			return strings.Contains(n.do(t, "cluster", "info"), "cluster_state:ok") &&
				(strings.Contains(repl, "master_link_status:up") || strings.Contains(repl, "state=online"))
		})
	}
}

func TestSentinelMasterDiesDuringAppends(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a failover")
	}
	servers, b := startSentinel(t)
	s := b.open(t, Options{RetryFor: 30 * time.Second, WaitReplicas: 1, WaitTimeout: 500 * time.Millisecond}, nil)
	require.True(t, s.single)
	w := &writer{s: s}
	w.run(t, 100, func(n int) {
		if n == 50 {
			servers.master.kill()
			// If it came back earlier, it could stay the master, with what it has.
			eventually(t, 30*time.Second, "the replica has taken over", func() bool { return servers.agreed(servers.replica.addr) })
			servers.master.start(t)
		}
	})
	got, err := s.Load(t.Context(), mainKey)
	require.NoError(t, err)
	require.Zero(t, w.checkOrder(t, got))
}

func TestWaitingNeedsReplicas(t *testing.T) {
	b := startServer(t).backend()
	s := b.open(t, Options{WaitReplicas: 1, WaitTimeout: 50 * time.Millisecond, RetryFor: -1}, nil)
	err := s.Append(t.Context(), mainKey, []sessionstore.Entry{bare("t")})
	require.ErrorContains(t, err, "only 0 of 1 replicas")
	alone := b.again(t, s, Options{}, nil)
	requireLoad(t, alone, mainKey, bare("t"))
	s.replicas = 0
	appendTo(t, s, mainKey, bare("t"))
	requireLoad(t, s, mainKey, bare("t")) // once
}

func TestConfirmSeesALostAppend(t *testing.T) {
	s := single(t).open(t, Options{WaitTimeout: 10 * time.Millisecond}, nil)
	n := s.names(mainKey)
	appendTo(t, s, mainKey, user("1"))
	s.replicas = 1
	require.ErrorIs(t, s.confirm(t.Context(), n, done{after: 1, generation: "g"}), errAgain)
	r, err := parseRow(s.client.HGet(t.Context(), n.meta, n.field).Val())
	require.NoError(t, err)
	require.ErrorIs(t, s.confirm(t.Context(), n, done{after: 2, generation: r.generation}), errAgain)
	require.ErrorContains(t, s.confirm(t.Context(), n, done{after: 1, generation: r.generation}), "0 of 1 replicas")
}

// While a slot moves to another node, each key of a session is here or there.
func TestAppendsAndLoadsWhileASlotMoves(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	nodes := startCluster(t)
	s := clusterOf(nodes).open(t, Options{RetryFor: 20 * time.Second}, nil)
	appendTo(t, s, mainKey, user("1"), bare("t"))
	from := masterOf(t, s, nodes)
	var to *server
	for _, n := range nodes {
		if n != from && strings.Contains(n.do(t, "info", "replication"), "role:master") {
			to = n
		}
	}
	slot := from.do(t, "cluster", "keyslot", s.names(mainKey).meta)
	fromID, toID := from.do(t, "cluster", "myid"), to.do(t, "cluster", "myid")
	to.do(t, "cluster", "setslot", slot, "importing", fromID)
	from.do(t, "cluster", "setslot", slot, "migrating", toID)

	appendTo(t, s, mainKey, user("2"), bare("t")) // nothing has moved yet
	requireLoad(t, s, mainKey, user("1"), bare("t"), user("2"), bare("t"))

	host, port, _ := strings.Cut(to.addr, ":")
	move := func(name string) { from.do(t, "migrate", host, port, name, 0, 5000) }
	n := s.names(mainKey)
	move(n.list)
	time.AfterFunc(300*time.Millisecond, func() { // half of the session has moved
		for _, name := range []string{n.ids, n.lens, n.meta} {
			_ = from.with(func(c *redis.Client) error {
				return c.Do(context.Background(), "migrate", host, port, name, 0, 5000).Err()
			})
		}
	})
	appendTo(t, s, mainKey, user("3"), bare("t"))
	requireLoad(t, s, mainKey, user("1"), bare("t"), user("2"), bare("t"), user("3"), bare("t"))
	appendTo(t, s, mainKey, user("3"), user("4")) // all has moved, but the slot has not
	time.AfterFunc(300*time.Millisecond, func() { // what is new has to wait for this
		for _, node := range []*server{to, from} {
			_ = node.with(func(c *redis.Client) error {
				return c.Do(context.Background(), "cluster", "setslot", slot, "node", toID).Err()
			})
		}
	})
	appendTo(t, s, at("p", "s", "sub"), user("1"))
	appendTo(t, s, mainKey, user("5"))
	requireLoad(t, s, mainKey, user("1"), bare("t"), user("2"), bare("t"), user("3"), bare("t"), user("4"), user("5"))
	requireLoad(t, s, at("p", "s", "sub"), user("1"))
	require.NoError(t, s.Delete(t.Context(), mainKey))
	requireLoad(t, s, at("p", "s", "sub"))
}

// with uses a client for a moment.
func (s *server) with(f func(*redis.Client) error) error {
	c := s.client()
	defer c.Close()
	return f(c)
}
