package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/gateway/relay/distant"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/record"
	"securebench/internal/remote"
	"securebench/internal/verdict"
)

// do makes the call of a job and offers its outcome until the hub has answered.
func (s *session) do(ctx context.Context, h *held, ticket string, offering func() func()) {
	var out remote.Outcome
	q, err := s.asked(ctx, h, &ticket)
	switch {
	case err != nil:
		out.Failed = attempt.Failed(err, verdict.PhasePrepare)
	case q.Produce != nil:
		out = s.produce(ctx, call{h, &ticket}, q)
	case q.Verify != nil:
		out = s.verify(ctx, h, &ticket, q)
	case q.Complete != nil:
		out = s.complete(ctx, q)
	default:
		out.Failed = attempt.Failed(errors.New("the job is of a kind that this build does not know"), verdict.PhasePrepare)
	}
	r := result{Held: h.Held, Value: encoded(out)}
	if out.Produced != nil && out.Produced.Candidate != nil {
		r.Candidate = out.Produced.Candidate
	}
	answered := false
	if ctx.Err() == nil { // the hub waits for it
		if err := s.folder.keep(r); err != nil {
			s.Say(fmt.Sprintf("keeping a result, in case that this worker is restarted: %v", err))
		}
		offered := offering()
		answered = s.deliver(ctx, h, ticket, r)
		offered()
	}
	if !answered && errors.Is(context.Cause(ctx), errLeft) {
		return // the next process here offers it
	}
	s.folder.drop(r)
	if r.Candidate != nil {
		s.shelf.letGo(r.Candidate.Digest)
	}
}

// asked returns the call that a job is.
func (s *session) asked(ctx context.Context, h *held, ticket *string) (q remote.Request, err error) {
	if h.came.Request != nil {
		return q, attempt.Decode(h.came.Request, &q)
	}
	return q, s.withTicket(ctx, h, ticket, func(ticket string, _ bool) error { return s.get(ctx, ticket, "/request", &q) })
}

// encoded returns an outcome as it is sent.
func encoded(out remote.Outcome) []byte {
	value, err := attempt.Encode(out)
	if err != nil {
		value, _ = attempt.Encode(remote.Outcome{Failed: attempt.Failed(err, verdict.PhaseCapture)}) // plain values
	}
	return value
}

// deliver sends the candidate of a job, if there is one, and offers its outcome. It
// reports whether the hub has answered.
func (s *session) deliver(ctx context.Context, h *held, ticket string, r result) bool {
	if c := r.Candidate; c != nil {
		if err := s.withTicket(ctx, h, &ticket, func(ticket string, retry bool) error { return s.put(ctx, ticket, *c, retry) }); err != nil {
			r.Value = encoded(remote.Outcome{Failed: attempt.Failed(err, verdict.PhaseCapture)})
		}
	}
	return ctx.Err() == nil && s.offer(ctx, h, ticket, r.Value)
}

// withTicket asks the hub with the ticket of a job until it answers; retry says that it is
// not the first time. A ticket that it does not know is claimed again.
func (s *session) withTicket(ctx context.Context, h *held, ticket *string, ask func(ticket string, retry bool) error) error {
	for retry := false; ; retry = true {
		err := ask(*ticket, retry)
		var refused errNo
		var here errHere
		switch {
		case err == nil, errors.As(err, &refused), errors.As(err, &here), errors.Is(err, candidate.ErrStore), errors.Is(err, candidate.ErrDamaged), ctx.Err() != nil:
			return err
		case errors.Is(err, errTicket):
			got, ok := s.claim(ctx, h)
			if !ok {
				h.cancel(errTaken)
				return errTaken
			}
			*ticket = got
		}
		if attended.Pause(ctx, again) != nil {
			return context.Cause(ctx)
		}
	}
}

// release lets go of what an attempt has here. What cannot be removed now is removed by
// the next start.
func (s *session) release(ctx context.Context, key record.AttemptKey) {
	ctx, stop := attended.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer stop()
	if err := s.site.Release(ctx, key); err != nil {
		s.Say(fmt.Sprintf("cleaning up: %v", err))
	}
}

