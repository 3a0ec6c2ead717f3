package memorytest

import (
	"errors"
	"time"

	"github.com/sessionstore/sessionstore/memory"
)

var future = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// slack is how far the clock of a backend may be from that of the test.
const slack = 10 * time.Minute

var expireCases = []testCase{
	{"Used/Write", "Used is when the file was last written.", 0, func(e *env) {
		e.create(dir+"file", "text")
		used := e.list(memory.Root)[0].Used
		if off := time.Since(used).Abs(); off > slack {
			e.Fatalf("List says the file was used at %v, %v from now", used, off)
		}
	}},
	{"Used/Read", "Reading counts as use.", Later, func(e *env) {
		e.create(dir+"read", "text")
		e.create(dir+"unread", "text")
		version := e.read(dir + "read").Version
		start := time.Now()
		later := e.later(20 * 24 * time.Hour)
		later.read(dir + "read")
		for _, f := range later.list(memory.Root) {
			if got, want := f.Used.Sub(start) > 19*24*time.Hour, f.Path == dir+"read"; got != want {
				e.Fatalf("20 days after two files were written one is read; %s has Used = %v, the time of the read: %v, want %v", f.Path, f.Used, got, want)
			}
		}
		if err := later.write(dir+"read", "edited", version); err != nil {
			e.Fatalf("Write with a version from before a read = %v, want nil", err)
		}
	}},
	{"Used/SoonAgain", "A read notes the time only if the time noted before is older than UseInterval.", Later, func(e *env) {
		e.create(dir+"file", "text")
		before := e.list(memory.Root)[0].Used
		later := e.later(memory.UseInterval / 2)
		later.read(dir + "file")
		if after := later.list(memory.Root)[0].Used; !after.Equal(before) {
			e.Fatalf("a read after half an interval changes Used from %v to %v", before, after)
		}
	}},
	{"Expire/Old", "Expire deletes the files that were last used before that time, and returns their paths.", Expire | Later, func(e *env) {
		e.create(dir+"old", "text")
		e.create(dir+"d/old", "text")
		e.create(dir+"read", "text")
		e.create(dir+"edited", "text")
		start := time.Now()
		later := e.later(20 * 24 * time.Hour)
		later.create(dir+"new", "text")
		later.read(dir + "read")
		if err := later.write(dir+"edited", "more", later.read(dir+"edited").Version); err != nil {
			e.Fatalf("Write = %v, want nil", err)
		}
		later.expire(start.Add(10*24*time.Hour), dir+"d/old", dir+"old")
		later.wantList(memory.Root, dir+"edited", dir+"new", dir+"read")
		later.wantMissing(dir + "old")
		later.expire(start.Add(10 * 24 * time.Hour))
		later.create(dir+"d", "now a file")
	}},
	{"Expire/Nothing", "Expire deletes the files that were last used before that time, and returns their paths.", Expire, func(e *env) {
		e.expire(time.Now())
		e.create(dir+"file", "text")
		e.expire(time.Now().Add(-slack))
		e.want(dir+"file", "text")
	}},
	{"Expire/Scope", "Stores of different scopes share nothing.", Expire, func(e *env) {
		other := e.open("other")
		other.create(dir+"file", "text")
		e.create(dir+"file", "text")
		e.expire(future, dir+"file")
		other.want(dir+"file", "text")
		e.create(dir+"file", "again")
	}},
	{"Expire/Room", "Expire makes room under the limits.", Expire, func(e *env) {
		e.create(dir+"file", "12345")
		e.expire(future, dir+"file")
		if err := e.s.Write(e.ctx, dir+"new", []byte("12345"), "", memory.Limits{Files: 1, Bytes: 5}); err != nil {
			e.Fatalf("Write after everything has expired = %v, want nil", err)
		}
	}},
	{"Expire/Short", "Expire wants no less than UseInterval.", Expire, func(e *env) {
		e.create(dir+"file", "text")
		if _, err := memory.Expire(e.ctx, e.s, memory.UseInterval-1); err == nil || errors.Is(err, errors.ErrUnsupported) {
			e.Fatalf("memory.Expire for less than UseInterval = %v, want an error", err)
		}
		if gone, err := memory.Expire(e.ctx, e.s, memory.UseInterval); err != nil || len(gone) > 0 {
			e.Fatalf("memory.Expire of a new file = %v, %v, want nothing", gone, err)
		}
	}},
}

func (e *env) expire(before time.Time, want ...string) {
	e.Helper()
	gone, err := e.s.(memory.Expirer).Expire(e.ctx, before)
	if err != nil {
		e.Fatalf("Expire = %v, want nil", err)
	}
	e.sameSet("Expire", gone, want)
}

var outageCases = []testCase{
	{"Outage/Fails", "An outage is never ErrNotFound.", Outage, func(e *env) {
		e.create(dir+"file", "text")
		version := e.read(dir + "file").Version
		e.h.Outage(e.TB, e.s)
		_, listErr := e.s.List(e.ctx, memory.Root)
		_, readErr := e.s.Read(e.ctx, dir+"file", 0)
		for call, err := range map[string]error{
			"List": listErr, "Read": readErr, "Write": e.write(dir+"new", "x", ""), "Edit": e.write(dir+"file", "x", version),
			"Delete": e.s.Delete(e.ctx, dir+"file"), "Rename": e.s.Rename(e.ctx, dir+"file", dir+"new"),
		} {
			for _, wrong := range []error{nil, memory.ErrNotFound, memory.ErrExists, memory.ErrConflict, memory.ErrInvalidPath} {
				if errors.Is(err, wrong) {
					e.Fatalf("%s during an outage = %v, want an error that says so", call, err)
				}
			}
		}
	}},
}
