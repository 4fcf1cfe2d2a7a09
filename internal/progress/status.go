package progress

import (
	"fmt"
	"strings"
	"time"

	"securebench/internal/verdict"
)

// status is what the status line counts. Counts are of attempts.
type status struct {
	started                        time.Time
	total, earlier                 int // earlier: done in an earlier session
	passed, failed, pending, infra int
	running                        int
	over                           bool
}

func (s *status) update(e Event, now time.Time) {
	if s.started.IsZero() {
		s.started = now
	}
	switch e := e.(type) {
	case RunStart:
		s.total = e.Total
	case Resume:
		s.earlier = e.Completed
	case TaskStart:
		s.running++
		s.total = max(s.total, e.Total)
	case TaskDone:
		s.running--
		s.count(e)
	case RunDone, Interrupted:
		s.over = true
	}
}

func (s *status) count(e TaskDone) {
	switch {
	case e.Outcome == verdict.Infrastructure:
		s.infra++
	case e.Status == verdict.StatusPassed:
		s.passed++
	case e.Status == verdict.StatusFailed:
		s.failed++
	default:
		s.pending++
	}
}

// line returns the status in at most width columns, "" if there is nothing to
// show. It is ASCII and holds no text from outside.
func (s *status) line(width int, now time.Time) string {
	if s.total == 0 || s.over {
		return ""
	}
	now = maxTime(now, s.started)
	here := s.passed + s.failed + s.pending + s.infra
	done := s.earlier + here
	parts := []string{
		fmt.Sprintf("%d/%d", done, s.total),
		fmt.Sprintf("%d pass %d fail %d pending %d infra", s.passed, s.failed, s.pending, s.infra),
		fmt.Sprintf("%d running", max(s.running, 0)),
	}
	if elapsed := now.Sub(s.started); here > 0 && elapsed > 0 {
		perAttempt := elapsed / time.Duration(here)
		left := time.Duration(max(s.total-done, 0)) * perAttempt
		parts = append(parts, rate(float64(here)/elapsed.Seconds()), "ETA "+left.Round(time.Second).String())
	}
	for len(parts) > 1 && len(strings.Join(parts, "  ")) > width {
		parts = parts[:len(parts)-1]
	}
	text := strings.Join(parts, "  ")
	if room := min(width-len(text)-4, 30); room >= 5 {
		text = bar(done, s.total, room) + "  " + text
	}
	return text[:min(len(text), width)]
}

func maxTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func rate(perSecond float64) string {
	switch {
	case perSecond >= 1:
		return fmt.Sprintf("%.1f/s", perSecond)
	case perSecond*60 >= 1:
		return fmt.Sprintf("%.1f/min", perSecond*60)
	}
	return fmt.Sprintf("%.1f/h", perSecond*3600)
}

// bar draws room columns between brackets.
func bar(done, total, room int) string {
	full := min(room*done/total, room)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", room-full) + "]"
}
