package evidence

import (
	"errors"
	"fmt"

	"securebench/internal/pipeline/record"
)

// captured checks the records of attempts that wait to be verified. Their files belong
// to the run, too.
func (c *check) captured() {
	if c.salt == nil {
		return
	}
	stored := func(sum string) error {
		_, err := inlined(c.fsys, sum)
		return err
	}
	n := 0
	err := record.EachCaptured(c.fsys, *c.salt, func(e record.Entry) {
		n++
		c.name(record.CapturedName)
		if c.Manifest.Judge != nil { // a resume asks no vote again
			c.name(record.AnswersName)
			c.name(record.SpentName)
		}
		for _, f := range e.Restricted {
			c.name(f.Path)
		}
		for _, sum := range e.Candidates() {
			if name, err := record.CandidatePath(sum); err == nil {
				c.name(name)
			}
		}
		err := e.Standing(c.fsys, *c.salt, stored)
		if m := c.Manifest; err == nil && (e.RunID != m.RunID || e.Agent != m.Agent || e.BenchmarkID != m.Pack.ID) {
			err = fmt.Errorf("it is of another run than %s", record.ManifestName)
		}
		if err != nil {
			c.problem(record.CapturedName, n, "%v", err)
		}
	})
	if errors.Is(err, record.ErrTorn) {
		c.name(record.CapturedName)
		c.Notes = append(c.Notes, err.Error())
	} else if err != nil {
		c.name(record.CapturedName)
		c.problem(record.CapturedName, 0, "%v", err)
	}
}
