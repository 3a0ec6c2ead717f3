package mirror

import (
	"fmt"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
)

// skip reports something that was passed over, once.
func (w *watcher) skip(s WatchSkip) {
	id := idset.Of(fmt.Appendf(nil, "%s:%d:%d", s.Path, s.Offset, s.Line))
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.told.Add(id) {
		return
	}
	w.report.Skipped++
	if w.opts.Logger != nil {
		w.opts.Logger.Warn("watch: passed over", "path", s.Path, "line", s.Line, "offset", s.Offset, "error", s.Err)
	}
	if w.opts.OnSkip != nil {
		w.tell(func() { w.opts.OnSkip(s) })
	}
}

// tell calls a callback. One that panics does not stop the watch.
func (w *watcher) tell(callback func()) {
	defer func() {
		if r := recover(); r != nil {
			w.log("panic in a callback", "", fmt.Errorf("%v", r))
		}
	}()
	callback()
}

func (w *watcher) log(text, path string, err error) {
	if w.opts.Logger != nil {
		w.opts.Logger.Error("watch: "+text, "path", path, "error", err)
	}
}

func (w *watcher) count(change func(*WatchReport)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.report)
}

func (w *watcher) appended(f *watched, batch []sessionstore.Entry) {
	done := WatchAppend{Key: f.key, Entries: len(batch), CatchUp: f.comparing != nil}
	for _, e := range batch {
		done.Bytes += len(e)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Batches++
	w.report.Entries += int64(done.Entries)
	w.report.Bytes += int64(done.Bytes)
	if w.opts.OnAppend != nil {
		w.tell(func() { w.opts.OnAppend(done) })
	}
}

func (w *watcher) failed(e *Error) {
	w.count(func(r *WatchReport) { r.Failures++ })
	w.tellError(e)
}

func (w *watcher) tellError(e *Error) {
	if w.opts.Logger != nil {
		w.opts.Logger.Error("watch: not stored", "key", e.Key.String(), "entries", len(e.Entries), "error", e.Err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.opts.OnError != nil {
		w.tell(func() { w.opts.OnError(e) })
	}
}
