package compile

import (
	"context"
	"fmt"
	"slices"

	"securebench/internal/pipeline/pack"
	"securebench/internal/source"
)

// Inspect lets families look into the public files of their rows for what is probably a
// mistake.
func (l *Loaded) Inspect(ctx context.Context) (found source.Problems, err error) {
	files, err := l.OpenPublic()
	if err != nil {
		return nil, err
	}
	defer files.Close()
	for row, err := range l.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		f, _ := l.Compiler.Family(row.Family)
		if f.Inspect == nil {
			continue
		}
		of := familyRow(row)
		of.Public = files
		k := &checker{row: row, context: fmt.Sprintf("task '%s' (%s)", row.ID, row.Family)}
		k.report(&k.warnings, f.Inspect(of))
		found = append(found, k.warnings[:min(len(k.warnings), pack.MaxWarnings-len(found))]...)
	}
	slices.SortStableFunc(found, byPlace)
	return found, nil
}
