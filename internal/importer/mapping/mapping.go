// Package mapping makes a pack of tables: what a field of a row is, the columns of a table
// say.
//
// Rows are read, made, checked by the rules of their family and written as a stream. Every
// row that cannot be a task is named with its place. Nothing is written unless every row is
// good, or whoever imports them has said that such rows are to be left out; then the pack
// says which those were.
package mapping

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/console"
	"securebench/internal/family"
	"securebench/internal/importer/packdir"
	"securebench/internal/importer/table"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/source"
)

// Table is a table to import.
type Table struct {
	Path string // where it is
	Name string // in messages
	At   string // its address, "" for a file of this machine
}

// Options are the choices of an import.
type Options struct {
	Family string
	Map    []string // FIELD=COLUMN
	Where  []string // COLUMN=VALUE
	// Answers says how answers name choices, one of [Ways]; "" is [ByAny].
	Answers string
	// Separator is between the choices or answers of one text; "" finds out.
	Separator string
	Seed      string // orders choices; "" leaves their order
	ID        string // of the pack
	Dataset   string // in the metadata of rows
	Image     string // of the pack's environment, where rows of the family run in one
	Limit     int    // only the first rows; 0 is all
	LeaveOut  bool   // rows that cannot be tasks are left out
	Force     bool   // replace files that exist
	Read      table.Options
	// Origin and Licence say where the data are from and under which licence they are, for
	// the pack's readers; "" says that it is not known.
	Origin, Licence string
}

// Result says what an import wrote.
type Result struct {
	Rows    int
	Files   []string // of the pack
	LeftOut []string // rows, with their place and reason; the last may count others
	Doubts  []string // rows that were imported, likewise
	Notes   []string
}

// The bounds of what is listed.
const (
	maxFaults = 20
	maxListed = 1000
)

// batch is how many rows are made at the same time.
const batch = 512

// run is an import.
type run struct {
	options    Options
	shape      shape
	origins    []origin
	conditions []condition
	manifest   pack.Manifest
	compiler   *compile.Compiler
	out        *packdir.Set
	tables     []*table.File // those that were read, closed

	number, matched int
	waiting         []*made
	seed            maphash.Seed
	ids             rowsOf // by id
	inputs          rowsOf // by what an agent sees
	pictures        map[string]bool
	faults          source.Problems
	faulty          int
	leftOut, doubts listing
	indexed         map[int]int // positions that answers were taken for, and how often
	positions       map[int]int // of the right choice
	widest          int
	result          Result
}

// listing is what is listed up to a bound, and counted.
type listing struct {
	lines []string
	n     int
}

func (l *listing) add(line string) {
	if l.n++; l.n <= maxListed {
		l.lines = append(l.lines, line)
	}
}

func (l *listing) all() []string {
	if l.n <= maxListed {
		return l.lines
	}
	return append(slices.Clone(l.lines), fmt.Sprintf("and %d more", l.n-maxListed))
}

// Import reads tables and writes them to dir as a pack. Invalid input is [source.Problem],
// and an error of the options is [UsageError].
func Import(ctx context.Context, tables []Table, families family.Registry, dir string, o Options) (Result, error) {
	r, err := newRun(families, o)
	if err != nil {
		return Result{}, err
	}
	out, err := packdir.New(dir, o.Force, "tasks.jsonl", "manifest.yaml", "ATTRIBUTION.md")
	if err != nil {
		return Result{}, err
	}
	defer out.Discard()
	r.out = out
	for _, t := range tables {
		if err := r.table(ctx, t); err != nil {
			return Result{}, err
		}
		if r.full() {
			break
		}
	}
	if err := r.flush(); err != nil {
		return Result{}, err
	}
	if err := r.whole(); err != nil {
		return Result{}, err
	}
	return r.finish(tables)
}

// Check refuses options that no table could be imported with, before one is fetched.
func Check(families family.Registry, o Options) error {
	_, err := newRun(families, o)
	return err
}

