package textmatch

import (
	"context"
	"errors"
	"unicode/utf8"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// A Scorer decides about candidates of one row.
type Scorer interface {
	// Score decides about a candidate as it was captured: valid UTF-8 of any content. Cut
	// says that it was cut off, because it had reached its most tokens. One goroutine at a
	// time calls it. Its error means that the engine or this process failed and the attempt
	// can be retried.
	Score(ctx context.Context, candidate string, cut bool) (family.Verdict, error)
}

// A Listener is a [Scorer] that tells which candidates state no answer by its rule, so
// that a judge may read what they state.
type Listener interface {
	Scorer
	Silent(candidate string) bool
}

// NewVerifier makes the verifier of a text family: read turns a row into its scorer, once
// for every session. Its error means that the row cannot be scored, which a family's Check
// should have refused. What the scorers keep warm between sessions is closed with the
// verifier.
func NewVerifier(read func(family.Case) (Scorer, error), kept ...func(context.Context) error) family.Verifier {
	return verifier{read, kept}
}

type verifier struct {
	read func(family.Case) (Scorer, error)
	kept []func(context.Context) error
}

// Open reads the row. An error is kept for Verify.
func (v verifier) Open(_ context.Context, c family.Case) family.Session {
	s, err := v.read(c)
	return session{s, err}
}

// Close releases what is kept between sessions.
func (v verifier) Close(ctx context.Context) error {
	var errs []error
	for _, release := range v.kept {
		errs = append(errs, release(ctx))
	}
	return errors.Join(errs...)
}

type session struct {
	scorer Scorer
	err    error
}

// Verify scores the candidate in this process; its code is never run.
func (s session) Verify(ctx context.Context, c candidate.Candidate) (family.Verdict, error) {
	if s.err != nil {
		// What is wrong may be a hidden value.
		return family.Verdict{Outcome: verdict.Pending, Reason: verdict.PackFault, Message: "the row cannot be scored",
			Containment: verdict.Passive, Restricted: map[string][]byte{"row.txt": []byte(s.err.Error())}}, nil
	}
	if err := context.Cause(ctx); err != nil {
		return family.Verdict{}, err
	}
	data, err := c.Bytes()
	if err != nil {
		return family.Verdict{}, err
	}
	if !utf8.Valid(data) {
		return Fail(verdict.InvalidUTF8, "the candidate is not valid UTF-8", nil), nil
	}
	return s.scorer.Score(ctx, string(data), c.CutOff)
}

// Close does nothing: a session holds no resources.
func (session) Close(context.Context) error { return nil }

// TextOf returns a value of a row that is a text, "" for any other and none.
func TextOf(v task.EvaluatorView, name string) string {
	r, _ := v.Get(name)
	text, _ := r.Text()
	return text
}

// Pass is the verdict of a right answer.
func Pass(metadata map[string]any) family.Verdict {
	return family.Verdict{Outcome: verdict.Passed, Containment: verdict.Passive, Metadata: verdict.NewMetadata(metadata)}
}

// Fail is the verdict of an answer that does not pass. The message is in the
// securebench's words alone.
func Fail(reason verdict.Reason, message string, metadata map[string]any) family.Verdict {
	return family.Verdict{
		Outcome: verdict.Failed, Reason: reason, Message: message,
		Containment: verdict.Passive, Metadata: verdict.NewMetadata(metadata),
	}
}
