package main

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/sessionstore/sessionstore"
)

// progress is a bar on standard error, for people who wait. It appears only
// when work takes a while.
type progress struct {
	visible bool
	a       *app
	started time.Time
	bar     *progressbar.ProgressBar
	phase   string
}

const progressDelay = 300 * time.Millisecond

func (a *app) progress() *progress {
	return &progress{a: a, visible: a.err.is && !a.quiet, started: time.Now()}
}

// step shows that done of total transcripts are ready.
func (p *progress) step(phase string, done, total int, detail string) {
	if !p.visible || time.Since(p.started) < progressDelay {
		return
	}
	if p.bar == nil || p.phase != phase {
		p.done()
		p.phase = phase
		p.bar = p.newBar(total)
	}
	p.bar.Describe(phase + detail)
	// A full bar ends itself; the last step of a phase may still have work.
	_ = p.bar.Set(min(done, max(total-1, 0)))
}

func (p *progress) newBar(total int) *progressbar.ProgressBar {
	if total <= 1 {
		total = -1 // nothing to count: a spinner that shows that work goes on
	}
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(p.a.stderr),
		progressbar.OptionSetWidth(min(30, max(10, p.a.err.width-60))),
		progressbar.OptionThrottle(65*time.Millisecond),
		progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(total <= 1),
		progressbar.OptionSpinnerType(14),
		progressbar.OptionUseANSICodes(true),
	)
}

// done takes the bar away.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

func (p *progress) copying(c sessionstore.CopyProgress) {
	if c.Checking {
		p.step("comparing", c.Transcripts, c.TotalTranscripts, "")
		return
	}
	p.step("copying", c.Transcripts, c.TotalTranscripts,
		fmt.Sprintf(" %s, %s", plural(c.Entries, "entry"), size(c.Bytes)))
}

func (p *progress) verifying(v sessionstore.VerifyProgress) {
	p.step("verifying", v.Transcripts, v.TotalTranscripts, fmt.Sprintf(" %s", plural(v.Entries, "entry")))
}
