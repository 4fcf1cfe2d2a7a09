package reverify

import (
	"fmt"
	"slices"

	"securebench/internal/console"
	"securebench/internal/verdict"
)

// Causes says what, other than what the run says of its candidates, can be the reason why
// verdicts differ, and how to find out. It is never empty: where nothing explains them, it
// says that.
func (r *Review) Causes(diffs []Rederived) (out []string) {
	add := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	inOther := 0
	for _, d := range diffs {
		if r.otherImage[d.Image] {
			inOther++
		}
	}
	slow := slices.ContainsFunc(diffs, func(d Rederived) bool {
		return d.Is.Outcome == verdict.VerifierTimeout || d.Is.Outcome == verdict.Limit
	})
	add(r.Salt == nil, "the hidden part of this pack may be another than the run's: it was not compared, which needs the run's salt (ask its operator for restricted/salt, and give it with --salt)")
	add(r.otherBuild != "", "this program is another build than the run's: derive them with that one, %s", r.Result.Manifest.Version)
	add(inOther > 0, "%s in an image that is not the run's: get the images of the run, or build them as it did", console.Plural(inOther, "verdict"))
	add(r.otherName != "", "the run used another engine: give --engine %s", r.otherName)
	add(r.lowered || slow, "limits below the run's, or a slower machine: give --run-limits, or fewer --workers")
	add(len(out) == 0, "nothing that was compared explains it: pack, images, build, engine and limits are the run's")
	return out
}
