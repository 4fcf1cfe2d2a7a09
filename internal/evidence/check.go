package evidence

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"

	"securebench/internal/attest"
	"securebench/internal/digest"
	"securebench/internal/durable"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
	"securebench/internal/rowset"
	"securebench/internal/source"
	"securebench/internal/verdict"
)

// Slot is one planned attempt: of the row at an index of the pack.
type Slot struct{ Index, Attempt int }

// check is a verification in progress.
type check struct {
	*Result
	fsys fs.FS
	opts Options

	top         map[string]bool // names at the top level
	known       bool            // run.json could be read: it says what the run is
	salt        *digest.Salt    // nil in a published copy
	ctx         context.Context
	linesDigest string
	root        string // Merkle root of the lines
	last        string // digest of the last line
	counts      verdict.ByBasis[attest.Counts]
	judged      map[int]bool    // by row, whether it asks for a judge
	named       map[string]bool // files that records name, and their folders
	candidates  map[string]stored
	byIndex     map[int]string // task id by row
	byID        map[string]int // row by task id
	seen        map[Slot]int   // line by attempt
	rows        rowset.Set     // that were planned
	leftover    int            // files of an unfinished run that no record names
	settings    *settings      // of the stored configuration; nil where it is not known
	other       bool           // the statement signs another run.json
	alien       bool           // the statement is another run's
}

// maxIndex bounds the list of former files.
const maxIndex = 256 << 20

// stored is what is known of a candidate in the store.
type stored struct {
	ok     bool
	inline [sha256.Size]byte // of what a record shows of it
}

func newCheck(ctx context.Context, fsys fs.FS, res *Result) *check {
	res.Suspect = map[int]bool{}
	return &check{Result: res, ctx: ctx, fsys: fsys, named: map[string]bool{}, candidates: map[string]stored{},
		byIndex: map[int]string{}, byID: map[string]int{}, judged: map[int]bool{}, seen: map[Slot]int{}}
}

// name notes a file that belongs to the run, with the folders on its way.
func (c *check) name(file string) {
	for ; file != "." && !c.named[file]; file = path.Dir(file) {
		c.named[file] = true
	}
}

// rank puts a run.json that cannot be read before all else: without it nothing
// can be compared with what was planned.
func (c *check) rank(p Problem) int {
	if !c.known && p.File == record.ManifestName {
		return 0
	}
	return 1
}

// unreadable notes what could not be read.
func (c *check) unreadable(file string, err error) { c.problem(file, 0, "cannot be read: %v", err) }

// layout checks the top level of the directory.
func (c *check) layout() {
	entries, err := fs.ReadDir(c.fsys, ".")
	if err != nil {
		c.unreadable(".", err)
	}
	c.top = map[string]bool{}
	var temporary []string
	unmerged := false
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
		case record.ShardsName:
			unmerged = e.IsDir()
			if !unmerged {
				c.problem(name, 0, "not a directory")
			}
		case durable.TempName(record.LinesName), durable.TempName(record.ManifestName), durable.TempName(record.StatementName):
			temporary = append(temporary, name)
		default:
			c.problem(name, 0, "not part of a run")
		}
	}
	for _, name := range temporary {
		if c.top[record.StatementName] {
			c.problem(name, 0, "not part of a run")
		} else {
			c.leftover++
		}
	}
	switch {
	case unmerged && c.top[record.StatementName]:
		c.problem(record.ShardsName, 0, "not part of a run that is signed: its shards are merged")
	case unmerged:
		c.Notes = append(c.Notes, "shards that are not merged are not counted (see securebench merge)")
	}
	if c.top[record.RestrictedName] && closed(c.fsys, record.RestrictedName) {
		// Whoever takes it away from us could as well have removed it.
		delete(c.top, record.RestrictedName)
		delete(c.top, record.HistoryName)
		c.Notes = append(c.Notes, record.RestrictedName+" is another user's and cannot be read: the run is checked as a published copy")
	}
	c.Published = !c.top[record.RestrictedName] && !c.top[record.HistoryName]
	if c.top[record.HistoryName] && !c.top[record.RestrictedName] {
		c.problem(record.RestrictedName, 0, "missing, while %s exists: a published copy has neither", record.HistoryName)
	}
}