// UsageError is an error of the options of an import.
type UsageError struct{ error }

// Unwrap returns what is wrong.
func (e UsageError) Unwrap() error { return e.error }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return UsageError{err}
}

func newRun(families family.Registry, o Options) (*run, error) {
	o.Answers = cmp.Or(o.Answers, ByAny)
	if !slices.Contains(Ways(), o.Answers) {
		return nil, usage(fmt.Errorf("--answers is %q, want one of %s", o.Answers, strings.Join(Ways(), ", ")))
	}
	if families[o.Family].Name == "" {
		return nil, usage(fmt.Errorf("--family is %q, want one of %s", o.Family, strings.Join(families.Names(), ", ")))
	}
	r := &run{options: o, shape: shapes()[o.Family], seed: maphash.MakeSeed(), ids: rowsOf{}, inputs: rowsOf{},
		pictures: map[string]bool{}, indexed: map[int]int{}, positions: map[int]int{}}
	var err error
	if r.origins, err = parseOrigins(o.Map); err != nil {
		return nil, usage(err)
	}
	if r.conditions, err = parseConditions(o.Where); err != nil {
		return nil, usage(err)
	}
	for i, from := range r.origins {
		f, ok := r.shape.named(from.field)
		if !ok {
			f, ok = generic(from.field)
		}
		if !ok {
			return nil, usage(fmt.Errorf("--map %s=%s: rows of %s have no field %q: they have %s", from.field, from.text, o.Family, from.field, r.shape.known()))
		}
		r.origins[i].field = f.name
	}
	if err := r.needed(); err != nil {
		return nil, usage(err)
	}
	r.manifest, _, err = pack.ParseManifest("manifest.yaml", []byte(r.manifestText("")))
	if err != nil {
		return nil, usage(err)
	}
	r.compiler = compile.New(r.manifest, family.Registry{o.Family: families[o.Family]})
	return r, nil
}

// needed refuses a mapping that lacks what every row needs.
func (r *run) needed() error {
	has := func(name string) bool {
		return slices.ContainsFunc(r.origins, func(o origin) bool { return o.field == name })
	}
	for _, f := range r.shape.fields {
		if f.need && !has(f.name) {
			return r.needs(f)
		}
	}
	if len(r.shape.either) > 0 && !slices.ContainsFunc(r.shape.either, has) {
		return fmt.Errorf("a row of %s needs one of %s: give --map %s=COLUMN", r.options.Family, strings.Join(r.shape.either, " and "), r.shape.either[0])
	}
	return nil
}

func (r *run) needs(f field) error {
	return fmt.Errorf("a row of %s needs %s (%s): give --map %s=COLUMN", r.options.Family, f.name, f.says, f.name)
}

// manifestText renders manifest.yaml. JSON strings are YAML strings.
func (r *run) manifestText(from string) string {
	text := fmt.Sprintf(packdir.Mark+"table %s; ATTRIBUTION.md says how.\nid: %s\nversion: 1\n\ndefaults:\n  family: %s\n",
		from, quote(r.options.ID), r.options.Family)
	if r.shape.boxed {
		text += "  environment:\n    image: " + quote(r.options.Image) + "\n"
	}
	return text
}

// quote renders s as a JSON string.
func quote(s string) string {
	// The only error is for bytes that are not UTF-8, which are replaced.
	b, _ := jsontext.AppendQuote(nil, s)
	return string(b)
}

// full reports whether there are as many rows as are wanted.
func (r *run) full() bool { return r.options.Limit > 0 && r.matched >= r.options.Limit }

// table reads one table.
func (r *run) table(ctx context.Context, t Table) (err error) {
	f, err := table.Open(t.Path, t.Name, r.options.Read)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	first, err := f.Next()
	if errors.Is(err, io.EOF) {
		return &source.Problem{Pos: source.Pos{File: t.Name}, Message: "the table has no rows", Fix: "was it written, or fetched, to its end?"}
	}
	if err != nil {
		return err
	}
	b, err := r.bind(f, t.Path, first)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", t.Name, err))
	}
	r.tables = append(r.tables, f)
	for row := first; ; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := r.row(b, row); err != nil || r.full() {
			return err
		}
		if row, err = f.Next(); errors.Is(err, io.EOF) {
			return r.flush()
		}
		if err != nil {
			return err
		}
	}
}

