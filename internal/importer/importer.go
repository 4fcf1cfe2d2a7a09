// Package importer turns public data sets into benchmark packs.
//
// Every format is read strictly and as a stream: a line that is not what its
// data set publishes stops the import with file, line and column, and leaves
// nothing behind. No code of a data set is run.
package importer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/console"
	"securebench/internal/digest"
	"securebench/internal/importer/packdir"
)

// The formats of [Import].
const (
	HumanEval  = "humaneval"
	MBPP       = "mbpp"
	GSM8K      = "gsm8k"
	TruthfulQA = "truthfulqa"
	QuixBugs   = "quixbugs"
	Exercism   = "exercism"
	SWEBench   = "swebench"
	EvoEval    = "evoeval"
	HumanEvalX = "humaneval-x"
	ClassEval  = "classeval"
	// BFCL is the Berkeley Function-Calling Leaderboard.
	BFCL = "bfcl"
	// MathVision is MATH-Vision, questions about pictures.
	MathVision = "mathvision"
	// APPS and CodeContests are problems of contests.
	APPS         = "apps"
	CodeContests = "codecontests"
	// DACode is tasks of data analysis whose result is a file.
	DACode = "dacode"
	// SheetCopilot and SpreadsheetBench are changes of workbooks.
	SheetCopilot     = "sheetcopilot"
	SpreadsheetBench = "spreadsheetbench"
	// LLMBar, PandaLM and JudgeBench are pairs of answers.
	LLMBar     = "llmbar"
	PandaLM    = "pandalm"
	JudgeBench = "judgebench"
	// Harbor and TerminalBench are folders of tasks.
	Harbor        = "harbor"
	TerminalBench = "terminal-bench"
	// GSM8KAnswers makes no pack: it turns the model solutions that GSM8K
	// publishes into one file per model for the replay agent.
	GSM8KAnswers = "gsm8k-answers"
)

// Formats lists the formats that [Import] reads, packs first.
func Formats() []string {
	return []string{HumanEval, MBPP, GSM8K, TruthfulQA, QuixBugs, Exercism, SWEBench, EvoEval, HumanEvalX, ClassEval, BFCL, MathVision, APPS, CodeContests, LLMBar, PandaLM, JudgeBench, DACode, SheetCopilot, SpreadsheetBench, Harbor, TerminalBench, GSM8KAnswers}
}

// The defaults of [Options].
const (
	DefaultImage = "securebench-python:3"
	DefaultSeed  = "1"
)

