package progress

import (
	"io"
	"strings"
	"sync"
	"time"
)

// The pace of the status line.
const (
	redrawEvery = 100 * time.Millisecond // at most, if only the status changed
	tickEvery   = time.Second            // at least, so that times advance
)

// Options say how events are shown.
type Options struct {
	// TTY is set if the writer is a terminal. Width returns its width in
	// columns; nil or 0 is 80.
	TTY   bool
	Width func() int
	// ShowCommandOutput shows the output of commands on the agent's side,
	// ShowAgentOutput the lines that agents print.
	ShowCommandOutput, ShowAgentOutput bool
	Color                              bool
	Now                                func() time.Time // nil is time.Now
}

// Renderer shows events on a writer. Nothing else may write to the writer until
// Close. It is safe for concurrent use.
type Renderer struct {
	opts Options
	mode Mode
	live bool
	stop chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex
	w      io.Writer
	err    error // the first write error; nothing is written after it
	status status
	shown  bool // the status line is on the screen
	drawn  time.Time
	closed bool
}

// New returns a renderer. Close must be called.
func New(mode Mode, w io.Writer, opts Options) *Renderer {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	r := &Renderer{opts: opts, mode: mode, w: w, live: mode == Auto && opts.TTY, stop: make(chan struct{})}
	if r.live {
		r.done.Go(r.tick)
	}
	return r
}

// Event shows an event.
func (r *Renderer) Event(e Event) {
	if r.mode == None {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.err != nil {
		return
	}
	now := r.opts.Now()
	if r.mode == JSON {
		r.write(jsonLine(e, r.opts, now))
		return
	}
	r.status.update(e, now)
	var b strings.Builder
	for _, l := range lines(e, r.opts, r.live) {
		b.WriteString(l.render(r.width(), r.opts.Color))
	}
	r.show(b.String(), now)
}

// Close removes the status line and returns the first write error. Later events
// are dropped.
func (r *Renderer) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.stop)
		r.write(r.clear())
	}
	r.mu.Unlock()
	r.done.Wait()
	return r.err
}

// tick keeps the status line current until Close.
func (r *Renderer) tick() {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-t.C:
			r.mu.Lock()
			if !r.closed && r.err == nil && r.shown {
				r.show("", r.opts.Now())
			}
			r.mu.Unlock()
		}
	}
}

// width returns the number of columns that a line may use, 0 for any.
func (r *Renderer) width() int {
	if !r.live {
		return 0
	}
	w := 0
	if r.opts.Width != nil {
		w = r.opts.Width()
	}
	if w <= 0 {
		w = 80
	}
	// Some terminals wrap as soon as the last column is used.
	return max(w-1, 1)
}

// show writes whole lines above the status line and redraws it, in one write, so
// that no line is shown in part.
func (r *Renderer) show(text string, now time.Time) {
	if !r.live {
		r.write(text)
		return
	}
	if text == "" && r.shown && now.Sub(r.drawn) < redrawEvery {
		return
	}
	text = r.clear() + text
	if line := r.status.line(r.width(), now); line != "" {
		text += line
		r.shown, r.drawn = true, now
	}
	r.write(text)
}

// clear returns what removes the status line from the screen.
func (r *Renderer) clear() string {
	if !r.shown {
		return ""
	}
	r.shown = false
	return "\r\x1b[K"
}

func (r *Renderer) write(s string) {
	if s == "" || r.err != nil {
		return
	}
	_, r.err = io.WriteString(r.w, s)
}
