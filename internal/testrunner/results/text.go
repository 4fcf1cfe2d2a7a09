package results

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Text reads the report of a runner without a driver: go, junit or tap. Such
// text says no more than what the tested code lets it say. Errors hold nothing
// of the text.
func Text(runner string, text []byte) (*Report, error) {
	read := map[string]func([]byte) (*Report, error){"go": goTest, "junit": junit, "tap": tap}[runner]
	if !utf8.Valid(text) {
		return &Report{}, fmt.Errorf("%w: it is not UTF-8", ErrForm)
	}
	return read(text)
}

// lines calls f for each line of a text, with its number, until there is
// something wrong with one.
func lines(text []byte, f func(line string) (problem string)) error {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if len(line) > maxLine {
			return fmt.Errorf("line %d: %w: it is too long", n, ErrForm)
		}
		if problem := f(string(bytes.TrimRight(line, "\r\n"))); problem != "" {
			return fmt.Errorf("line %d: %w: %s", n, ErrForm, problem)
		}
	}
	return nil
}

// builder collects tests whose results come one by one.
type builder struct {
	report Report
	at     map[string]int
}

func newBuilder() *builder { return &builder{at: map[string]int{}} }

// add takes a test, and its result unless status is empty. A second result of a
// test makes it occur twice, so that its id means nothing any more.
func (b *builder) add(id string, names []string, status Status) (problem string) {
	i, known := b.at[id]
	switch {
	case known && b.report.Tests[i].Status == "":
		b.report.Tests[i].Status = status
	case known && status == "":
	case len(b.report.Tests) == maxTests:
		return "a test too many"
	default:
		b.at[id] = len(b.report.Tests)
		b.report.Tests = append(b.report.Tests, Test{id, names, status})
	}
	return ""
}