// bind reads the mapping for the columns of a table.
func (r *run) bind(f *table.File, path string, first *source.Node) (*binding, error) {
	var columns []string
	for _, c := range f.Columns {
		columns = append(columns, c.Name)
	}
	for _, field := range first.Fields { // of a format without a header
		if !slices.Contains(columns, field.Name) {
			columns = append(columns, field.Name)
		}
	}
	b := &binding{run: r, name: f.Name, folder: filepath.Dir(path)}
	var needed []string
	for _, from := range r.origins {
		bound, err := from.bind(columns)
		if err != nil {
			return nil, err
		}
		def, ok := r.shape.named(from.field)
		if !ok {
			def, _ = generic(from.field)
		}
		b.fields = append(b.fields, boundField{def, bound})
		needed = append(needed, bound.needs()...)
	}
	for _, c := range r.conditions {
		s, err := selectorOf(c.column, columns)
		if err != nil {
			return nil, fmt.Errorf("--where %s: %w", c.given, err)
		}
		b.where = append(b.where, s)
		needed = append(needed, s.column)
	}
	b.classesOf(f)
	for _, field := range r.shape.fields {
		if field.classed && b.classes == nil && !slices.ContainsFunc(b.fields, func(f boundField) bool { return f.name == field.name }) {
			return nil, r.needs(field)
		}
	}
	slices.SortStableFunc(b.fields, func(x, y boundField) int { return cmp.Compare(r.place(x.name), r.place(y.name)) })
	f.Want(needed)
	return b, nil
}

// place orders fields as their family does.
func (r *run) place(name string) int {
	i := slices.IndexFunc(r.shape.fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return len(r.shape.fields)
	}
	return i
}

// classesOf takes the names of the answer's classes for choices, where none are mapped.
func (b *binding) classesOf(f *table.File) {
	if _, ok := b.shape.named("choices"); !ok {
		return
	}
	for _, field := range b.fields {
		switch {
		case field.name == "choices":
			b.classes = nil
			return
		case field.name == "answer" && len(field.from.columns) == 1 && field.from.columns[0].path == nil:
			for _, c := range f.Columns {
				if c.Name == field.from.columns[0].column {
					b.classes = c.Classes
				}
			}
		}
	}
}

// made is a row that is made and checked, or what is wrong with it.
type made struct {
	reading
	line   []byte
	doubts source.Problems
}

// row takes a row that meets the conditions.
func (r *run) row(b *binding, row *source.Node) error {
	r.number++
	for i, c := range r.conditions {
		value, p := b.where[i].of(row)
		ok := false
		if p == nil {
			ok, p = c.holds(value)
		}
		if p != nil {
			return p
		}
		if !ok {
			return nil
		}
	}
	r.matched++
	r.waiting = append(r.waiting, &made{reading: reading{binding: b, row: row, number: r.number}})
	if len(r.waiting) < batch {
		return nil
	}
	return r.flush()
}

// flush makes the rows that wait, on all processors, and writes them in their order.
func (r *run) flush() error {
	workers := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(r.waiting); i += workers {
				r.make(r.waiting[i])
			}
		})
	}
	wg.Wait()
	for _, m := range r.waiting {
		if err := r.write(m); err != nil {
			return err
		}
	}
	clear(r.waiting)
	r.waiting = r.waiting[:0]
	return nil
}

// make makes and checks one row.
func (r *run) make(m *made) {
	if m.read(); len(m.problems) > 0 {
		return
	}
	row, errs, warnings := pack.NewRow(&r.manifest, m.number-1, m.object())
	if m.problems, m.doubts = errs, warnings; len(errs) > 0 {
		return
	}
	m.problems, warnings = r.compiler.Check(row)
	m.doubts = append(m.doubts, warnings...)
	m.line = append(row.Raw, '\n')
}

