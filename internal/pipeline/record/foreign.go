package record

import (
	"fmt"
	"io/fs"
	"path"

	"securebench/internal/durable"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// Foreign reports the first file in the directory that no run can have
// written. A run with such a file cannot be signed or moved to history/
// completely.
func (d *Dir) Foreign() error {
	entries, err := fs.ReadDir(d.FS(), ".")
	if err != nil {
		return fmt.Errorf("reading the output directory: %w", err)
	}
	for _, e := range entries {
		if err := d.foreign(e); err != nil {
			return err
		}
	}
	return nil
}

// foreign checks one top-level entry and its content.
func (d *Dir) foreign(e fs.DirEntry) error {
	switch name := e.Name(); name {
	case CandidatesName, RestrictedName, HistoryName:
		if !e.IsDir() {
			return fmt.Errorf("%s is %s, %w", name, source.FileType(e.Type()), ErrForeign)
		}
		return source.WalkDir(d.FS(), name, func(below string, e fs.DirEntry, err error) error {
			folder := err == nil && e.IsDir() && (below == name || name != CandidatesName)
			if err != nil || folder || e.Type().IsRegular() || IsControl(below, e.Type()) {
				return err
			}
			return fmt.Errorf("%s is %s, %w", redact.Quote(below), source.FileType(e.Type()), ErrForeign)
		})
	case ShardsName:
		return d.foreignShards(e)
	case LinesName, ManifestName, StatementName, TraceName, LockName, durable.TempName(LinesName), durable.TempName(ManifestName), durable.TempName(StatementName):
		if !e.Type().IsRegular() {
			return fmt.Errorf("%s is %s, %w", name, source.FileType(e.Type()), ErrForeign)
		}
		if info, err := e.Info(); err == nil && name == LockName && info.Size() > 0 {
			return fmt.Errorf("%s is not empty, %w", name, ErrForeign)
		}
		return nil
	default:
		return fmt.Errorf("%s is %w", redact.Quote(name), ErrForeign)
	}
}

// foreignShards checks that the folder of shards has nothing else. What is in them is
// checked when they are merged.
func (d *Dir) foreignShards(e fs.DirEntry) error {
	if !e.IsDir() {
		return fmt.Errorf("%s is %s, %w", e.Name(), source.FileType(e.Type()), ErrForeign)
	}
	entries, err := fs.ReadDir(d.FS(), ShardsName)
	if err != nil {
		return fmt.Errorf("reading %s: %w", ShardsName, err)
	}
	for _, e := range entries {
		if _, ok := parseShard(e.Name()); !ok || !e.IsDir() {
			return fmt.Errorf("%s is %w", redact.Quote(path.Join(ShardsName, e.Name())), ErrForeign)
		}
	}
	return nil
}
