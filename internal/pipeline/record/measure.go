package record

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"securebench/internal/verdict"
)

// What a record leaves out of the verdict on a candidate that did not pass is in a file
// of this name, a measure under this key.
const (
	WithheldName = "verdict.json"
	MeasureKey   = "measure"
)

// Withheld returns the restricted file with the measure of a candidate that did not
// pass, "" if there is none.
func (l *Line) Withheld() string {
	if l.Passed || !l.Verified || !verdict.IsMeasured(l.Labels) {
		return ""
	}
	i := slices.IndexFunc(l.Restricted, func(f RawFile) bool { return strings.HasSuffix(f.Path, "/verifier-"+WithheldName) })
	if i < 0 {
		return ""
	}
	return l.Restricted[i].Path
}

// ReadMeasure reads the measure in a file that [Line.Withheld] names, nil if it has none.
func ReadMeasure(fsys fs.FS, path string) (*verdict.Measure, error) {
	data, err := ReadFile(fsys, path, maxRaw)
	if err != nil {
		return nil, fmt.Errorf("reading a measure: %w", err)
	}
	var kept struct {
		Measure *verdict.Measure `json:"measure"`
	}
	if err := jsonv2.Unmarshal(data, &kept); err != nil {
		return nil, fmt.Errorf("reading a measure in %s: %w", path, err)
	}
	return kept.Measure, nil
}
