package agreement

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"securebench/internal/digest"
	"securebench/internal/source"
)

// Bounds on a file of labels.
const (
	maxFile = 64 << 20
	maxText = 1 << 20
)

// Label is what people decided: on a text, or on two.
type Label struct {
	Line   int
	TaskID string
	// Texts is one text that passed or not, or two of which one is preferred.
	Texts     []string
	Passed    bool
	Preferred Choice
}

// Labels is a file of them: of texts or of pairs, not of both.
type Labels struct {
	All    []Label
	Pairs  bool
	Digest string // of the file
}

// ReadLabels reads JSON lines of {task_id, text, passed}, or of {task_id, texts,
// preferred}, where preferred is 1, 2 or 0 for neither. A task may have many.
func ReadLabels(path string) (*Labels, error) {
	data, err := source.ReadFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("reading the labels: %w", err)
	}
	out := &Labels{Digest: digest.Bytes(data)}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		l, err := readLabel(line)
		if err == nil && len(out.All) > 0 && out.Pairs != (len(l.Texts) == 2) {
			err = errors.New("the lines before are of the other kind: give texts or pairs")
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		l.Line, out.Pairs = number, len(l.Texts) == 2
		out.All = append(out.All, l)
	}
	if len(out.All) == 0 {
		return nil, fmt.Errorf("%s has no label: want lines of {\"task_id\", \"text\", \"passed\"}, or of {\"task_id\", \"texts\", \"preferred\"}", path)
	}
	return out, nil
}

// readLabel reads one line strictly.
func readLabel(line []byte) (l Label, err error) {
	var of struct {
		TaskID    string   `json:"task_id"`
		Text      *string  `json:"text"`
		Passed    *bool    `json:"passed"`
		Texts     []string `json:"texts"`
		Preferred *int     `json:"preferred"`
	}
	if err := json.Unmarshal(line, &of, json.RejectUnknownMembers(true)); err != nil {
		return l, fmt.Errorf("not a label: %w", digest.JSONError(err))
	}
	single, pair := of.Text != nil && of.Passed != nil, len(of.Texts) == 2 && of.Preferred != nil
	switch {
	case of.TaskID == "":
		return l, errors.New("task_id is missing")
	case single == pair, single && (of.Texts != nil || of.Preferred != nil), pair && (of.Text != nil || of.Passed != nil):
		return l, errors.New("want task_id with text and passed, or with two texts and preferred")
	case pair && (*of.Preferred < 0 || *of.Preferred > 2):
		return l, errors.New("preferred must be 1, 2, or 0 for neither")
	}
	l.TaskID, l.Texts = of.TaskID, of.Texts
	if single {
		l.Texts, l.Passed = []string{*of.Text}, *of.Passed
	} else {
		l.Preferred = Choice(*of.Preferred)
	}
	if slices.ContainsFunc(l.Texts, func(s string) bool { return len(s) > maxText }) {
		return l, fmt.Errorf("a text has more than %d bytes", maxText)
	}
	return l, nil
}
