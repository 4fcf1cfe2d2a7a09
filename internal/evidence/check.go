package evidence

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"securebench/internal/attest"
	"securebench/internal/digest"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
)

// slot is one planned attempt.
type slot struct{ index, attempt int }

// check is a verification on its way.
type check struct {
	*Result
	fsys fs.FS
	opts Options

	top         map[string]bool // what is there at the top
	rawManifest []byte
	salt        *digest.Salt // nil in a published copy
	linesDigest string
	root        string // Merkle root of the lines
	last        string // digest of the last line
	counts      attest.Counts
	named       map[string]bool // files that records name
	byIndex     map[int]string  // task id by row
	byID        map[string]int  // row by task id
	seen        map[slot]int    // line by attempt
}

// The bounds on files that are read whole.
const (
	maxConfig = 16 << 20
	maxIndex  = 256 << 20
)

// layout looks at what lies at the top of the directory.
func (c *check) layout() error {
	entries, err := fs.ReadDir(c.fsys, ".")
	if err != nil {
		return fmt.Errorf("reading the run's directory: %w", err)
	}
	c.top = map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		c.top[name] = true
		switch name {
		case record.CandidatesName, record.RestrictedName, record.HistoryName:
			if !e.IsDir() {
				c.problem(name, 0, "not a directory")
				delete(c.top, name)
			}
		case record.LinesName, record.ManifestName, record.StatementName, record.TraceName:
			if !e.Type().IsRegular() {
				c.problem(name, 0, "not a regular file")
				delete(c.top, name)
			}
		case record.LockName:
			c.lock(e)
		default:
			c.problem(name, 0, "no part of a run")
		}
	}
	c.Published = !c.top[record.RestrictedName] && !c.top[record.HistoryName]
	if c.top[record.HistoryName] && !c.top[record.RestrictedName] {
		c.problem(record.RestrictedName, 0, "missing, while %s is there: a published copy has neither", record.HistoryName)
	}
	return nil
}

// lock must be an empty file: it holds nothing.
func (c *check) lock(e fs.DirEntry) {
	info, err := e.Info()
	if err != nil || !info.Mode().IsRegular() || info.Size() != 0 {
		c.problem(e.Name(), 0, "not an empty file")
	}
}

// statement reads and checks the signed end of the run.
func (c *check) statement() error {
	if !c.top[record.StatementName] {
		c.problem(record.StatementName, 0, "missing: the run has not come to its end, or its end was removed")
		return nil
	}
	raw, err := record.ReadFile(c.fsys, record.StatementName, attest.MaxEnvelope)
	if err != nil {
		c.problem(record.StatementName, 0, "%v", err)
		return nil
	}
	s, err := attest.Open(raw)
	if err != nil {
		c.problem(record.StatementName, 0, "%v", err)
		return nil
	}
	c.Statement, c.Signer, c.Sealed = s.Statement, s.Signer, true
	return nil
}

// subject is the digest that the statement gives a file, "" for none.
func (c *check) subject(name string) string {
	for _, s := range c.Statement.Subject {
		if s.Name == name {
			return "sha256:" + s.Digest["sha256"]
		}
	}
	return ""
}

// manifest reads run.json and compares it with the statement.
func (c *check) manifest() (err error) {
	if !c.top[record.ManifestName] {
		c.problem(record.ManifestName, 0, "missing")
		return nil
	}
	c.Manifest, c.rawManifest, err = record.ReadManifest(c.fsys)
	if err != nil {
		c.problem(record.ManifestName, 0, "%v", err)
	}
	if !c.Sealed {
		return nil
	}
	if c.subject(record.ManifestName) != digest.Bytes(c.rawManifest) {
		c.problem(record.ManifestName, 0, "not what was signed")
	}
	p := c.Statement.Predicate
	if p.RunID != c.Manifest.RunID || p.Planned != attest.Planned(c.Manifest.Planned) {
		c.problem(record.StatementName, 0, "it is about another run than %s", record.ManifestName)
	}
	return nil
}

// secrets reads the salt where it is there.
func (c *check) secrets() error {
	if !c.top[record.RestrictedName] {
		return nil
	}
	s, err := record.ReadSalt(c.fsys, c.Manifest.SaltDigest)
	if err != nil {
		c.problem(record.SaltName, 0, "missing or changed: %s names the digest of another", record.ManifestName)
		return nil
	}
	c.salt = &s
	c.pack()
	c.config()
	return nil
}

// config compares the stored configuration with its digest.
func (c *check) config() {
	raw, err := record.ReadFile(c.fsys, record.ConfigName, maxConfig)
	if err != nil || digest.Bytes(raw) != c.Manifest.Digests.Config {
		c.problem(record.ConfigName, 0, "missing, or not what %s has the digest of", record.ManifestName)
	}
}

// pack checks the plain digests of the pack against the keyed ones.
func (c *check) pack() {
	p, err := record.ReadPack(c.fsys)
	if err != nil {
		c.problem(record.PackName, 0, "missing or damaged: %v", err)
		return
	}
	d := c.Manifest.Digests
	if c.salt.Keyed("pack", "", []byte(p.Pack)) != d.Pack ||
		c.salt.Keyed("assets", "", []byte(p.PublicAssets+p.EvalAssets)) != d.Assets ||
		p.Pack != (pack.Digests{Manifest: d.Manifest, Tasks: p.Tasks, PublicAssets: p.PublicAssets, EvalAssets: p.EvalAssets}).Sum() {
		c.problem(record.PackName, 0, "not the digests that %s holds", record.ManifestName)
	}
}