// produce runs an agent. Of one that has ended, the capture alone is repeated: it must
// not run, or be paid, twice.
func (s *session) produce(ctx context.Context, c call, q remote.Request) (out remote.Outcome) {
	req := *q.Produce
	key := record.AttemptKey{Task: req.View.ID(), Attempt: req.Attempt}
	defer s.release(ctx, key)
	s.mu.Lock()
	s.calls[key] = &c
	s.mu.Unlock()
	defer s.forget(key)
	var used map[string]int64 // of an agent whose capture is repeated, which says so once
	for try := 0; ; try++ {
		p, err := s.site.Produce(ctx, req)
		if err == nil {
			p.Usage = record.SumUsage(used, p.Usage)
			out.Produced = &p
			return out
		}
		failed := failure(err, verdict.PhaseProduce)
		used = record.SumUsage(used, failed.Usage)
		failed.Usage = used
		if failed.Stands && try < s.retries && attended.Pause(ctx, again) == nil {
			continue
		}
		if failed.Stands { // another try would run the agent again
			failed.Stands, failed.Class = false, attempt.Final
		}
		out.Failed = failed
		return out
	}
}

// call is a job whose agent is at work, and the job's ticket, which may be renewed.
type call struct {
	*held
	ticket *string
}

// way returns the way of an attempt's agent to its provider, false if it has none.
func (s *session) way(key record.AttemptKey) (distant.Way, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ticket := ""
	if c := s.calls[key]; c != nil {
		ticket = c.relay
	}
	return distant.Way{Transport: s.relay, Base: s.base, Ticket: ticket}, ticket != ""
}

// forget forgets the job of an attempt's agent.
func (s *session) forget(key record.AttemptKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, key)
}

// failure returns the error of a call as a value.
func failure(err error, phase verdict.Phase) *attempt.Error {
	if failed, ok := errors.AsType[*attempt.Error](err); ok {
		return failed
	}
	return attempt.Failed(err, phase)
}

// verify scores a candidate.
func (s *session) verify(ctx context.Context, h *held, ticket *string, q remote.Request) (out remote.Outcome) {
	req := *q.Verify
	err := s.withTicket(ctx, h, ticket, func(ticket string, retry bool) error {
		came := h.came.Candidate
		if retry { // it is read
			came = nil
		}
		return s.fetch(ctx, ticket, came, req.Candidate, retry)
	})
	if err != nil {
		out.Failed = attempt.Failed(err, verdict.PhaseVerify)
		return out
	}
	defer s.shelf.letGo(req.Candidate.Digest)
	defer s.release(ctx, record.AttemptKey{Task: req.Case.Sandbox.ID(), Attempt: req.Case.Attempt})
	v, err := s.site.Verify(ctx, req)
	if err != nil {
		out.Failed = failure(err, verdict.PhaseVerify)
		return out
	}
	out.Verdict = &v
	return out
}

// complete finds out a row's whole reference.
func (s *session) complete(ctx context.Context, q remote.Request) (out remote.Outcome) {
	c, err := s.site.Complete(ctx, *q.Complete)
	if err != nil {
		out.Failed = failure(err, verdict.PhasePrepare)
		return out
	}
	out.Completed = &c
	return out
}

// offer sends the encoded outcome of a job until the hub has answered, and reports
// whether it has.
func (s *session) offer(ctx context.Context, h *held, ticket string, value []byte) bool {
	r := remote.Result{Nonce: h.Nonce, Grant: h.Grant, Value: value}
	if len(value) > remote.MaxInline {
		r.Value, r.Put = nil, digest.Bytes(value)
	}
	for {
		var err error
		if r.Put != "" {
			err = s.withTicket(ctx, h, &ticket, func(ticket string, _ bool) error { return s.putValue(ctx, ticket, value) })
		}
		var a remote.Answer
		if err == nil {
			err = s.ask(ctx, s.subject(remote.ResultKind, h.ID), r, &a)
		}
		if err == nil && a.State != remote.Later {
			if a.State == remote.Refused {
				s.Say("the hub refuses a result: " + a.Why)
			}
			return true
		}
		if attended.Pause(ctx, again) != nil {
			return false
		}
	}
}

// putValue sends a large value.
func (s *session) putValue(ctx context.Context, ticket string, value []byte) error {
	answer, err := s.request(ctx, http.MethodPut, ticket, "/value", bytes.NewReader(value))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer)
	return errors.Join(err, answer.Close())
}
