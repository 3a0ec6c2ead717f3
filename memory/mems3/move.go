package mems3

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sessionstore/sessionstore/internal/s3util"
	"github.com/sessionstore/sessionstore/memory"
)

// mover moves one file for a rename.
type mover struct {
	*Store
	in       intent
	from, to string // names of objects
	created  string // the write that has made the new file, if this host has
	buried   bool   // this host has put the tombstone
}

// move copies a file to its new place and puts a tombstone into the old one,
// whose etag it returns; none if the file is gone. When somebody has made
// another file in the new place at the last moment, both stay: ErrExists.
//
// A host that stood still may do this when others have ended the rename long
// ago. So it looks for the intent before and after each step, and takes back
// what it should not have done.
func (s *Store) move(ctx context.Context, in intent, path string) (string, error) {
	m := &mover{Store: s, in: in, from: s.name(path), to: s.name(in.To + strings.TrimPrefix(path, in.From))}
	etag, err := m.run(ctx)
	if m.created == "" || m.buried {
		return etag, err
	}
	if open := s.open(ctx, in); errors.Is(open, errCompleted) {
		return "", errors.Join(open, s.takeBack(ctx, m.to, m.created))
	}
	return etag, err
}

func (m *mover) run(ctx context.Context) (string, error) {
	for try := 1; ; try++ {
		o, err := m.get(ctx, m.from, 0)
		if errors.Is(err, s3util.ErrGone) {
			return "", nil
		}
		if err != nil || o.ended() {
			return o.etag, err
		}
		etag := ""
		err = m.open(ctx, m.in)
		if err == nil {
			err = m.copy(ctx, o)
		}
		if err == nil {
			err = m.open(ctx, m.in)
		}
		if err == nil {
			etag, err = m.bury(ctx, o)
		}
		if err == nil {
			return etag, nil
		}
		if !errors.Is(err, memory.ErrConflict) && !errors.Is(err, memory.ErrExists) || try == moveTries {
			return "", err
		}
		if err := pause(ctx, try); err != nil {
			return "", err
		}
	}
}

// copy makes the new file, or brings one that this rename has made before up
// to date. A copy that another host has made is written once more, which tells
// that host that it is in use.
func (m *mover) copy(ctx context.Context, o object) error {
	op := rand.Text()
	ops := append([]string{op}, o.ops...)
	_, err := m.put(ctx, m.to, o.data, condition{}, ops, m.in.ID)
	if err == nil {
		m.created = op
	}
	if !errors.Is(err, memory.ErrConflict) {
		return err
	}
	there, err := m.get(ctx, m.to, 0)
	switch {
	case errors.Is(err, s3util.ErrGone):
		return memory.ErrConflict
	case err != nil:
		return err
	case there.intent != m.in.ID:
		return memory.ErrExists
	case !bytes.Equal(there.data, o.data):
		// Which of them is the older one?
		out, err := m.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &m.bucket, Key: &m.from})
		if err = s3util.Gone(err); err != nil && !errors.Is(err, s3util.ErrGone) {
			return err
		}
		if err != nil || aws.ToString(out.ETag) != o.etag {
			return memory.ErrConflict
		}
	}
	_, err = m.put(ctx, m.to, o.data, condition{there.etag}, ops, m.in.ID)
	return err
}

// bury puts the tombstone in the place of the old file.
func (m *mover) bury(ctx context.Context, o object) (string, error) {
	etag, err := m.put(ctx, m.from, []byte(tombstone+m.in.ID+"\n"), condition{o.etag}, []string{rand.Text()}, m.in.ID)
	if err != nil {
		return "", err
	}
	m.buried = true
	err = m.open(ctx, m.in)
	if !errors.Is(err, errCompleted) {
		return etag, err
	}
	// Those who have ended it have deleted the tombstone. One that is still
	// there has come later, over a file that looks like the old one.
	_, restoreErr := m.put(ctx, m.from, o.data, condition{etag}, append([]string{rand.Text()}, o.ops...), o.intent)
	switch {
	case restoreErr == nil:
		m.buried = false
	case !errors.Is(restoreErr, memory.ErrConflict):
		return "", restoreErr
	}
	return "", err
}

// takeBack deletes an object if this was the last write to it.
func (s *Store) takeBack(ctx context.Context, name, op string) error {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &name})
	if err = s3util.Gone(err); errors.Is(err, s3util.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	if ops, _ := metadata(out.Metadata); len(ops) == 0 || ops[0] != op {
		return nil
	}
	_, err = s.deleteIf(ctx, name, aws.ToString(out.ETag))
	return err
}

// sweepTombstones deletes those that a host has left behind that died when it
// came too late, and takes them out of the list. No rename may be open. It says
// whether there were any.
func (s *Store) sweepTombstones(ctx context.Context, all inventory) (found bool, err error) {
	for p, f := range all.files {
		if f.size != tombstoneSize {
			continue
		}
		o, err := s.get(ctx, s.name(p), 0)
		if errors.Is(err, s3util.ErrGone) || err == nil && !o.ended() {
			continue
		}
		if err != nil {
			return found, err
		}
		delete(all.files, p)
		found = true
		// Who may only read does not see it either.
		_, _ = s.deleteIf(ctx, s.name(p), o.etag)
	}
	return found, nil
}
