package commit

import (
	"fmt"
	"io/fs"

	"securebench/internal/durable"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// Foreign reports the first file in the directory that no run can have
// written. A run with such a file cannot be signed or moved to history/
// completely.
func Foreign(dir *record.Dir) error {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return fmt.Errorf("reading the output directory: %w", err)
	}
	for _, e := range entries {
		if err := foreign(dir, e); err != nil {
			return err
		}
	}
	return nil
}

// foreign checks one top-level entry and its content.
func foreign(dir *record.Dir, e fs.DirEntry) error {
	switch name := e.Name(); name {
	case record.CandidatesName, record.RestrictedName, record.HistoryName:
		if !e.IsDir() {
			return fmt.Errorf("%s is %s, %w", name, source.FileType(e.Type()), record.ErrForeign)
		}
		return fs.WalkDir(dir.FS(), name, func(below string, e fs.DirEntry, err error) error {
			folder := err == nil && e.IsDir() && (below == name || name != record.CandidatesName)
			if err != nil || folder || e.Type().IsRegular() {
				return err
			}
			return fmt.Errorf("%s is %s, %w", redact.Quote(below), source.FileType(e.Type()), record.ErrForeign)
		})
	case record.LinesName, record.ManifestName, record.StatementName, record.TraceName, record.LockName, durable.TempName(record.LinesName), durable.TempName(record.ManifestName), durable.TempName(record.StatementName):
		if !e.Type().IsRegular() {
			return fmt.Errorf("%s is %s, %w", name, source.FileType(e.Type()), record.ErrForeign)
		}
		if info, err := e.Info(); err == nil && name == record.LockName && info.Size() > 0 {
			return fmt.Errorf("%s is not empty, %w", name, record.ErrForeign)
		}
		return nil
	default:
		return fmt.Errorf("%s is %w", redact.Quote(name), record.ErrForeign)
	}
}
