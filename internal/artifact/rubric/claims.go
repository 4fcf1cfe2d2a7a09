package rubric

import (
	"securebench/internal/artifact"
	"securebench/internal/verdict"
)

// doubt looks for cells whose value is only the candidate's word: what is stored beside a
// formula is not what the formula yields, or the formula could not be calculated. One that
// could not be in the reference either is believed.
func doubt(got, want *artifact.Sheet, compared func(row, column int) bool) (Result, bool) {
	known := map[string]bool{}
	if want != nil {
		for _, c := range want.Cells {
			if c.Uncomputed {
				known[c.Formula] = true
			}
		}
	}
	var d differences
	for _, c := range got.Cells {
		if c.Formula == "" || !compared(c.Row, c.Column) {
			continue
		}
		at := artifact.CellName(c.Row, c.Column)
		switch {
		case c.Uncomputed && !known[c.Formula]:
			d.add("cell %s: its formula could not be calculated", at)
		case !c.Uncomputed && c.Stored != nil && !sameValue(*c.Stored, c.Value):
			d.add("cell %s: it stores %s and its formula yields %s", at, ofValue(*c.Stored), ofValue(c.Value))
		}
	}
	res := d.result()
	if !res.Pass {
		res.Reason = verdict.StoredValueDiffers
	}
	return res, !res.Pass
}

// sameValue reports whether a stored value is a calculated one. Whether a number is a date
// is a matter of its format.
func sameValue(stored, value artifact.Value) bool {
	a, b := ofValue(stored), ofValue(value)
	if a.kind == date {
		a.kind = number
	}
	if b.kind == date {
		b.kind = number
	}
	return leniency{}.equal(a, b)
}
