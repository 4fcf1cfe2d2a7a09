// Package viewer shows recorded runs in a browser: those below a folder on a page that
// this machine alone can open, or as files that can be published.
//
// Whatever a run wrote is escaped and bounded here, reaches the page as data, and is put
// into it as text alone. The page is the same for both: its script asks the server, or
// reads what was written beside it.
package viewer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/family"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/report"
	"securebench/internal/transcript"
)

// Row is an attempt in a list. Its texts are escaped.
type Row struct {
	Key         string   `json:"key"` // in addresses
	Task        string   `json:"task"`
	Index       int      `json:"row"`
	Attempt     int      `json:"attempt"`
	Family      string   `json:"family"`
	Outcome     string   `json:"outcome"`
	Reason      string   `json:"reason,omitzero"`
	Basis       string   `json:"basis"`
	Containment string   `json:"containment"`
	Tags        []string `json:"tags,omitzero"` // of the row, and labels of the record
	Passed      bool     `json:"passed"`
	MS          int64    `json:"ms"`
}

// Page is what a page says of a run.
type Page struct {
	View    *report.View  `json:"view"`
	Facts   []report.Fact `json:"facts"`
	Remarks []string      `json:"remarks,omitzero"`
	// Rows are there where the page has them all, and PerPart says how many attempts are
	// together.
	Rows    []Row `json:"rows,omitzero"`
	PerPart int   `json:"per_part,omitzero"`
}

// Run is a run that was checked and counted.
type Run struct {
	Page    Page
	Rows    []Row // in the order of the report
	path    string
	lines   []line // of the rows
	cut     bool   // some of their texts
	facets  map[string][]Facet
	byKey   map[string]int
	salt    *digest.Salt
	pack    *Pack // of the run; nil if it is not known
	summary Summary
}

// Lines are where the records of a run are, by the numbers of their lines.
type Lines map[int]line

// line is where a record is, and what it was when it was checked.
type line struct {
	offset  int64
	size    int
	digest  string
	passed  bool   // as it claims
	counted string // the outcome of a record that contradicts itself, "" for any other
	texts   texts
}

// Add adds a record.
func (l Lines) Add(e record.Entry) {
	l[e.Number] = line{offset: e.Offset, size: e.Size, digest: e.Digest, passed: e.Passed}
}

// maxWord bounds a name in a row, in characters.
const maxWord = 200

// Options say how runs are read.
type Options struct {
	Trust    evidence.Trust
	Families family.Registry
	// Advise adds to what is wrong with a run what can be done about it.
	Advise func(error) error
	// Pack, unless nil, adds to those runs that are of it.
	Pack *Pack
}

// Load checks and counts the run at a path.
func Load(ctx context.Context, path string, o Options) (_ *Run, err error) {
	var attempts []report.Attempt
	lines, found := Lines{}, index{limit: mostSearched, most: maxSearched}
	dir, res, signer, err := evidence.OpenVerified(ctx, path, o.Trust, evidence.Options{Each: func(e record.Entry) {
		attempts = append(attempts, report.NewAttempt(e))
		lines.Add(e)
		found.add(lines, e)
	}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	judged := signer.Judge(res)
	if o.Advise != nil {
		judged = o.Advise(judged)
	}
	b, with := report.NewBuilder(report.About(res, signer, judged)), o.Pack.of(dir, res.Manifest)
	for _, at := range attempts {
		if with != nil {
			at.Tags = with.rows[at.TaskID].tags
		}
		b.Add(at)
	}
	r := NewRun(b.Report(), res, lines, o.Families)
	r.path, r.pack, r.cut = path, with, found.cut
	if salt, err := record.ReadSalt(dir, res.Manifest.SaltDigest); err == nil && !res.Published {
		r.salt = &salt
	}
	return r, nil
}

// NewRun returns a run that was checked and counted.
func NewRun(rep *report.Report, res *evidence.Result, lines Lines, reg family.Registry) *Run {
	r := &Run{byKey: map[string]int{}, summary: summarize(rep, res)}
	r.Page = Page{View: rep.View(), Facts: report.Facts(res, rep.Run), Remarks: res.Remarks(reg)}
	for _, at := range rep.Counted() {
		l := lines[at.Line]
		if at.Passed != l.passed {
			l.counted = string(at.Outcome)
		}
		key := fmt.Sprintf("%d.%d", at.Index, at.Attempt)
		if _, taken := r.byKey[key]; taken {
			key += fmt.Sprintf(".%d", at.Line)
		}
		r.byKey[key] = len(r.Rows)
		r.lines = append(r.lines, l)
		r.Rows = append(r.Rows, newRow(key, at))
	}
	r.facets = facets(r.Rows)
	return r
}

func newRow(key string, at report.Attempt) Row {
	short := func(s string) string { return redact.EscapeShort(s, maxWord) }
	row := Row{Key: key, Task: short(at.TaskID), Index: at.Index, Attempt: at.Attempt, Family: short(at.Family), Outcome: short(string(at.Outcome)),
		Reason: short(string(at.Reason)), Basis: at.Basis.String(), Containment: short(string(at.Containment)), Passed: at.Passed, MS: at.TotalMS}
	for _, tag := range slices.Concat(at.Tags, at.Labels) {
		if tag = short(tag); !slices.Contains(row.Tags, tag) && len(row.Tags) < maxTags {
			row.Tags = append(row.Tags, tag)
		}
	}
	return row
}

// maxTags bounds the tags and labels of a row.
const maxTags = 50

// errUnknown is the error for what is not there.
var errUnknown = errors.New("there is no such thing here")

// Whole is one attempt in full, and its neighbours.
type Whole struct {
	Row      Row                `json:"row"`
	Attempt  transcript.Attempt `json:"attempt"`
	Network  *Network           `json:"network,omitzero"`
	Previous string             `json:"previous,omitzero"` // keys
	Next     string             `json:"next,omitzero"`

	task string // as it is
}

// maxText bounds each text of an attempt on a page of the server's, in bytes.
const maxText = 256 << 10

// Whole reads the attempt of a row again.
func (r *Run) Whole(key string) (_ Whole, err error) {
	i, ok := r.byKey[key]
	if !ok {
		return Whole{}, errUnknown
	}
	dir, err := evidence.OpenRun(r.path)
	if err != nil {
		return Whole{}, fmt.Errorf("opening the run again: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	records, err := openRecords(dir)
	if err != nil {
		return Whole{}, err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	w, err := r.read(records, i, transcript.Source{FS: dir, Salt: r.salt, Limit: maxText, Apart: true})
	if err == nil && r.pack != nil {
		w.Attempt.Parts = append(w.Attempt.Parts, r.pack.parts(w.task)...)
	}
	return w, err
}

// read reads the record of a row, and what belongs to it.
func (r *Run) read(records *records, i int, from transcript.Source) (Whole, error) {
	raw, err := records.read(r.lines[i])
	if err != nil {
		return Whole{}, err
	}
	e, err := record.Decode(raw)
	if err != nil {
		return Whole{}, err
	}
	w := Whole{Row: r.Rows[i], Attempt: transcript.Read(from, e.Line), Network: network(e.Line, from), task: e.TaskID}
	if counted := r.lines[i].counted; counted != "" {
		w.Attempt.Contradicts(counted)
	}
	if i > 0 {
		w.Previous = r.Rows[i-1].Key
	}
	if i+1 < len(r.Rows) {
		w.Next = r.Rows[i+1].Key
	}
	return w, nil
}
