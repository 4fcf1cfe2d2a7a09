package results

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// message is one line of a driver. Each kind has its own fields.
type message struct {
	Key    string    `json:"key"`
	Type   string    `json:"type"`
	ID     *string   `json:"id"`
	Names  *[]string `json:"names"`
	Tests  *int      `json:"tests"`
	Status *any      `json:"status"`
}

// channel is the state of reading a driver's lines.
type channel struct {
	report  *Report
	open    map[string][]int // tests without a result, by id
	started bool
	ended   bool
}

// Channel reads the lines of a driver: the collected tests, one line that they
// are complete, at most one result for each, and the end. Every line holds the
// key; nothing else may be between them. Errors hold nothing of the lines.
func Channel(text []byte, key string) (*Report, error) {
	c := &channel{report: &Report{}, open: map[string][]int{}}
	for n := 1; len(text) > 0; n++ {
		line, rest, complete := bytes.Cut(text, []byte("\n"))
		if !complete {
			return c.report, fmt.Errorf("line %d: %w", n, ErrUnfinished)
		}
		if problem := c.line(line, key); problem != "" {
			return c.report, fmt.Errorf("line %d: %w: %s", n, ErrForm, problem)
		}
		text = rest
	}
	if !c.ended {
		return c.report, ErrUnfinished
	}
	return c.report, nil
}

// line takes one line and returns what is wrong with it.
func (c *channel) line(line []byte, key string) string {
	var m message
	switch {
	case c.ended:
		return "it follows the end"
	case len(line) > maxLine:
		return "it is too long"
	case !utf8.Valid(line):
		return "it is not UTF-8"
	case json.Unmarshal(line, &m, json.RejectUnknownMembers(true)) != nil:
		return "it is not a message"
	case m.Key != key:
		return "it lacks the key"
	}
	switch m.Type {
	case "test":
		return c.test(m)
	case "broken":
		if m.ID == nil || m.Names != nil || m.Tests != nil || m.Status != nil {
			return "it has the wrong fields"
		}
		c.report.Broken = append(c.report.Broken, *m.ID)
	case "start":
		if m.Tests == nil || m.ID != nil || m.Names != nil || m.Status != nil {
			return "it has the wrong fields"
		}
		if c.started || *m.Tests != len(c.report.Tests) {
			return "it starts a second time or miscounts"
		}
		c.started = true
	case "result":
		return c.result(m)
	case "end":
		return c.end(m)
	default:
		return "it is of an unknown type"
	}
	return ""
}

func (c *channel) test(m message) string {
	if m.ID == nil || m.Names == nil || m.Tests != nil || m.Status != nil {
		return "it has the wrong fields"
	}
	if c.started || len(c.report.Tests) == maxTests {
		return "a test too many"
	}
	c.open[*m.ID] = append(c.open[*m.ID], len(c.report.Tests))
	c.report.Tests = append(c.report.Tests, Test{ID: *m.ID, Names: *m.Names})
	return ""
}

func (c *channel) result(m message) string {
	if m.ID == nil || m.Status == nil || m.Names != nil || m.Tests != nil {
		return "it has the wrong fields"
	}
	text, _ := (*m.Status).(string)
	status := Status(text)
	switch status {
	case Passed, Failed, Error, Skipped, XFailed, XPassed:
	default:
		return "it has an unknown status"
	}
	open := c.open[*m.ID]
	if !c.started || len(open) == 0 {
		return "it is a result too many"
	}
	c.report.Tests[open[0]].Status = status
	c.open[*m.ID] = open[1:]
	return ""
}

func (c *channel) end(m message) string {
	if m.Status == nil || m.ID != nil || m.Names != nil || m.Tests != nil {
		return "it has the wrong fields"
	}
	code, ok := (*m.Status).(float64)
	if !c.started || !ok || code != float64(int(code)) || code < 0 || code > 255 {
		return "it does not follow a start, or has no exit status"
	}
	c.report.Exit, c.ended = int(code), true
	return ""
}