// closed reports whether this user may not read a folder.
func closed(fsys fs.FS, folder string) bool {
	_, err := fs.ReadDir(fsys, folder)
	return errors.Is(err, fs.ErrPermission)
}

// lock must be an empty file: it holds nothing.
func (c *check) lock(e fs.DirEntry) {
	info, err := e.Info()
	if err != nil || !info.Mode().IsRegular() || info.Size() != 0 {
		c.problem(e.Name(), 0, "not an empty file")
	}
}

// statement reads and checks the signed end of the run.
func (c *check) statement() {
	if !c.top[record.StatementName] {
		c.Unfinished = true
		return
	}
	raw, err := record.ReadFile(c.fsys, record.StatementName, attest.MaxEnvelope)
	if err != nil {
		c.problem(record.StatementName, 0, "%v", err)
		return
	}
	s, err := attest.Open(raw)
	if err != nil {
		c.problem(record.StatementName, 0, "%v", err)
		return
	}
	c.Statement, c.Signer, c.Sealed = s.Statement, s.Signer, true
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
func (c *check) manifest() {
	if !c.top[record.ManifestName] {
		c.problem(record.ManifestName, 0, "missing: it is unknown what was planned and what the records are of")
		return
	}
	m, raw, err := record.ReadManifest(c.fsys)
	if c.known = err == nil; c.known {
		c.Manifest, c.rows = m, m.Rows()
		c.labelled(socketsUnbounded, engineSays(m, socketsUnbounded), "it says of its engine")
		c.labelled(record.OneTrustZone, m.OneZone(), "it says of its shards and workers")
	} else {
		c.problem(record.ManifestName, 0, "%v", err)
	}
	if !c.Sealed {
		return
	}
	c.other = c.subject(record.ManifestName) != digest.Bytes(raw)
}

// about compares what the statement and run.json are about, and reports whether
// that, or what the one signs of the other, shows another run's statement.
func (c *check) about() (same bool) {
	p, m := c.Statement.Predicate, c.Manifest
	foreign := c.foreign()
	switch {
	case c.known && (p.RunID != m.RunID || p.Planned != attest.Planned(m.Planned)):
		c.problem(record.StatementName, 0, "it is about another run than %s: %q with %s, there it is %q with %s", record.ManifestName, p.RunID, planned(p.Planned), m.RunID, planned(attest.Planned(m.Planned)))
	case foreign:
		c.problem(record.StatementName, 0, "it is about another run: it signs another %s and other records, while these belong together", record.ManifestName)
	}
	if c.other && !foreign {
		c.problem(record.ManifestName, 0, "changed since it was signed")
	}
	c.alien = foreign
	return !foreign
}

// planned says what a run planned.
func planned(p attest.Planned) string {
	return fmt.Sprintf("%d planned tasks, %d attempts each and %d rows left out", p.Tasks, p.Attempts, p.LeftOut)
}

// secrets reads the salt if there is one.
func (c *check) secrets() {
	if !c.top[record.RestrictedName] || !c.known {
		return
	}
	s, err := record.ReadSalt(c.fsys, c.Manifest.SaltDigest)
	if err != nil {
		c.problem(record.SaltName, 0, "missing or changed: %s contains another digest", record.ManifestName)
		return
	}
	c.salt = &s
	if !c.Manifest.Authentic(s) {
		c.problem(record.ManifestName, 0, "its MAC is wrong: this run did not write it")
	}
	if info, err := fs.Stat(c.fsys, record.SaltName); err == nil && info.Mode().Perm()&0o077 != 0 {
		c.Notes = append(c.Notes, "others can read "+record.SaltName+": whoever has it can guess hidden values from digests")
	}
	c.pack()
	c.config()
}

// config compares the stored configuration with its digest.
func (c *check) config() {
	raw, err := record.ReadFile(c.fsys, record.ConfigName, record.MaxConfig)
	if err != nil || digest.Bytes(raw) != c.Manifest.Digests.Config {
		c.problem(record.ConfigName, 0, "missing, or its digest is not that in %s", record.ManifestName)
		return
	}
	c.agrees(raw)
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
		c.problem(record.PackName, 0, "not the digests in %s", record.ManifestName)
	}
}

