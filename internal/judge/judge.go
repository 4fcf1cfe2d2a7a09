// Package judge decides whether a text meets a rubric, or reads the answer that it states,
// by asking a model, in this process: what it is asked, how an answer is read, and what
// follows from several. It knows no provider ([Asker] does) and keeps the rest of
// verification apart from them.
//
// A model's answer is untrusted, and so is the candidate in the question. The judge says
// of each criterion whether it is met and quotes where; whether the candidate passes is
// decided here, as it is by the row's rule where it only reads. Whatever goes
// wrong is no pass.
package judge

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/verdict"
)

// Judge decides about candidates. It is safe for concurrent use.
type Judge interface {
	// Decide decides about one candidate. An error means that the judge could not be
	// asked, which says nothing about the candidate.
	Decide(ctx context.Context, q Question) (Decision, error)
}

// Question is what a judge decides.
type Question struct {
	Task      string
	Attempt   int    // from 1
	Asked     string // what the candidate answers: the row's public part
	Rubric    Rubric
	Reference string // "" is none
	Candidate string
	// Right makes the judge read the answer that the candidate states, where a rubric would
	// be decided, and reports whether an answer that it read is right. The judge learns
	// nothing of it. Nil is a rubric.
	Right func(ctx context.Context, answer string) (bool, error)
}

// Decision is what follows from a judge's votes. It can be encoded.
type Decision struct {
	Outcome verdict.Outcome `json:"outcome"`         // Passed, Failed or Pending
	Reason  verdict.Reason  `json:"reason,omitzero"` // "" when passed
	// Message is one line in our own words, without a hidden value.
	Message string   `json:"message,omitzero"`
	Labels  []string `json:"labels,omitzero"` // of the verdict
	// Answer is what the judge read in a candidate, "" for none.
	Answer string `json:"answer,omitzero"`
	// Judgement is nil if no vote was needed.
	Judgement *verdict.Judgement `json:"judgement,omitzero"`
	// Usage is what the votes used, by the names of a record's usage.
	Usage map[string]int64 `json:"usage,omitzero"`
	// Exchanges has every question and answer, a JSON line each. It holds hidden values.
	Exchanges []byte `json:"exchanges,omitzero"`
}

// Specimen is a row that a judge can be tried on.
type Specimen struct {
	Question            // without a candidate
	Pass, Fail []string // candidates that must come out so; the first is the reference
	// Answer is a right one of a row in whose candidates a judge reads the answer, "" of any
	// other row; and Other a wrong one, "" if it is not known.
	Answer, Other string
}

// Settings say how votes are counted.
type Settings struct {
	Votes     int  // odd
	Unanimous bool // or else the majority decides
	// Unchecked says that the judge is not tried on the pack before it is trusted.
	Unchecked bool
}

// How votes are counted.
const (
	Majority  = "majority"
	Unanimous = "unanimous"
)

// The bounds of [Settings.Votes].
const (
	DefaultVotes = 3
	MaxVotes     = 9
)

// Request is one question to the judge's model.
type Request struct {
	Task    string
	Attempt int
	Vote    int // from 0
	System  string
	User    string
	Form    string         // the name of Schema
	Schema  jsontext.Value // of the answer
	// Counts reports whether a reply need not be asked for again; nil is always.
	Counts func(Reply) bool
}

// Reply is what came of a request.
type Reply struct {
	Text     string
	Model    string // that answered, as its provider names it
	Stop     string
	Declined bool             // the model, or a filter of its provider, refuses
	Usage    map[string]int64 // by the names of a record's usage
}

// Asker asks a judge's model. Its error means that there is no answer, and wraps
// [ErrSpent] if none may be paid for.
type Asker interface {
	Ask(ctx context.Context, r Request) (Reply, error)
}

// The errors of judges.
var (
	// ErrSpent is wrapped if the judge's budget has no request left.
	ErrSpent = errors.New("the judge's budget is spent")
	// ErrChanged is wrapped if another model answers than the one that has judged before.
	ErrChanged = errors.New("another model answers for the judge")
)

// UsagePrefix begins the names, in a record's usage, of what a judge used: it is apart
// from the agent's.
const UsagePrefix = "judge_"

// Prefixed returns a judge's usage by those names.
func Prefixed(usage map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for name, n := range usage {
		out[UsagePrefix+name] = n
	}
	return out
}
