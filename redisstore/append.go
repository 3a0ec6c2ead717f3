package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
	"github.com/sessionstore/sessionstore/internal/redisutil"
)

const (
	// pushArgs and pushBytes limit what one RPUSH carries.
	pushArgs  = 1000
	pushBytes = 8 << 20
)

// batchID is the identity of a batch over all attempts. It stands for all of
// its entries without uuid: a retry repeats the whole batch, so one id is
// enough. It is kept with the ids of the transcript, for good; a batch of
// entries that all have a uuid needs none.
type batchID [16]byte

// batch is what an append sends.
type batch struct {
	lines []*sessionstore.Checked
	bytes int
	ids   []idset.ID
	mask  []byte // see step.eval
	sizes []byte // 4 bytes per entry, little-endian
	bare  bool   // some entry has no uuid
}

// newBatch leaves out entries that repeat another one of the batch.
func newBatch(checked []sessionstore.Checked) *batch {
	b := &batch{
		lines: make([]*sessionstore.Checked, 0, len(checked)),
		ids:   make([]idset.ID, 0, len(checked)),
		mask:  make([]byte, 1, 1+len(checked)),
		sizes: make([]byte, 0, 4*len(checked)),
	}
	var seen idset.Set
	for i := range checked {
		c := &checked[i]
		if len(c.UUID) > 0 {
			id := idset.Of(c.UUID)
			if !seen.Add(id) {
				continue
			}
			b.ids = append(b.ids, id)
			b.mask = append(b.mask, '1')
		} else {
			b.bare = true
			b.mask = append(b.mask, '0')
		}
		b.lines = append(b.lines, c)
		b.bytes += len(c.Line)
		b.sizes = binary.LittleEndian.AppendUint32(b.sizes, uint32(len(c.Line)))
	}
	return b
}

// pushes returns the RPUSH commands that carry the batch to a list.
func (b *batch) pushes(list string) [][]any {
	var all [][]any
	size := 0
	for i, c := range b.lines {
		line := c.Line
		if n := len(all); n == 0 || len(all[n-1]) == pushArgs+2 || size+len(line) > pushBytes {
			all = append(all, append(make([]any, 0, 2+min(pushArgs, len(b.lines)-i)), "rpush", list))
			size = 0
		}
		last := len(all) - 1
		all[last] = append(all[last], []byte(line))
		size += len(line)
	}
	return all
}

// Append adds a batch at the end of a transcript.
func (s *Store) Append(ctx context.Context, key sessionstore.Key, entries []sessionstore.Entry) error {
	st := &step{s: s, key: key, mode: "pushed"}
	checked, err := sessionstore.Check(key, entries)
	if err := begin(ctx, err); err != nil {
		return opError("append", key, err)
	}
	if len(checked) == 0 {
		return nil
	}
	lines := make([][]byte, len(checked))
	for i, c := range checked {
		lines[i] = c.Line
	}
	a := s.attempts.Begin(ctx, key, lines)
	if !a.Repeated {
		_, _ = rand.Read(a.State[:]) // never fails
	}
	st.prepare(checked, a.State)
	if err := st.store(ctx, a.Repeated); err != nil {
		// Whatever the server says last: an earlier try, perhaps of the client
		// itself, may have landed.
		a.Unknown()
		return opError("append", key, err)
	}
	a.Stored()
	return nil
}

// step is one append on its way.
type step struct {
	s       *Store
	key     sessionstore.Key
	names   names
	batch   *batch
	mode    string // how the entries travel: "pushed", "staged" ahead, or "here" with the script
	stage   stage  // of a staged batch
	id      batchID
	guess   folded                    // where the transcript stands, as far as this handle knows
	next    sessionstore.SummaryState // its summary with this batch
	summary []byte                    // the same as JSON
}

// done is what the script has answered.
type done struct {
	before, after int
	generation    string
	folded        bool // our summary has been taken
	foldedTo      int  // otherwise: the stored one,
	summary       string
	repeats       []int // and the entries that were not added, counted from 1
}

// prepare makes what all attempts send.
func (st *step) prepare(checked []sessionstore.Checked, id batchID) {
	st.names = st.s.names(st.key)
	st.batch = newBatch(checked)
	st.id = id
	if st.batch.bytes > st.s.stageAbove {
		st.mode = "staged"
		st.stage = newStage(st.s.base(st.key.ProjectKey, st.key.SessionID), id, st.batch)
	}
	st.predict()
}

// store stores the batch. The batch may be a repeated one.
func (st *step) store(ctx context.Context, repeated bool) error {
	if st.mode == "staged" {
		return st.storeStaged(ctx, repeated)
	}
	return st.s.retry(ctx, func() error { return st.run(ctx) })
}

// run makes one attempt, and takes note of its outcome.
func (st *step) run(ctx context.Context) error {
	d, err := st.try(ctx)
	if err != nil {
		return err
	}
	st.learn(d)
	return st.s.confirm(ctx, st.names, d)
}

