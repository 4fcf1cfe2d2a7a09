// Package result decides what a message that a worker sends as the result of a job does
// to the job. It keeps the reading of bytes that may be anything apart from the hub, its
// lock and the queue's server.
package result

import (
	"errors"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
)

// The kinds of jobs, which are parts of their names.
const (
	Produce  = "p" // runs an agent
	Solve    = "s" // runs the program of a row's own solution
	Verify   = "v" // scores a candidate
	Complete = "c" // finds out a row's whole reference
)

// Job is what the hub knows of a job.
type Job struct {
	Kind   string
	Nonce  string
	Holder string // the worker that has the job; "" for none
	Grant  int64  // under which the holder has it
	// What the holder has put.
	Stored *candidate.Candidate
	Value  []byte
}

// A message with one of these errors changes nothing about the job.
var (
	ErrOther = errors.New("it is not the result of this job")
	ErrLate  = errors.New("another worker has the job")
)

// Read returns what came of the job if the worker has it. With an error other than
// [ErrOther] and [ErrLate], the holder has sent what cannot be taken.
func (j Job) Read(who string, r remote.Result) (remote.Outcome, error) {
	switch {
	case j.Nonce == "" || j.Nonce != r.Nonce:
		return remote.Outcome{}, ErrOther
	case j.Holder != who || j.Grant != r.Grant:
		return remote.Outcome{}, ErrLate
	}
	return j.outcome(r)
}

// outcome decodes a result strictly.
func (j Job) outcome(r remote.Result) (out remote.Outcome, err error) {
	data := []byte(r.Value)
	if r.Put != "" {
		if data = j.Value; digest.Bytes(data) != r.Put {
			return out, errors.New("the result is not what it has put")
		}
	}
	if err := attempt.Decode(data, &out); err != nil {
		return out, errors.New("its result cannot be read")
	}
	set := 0
	for _, there := range []bool{out.Produced != nil, out.Verdict != nil, out.Completed != nil, out.Failed != nil} {
		if there {
			set++
		}
	}
	fits := map[string]bool{Produce: out.Produced != nil, Solve: out.Produced != nil, Verify: out.Verdict != nil, Complete: out.Completed != nil}[j.Kind] || out.Failed != nil
	if set != 1 || !fits {
		return out, errors.New("its result is of another kind")
	}
	if err := sound(&out); err != nil {
		return out, err
	}
	return out, j.stored(out.Produced)
}

// stored gives a produced candidate the place where it is stored.
func (j Job) stored(p *attempt.Produced) error {
	if p == nil {
		return nil
	}
	if p.Candidate == nil {
		if p.Rejection == nil && p.Limit == "" {
			return errors.New("its result has neither a candidate nor a reason for its absence")
		}
		return nil
	}
	if j.Stored == nil || j.Stored.Digest != p.Candidate.Digest || j.Stored.Kind != p.Candidate.Kind {
		return errors.New("its candidate is not what it has put")
	}
	stored := *j.Stored
	stored.Origin, stored.Redacted, stored.CutOff = p.Candidate.Origin, p.Candidate.Redacted, p.Candidate.CutOff
	p.Candidate = &stored
	return nil
}
