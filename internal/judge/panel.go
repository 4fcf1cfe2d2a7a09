package judge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// maxAsks is how often a vote is asked for, until its answer is one.
const maxAsks = 3

// Panel decides by votes of one model.
type Panel struct {
	Settings
	Asker Asker
	API   string
	// Labels are those of every verdict.
	Labels []string
	// Derive makes a secret of the run's salt, and Keyed a keyed digest of what a task
	// hides.
	Derive func(label string) [32]byte
	Keyed  func(task string, content []byte) string

	mu       sync.Mutex
	answered string // the model that answers
	// lost is what tries of decisions used that ended in an error, for answers that are
	// asked for again, by attempt.
	lost map[attemptKey]map[string]int64
}

// attemptKey names an attempt.
type attemptKey struct {
	task    string
	attempt int
}

// take returns what earlier tries of a decision used, once.
func (p *Panel) take(q Question) map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := attemptKey{q.Task, q.Attempt}
	used := p.lost[key]
	delete(p.lost, key)
	if used == nil {
		used = map[string]int64{}
	}
	return used
}

// lose keeps what a try of a decision used for nothing.
func (p *Panel) lose(q Question, used map[string]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost == nil {
		p.lost = map[attemptKey]map[string]int64{}
	}
	p.lost[attemptKey{q.Task, q.Attempt}] = used
}

var _ Judge = (*Panel)(nil)

// Answered returns the model that has answered, "" if none has.
func (p *Panel) Answered() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}

// Expect says which model has answered in an earlier part of the run.
func (p *Panel) Expect(model string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = model
}

// Exchange is a question and what came of it.
type Exchange struct {
	Vote     int    `json:"vote"`
	Ask      int    `json:"ask"`
	System   string `json:"system"`
	User     string `json:"user"`
	Text     string `json:"answer"`
	Model    string `json:"model"`
	Stop     string `json:"stop,omitzero"`
	Declined bool   `json:"declined,omitzero"`
	Tokens   int64  `json:"tokens"`
	// Void says why it is no vote.
	Void string `json:"void,omitzero"`
}

// Decide asks for all votes, one after the other.
func (p *Panel) Decide(ctx context.Context, q Question) (Decision, error) {
	if d, ok := unasked(q); ok {
		d.Labels = p.Labels
		return d, nil
	}
	s := sitting{panel: p, question: q, seed: p.Derive("judge\x00" + q.Task + "\x00" + strconv.Itoa(q.Attempt)),
		judgement: verdict.Judgement{API: p.API, Prompt: PromptVersion, Votes: []verdict.Vote{}}, usage: p.take(q)}
	s.void = maps.Clone(s.usage)
	for vote := range p.Votes {
		refused, err := s.vote(ctx, vote)
		if errors.Is(err, ErrSpent) {
			return s.decision(verdict.Pending, verdict.Budget, "the judge's budget is spent"), nil
		}
		if err != nil {
			p.lose(q, s.void)
			return Decision{}, err
		}
		if refused {
			return s.decision(verdict.Failed, verdict.JudgeRefused, "the judge gives no answer about this candidate, though it does about others"), nil
		}
	}
	return s.count(), nil
}

// sitting is a decision that is being made.
type sitting struct {
	panel     *Panel
	question  Question
	seed      [32]byte
	judgement verdict.Judgement
	usage     map[string]int64
	void      map[string]int64 // the part for answers that a retry asks for again
	exchanges []byte
	answers   []string // that were read, "" for none
}

// said is what an answer of a judge says: of each criterion, or which answer it read.
type said struct {
	met    []bool
	answer string
}

// passes reports whether a vote is for the candidate.
func (s *sitting) passes(ctx context.Context, v said) (bool, error) {
	if s.question.Right == nil {
		return s.question.Rubric.passes(v.met), nil
	}
	right := false
	if v.answer != "" {
		var err error
		if right, err = s.question.Right(ctx, v.answer); err != nil {
			return false, fmt.Errorf("comparing the answer that the judge read: %w", err)
		}
	}
	s.answers = append(s.answers, v.answer)
	return right, nil
}

// vote asks for one vote. It reports whether the judge refuses this candidate.
func (s *sitting) vote(ctx context.Context, vote int) (refused bool, err error) {
	for again := range maxAsks {
		v, last, err := s.exchange(ctx, s.question, vote, again)
		if err == nil {
			last.Asked, last.Met = again+1, v.met
			if last.Passed, err = s.passes(ctx, v); err != nil {
				return false, err
			}
			if last.Passed {
				s.judgement.Passed++
			}
			s.judgement.Votes = append(s.judgement.Votes, last)
			return false, nil
		}
		if !errors.Is(err, errVoid) {
			return false, err
		}
	}
	// Who is at fault shows a question to which any judge has the answer.
	control := controlQuestion(s.question)
	if _, _, err := s.exchange(ctx, control, vote, maxAsks); err != nil {
		if errors.Is(err, errVoid) {
			return false, fmt.Errorf("the judge gives no answer that can be read, also about a plain text: %w", err)
		}
		return false, fmt.Errorf("asking the judge about a plain text, after no answer about a candidate: %w", err)
	}
	return true, nil
}

// controlQuestion is one to which any judge has the answer.
func controlQuestion(of Question) Question {
	return Question{Task: of.Task, Attempt: of.Attempt, Asked: "What is two plus two?", Candidate: "Two plus two is four.",
		Rubric: Rubric{Criteria: []Criterion{{ID: soleID, Text: "The answer says four."}}, Pass: 1}}
}