// try makes one attempt. Each has a token of its own, so that the indexes can
// tell one from another.
func (st *step) try(ctx context.Context) (done, error) {
	var random [8]byte
	_, _ = rand.Read(random[:])
	token := hex.EncodeToString(random[:])
	if st.s.single {
		return st.write(ctx, token)
	}
	var wg sync.WaitGroup
	var noteErr error
	wg.Go(func() { noteErr = st.s.note(ctx, st.key, token) })
	d, err := st.write(ctx, token)
	wg.Wait()
	if err == nil && noteErr != nil {
		err = fmt.Errorf("index: %w", noteErr)
	}
	return d, err
}

// write stores the batch with everything that lies in the slot of the session.
func (st *step) write(ctx context.Context, token string) (done, error) {
	pipe := st.s.client.TxPipeline()
	if st.mode != "pushed" {
		pipe = st.s.client.Pipeline()
	} else {
		for _, push := range st.batch.pushes(st.names.list) {
			_ = pipe.Process(ctx, redis.NewIntCmd(ctx, push...))
		}
	}
	eval := st.eval(ctx, pipe, token)
	if err := redisutil.Cause(pipe.Exec(ctx)); err != nil {
		st.adapt(err)
		return done{}, err
	}
	return parseDone(eval)
}

// adapt changes the way of the entries after a redirection: while a slot is
// being moved, a transaction does not get through, but a single command does.
func (st *step) adapt(err error) {
	if st.mode == "pushed" && !st.s.single && (redis.HasErrorPrefix(err, "ASK") || redis.HasErrorPrefix(err, "MOVED") ||
		redis.HasErrorPrefix(err, "TRYAGAIN") || redis.HasErrorPrefix(err, "EXECABORT")) {
		st.mode = "here"
	}
}

// eval adds the script to a pipeline. The mask says which entries have an id,
// behind a digit that says whether the first id is that of the batch.
func (st *step) eval(ctx context.Context, pipe redis.Pipeliner, token string) *redis.Cmd {
	b := st.batch
	text := appendScript
	if st.mode != "pushed" {
		text = carryScript
	}
	keys := append([]string{st.names.meta, st.names.list, st.names.ids, st.names.lens}, st.s.indexKeys(st.key.ProjectKey)...)
	args := make([]any, 13, 14+len(b.ids))
	b.mask[0] = '0'
	if b.bare {
		b.mask[0] = '1'
		args = append(args, st.id[:])
	}
	for i := range b.ids {
		args = append(args, b.ids[i][:])
	}
	copy(args, []any{
		st.names.field, len(b.lines), st.stage.String(), token, b.mask, len(args) - 13, b.sizes,
		st.s.ttl.Milliseconds(), st.guess.generation, st.guess.count, st.summary, st.key.ProjectKey, st.key.SessionID,
	})
	if st.mode == "here" {
		for _, c := range b.lines {
			line := c.Line
			args = append(args, []byte(line))
		}
	}
	return pipe.Eval(ctx, text, keys, args...)
}

func parseDone(eval *redis.Cmd) (done, error) {
	reply, err := eval.Slice()
	if err != nil || len(reply) < 4 {
		return done{}, errors.Join(err, errors.New("unexpected answer of the append script"))
	}
	number := func(i int) int { n, _ := reply[i].(int64); return int(n) }
	text := func(i int) string { s, _ := reply[i].(string); return s }
	d := done{before: number(0), after: number(1), generation: text(2), folded: number(3) == 1, foldedTo: -1}
	if len(reply) > 5 {
		d.foldedTo, d.summary = number(4), text(5)
	}
	for i := 6; i < len(reply); i++ {
		d.repeats = append(d.repeats, number(i))
	}
	return d, nil
}

// note brings the indexes of a cluster up to date. They lie in other slots than
// the session.
func (s *Store) note(ctx context.Context, key sessionstore.Key, token string) error {
	pipe := s.client.Pipeline()
	pipe.Eval(ctx, noteScript, []string{s.sessionsKey(key.ProjectKey)}, key.SessionID, token)
	pipe.Eval(ctx, noteScript, []string{s.projectsKey()}, key.ProjectKey, token)
	_, err := pipe.Exec(ctx)
	return err
}

// confirm waits for the replicas, if the options ask for it. WAIT counts for
// the connection that it is sent on, so something is written there first; and
// the append may be gone if a replica without it has taken over meanwhile.
func (s *Store) confirm(ctx context.Context, n names, d done) error {
	if s.replicas == 0 {
		return nil
	}
	node := redis.Cmdable(s.client)
	if c, ok := s.client.(*redis.ClusterClient); ok {
		master, err := c.MasterForKey(ctx, n.meta)
		if err != nil {
			return err
		}
		node = master
	}
	pipe := node.Pipeline()
	there := pipe.Eval(ctx, confirmScript, []string{n.meta}, n.field, d.generation, d.after)
	wait := pipe.Do(ctx, "wait", s.replicas, s.waitFor.Milliseconds())
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	if ok, err := there.Int(); err != nil || ok == 0 {
		return fmt.Errorf("%w: the batch was lost in a failover", errors.Join(errAgain, err))
	}
	if got, _ := wait.Int(); got < s.replicas {
		return fmt.Errorf("the master has the batch, but only %d of %d replicas confirmed it within %v", got, s.replicas, s.waitFor)
	}
	return nil
}
