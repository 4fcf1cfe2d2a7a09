package viewer

import (
	"errors"
	"fmt"
	"io"

	"securebench/internal/evidence"
	"securebench/internal/transcript"
)

// perPart is how many attempts in full are kept together.
const perPart = 50

// textBudget bounds the texts of all attempts that are written, in bytes; a text has
// between minText and mostText.
const (
	textBudget = 40 << 20
	minText    = 512
	mostText   = 16 << 10
)

// textLimit is how long a text of an attempt may be among so many, in bytes.
func textLimit(attempts int) int {
	const texts = 3 // of an attempt that are long
	return min(max(textBudget/max(attempts, 1)/texts, minText), mostText)
}

// alone is the id of a run in a file of its own.
const alone = "run"

// WriteFile writes a run as one file, which can be opened from disk and published. It
// holds only what the records publish.
func (r *Run) WriteFile(w io.Writer, dir *evidence.Run, version string) error {
	values := map[string]any{}
	summary := r.summary
	summary.ID, summary.Path = alone, summary.RunID
	values["list"] = List{Runs: []Summary{summary}}
	values["run/"+alone] = r.pageOf(summary)
	from := transcript.Source{Limit: textLimit(len(r.Rows)), Brief: true, Apart: true}
	err := r.parts(dir, from, func(n int, part []transcript.Attempt) error {
		values[fmt.Sprintf("attempts/%s/%d", alone, n)] = part
		return nil
	})
	if err != nil {
		return err
	}
	data, err := encode(values)
	if err != nil {
		return err
	}
	s, err := inlined(alone, "securebench report: "+r.Page.View.Title, version, data)
	if err != nil {
		return err
	}
	return writeShell(w, s)
}

// pageOf is the page of the run with all rows.
func (r *Run) pageOf(summary Summary) RunPage {
	p := RunPage{Summary: summary, Page: r.Page}
	p.Rows, p.PerPart = r.Rows, perPart
	return p
}

// parts reads all attempts in full, some at a time.
func (r *Run) parts(dir *evidence.Run, from transcript.Source, each func(n int, part []transcript.Attempt) error) error {
	records, err := openRecords(dir)
	if err != nil {
		return err
	}
	var part []transcript.Attempt
	for i := range r.Rows {
		w, err := r.read(records, i, from)
		if err != nil {
			return errors.Join(err, records.Close())
		}
		part = append(part, w.Attempt)
		if len(part) == perPart || i+1 == len(r.Rows) {
			if err := each(i/perPart, part); err != nil {
				return errors.Join(err, records.Close())
			}
			part = nil
		}
	}
	return records.Close()
}