// lines reads the records.
func (c *check) lines() error {
	if !c.top[record.LinesName] {
		c.problem(record.LinesName, 0, "missing")
		return nil
	}
	f, err := c.fsys.Open(record.LinesName)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	var tree attest.Tree
	r := lineCheck{check: c, prev: record.Genesis}
	for e, err := range decodeAll(io.TeeReader(f, sum)) {
		if errors.Is(err, record.ErrLineTooLong) {
			c.problem(record.LinesName, e.raw.Number, "%v", err)
			break
		}
		if err != nil {
			return err
		}
		if e.raw.Torn {
			c.problem(record.LinesName, e.raw.Number, "cut short: its end of line is missing")
		}
		tree.Add(e.raw.Bytes)
		r.add(e)
	}
	c.Records, c.last = r.seq, r.prev
	c.linesDigest, c.root = digest.Format(sum.Sum(nil)), tree.Root()
	return nil
}

// complete compares the records with what was planned and signed.
func (c *check) complete() error {
	p := c.Manifest.Planned
	const listed = 10
	missing := 0
	for i := 0; i < p.Tasks && missing < listed; i++ {
		for n := 1; n <= p.Attempts && missing < listed; n++ {
			if _, ok := c.seen[slot{i, n}]; !ok {
				c.problem(record.LinesName, 0, "row %d, attempt %d was planned and has no record", i, n)
				missing++
			}
		}
	}
	if !c.Sealed {
		return nil
	}
	s := c.Statement.Predicate
	if s.Records != c.Records {
		c.problem(record.LinesName, 0, "%d records, %d were signed", c.Records, s.Records)
	}
	if s.MerkleRoot != c.root || c.subject(record.LinesName) != c.linesDigest {
		c.problem(record.LinesName, 0, "not what was signed")
	}
	if s.Counts != c.counts {
		c.problem(record.StatementName, 0, "its counts are not those of the records")
	}
	for _, sub := range c.Statement.Subject {
		if !c.top[sub.Name] {
			c.problem(sub.Name, 0, "signed and missing")
		}
	}
	return nil
}

// store looks for candidates that no record names.
func (c *check) store() error {
	return c.extras(record.CandidatesName, "no record names it")
}

// restricted looks for raw output that no record names.
func (c *check) restricted() error {
	for _, name := range []string{record.SaltName, record.PackName, record.ConfigName} {
		c.named[name] = true
	}
	return c.extras(record.RestrictedName, "no record names it")
}

// extras reports what lies in a folder and is not named.
func (c *check) extras(folder, why string) error {
	if !c.top[folder] {
		return nil
	}
	return fs.WalkDir(c.fsys, folder, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (folder != record.CandidatesName || name == folder):
		case !e.Type().IsRegular():
			c.problem(name, 0, "not a regular file")
		case !c.named[name]:
			c.problem(name, 0, "%s", why)
		}
		return nil
	})
}

// history compares former files with the list that was signed.
func (c *check) history() error {
	if !c.Sealed {
		return nil
	}
	want := c.Statement.Predicate.History
	switch {
	case want == "" && !c.top[record.HistoryName], c.Published:
		return nil
	case want == "":
		c.problem(record.HistoryName, 0, "there was none when the run was signed")
		return nil
	case !c.top[record.HistoryName]:
		c.problem(record.HistoryName, 0, "missing, while %s is there", record.RestrictedName)
		return nil
	case c.salt == nil:
		return nil // said already: nothing can be compared without it
	}
	raw, err := record.ReadFile(c.fsys, record.IndexName, maxIndex)
	if err != nil || c.salt.Keyed("history", "", raw) != want {
		c.problem(record.IndexName, 0, "missing, or not what was signed")
		return nil
	}
	now, err := historyFiles(c.fsys)
	if err != nil {
		return err
	}
	return c.compareHistory(raw, now)
}

func (c *check) compareHistory(raw []byte, now index) error {
	then, err := readIndex(raw)
	if err != nil {
		c.problem(record.IndexName, 0, "%v", err)
		return nil
	}
	for name, sum := range then {
		switch got, ok := now[name]; {
		case !ok:
			c.problem(path.Join(record.HistoryName, name), 0, "missing")
		case got != sum:
			c.problem(path.Join(record.HistoryName, name), 0, "not what it was when the run was signed")
		}
	}
	for name := range now {
		if _, ok := then[name]; !ok {
			c.problem(path.Join(record.HistoryName, name), 0, "was not there when the run was signed")
		}
	}
	return nil
}

// trace compares agent-trace.log with the statement.
func (c *check) trace() error {
	if !c.top[record.TraceName] || !c.Sealed {
		return nil
	}
	sum, err := fileDigest(c.fsys, record.TraceName)
	if err != nil {
		return err
	}
	if c.subject(record.TraceName) != sum {
		c.problem(record.TraceName, 0, "not what was signed")
	}
	return nil
}

// fileDigest is the digest of a file's bytes.
func fileDigest(fsys fs.FS, name string) (string, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	return digest.Format(h.Sum(nil)), nil
}

// candidatePath is where the store has a candidate.
func candidatePath(sum string) string {
	return path.Join(record.CandidatesName, strings.TrimPrefix(sum, "sha256:"))
}