// exchange asks a question once, and keeps what came of it. An error wraps errVoid if the
// answer is none.
func (s *sitting) exchange(ctx context.Context, q Question, vote, again int) (said, verdict.Vote, error) {
	p, err := ask(q, s.seed, vote, again)
	if err != nil {
		return said{}, verdict.Vote{}, err
	}
	p.Counts = func(r Reply) bool {
		_, void := readReply(r, q)
		return void == nil && s.panel.same(r.Model) == nil
	}
	reply, err := s.reply(ctx, p)
	if err != nil {
		return said{}, verdict.Vote{}, err
	}
	tokens := reply.Usage["input_tokens"] + reply.Usage["output_tokens"]
	v, void := readReply(reply, q)
	x := Exchange{Vote: vote, Ask: again, System: p.System, User: p.User, Text: reply.Text, Model: reply.Model, Stop: reply.Stop, Declined: reply.Declined, Tokens: tokens}
	if void != nil {
		x.Void = void.Error()
		add(s.void, reply.Usage)
	}
	line, err := json.Marshal(x, json.Deterministic(true))
	if err != nil {
		return said{}, verdict.Vote{}, fmt.Errorf("keeping an exchange with the judge: %w", err)
	}
	s.exchanges = append(append(s.exchanges, redact.ASCII(line)...), '\n')
	return v, verdict.Vote{Stop: reply.Stop, Tokens: tokens, Prompt: s.panel.promptDigest(q.Task, p)}, void
}

// promptDigest is the keyed digest of a question.
func (p *Panel) promptDigest(task string, asked paper) string {
	return p.Keyed(task, []byte(asked.System+"\x00"+asked.User+"\x00"+string(asked.Schema)))
}

// add adds a usage to a sum.
func add(sum, used map[string]int64) {
	for name, n := range used {
		sum[name] += n
	}
}

// reply asks, and counts what that used.
func (s *sitting) reply(ctx context.Context, p paper) (Reply, error) {
	r, err := s.panel.Asker.Ask(ctx, p.Request)
	add(s.usage, r.Usage)
	if err != nil {
		add(s.void, r.Usage)
		return r, err
	}
	if len(r.Text) > maxAnswer+8 { // which is void, and is not kept whole
		r.Text = strings.ToValidUTF8(r.Text[:maxAnswer+8], "?")
	}
	if r.Model == "" && (r.Declined || r.Text == "") { // the provider answers, no model did
		return r, nil
	}
	s.judgement.Model = r.Model
	return r, s.panel.same(r.Model)
}

// same refuses an answer of another model than those before.
func (p *Panel) same(model string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answered == "" {
		p.answered = model
	}
	if model != p.answered {
		return fmt.Errorf("%w: %s, and before it was %s", ErrChanged, redact.Quote(model), redact.Quote(p.answered))
	}
	return nil
}

// readReply reads a reply to a question.
func readReply(r Reply, q Question) (v said, err error) {
	switch {
	case r.Declined:
		return v, fmt.Errorf("%w: the judge declines to answer", errVoid)
	case verdict.CutOff(r.Stop):
		return v, fmt.Errorf("%w: it was cut off", errVoid)
	case q.Right != nil:
		v.answer, err = readReading(r.Text, q.Candidate)
	default:
		v.met, err = readAnswer(r.Text, q.Candidate, q.Rubric)
	}
	return v, err
}

// count decides from the votes.
func (s *sitting) count() Decision {
	n, of := s.judgement.Passed, len(s.judgement.Votes)
	need := of/2 + 1
	if s.panel.Unanimous {
		need = of
	}
	switch {
	case n >= need:
		return s.decision(verdict.Passed, "", "")
	case s.panel.Unanimous && n > 0:
		return s.decision(verdict.Failed, verdict.JudgeInconsistent, "the judge's votes contradict each other")
	}
	return s.decision(verdict.Failed, verdict.WrongAnswer, s.lacking())
}

// lacking says what a candidate that fails lacks.
func (s *sitting) lacking() string {
	switch {
	case s.question.Right == nil:
		return "the judge does not find the rubric met"
	case s.answer(false) == "":
		return "the judge reads no answer in the text"
	}
	return "the answer that the judge reads in the text is not the expected one"
}

// answer returns what was read, by the first vote that is for a candidate that passes, and
// by the first that read one of another. It is "" unless most votes read one.
func (s *sitting) answer(passed bool) (first string) {
	read := 0
	for i, a := range s.answers {
		if a == "" {
			continue
		}
		if first == "" && (!passed || s.judgement.Votes[i].Passed) {
			first = a
		}
		read++
	}
	if 2*read <= len(s.answers) {
		return ""
	}
	return first
}

// decision is a decision with all that led to it.
func (s *sitting) decision(o verdict.Outcome, reason verdict.Reason, message string) Decision {
	d := Decision{Outcome: o, Reason: reason, Message: message, Labels: s.panel.Labels, Usage: maps.Clone(s.usage), Exchanges: s.exchanges}
	if o != verdict.Pending {
		d.Answer = s.answer(o == verdict.Passed)
	}
	j := s.judgement
	if cost, ok := s.usage["cost_microusd"]; ok {
		j.Cost = &cost
	}
	if len(s.exchanges) > 0 {
		d.Judgement = &j
	}
	return d
}
