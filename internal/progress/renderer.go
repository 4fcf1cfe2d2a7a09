package progress

import (
	"io"
	"strings"
	"sync"
	"time"
)

// The pace of the display.
const (
	redrawEvery = 100 * time.Millisecond // at most, if no line is shown above it
	tickEvery   = 250 * time.Millisecond // is the terminal as wide as before?
	advance     = time.Second            // at least, so that times advance
)

// Options say how events are shown.
type Options struct {
	// TTY is set if the writer is a terminal. Size returns its columns and rows;
	// nil or 0 is 80 and 24.
	TTY  bool
	Size func() (columns, rows int)
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
	rows   []string // of the display that is on the screen
	size   [2]int   // of the terminal, when it was drawn
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
	r.above(lines(e, r.opts, r.live), now)
}

// Say shows a line of the command's own, above the display. It reports whether it
// did: not after Close.
func (r *Renderer) Say(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.live || r.closed || r.err != nil {
		return false
	}
	r.above([]line{{text: text}}, r.opts.Now())
	return true
}

// above shows lines above the display.
func (r *Renderer) above(all []line, now time.Time) {
	width := 0 // of a file: any
	if r.live {
		width = r.canvas().width
	}
	var b strings.Builder
	for _, l := range all {
		b.WriteString(l.render(width, r.opts.Color))
	}
	r.show(b.String(), now)
}

// Close removes the display and returns the first write error. Later events
// are dropped.
func (r *Renderer) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.stop)
		r.write(erase(r.rows, r.size[0]))
	}
	r.mu.Unlock()
	r.done.Wait()
	return r.err
}

// tick keeps the display current until Close.
func (r *Renderer) tick() {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-t.C:
			r.mu.Lock()
			now := r.opts.Now()
			if !r.closed && r.err == nil && (now.Sub(r.drawn) >= advance || r.canvas().size() != r.size) {
				r.show("", now)
			}
			r.mu.Unlock()
		}
	}
}

// canvas is what the terminal has room for.
func (r *Renderer) canvas() canvas {
	width, height := 0, 0
	if r.opts.Size != nil {
		width, height = r.opts.Size()
	}
	if width <= 0 {
		width = 80
	}
	if height <= 0 {
		height = 24
	}
	// Some terminals wrap as soon as the last column is used.
	return canvas{width: max(width-1, 1), height: height, color: r.opts.Color}
}

func (c canvas) size() [2]int { return [2]int{c.width + 1, c.height} }

// show writes whole lines above the display and draws it again, in one write, so
// that nothing is shown in part.
func (r *Renderer) show(text string, now time.Time) {
	if !r.live {
		r.write(text)
		return
	}
	c := r.canvas()
	if text == "" && now.Sub(r.drawn) < redrawEvery && c.size() == r.size && !r.status.over {
		return
	}
	text = erase(r.rows, c.width+1) + text
	r.rows, r.size, r.drawn = r.status.frame(c, now), c.size(), now
	r.write(text + strings.Join(r.rows, "\r\n"))
}

func (r *Renderer) write(s string) {
	if s == "" || r.err != nil {
		return
	}
	_, r.err = io.WriteString(r.w, s)
}
