package inmemory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/conformance"
)

// harness has no Outage and no Damage: memory has neither.
var harness = conformance.Harness{
	Open:   func(testing.TB) sessionstore.SessionStore { return New() },
	Reopen: func(_ testing.TB, s sessionstore.SessionStore) sessionstore.SessionStore { return s.(*Store).Reopen() },
	ReopenBehind: func(_ testing.TB, s sessionstore.SessionStore, d time.Duration) sessionstore.SessionStore {
		behind := s.(*Store).Reopen()
		behind.now = func() time.Time { return time.Now().Add(-d) }
		return behind
	},
	LoseReply: func(_ testing.TB, s sessionstore.SessionStore) {
		lost := false
		s.(*Store).AfterAppend = func(context.Context, sessionstore.Key) error {
			if lost {
				return nil
			}
			lost = true
			return errors.New("the reply was lost")
		}
	},
	Require:     conformance.All | conformance.Handover | conformance.HandoverBehind | conformance.LostReply | conformance.CommitOrder,
	CommitOrder: true,
}

func TestConformance(t *testing.T) { conformance.Run(t, harness) }
