package result

import (
	"errors"
	"slices"

	"securebench/internal/lazyregexp"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/remote"
	"securebench/internal/verdict"
)

// MaxSaid bounds what a result has beside files and texts of candidates, in bytes: it
// becomes a part of a record.
const MaxSaid = 1 << 20

// fileName is a name that a file for the operator may have.
var fileName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// sound returns an error for a result that no call returns, however well it is encoded: a
// record could not be made of it. Excerpts of streams are bounded and escaped again.
func sound(out *remote.Outcome) error {
	said := *out
	var files []map[string][]byte
	switch {
	case out.Produced != nil:
		p := *out.Produced
		files = append(files, p.Raw)
		p.Stdout, _ = redact.EscapedExcerpt([]byte(p.Stdout), record.ExcerptLimit)
		p.Stderr, _ = redact.EscapedExcerpt([]byte(p.Stderr), record.ExcerptLimit)
		out.Produced.Stdout, out.Produced.Stderr = p.Stdout, p.Stderr
		p.Raw = nil
		said.Produced = &p
	case out.Verdict != nil:
		v := *out.Verdict
		if !slices.Contains([]verdict.Outcome{verdict.Passed, verdict.Failed, verdict.Limit, verdict.VerifierTimeout, verdict.Tampering, verdict.Pending}, v.Outcome) {
			return errors.New("its verdict is none")
		}
		files = append(files, v.Restricted)
		v.Restricted, v.Extracted = nil, nil
		said.Verdict = &v
	case out.Failed != nil:
		e := *out.Failed
		files = append(files, e.Raw)
		e.Raw = nil
		said.Failed = &e
	case out.Completed != nil:
		c := *out.Completed
		c.Data = nil
		said.Completed = &c
	}
	for _, raw := range files {
		for name := range raw {
			if !fileName.MatchString(name) {
				return errors.New("its result has a file with a name that none has")
			}
		}
	}
	b, err := attempt.Encode(said)
	if err != nil || len(b) > MaxSaid {
		return errors.New("its result is larger than any")
	}
	return nil
}