// lines reads the records.
func (c *check) lines() {
	if !c.top[record.LinesName] {
		c.problem(record.LinesName, 0, "missing")
		return
	}
	f, err := c.fsys.Open(record.LinesName)
	if err != nil {
		c.unreadable(record.LinesName, err)
		return
	}
	defer f.Close()
	sum := sha256.New()
	var tree attest.Tree
	r := newLineCheck(c)
	for e, err := range decodeAll(io.TeeReader(f, sum)) {
		if err != nil {
			c.problem(record.LinesName, e.raw.Number, "%v", err)
			break
		}
		if c.ctx.Err() != nil {
			return
		}
		tree.Add(e.raw.Bytes)
		r.add(e)
	}
	c.Records, c.last = r.seq, r.prev
	c.linesDigest, c.root = digest.Format(sum.Sum(nil)), tree.Root()
}

// complete compares the records with what was planned and signed.
func (c *check) complete() {
	p := c.Manifest.Planned // none where it is not known
	const listed = 10
	missing := 0
	if c.Unfinished {
		missing = listed // the headline counts them
	}
	for i := range c.rows.All() {
		for n := 1; n <= p.Attempts && missing < listed; n++ {
			if _, ok := c.seen[Slot{i, n}]; !ok {
				c.problem(record.LinesName, 0, "row %d, attempt %d has no record", i, n)
				missing++
			}
		}
		if missing >= listed {
			break
		}
	}
	if more := c.Planned() - int64(len(c.seen)+missing); !c.Unfinished && missing == listed && more > 0 {
		c.problem(record.LinesName, 0, "%d more attempts have no record", more)
	}
	if !c.Unfinished && c.known {
		c.bases()
	}
	if !c.Sealed {
		return
	}
	if !c.about() {
		return
	}
	s := c.Statement.Predicate
	if s.Records != c.Records {
		c.problem(record.LinesName, 0, "%d records, %d were signed", c.Records, s.Records)
	}
	if s.MerkleRoot != c.root || c.subject(record.LinesName) != c.linesDigest {
		c.changedLines(s.Records)
	}
	for basis, signed := range map[verdict.Basis]attest.Counts{verdict.Computed: s.Counts, verdict.Judged: s.Judged} {
		if have := *c.counts.Of(basis); signed != have {
			c.problem(record.StatementName, 0, "its counts of what was %s do not match the records: %s, the records have %s", basis, counted(signed), counted(have))
		}
	}
	for _, sub := range c.Statement.Subject {
		if !c.top[sub.Name] && (c.known || sub.Name != record.ManifestName) { // already reported
			c.problem(sub.Name, 0, "missing, though it was signed")
		}
	}
}

// bases compares how many tasks ask for a judge with what was planned: a judged verdict
// that lost its basis would count with what was computed.
func (c *check) bases() {
	judged := 0
	for _, is := range c.judged {
		if is {
			judged++
		}
	}
	if n := c.Manifest.Planned.Judged; n != judged {
		c.problem(record.LinesName, 0, "%d tasks were judged, and %d were planned to be", judged, n)
	}
}

// foreign reports whether the statement is another run's: neither run.json nor the
// records are what it signs, and as far as can be seen nothing is wrong with them. In
// a published copy both may as well have been changed, the last line of the records
// among them.
func (c *check) foreign() bool {
	lines := c.Statement.Predicate.MerkleRoot != c.root && c.subject(record.LinesName) != c.linesDigest
	return c.known && c.other && lines && len(c.Suspect) == 0 && (c.salt == nil || c.Manifest.Authentic(*c.salt))
}

