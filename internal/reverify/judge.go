package reverify

import (
	"errors"
	"io/fs"

	"securebench/internal/judge"
	"securebench/internal/pipeline/record"
	"securebench/internal/scoring"
	"securebench/internal/verdict"
)

// judgeAgain makes the judge of the run decide again, from its recorded answers unless it is
// asked anew: each question is worded anew from the pack, the candidate and the salt.
func (r *Review) judgeAgain(s *scoring.Scorer) {
	about := r.Result.Manifest.Judge
	switch {
	case about == nil:
		return
	case r.Again != nil:
		s.Judge = r.Again
	case r.Salt == nil:
		r.Notice("verdicts of the judge cannot be derived from a published copy: it has neither the run's salt nor what the judge answered")
		return
	default:
		panel := about.Panel(judge.Recorded{Read: r.exchanges}, *r.Salt)
		panel.Expect(about.Answered)
		s.Judge = panel
	}
	r.Work.Families = r.Work.Families.WithJudge(func() (verdict.Reason, string) { return "", "" })
	s.MakeVerifiers(r.Work.Families, "reverify", r.Config, s.Workers)
}

// judgeable reports whether what decided about a record is there: of a judge, the salt and
// what it answered, if it was asked.
func (r *Review) judgeable(rec recorded) bool {
	if rec.basis != verdict.Judged || r.Result.Manifest.Judge == nil || r.Again != nil {
		return true
	}
	if r.Salt == nil {
		return false
	}
	_, err := fs.Stat(r.Run, rec.exchanges)
	return rec.verdict.Judge == "" || err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid)
}

// exchanges reads what a judge was asked and answered about an attempt.
func (r *Review) exchanges(task string, attempt int) ([]byte, error) {
	for _, recs := range r.Records.byRow {
		for _, rec := range recs {
			if rec.taskID == task && rec.attempt == attempt && rec.exchanges != "" {
				return record.ReadFile(r.Run, rec.exchanges, record.MaxExchanges)
			}
		}
	}
	return nil, fs.ErrNotExist
}

// unanswered is the outcome of a verdict that the recorded answers of a judge do not give.
const unanswered verdict.Outcome = "no_such_vote"

// isUnanswered reports whether an error is of the recorded answers.
func isUnanswered(err error) bool {
	return errors.Is(err, judge.ErrNoAnswer) || errors.Is(err, judge.ErrChanged)
}
