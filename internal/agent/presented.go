package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"securebench/internal/candidate"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Prepare prepares an attempt of an agent. One whose candidates do not exist already makes
// a text for each presentation of the task; the list of them is the candidate.
func Prepare(ctx context.Context, a Agent, req Request, out Output) (Production, error) {
	if len(req.Shown) == 0 || Repeatable(a) {
		return a.Prepare(ctx, req, out)
	}
	p := &presented{agent: a, request: req, out: out, at: -1, texts: make([]*string, len(req.Shown))}
	if !p.next() {
		return nil, fmt.Errorf("task %s is presented in no way", req.View.ID())
	}
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// presented is a production of a task that has several presentations. They are made one
// after the other, each in a sandbox of its own, which is removed before the next one is
// made: no file and no process of one is there for another. All together have the
// attempt's time and budget.
type presented struct {
	agent   Agent
	request Request
	out     Output
	at      int        // the presentation that is under way
	part    Production // of that; nil if it is closed
	text    memory     // what was captured of it
	texts   []*string
	ran     produce.Result // of all together
	left    capture.Result
}

// metadataKey is the metadata that holds that of each presentation.
const metadataKey = "presentations"

// next goes on to the next presentation, and reports whether there is one.
func (p *presented) next() bool {
	for p.at++; p.at < len(p.texts); p.at++ {
		if p.request.Shown[p.at] != nil {
			return true
		}
	}
	return false
}

// open prepares the presentation.
func (p *presented) open(ctx context.Context) (err error) {
	req := p.request
	req.View, req.Shown, req.Used = *req.Shown[p.at], nil, p.ran.Usage
	if p.ran.Timeout > 0 {
		req.View = req.View.Within(p.ran.Timeout - p.ran.Ran)
	}
	p.text = memory{}
	p.part, err = p.agent.Prepare(ctx, req, Output{Sink: &p.text, Observe: p.out.Observe})
	return err
}

// Run makes one presentation after the other, until one leaves no text.
func (p *presented) Run(ctx context.Context) (produce.Result, error) {
	var each []verdict.Metadata
	for {
		part, err := p.part.Run(ctx)
		p.add(part)
		if err != nil {
			return p.ran, err
		}
		each = append(each, part.Metadata)
		if err := errors.Join(p.take(ctx, part), p.Close(ctx)); err != nil {
			return p.ran, err
		}
		if p.left.Limit != "" || p.left.Rejection != nil || !p.next() {
			break
		}
		if p.ran.Timeout > 0 && p.ran.Ran >= p.ran.Timeout {
			p.ran.Outcome.End, p.left.Limit = sandbox.TimedOut, sandbox.TimedOut
			break
		}
		if err := p.open(ctx); err != nil {
			return p.ran, err
		}
	}
	p.ran.Metadata = maps.Clone(p.ran.Metadata)
	p.ran.Metadata.Set(metadataKey, each)
	return p.ran, nil
}

// add adds what one presentation came to. What can be of one only is that of the last.
func (p *presented) add(part produce.Result) {
	all := p.ran
	p.ran = part
	p.ran.Timeout = cmp.Or(all.Timeout, part.Timeout)
	p.ran.Ran += all.Ran
	p.ran.Stdout, p.ran.Stderr = slices.Concat(all.Stdout, part.Stdout), slices.Concat(all.Stderr, part.Stderr)
	p.ran.Usage = record.SumUsage(all.Usage, part.Usage)
	p.ran.DiskSampled = all.DiskSampled || part.DiskSampled
	p.ran.Labels = append(slices.Clip(all.Labels), part.Labels...)
	p.ran.Raw = map[string][]byte{}
	for _, files := range []map[string][]byte{all.Raw, part.Raw} {
		for name, content := range files {
			p.ran.Raw[name] = slices.Concat(p.ran.Raw[name], content)
		}
	}
	if stop, ok := all.Metadata[verdict.StopKey]; ok && verdict.CutOff(all.Metadata.Text(verdict.StopKey)) {
		p.ran.Metadata = maps.Clone(part.Metadata)
		p.ran.Metadata[verdict.StopKey] = stop
	}
}

// take captures what the agent said to the presentation.
func (p *presented) take(ctx context.Context, part produce.Result) error {
	left, err := p.part.Capture(ctx, part)
	if err != nil {
		return err
	}
	left.Stdout, left.Stderr = slices.Concat(p.left.Stdout, left.Stdout), slices.Concat(p.left.Stderr, left.Stderr)
	if c, former := left.Candidate, p.left.Candidate; c != nil && former != nil {
		c.Redacted = c.Redacted || former.Redacted
	}
	p.left = left
	if r := left.Rejection; r != nil {
		p.left.Rejection = candidate.Reject(r.Reason, "%s (presentation %d of %d)", r.Message, p.at+1, len(p.texts))
	}
	text := string(p.text.data)
	p.texts[p.at] = &text
	return nil
}

// Capture stores the list of what the agent said.
func (p *presented) Capture(context.Context, produce.Result) (capture.Result, error) {
	out := p.left
	if out.Limit != "" || out.Rejection != nil {
		out.Candidate = nil
		return out, nil
	}
	if out.Candidate == nil {
		return out, errors.New("a presentation has neither a text nor a reason for its absence")
	}
	list, err := candidate.JoinTexts(p.texts...)
	if err != nil {
		return out, err
	}
	kind, origin := out.Candidate.Kind, out.Candidate.Origin
	if _, err := candidate.Admit(kind, origin, list, candidate.MaxBytes); err != nil {
		out.Candidate = nil
		if errors.As(err, &out.Rejection) {
			return out, nil
		}
		return out, err
	}
	c, err := p.out.Sink.Put(kind, origin, bytes.NewReader(list))
	if err != nil {
		return out, fmt.Errorf("capturing the candidate: %w", err)
	}
	c.Redacted = out.Candidate.Redacted
	out.Candidate = &c
	return out, nil
}

// Standing is true once the agent has said all: the texts are here.
func (p *presented) Standing(context.Context) bool { return p.part == nil }

// Command returns what runs for the first presentation.
func (p *presented) Command() Command { return p.part.Command() }

// Close releases what the presentation that is under way has.
func (p *presented) Close(ctx context.Context) error {
	if p.part == nil {
		return nil
	}
	part := p.part
	p.part = nil
	return part.Close(ctx)
}

// memory is a sink that keeps one text.
type memory struct{ data []byte }

// Put keeps the content.
func (m *memory) Put(kind task.CandidateKind, origin candidate.Origin, content io.Reader) (candidate.Candidate, error) {
	data, err := io.ReadAll(content)
	if err != nil {
		return candidate.Candidate{}, err
	}
	m.data = data
	return candidate.New(kind, origin, data), nil
}