// changedLines reports that the records are not those that were signed. Where the
// chain holds up to the last line, no line before it says that this one was
// changed.
func (c *check) changedLines(signed int64) {
	if c.Records == signed && c.Records > 0 && len(c.Suspect) == 0 {
		c.Suspect[int(c.Records)] = true
		c.problem(record.LinesName, int(c.Records), "changed since it was signed: this last line, because the hash chain before it holds, unless all lines were written anew")
		return
	}
	c.problem(record.LinesName, 0, "changed since it was signed")
}

func counted(n attest.Counts) string {
	return fmt.Sprintf("%d passed, %d failed, %d pending, %d of them infrastructure errors", n.Passed, n.Failed, n.Pending, n.Infrastructure)
}

// store looks for candidates that no record names.
func (c *check) store() { c.extras(record.CandidatesName) }

// restricted looks for raw output that no record names.
func (c *check) restricted() {
	for _, name := range []string{record.SaltName, record.PackName, record.ConfigName} {
		c.name(name)
	}
	if !c.Sealed {
		c.name(record.AnswersName)
		c.name(record.SpentName)
		c.name(record.GrantsName)
	}
	c.extras(record.RestrictedName)
}

// extras reports files in a folder that are not named.
func (c *check) extras(folder string) {
	if !c.top[folder] {
		return
	}
	c.name(folder)
	_ = source.WalkDir(c.fsys, folder, func(name string, e fs.DirEntry, err error) error {
		switch {
		case c.ctx.Err() != nil:
			return fs.SkipAll
		case err != nil:
			c.unreadable(name, err)
		case c.Unfinished && record.IsControl(name, e.Type()):
			return nil // it goes on, or was killed
		case !e.IsDir() && !e.Type().IsRegular():
			c.problem(name, 0, "not a regular file")
		case !c.named[name] && c.Unfinished:
			c.leftover++
		case !c.named[name]:
			c.problem(name, 0, "not named by any record")
		default:
			return nil
		}
		if e != nil && e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

// history compares former files with the list that was signed.
func (c *check) history() {
	if !c.Sealed || c.alien {
		return
	}
	want := c.Statement.Predicate.History
	switch {
	case want == "" && !c.top[record.HistoryName], c.Published:
		return
	case want == "":
		c.problem(record.HistoryName, 0, "it did not exist when the run was signed")
		return
	case !c.top[record.HistoryName]:
		c.problem(record.HistoryName, 0, "missing, while %s exists", record.RestrictedName)
		return
	case c.salt == nil:
		return // already reported: nothing can be compared without it
	}
	raw, err := record.ReadFile(c.fsys, record.IndexName, maxIndex)
	if err != nil || c.salt.Keyed("history", "", raw) != want {
		c.problem(record.IndexName, 0, "missing, or changed since it was signed")
		return
	}
	then, err := readIndex(raw)
	if err != nil {
		c.problem(record.IndexName, 0, "%v", err)
		return
	}
	c.name(record.IndexName)
	for _, name := range slices.Sorted(maps.Keys(then)) {
		file := path.Join(record.HistoryName, name)
		c.name(file)
		if !c.is(file, then[name]) {
			c.problem(file, 0, "missing, or changed since the run was signed")
		}
	}
	c.extras(record.HistoryName)
}

// is reports whether a file has these bytes. One of another size is not read.
func (c *check) is(name string, want fileSum) bool {
	info, err := fs.Lstat(c.fsys, name)
	if err != nil || !info.Mode().IsRegular() || info.Size() != want.Bytes || c.ctx.Err() != nil {
		return false
	}
	sum, err := digest.File(c.fsys, name)
	return err == nil && sum == want.Digest
}

// trace compares agent-trace.log with the statement.
func (c *check) trace() {
	if !c.top[record.TraceName] || !c.Sealed || c.alien {
		return
	}
	want := fileSum{c.Statement.Predicate.TraceBytes, c.subject(record.TraceName)}
	if !c.is(record.TraceName, want) {
		c.problem(record.TraceName, 0, "changed since it was signed")
	}
}