// IsFolder reports whether a format is read from a folder at path, which [Options.Name]
// names then. Data sets that are one file, or a folder, are so if path is a folder.
func IsFolder(format, path string) bool {
	if !slices.ContainsFunc(datasets(), func(d dataset) bool { return d.format == format && d.rows != nil }) {
		return ofTasks(format)
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// ofTasks reports whether a format is a folder of tasks.
func ofTasks(format string) bool { return format == Harbor || format == TerminalBench }

// The rules of [Options].
const (
	OfficialRule = "official" // as the data set scores
	OwnRule      = "own"      // without the ways to pass that its rule leaves open
)

// Options are the choices of an import. The zero value is usable.
type Options struct {
	Name  string // of the input in error messages; "input" if empty
	ID    string // of the pack; the format's name if empty
	Image string // of the pack's environment; DefaultImage if empty
	// Seed orders the choices of multiple-choice rows; DefaultSeed if empty.
	// It is written into each row's metadata.
	Seed  string
	Limit int  // import the first rows only; 0 is all
	Force bool // replace files that exist

	// Repos is the folder of the clones of SWE-bench's repositories; Specs,
	// unless empty, a file that says how their tests run.
	Repos, Specs string
	// Start, unless empty, is a file that says what is started for the check of
	// tasks in folders, and what else they need.
	Start string
	// Denied returns those of the paths that a candidate may not change unless
	// the row allows it; nil is none.
	Denied func(paths []string) []string
	// Rule says by which rule rows are scored whose data set has another one than ours:
	// [OfficialRule], which is the default, or [OwnRule].
	Rule string
	// Refusal returns why a row of a family could not be used, or ""; nil is never. Rows of
	// data sets that have such are left out.
	Refusal func(family string, input, eval map[string]jsontext.Value) string

	array bool // the input may be one JSON array
	rows  func(dir string, sum io.Writer) (func() (*object, error), error)
}

// withDefaults fills in what the caller left empty.
func (o Options) withDefaults(format string) Options {
	set := func(s *string, def string) {
		if *s == "" {
			*s = def
		}
	}
	set(&o.Name, "input")
	set(&o.ID, format)
	set(&o.Image, DefaultImage)
	set(&o.Seed, DefaultSeed)
	set(&o.Rule, OfficialRule)
	return o
}

// Result says what an import wrote.
type Result struct {
	Format string
	Dir    string
	Files  []string // names inside Dir, in the order of writing, without those of images
	Images int      // recipes of images in Dir/images
	Rows   int      // rows that were imported
	// LeftOut are the tasks of a folder, or the rows, that were not, each with the
	// reason.
	LeftOut []string
	Source  string // digest of the whole input, "sha256:…"
	// Notes say what the operator should know about the rows.
	Notes []string
}

// Import reads a data set in one of [Formats] from in and writes it to
// outDir, which is created if needed. Nothing is written unless every row is
// valid. The error is a source.Problem for invalid input and wraps [packdir.ErrExists]
// when a file exists and may not be replaced.
func Import(ctx context.Context, format string, in io.Reader, outDir string, o Options) (Result, error) {
	o = o.withDefaults(format)
	if o.Rule != OfficialRule && o.Rule != OwnRule {
		return Result{}, fmt.Errorf("importing %s: the rule must be %s or %s", format, OfficialRule, OwnRule)
	}
	if o.Limit < 0 {
		return Result{}, fmt.Errorf("importing %s: the limit must not be negative", format)
	}
	if format == GSM8KAnswers {
		return importAnswers(ctx, in, outDir, o)
	}
	if ofTasks(format) {
		return importTasks(ctx, format, outDir, o)
	}
	if format == SWEBench {
		return importSWEBench(ctx, in, outDir, o)
	}
	for _, ds := range datasets() {
		if ds.format != format {
			continue
		}
		if ds.exercise != nil {
			return importExercises(ctx, ds, in, outDir, o)
		}
		return importPack(ctx, ds, in, outDir, o)
	}
	return Result{}, fmt.Errorf("unknown format %q: use one of %s", format, strings.Join(Formats(), ", "))
}

// dataset is one source of packs.
type dataset struct {
	format  string
	family  string
	convert func(*object, converter) row
	image   string // of the rows; that of the options if empty
	array   bool   // the input may be one JSON array
	about   string // licence and source facts, Markdown
	changes string // what the conversion changes, Markdown
	licence string
	recipe  [2]string // name and Dockerfile of the rows' image, which the pack brings

	// rows reads a folder, in place of a stream; all that it reads is written to sum.
	rows func(dir string, sum io.Writer) (func() (*object, error), error)
	// folder is the folder of the files that rows name, of an input; nil without such.
	folder func(input string) string
	// notes says what the operator should know, from what convert counted.
	notes func(counts map[string]int) []string

	// checked says that rows are left out that the family refuses.
	checked bool

	// exercise converts rows that share a checkout, in place of convert;
	// recipes are the images that have it, by name.
	exercise func(*object) exercise
	recipes  map[string]recipe
}

// datasets lists the sources of packs.
func datasets() []dataset {
	return []dataset{humanEval(), mbpp(), gsm8k(), truthfulQA(), quixBugs(), exercism(), evoEval(), humanEvalX(), classEval(), bfcl(), mathVision(), apps(), codeContests(), llmBar(), pandaLM(), judgeBench(), daCode(), sheetCopilot(), spreadsheetBench()}
}

// converter is what a conversion may use besides the row itself.
type converter struct {
	index int // 0-based, among the rows of the input
	seed  string
	file  func(name, text string) // adds a file of the evaluation
	// picture adds a public file that the row names, and returns its path in the pack.
	picture func(name string) (string, error)
	// files are those that rows name, in the folder of the data set.
	files *materials
	rule  string              // by which rows are scored, as [Options.Rule]
	leave func(reason string) // leaves the row out, unless there is no reason
	skip  func(what string)   // leaves it out as one of many, which are counted
	count func(what string)   // counts it for the notes
}

// row is one line of tasks.jsonl.
type row struct {
	ID          string         `json:"id"`
	Input       any            `json:"input"`
	Assets      any            `json:"assets,omitzero"`
	Eval        any            `json:"eval"`
	Environment any            `json:"environment,omitzero"`
	Metadata    map[string]any `json:"metadata"`
}

func importPack(ctx context.Context, ds dataset, in io.Reader, outDir string, o Options) (Result, error) {
	out, err := packdir.New(outDir, o.Force, packFiles()...)
	if err != nil {
		return Result{}, err
	}
	defer out.Discard()
	sum := Result{Format: ds.format, Dir: outDir, Files: packFiles()}
	o.array = ds.array
	if ds.recipe[0] != "" && o.Image == DefaultImage {
		ds.image, sum.Images = imageRef(o.ID, ds.recipe[0]), 1
		if err := out.Put("images/"+ds.recipe[0]+"/Dockerfile", ds.recipe[1]); err != nil {
			return Result{}, err
		}
	}
	c := &conversion{dataset: ds, options: o, out: out, sum: &sum, seen: map[string]int{}, skipped: map[string]int{}, counts: map[string]int{},
		files: &materials{}, pictures: &pictures{rows: o.Name, put: func(name string, data []byte) error { return out.PutFile(name, data, false) }}}
	if ds.folder != nil {
		c.files.dir = ds.folder(o.Name)
	}
	if ds.rows != nil && IsFolder(ds.format, o.Name) {
		o.rows, in = ds.rows, strings.NewReader("")
	}
	if sum.Source, err = eachRow(ctx, in, o, c.add); err != nil {
		return Result{}, err
	}
	c.finish()
	if err := sum.some(sum.Rows, o); err != nil {
		return Result{}, err
	}
	return sum, finishPack(out, ds, o, sum)
}

// conversion makes the rows of a pack.
type conversion struct {
	dataset
	options Options
	out     *packdir.Set
	sum     *Result
	seen    map[string]int // ids, with their lines
	skipped map[string]int // rows that are only counted
	counts  map[string]int // for the notes

	pictures *pictures
	files    *materials
}

// add converts a row, and writes it unless it is left out.
func (c *conversion) add(obj *object) error {
	files, left, skip := map[string]string{}, "", ""
	r := c.convert(obj, converter{
		index: c.sum.Rows, seed: c.options.Seed, files: c.files, rule: c.options.Rule,
		file:    func(name, text string) { files[name] = text },
		leave:   func(reason string) { left = reason },
		picture: c.pictures.take,
		skip:    func(what string) { skip = what },
		count:   func(what string) { c.counts[what]++ },
	})
	if err := obj.err(c.seen, r.ID); err != nil {
		return err
	}
	if skip == "" && left == "" && c.checked {
		var err error
		if left, err = c.options.refusal(c.family, r); err != nil {
			return err
		}
	}
	if err := c.files.put(c.out, skip == "" && left == ""); err != nil {
		return err
	}
	if skip != "" {
		c.skipped[skip]++
		return nil
	}
	if left != "" {
		c.sum.LeftOut = append(c.sum.LeftOut, r.ID+": "+left)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := c.out.Put(evalFile(name), files[name]); err != nil {
			return err
		}
	}
	c.sum.Rows++
	return c.out.Line("tasks.jsonl", r)
}

// finish says what was only counted.
func (c *conversion) finish() {
	for _, what := range slices.Sorted(maps.Keys(c.skipped)) {
		c.sum.LeftOut = append(c.sum.LeftOut, fmt.Sprintf("%s %s", console.Plural(c.skipped[what], "row"), what))
	}
	if c.notes != nil {
		c.sum.Notes = c.notes(c.counts)
	}
}

// refusal returns why a row could not be used, or "".
func (o Options) refusal(family string, r row) (string, error) {
	if o.Refusal == nil {
		return "", nil
	}
	parts := [2]map[string]jsontext.Value{}
	for i, v := range []any{r.Input, r.Eval} {
		b, err := json.Marshal(v, json.Deterministic(true))
		if err == nil {
			err = json.Unmarshal(b, &parts[i])
		}
		if err != nil {
			return "", fmt.Errorf("checking the row %s: %w", r.ID, err)
		}
	}
	return o.Refusal(family, parts[0], parts[1]), nil
}

// some notes how many rows were imported, and returns an error if none was.
func (r *Result) some(rows int, o Options) error {
	if r.Rows = rows; rows == 0 {
		return fmt.Errorf("%s has no row that can be imported; the first: %s", o.Name, r.LeftOut[0])
	}
	return nil
}

// packFiles lists the files that every pack has.
func packFiles() []string {
	return []string{"tasks.jsonl", "manifest.yaml", "ATTRIBUTION.md", "LICENSE"}
}

// finishPack writes what lies beside the rows, and keeps the whole.
func finishPack(out *packdir.Set, ds dataset, o Options, sum Result) error {
	for name, text := range map[string]string{
		"manifest.yaml":  manifest(ds, o),
		"ATTRIBUTION.md": attribution(ds, o, sum),
		"LICENSE":        ds.licence,
	} {
		if err := out.Write(name, []byte(text)); err != nil {
			return err
		}
	}
	return out.Commit()
}

// manifest renders manifest.yaml. JSON strings are YAML strings.
func manifest(ds dataset, o Options) string {
	environment := "  environment:\n    image: " + quote(cmp.Or(ds.image, o.Image)) + "\n"
	if ds.family == "repo_patch" || ofTasks(ds.format) { // each row names its own
		environment = ""
	}
	if ds.family == terminalFamily || ds.family == deliverableFamily {
		environment += "asset_roots:\n  eval: " + evalFolder + "/\n"
	}
	return fmt.Sprintf(packdir.Mark+`%s data set; ATTRIBUTION.md says how.
id: %s
version: 1

defaults:
  family: %s
%s`, ds.format, quote(o.ID), ds.family, environment)
}

// attribution renders ATTRIBUTION.md.
func attribution(ds dataset, o Options, sum Result) string {
	limited := ""
	if o.Limit > 0 {
		limited = " (the first of the input)"
	}
	left := ""
	if len(sum.LeftOut) > 0 {
		left = "\n## Left out\n\n- " + strings.Join(sum.LeftOut, "\n- ") + "\n"
	}
	notes := ""
	for _, n := range sum.Notes {
		notes += "- " + n + "\n"
	}
	return fmt.Sprintf("%s\n## This copy\n\n- Rows: %d%s\n- Input: `%s`\n%s%s\n## What was changed\n\n%s",
		ds.about, sum.Rows, limited, sum.Source, notes, left, ds.changes)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// quote renders s as a JSON string.
func quote(s string) string {
	// The only error is for bytes that are not UTF-8, which are replaced.
	b, _ := jsontext.AppendQuote(nil, s)
	return string(b)
}

// open returns a function that returns row after row of the input, and then io.EOF. What
// is read of a folder is written to sum.
func (o Options) open(in io.Reader, sum io.Writer) (func() (*object, error), error) {
	if o.rows != nil {
		return o.rows(o.Name, sum)
	}
	return rowsOf(in, o.Name, o.array)
}

// eachRow calls f with every row of in, up to the limit, and returns the
// digest of the whole input. An input without rows is an error.
func eachRow(ctx context.Context, in io.Reader, o Options, f func(*object) error) (string, error) {
	hash := sha256.New()
	tee := io.TeeReader(in, hash)
	next, err := o.open(tee, hash)
	if err != nil {
		return "", err
	}
	for n := 0; o.Limit == 0 || n < o.Limit; n++ {
		if err := ctx.Err(); err != nil {
			return "", fmt.Errorf("importing %s: %w", o.Name, err)
		}
		obj, err := next()
		if errors.Is(err, io.EOF) && n > 0 {
			break
		}
		if errors.Is(err, io.EOF) {
			return "", fmt.Errorf("%s contains no rows", o.Name)
		}
		if err != nil {
			return "", err
		}
		if err := f(obj); err != nil {
			return "", err
		}
	}
	for err := error(nil); o.rows != nil && !errors.Is(err, io.EOF); _, err = next() {
		if err != nil {
			return "", err
		}
	}
	if _, err := io.Copy(io.Discard, tee); err != nil {
		return "", fmt.Errorf("reading %s: %w", o.Name, err)
	}
	return digest.Format(hash.Sum(nil)), nil
}
