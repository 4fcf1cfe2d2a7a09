// Package family defines the contract between a benchmark family and the rest
// of securebench: row schema, lanes, the form of the candidate, and the
// verifier that scores it. Each family is one package below this one and one
// line in the registry; no other code depends on a family's name.
package family

import (
	"context"
	"io/fs"
	"sort"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/capacity"
	"securebench/internal/checkout"
	"securebench/internal/fault"
	"securebench/internal/judge"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// Family describes one benchmark family.
type Family struct {
	Name string
	// InputSchema and EvalSchema are JSON Schemas (draft 2020-12) of a row's
	// input and eval objects; nil accepts anything.
	InputSchema, EvalSchema []byte
	// Check applies the rules that a schema cannot express; nil means none.
	Check func(Row) []Problem
	// Doubts finds what is probably a mistake of a row that keeps all rules, and is
	// a warning; nil means none.
	Doubts func(Row) []Problem
	// Inspect looks into a row's public files for what is probably a mistake, which only
	// pack check does; nil means none.
	Inspect func(Row) []Problem
	// Lanes maps eval keys to lanes; a key without an entry is hidden.
	Lanes map[string]task.Lane
	// Quotes are the eval keys whose hidden texts come from the public values, such as
	// names of tools and what a request says: that they occur there gives nothing away.
	Quotes []string
	// EvalFiles are the paths of strings inside eval, or in the objects of a list there,
	// that name files below the pack's evaluation root, such as {"checker", "path"}.
	EvalFiles [][]string
	// Checkers are the eval keys whose texts, and the files that these name,
	// decide on a candidate tree. [packlint.Check] reads them.
	Checkers []string
	// Checkout returns the repository in the row's image that the agent
	// changes; nil means that rows have none.
	Checkout func(Row) task.Checkout
	// Captured returns which files make up a candidate tree; nil means the
	// workspace of every row.
	Captured func(Row) task.Captured
	// Extraction is the default way to take the candidate.
	Extraction task.Extraction
	// Instruction describes to an agent what to submit.
	Instruction string
	// Submission returns both for a row; nil means that all rows have those above.
	Submission func(Row) (task.Extraction, string)
	// Presentations returns the ways in which the agent is given a task; one that is nil is
	// known to the family and not made in this attempt. The agent says one text to each,
	// without knowing of the others, and [candidate.JoinTexts] makes the candidate of them.
	// Nil means that there is one, the task itself, whose candidate is no list.
	Presentations func(task.AgentView, Case) []*task.AgentView
	// TimeLimit returns the row's own time limit for a verification; 0 means
	// none. The smaller of it and the operator's applies. Nil means that rows
	// have no such limit.
	TimeLimit func(task.SandboxView) time.Duration
	// NeedsImage is set when verification runs in the row's image.
	NeedsImage bool
	// NeedsEngine is set when verification needs sandboxes, though not the row's image.
	NeedsEngine bool
	// Boxed reports whether a row's verification runs in the row's image although
	// NeedsImage is false; nil means that none does.
	Boxed func(task.EvaluatorView) bool
	// BoxedBy is an evaluation input with which a row's verification runs there as well;
	// "" is none.
	BoxedBy string
	// MathVerify reports whether a row's verification uses [Resources.MathVerify]; nil
	// means that none does.
	MathVerify func(task.EvaluatorView) bool
	// Images names the images that a row's verification needs besides the
	// row's own; nil means none.
	Images func(task.SandboxView) []string
	// Footprint returns what a row's verification has on the engine at the same
	// time, at most; nil means nothing.
	Footprint func(task.SandboxView) capacity.Footprint
	// Kept is what the verifier keeps there between rows, for each of
	// [Resources.Workers], once one of the rows runs in its image.
	Kept capacity.Footprint
	// Once is what it keeps there beside that, however many those are.
	Once capacity.Footprint
	// VerifySeconds is the default time limit of a verification.
	VerifySeconds int
	// Reference returns the row's own solution, for the oracle agent and for
	// validation; nil or false if there is none.
	Reference func(task.EvaluatorView) (Solution, bool)
	// Starter returns the content from which the agent starts, which must not
	// pass; nil or false if there is none.
	Starter func(task.AgentView) (candidate.Candidate, bool)
	// Garbage returns an answer that must fail, for a row that a meaningless word passes
	// because it asks for nothing else; nil or false means that no row does.
	Garbage func(task.EvaluatorView) (string, bool)
	// Baselines are the answers that validation tries on every row. Only
	// a family whose verification needs no sandbox has them.
	Baselines []Baseline
	// Chance returns the probability that a guess passes a row; nil or false
	// if the number of possible answers is unknown.
	Chance func(task.EvaluatorView) (float64, bool)
	// Pending returns why a row is not scored although its family has a
	// verifier: a reason and one line. An empty reason means that the row is
	// scored. The agent is not run for a pending row. Nil means that all rows
	// are scored.
	Pending func(task.SandboxView, task.EvaluatorView) (verdict.Reason, string)
	// Judged reports whether a row asks for a judge. What comes of its attempts is
	// [verdict.Judged], also where none was asked in the end: which rows a rate is about
	// does not depend on the answers. Nil means that no row does. Without
	// a judge such a row stays pending, and its agent is not run.
	Judged func(task.EvaluatorView) bool
	// JudgeReads reports whether a judge reads the answer of a candidate that states none by
	// the row's rule. Such a row is computed: to its rate such a candidate states nothing,
	// whatever the judge reads, and without a judge that is all. Nil means that no row does.
	JudgeReads func(task.EvaluatorView) bool
	// Canaries returns what a judge is tried with before it is trusted with rows like
	// this one; nil or false if the row has nothing of the kind.
	Canaries func(task.EvaluatorView) (judge.Specimen, bool)
	// Decisions is how often a judge decides about a candidate of a row that it decides; 0 is
	// once.
	Decisions int
	// PublicMetadata lists the keys of a verdict's metadata that a record
	// shows whatever the outcome. The others may reveal how close a candidate
	// came to a hidden value, and with enough failures the value itself: they
	// are published only for a pass.
	PublicMetadata []string
	// NewVerifier returns the family's verifier; nil means that tasks stay
	// pending with reason no_verifier.
	NewVerifier func(Resources) Verifier

	ready func() (verdict.Reason, string) // of the run's judge; nil without one
}

// FileMark marks the parts of a family's schemas that are long texts. In place of such a text
// a row may name a file below the lane's root, and where the mark is [FolderMark], also a
// folder, which stands for an object of its files' texts. Families see the texts.
const FileMark = "x-file"

// FolderMark is the value of [FileMark] for texts that may be a folder.
const FolderMark = "folder"

// Row is the part of a row that a family checks.
type Row struct {
	ID          string
	Input, Eval map[string]jsontext.Value
	Environment map[string]jsontext.Value // with the manifest's defaults
	// Assets is the list of public files as the row writes it, nil without any.
	Assets jsontext.Value
	// Public has the files; nil where only the row is looked at.
	Public fs.FS
}

// Problem is a violation of one of the family's rules. Path is the place of
// the value in the row, such as {"eval", "answer"}.
type Problem struct {
	Path    []string
	Message string
	Fix     string
}

// Registry maps names to families.
type Registry map[string]Family

// NewRegistry returns a registry of fs.
func NewRegistry(fs ...Family) Registry {
	r := make(Registry, len(fs))
	for _, f := range fs {
		r[f.Name] = f
	}
	return r
}

// Names returns the names of the families in alphabetical order.
func (r Registry) Names() []string {
	out := make([]string, 0, len(r))
	for n := range r {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// Solution is a row's own solution: a candidate, or a program that makes one
// in the agent's sandbox.
type Solution struct {
	Candidate candidate.Candidate
	// Command is the argv of the program; nil means that the candidate is the
	// solution. A family whose solutions are programs needs an image.
	Command []string
	// Path names the file or folder, below the pack's evaluation root, that the
	// program needs. While that runs, the file is in [harness.ProgramDir], or
	// the content of the folder is; "" is none.
	Path string
	// Files makes the solution a tree: the files of the workspace by their paths there,
	// each a path below the pack's evaluation root.
	Files map[string]string
}

// Solve returns a solution that consists of a candidate.
func Solve(kind task.CandidateKind, text string) Solution {
	return Solution{Candidate: candidate.New(kind, candidate.Given, []byte(text))}
}

// DiskSampled labels records of sandboxes that could write their whole root,
// whose size was not bounded but sampled: an agent's or a verifier's.
const DiskSampled = "disk_sampled"

// Verdict is what a verifier decided. The zero value is a failure. It can be
// encoded.
type Verdict struct {
	Outcome verdict.Outcome `json:"outcome"`         // Passed, Failed, Limit, VerifierTimeout, Tampering or Pending
	Reason  verdict.Reason  `json:"reason,omitzero"` // "" when passed
	// Message is one line in securebench's own words. It contains nothing of
	// the candidate and no hidden value.
	Message     string              `json:"message,omitzero"`
	Phase       verdict.Phase       `json:"phase,omitzero"` // for the record's failure_phase and metadata
	Containment verdict.Containment `json:"containment"`
	// Basis is Judged for a row that asks for a judge ([Family.Judged]).
	Basis  verdict.Basis `json:"basis,omitzero"`
	Labels []string      `json:"labels,omitzero"` // for the record, e.g. "heuristic"
	// Metadata becomes verifier_metadata, in part where the candidate did not
	// pass (see [Family.PublicMetadata]); the caller sets "verifier".
	Metadata verdict.Metadata `json:"metadata,omitzero"`
	// Measure is how good the candidate is, nil where nothing measures that. A record shows
	// that of a pass; any other may tell how near a candidate came to a hidden value.
	Measure *verdict.Measure `json:"measure,omitzero"`
	// Extraction names how the answer was extracted from the candidate; ""
	// means that all of it was used.
	Extraction string `json:"extraction,omitzero"`
	// Extracted is what was extracted, if that is not the whole candidate. It
	// is published.
	Extracted []byte `json:"extracted,omitzero"`
	// Waited is how long Verify waited for sandboxes.
	Waited time.Duration `json:"waited_ns,omitzero"`
	// Judge is the decision of a judge that this verdict follows from, nil without one.
	Judge *judge.Decision `json:"judge,omitzero"`
	// Restricted holds raw output by file name; it is never published.
	Restricted map[string][]byte `json:"restricted,omitzero"`
}

// Score returns 1 for a pass and 0 otherwise.
func (v Verdict) Score() float64 {
	if v.Outcome == verdict.Passed {
		return 1
	}
	return 0
}

// Resources are what a verifier may use.
type Resources struct {
	Engine sandbox.Engine
	RunID  string
	// Workers is the number of verifications that run in parallel; it bounds
	// what a verifier keeps warm. 0 means 1.
	Workers int
	// Files are the pack's files, for test sandboxes.
	Files Files
	// Image returns an image that rows name, by reference.
	Image func(ref string) (sandbox.Image, bool)
	// Commands says which dangerous commands checkers may use.
	Commands Commands
	// MathVerify returns the read-only tree of Python's library for comparing
	// mathematical expressions, which is fetched when it is first needed; nil without
	// an engine.
	MathVerify func(context.Context) (sandbox.Overlay, error)
	// Checkouts prepares the repositories of images; nil without an engine.
	Checkouts *checkout.Keeper
	// Judge decides rubrics in words; nil if none is configured.
	Judge judge.Judge
}

// Case describes one attempt to verify, without its candidate. It can be
// encoded.
type Case struct {
	Attempt   int                `json:"attempt"`
	Sandbox   task.SandboxView   `json:"sandbox"`
	Evaluator task.EvaluatorView `json:"evaluator"`
	Image     sandbox.Image      `json:"image"`  // the row's, resolved; zero when it has none
	Limits    sandbox.Limits     `json:"limits"` // Timeout is the limit of the verification
	// Seed is a secret of this attempt, derived from the run's salt, which
	// stays in the parent process.
	Seed [32]byte `json:"seed"`
	// Lazy delays the creation of sandboxes until Verify needs them, for
	// candidates that are likely to need none.
	Lazy bool `json:"lazy,omitzero"`
}

// Verifier scores the candidates of one family. It is safe for concurrent
// use and owns what it keeps warm between cases.
type Verifier interface {
	// Open starts a verification before its candidate exists, so that
	// sandboxes can be created while the agent works. It does not block.
	Open(ctx context.Context, c Case) Session
	// Close releases what is kept warm. All sessions must be closed.
	Close(ctx context.Context) error
}

// Completer is a [Verifier] whose rows may have a reference that is only part
// of a candidate, such as a function's body that continues the prompt.
type Completer interface {
	// Complete returns the reference as a complete candidate, or false for a
	// row without one.
	Complete(ctx context.Context, c Case) (candidate.Candidate, bool, error)
}

// Twin is a wrong candidate that weak tests accept.
type Twin struct {
	What      string // what is wrong with it, in one phrase
	Advice    string // what its author should change in the tests, in one phrase
	Candidate candidate.Candidate
}

// Twinner is a [Verifier] that can produce [Twin] candidates for the
// weaknesses of its family's tests.
type Twinner interface {
	// Twins returns the twins of a row's reference; some rows have none.
	Twins(ctx context.Context, c Case) ([]Twin, error)
}

// Critic is a [Verifier] that tries by itself what weak rules accept.
type Critic interface {
	// Weaknesses says in one line each with what a wrong candidate passes, and what the
	// row's author should change.
	Weaknesses(ctx context.Context, c Case) ([]string, error)
}

// Explainer is a [Verifier] that can say more about why a row's own solution did
// not pass than the verdict does: the author of the row may see all of it.
type Explainer interface {
	// Explain returns lines about the verdict on the row's own solution.
	Explain(ctx context.Context, c Case, v Verdict) ([]string, error)
}

// Alternative is another way to score a row than the one that it asks for.
type Alternative struct {
	Verifier Verifier
	// Advice says what the author should change if the row's own solution passes
	// by it, in one phrase.
	Advice string
}

// Alternator is a [Verifier] whose rows can be scored in several ways.
type Alternator interface {
	// Alternatives returns what is worth trying for a row whose own solution
	// passed, or did not, as the row is.
	Alternatives(c Case, passed bool) []Alternative
}

// Session is one verification.
type Session interface {
	// Verify scores the candidate; it may be called once. An error means
	// that the engine or this process failed and the attempt can be retried.
	Verify(ctx context.Context, c candidate.Candidate) (Verdict, error)
	// Close releases the session's sandboxes. It is idempotent.
	Close(ctx context.Context) error
}

// Verify has a session score a candidate. A panic is an error of this verification.
func Verify(ctx context.Context, s Session, c candidate.Candidate) (v Verdict, err error) {
	defer fault.Recover(&err)
	return s.Verify(ctx, c)
}

// RunsIn reports whether the verification of a task runs in the image of its row.
func (f Family) RunsIn(t task.Task) bool {
	if f.BoxedBy != "" {
		if _, ok := t.TestSandbox().Get(f.BoxedBy); ok {
			return true
		}
	}
	return f.NeedsImage || f.Boxed != nil && f.Boxed(t.Evaluator())
}

// Basis says what decides on the candidates of a row.
func (f Family) Basis(v task.EvaluatorView) verdict.Basis {
	if f.Judged != nil && f.Judged(v) {
		return verdict.Judged
	}
	return verdict.Computed
}

// AsksJudge reports whether a judge may be asked about the candidates of a row.
func (f Family) AsksJudge(v task.EvaluatorView) bool {
	return f.Basis(v) == verdict.Judged || f.JudgeReads != nil && f.JudgeReads(v)
}

// VerifyLimit returns the time limit of a verification: the smaller of the
// row's and the operator's limits, or the family's default if neither is set.
// An operator's limit of 0 means none.
func (f Family) VerifyLimit(v task.SandboxView, operator time.Duration) time.Duration {
	row := time.Duration(0)
	if f.TimeLimit != nil {
		row = f.TimeLimit(v)
	}
	switch {
	case row > 0 && operator > 0:
		return min(row, operator)
	case row > 0 || operator > 0:
		return max(row, operator)
	}
	return time.Duration(f.VerifySeconds) * time.Second
}

// Seconds reads a number of seconds at key in a resource's object; it returns
// 0 if there is none. Schemas check the range.
func Seconds(r task.Resource, key string) time.Duration {
	var fields map[string]jsontext.Value
	var seconds float64
	if json.Unmarshal(r.Value, &fields) != nil || json.Unmarshal(fields[key], &seconds) != nil {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}
