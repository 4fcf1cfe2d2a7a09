package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/attest"
	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
)

// index lists the files below history/ with their digests.
type index map[string]string

// historyFiles reads what is in history/, the list itself apart.
func historyFiles(fsys fs.FS) (index, error) {
	out := index{}
	err := fs.WalkDir(fsys, record.HistoryName, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == record.HistoryName {
			return fs.SkipAll
		}
		if err != nil || e.IsDir() || name == record.IndexName {
			return err
		}
		rel := strings.TrimPrefix(name, record.HistoryName+"/")
		if !e.Type().IsRegular() {
			out[rel] = e.Type().String()
			return nil
		}
		out[rel], err = fileDigest(fsys, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", record.HistoryName, err)
	}
	return out, nil
}

func readIndex(raw []byte) (index, error) {
	var out index
	return out, json.Unmarshal(raw, &out)
}

// Seal signs what the run recorded and so ends it. The records are read back
// from disk: they must be those that this process wrote.
func Seal(d *record.Dir, m record.Manifest, key attest.PrivateKey) error {
	s := attest.Statement{Predicate: attest.Predicate{
		RunID: m.RunID, Ended: time.Now().UTC().Format(time.RFC3339), Planned: attest.Planned(m.Planned),
	}}
	c := &check{Result: &Result{Manifest: m}, fsys: d.FS(), top: map[string]bool{record.LinesName: true},
		named: map[string]bool{}, byIndex: map[int]string{}, byID: map[string]int{}, seen: map[slot]int{}}
	if err := c.lines(); err != nil {
		return fmt.Errorf("reading the records back: %w", err)
	}
	if err := c.complete(); err != nil {
		return err
	}
	if n, last := d.Tail(); n != c.Records || last != c.last {
		c.problem(record.LinesName, 0, "they are not those that were written")
	}
	if !c.OK() {
		return fmt.Errorf("%w: the records changed under the run: %s", record.ErrIntegrity, c.Problems[0])
	}
	p := &s.Predicate
	p.Counts, p.Records, p.MerkleRoot = c.counts, c.Records, c.root
	var err error
	if p.History, err = sealHistory(d); err != nil {
		return err
	}
	if s.Subject, err = subjects(d.FS(), c.linesDigest); err != nil {
		return err
	}
	env, err := attest.Sign(s, key)
	if err != nil {
		return err
	}
	return d.WriteStatement(env)
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

// subjects are the files that the statement is about.
func subjects(fsys fs.FS, lines string) ([]attest.Subject, error) {
	subject := func(name, sum string) attest.Subject {
		return attest.Subject{Name: name, Digest: map[string]string{"sha256": strings.TrimPrefix(sum, "sha256:")}}
	}
	out := []attest.Subject{subject(record.LinesName, lines)}
	for _, name := range []string{record.ManifestName, record.TraceName} {
		sum, err := fileDigest(fsys, name)
		if errors.Is(err, fs.ErrNotExist) && name == record.TraceName {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		out = append(out, subject(name, sum))
	}
	return out, nil
}