// write writes a row, or notes why there is none.
func (r *run) write(m *made) error {
	for _, i := range m.indexed {
		r.indexed[i]++
	}
	if len(m.problems) == 0 && m.has("id") { // those that are counted differ
		if before, again := r.again(r.ids, []byte(m.id), m.number); again {
			m.fail(m.row, "map another column to id, or none: rows are then counted", "the id %q is that of row %d too", m.id, before)
		}
	}
	if len(m.problems) > 0 {
		r.refuse(m)
		return nil
	}
	if before, again := r.again(r.inputs, m.input.JSON(), m.number); again && m.assets == nil {
		r.doubts.add(m.said(fmt.Sprintf("%s: an agent sees the same as in row %d", m.row.Pos, before)))
	}
	for _, d := range m.doubts {
		r.doubts.add(m.said(d.Error()))
	}
	if m.position >= 0 {
		r.positions[m.position]++
		r.widest = max(r.widest, m.choices)
	}
	for _, f := range m.files {
		if !r.pictures[f.name] {
			r.pictures[f.name] = true
			if err := r.out.PutFile(path.Join(r.manifest.PublicRoot, f.name), f.data, false); err != nil {
				return err
			}
		}
	}
	r.result.Rows++
	return r.out.Write("tasks.jsonl", m.line)
}

// said is a line about a row as the pack has it: without the folder of the table.
func (m *made) said(line string) string {
	return strings.ReplaceAll(line, m.name, filepath.Base(m.name))
}

// rowsOf are rows by the hash of a text. Two halves of it need two thirds of the room of
// one number, of which there may be millions.
type rowsOf map[[2]uint32]uint32

// again reports whether a text was there before, and in which row.
func (r *run) again(seen rowsOf, text []byte, row int) (int, bool) {
	hash := maphash.Bytes(r.seed, text)
	sum := [2]uint32{uint32(hash >> 32), uint32(hash)}
	before, ok := seen[sum]
	if !ok {
		seen[sum] = uint32(row)
	}
	return int(before), ok
}

// refuse notes a row that cannot be a task.
func (r *run) refuse(m *made) {
	r.faulty++
	if r.options.LeaveOut {
		r.leftOut.add(m.said(m.problems[0].Error()))
		return
	}
	if len(r.faults) < maxFaults {
		r.faults = append(r.faults, m.problems[:min(len(m.problems), maxFaults-len(r.faults))]...)
	}
}

// whole refuses tables whose rows do not make a pack.
func (r *run) whole() error {
	if r.faulty > 0 && !r.options.LeaveOut {
		more := ""
		if r.faulty > maxFaults {
			more = fmt.Sprintf(", of which the first %d are shown", maxFaults)
		}
		return errors.Join(r.faults.Err(), fmt.Errorf("%s of %d cannot be tasks%s, and nothing was written: correct them, or leave them out with --leave-out", console.Plural(r.faulty, "row"), r.matched, more))
	}
	if r.matched == 0 {
		return fmt.Errorf("no row of %d meets %s", r.number, strings.Join(r.options.Where, " and "))
	}
	if r.result.Rows == 0 {
		return fmt.Errorf("no row can be imported; the first: %s", r.leftOut.lines[0])
	}
	return r.counted()
}

// fewest is how many answers say something about all.
const fewest = 8

// counted refuses positions that seem to count from 1.
func (r *run) counted() error {
	n := 0
	for _, k := range r.indexed {
		n += k
	}
	if n >= fewest && r.indexed[0] == 0 && r.options.Answers == ByAny {
		return usage(fmt.Errorf("none of %d answers is 0, the position of the first choice: say with --answers %s that they count from 1, or with --answers %s that they count from 0", n, ByCount, ByIndex))
	}
	return nil
}
