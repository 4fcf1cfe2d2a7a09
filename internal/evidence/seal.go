package evidence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/attest"
	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/verdict"
)

// fileSum is what is known of a file.
type fileSum struct {
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"`
}

func sumFile(fsys fs.FS, name string) (fileSum, error) {
	info, err := fs.Lstat(fsys, name)
	if err != nil {
		return fileSum{}, err
	}
	if !info.Mode().IsRegular() {
		return fileSum{}, fmt.Errorf("%w: %s is %s", record.ErrIntegrity, redact.Quote(name), source.FileType(info.Mode()))
	}
	sum, err := digest.File(fsys, name)
	return fileSum{info.Size(), sum}, err
}

// index lists the files below history/.
type index map[string]fileSum

// historyFiles reads what is in history/, the list itself apart.
func historyFiles(fsys fs.FS) (index, error) {
	out := index{}
	err := source.WalkDir(fsys, record.HistoryName, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == record.HistoryName {
			return fs.SkipAll
		}
		if err != nil || e.IsDir() || name == record.IndexName {
			return err
		}
		out[strings.TrimPrefix(name, record.HistoryName+"/")], err = sumFile(fsys, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", record.HistoryName, err)
	}
	return out, nil
}

func readIndex(raw []byte) (index, error) {
	var out index
	return out, json.Unmarshal(raw, &out, json.RejectUnknownMembers(true))
}

// Seal signs the records of a complete run. Records and manifest are
// read back from disk: they must be those that this process wrote. What is
// signed is then verified as a reader would.
func Seal(ctx context.Context, d *record.Dir, m record.Manifest, key attest.PrivateKey) error {
	if err := errors.Join(d.Whole(), d.Tidy()); err != nil {
		return err
	}
	c := newCheck(ctx, d.FS(), &Result{Manifest: m})
	c.top, c.known, c.rows = map[string]bool{record.LinesName: true}, true, m.Rows()
	c.lines()
	c.complete()
	if n, last := d.Tail(); n != c.Records || last != c.last {
		c.problem(record.LinesName, 0, "they are not those that were written")
	}
	if want, err := m.Bytes(); err != nil || !c.is(record.ManifestName, fileSum{int64(len(want)), digest.Bytes(want)}) {
		c.problem(record.ManifestName, 0, "it is not the one that was written")
	}
	if !c.OK() {
		return changedUnderway(c.Result)
	}
	s := attest.Statement{Predicate: attest.Predicate{
		RunID: m.RunID, Ended: time.Now().UTC().Format(time.RFC3339), Planned: attest.Planned(m.Planned),
		Counts: *c.counts.Of(verdict.Computed), Judged: *c.counts.Of(verdict.Judged), Records: c.Records, MerkleRoot: c.root,
	}}
	var err error
	if s.Predicate.History, err = sealHistory(d); err != nil {
		return err
	}
	if err := subjects(d.FS(), &s, c.linesDigest); err != nil {
		return err
	}
	env, err := attest.Sign(s, key)
	if err != nil {
		return err
	}
	if err := d.WriteStatement(env); err != nil {
		return err
	}
	res, err := Verify(ctx, d.FS(), Options{})
	if err == nil && !res.OK() {
		err = changedUnderway(res)
	}
	return errors.Join(err, d.Whole()) // without restricted/ the run would look like a published copy
}

func changedUnderway(res *Result) error {
	return fmt.Errorf("%w: the output directory changed during the run: %s", record.ErrIntegrity, res.Problems[0])
}

// sealHistory writes the list of former files and returns its keyed digest.
func sealHistory(d *record.Dir) (string, error) {
	files, err := historyFiles(d.FS())
	if err != nil || len(files) == 0 {
		return "", err
	}
	raw, err := digest.Canonical(files)
	if err != nil {
		return "", err
	}
	if err := d.WriteIndex(raw); err != nil {
		return "", err
	}
	return d.Salt().Keyed("history", "", raw), nil
}

// subjects fills in the files that the statement is about.
func subjects(fsys fs.FS, s *attest.Statement, lines string) error {
	add := func(name, sum string) {
		s.Subject = append(s.Subject, attest.Subject{Name: name, Digest: map[string]string{"sha256": strings.TrimPrefix(sum, "sha256:")}})
	}
	add(record.LinesName, lines)
	manifest, err := sumFile(fsys, record.ManifestName)
	if err != nil {
		return fmt.Errorf("reading %s: %w", record.ManifestName, err)
	}
	add(record.ManifestName, manifest.Digest)
	trace, err := sumFile(fsys, record.TraceName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", record.TraceName, err)
	}
	add(record.TraceName, trace.Digest)
	s.Predicate.TraceBytes = trace.Bytes
	return nil
}
