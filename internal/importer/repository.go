package importer

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"securebench/internal/importer/onecommit"
	"securebench/internal/importer/packdir"
	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// testbed is where images of this package have their checkout.
const testbed = "/testbed"

// repoInput is the public part of a row of repo_patch.
type repoInput struct {
	Repo         string `json:"repo"`
	BaseCommit   string `json:"base_commit"`
	Instructions string `json:"instructions"`
}

type repoEval struct {
	Tests     repoTests `json:"tests"`
	GoldPatch string    `json:"gold_patch"`
}

type repoTests struct {
	Source     string            `json:"source"`
	Command    []string          `json:"command"`
	Runner     string            `json:"runner,omitzero"`
	Timeout    int               `json:"timeout_seconds"`
	FailToPass []string          `json:"fail_to_pass,omitzero"`
	PassToPass []string          `json:"pass_to_pass,omitzero"`
	Expected   map[string]string `json:"expected,omitzero"`
	TestPatch  string            `json:"test_patch,omitzero"`
	Policy     repoPolicy        `json:"candidate_policy"`
}

type repoPolicy struct {
	OnDenied       string   `json:"on_denied"`
	AllowSensitive []string `json:"allow_sensitive_paths,omitzero"`
	Preserved      []string `json:"patch_preserved_paths,omitzero"`
}

// repoEnvironment is a row's environment.
type repoEnvironment struct {
	Image   string            `json:"image,omitzero"`
	Workdir string            `json:"workdir,omitzero"`
	Env     map[string]string `json:"env,omitzero"`
}

// exercise is a row of a data set of small tasks: some files of a checkout that
// all rows share, and what becomes of them.
type exercise struct {
	row
	image string            // the name of the image, which is also that of its checkout
	files map[string]string // what the row adds to the checkout
	left  string            // why it is left out; "" is not
}

// recipe is the Dockerfile of a checkout, before the commit is made.
type recipe struct {
	base   string // the lines that say what the image is built from
	common map[string]string
	env    map[string]string
	// complete, unless nil, adds files that depend on all others.
	complete func(files map[string]string)
}

// importExercises imports a data set whose rows share a checkout for each
// image. What its commit is, is known once every row was read.
func importExercises(ctx context.Context, ds dataset, in io.Reader, outDir string, o Options) (Result, error) {
	if !imageID.MatchString(o.ID) {
		return Result{}, fmt.Errorf("importing %s: the id %q becomes part of images' names: use lower-case letters, digits and single . _ or -", ds.format, o.ID)
	}
	out, err := packdir.New(outDir, o.Force, packFiles()...)
	if err != nil {
		return Result{}, err
	}
	defer out.Discard()
	sum := Result{Format: ds.format, Dir: outDir, Files: packFiles()}
	seen := make(map[string]int)
	var rows []exercise
	sum.Source, err = eachRow(ctx, in, o, func(obj *object) error {
		e := ds.exercise(obj)
		if err := obj.err(seen, e.ID); err != nil {
			return err
		}
		if e.left != "" {
			sum.LeftOut = append(sum.LeftOut, e.ID+": "+e.left)
			return nil
		}
		rows = append(rows, e)
		return nil
	})
	if err == nil {
		err = sum.some(len(rows), o)
	}
	if err != nil {
		return Result{}, err
	}
	if err := writeExercises(out, ds, rows, o); err != nil {
		return Result{}, err
	}
	sum.Images = len(images(rows))
	return sum, finishPack(out, ds, o, sum)
}

// images returns the names of the images that rows need, sorted.
func images(rows []exercise) []string {
	used := map[string]bool{}
	for _, e := range rows {
		used[e.image] = true
	}
	return slices.Sorted(maps.Keys(used))
}

// writeExercises writes the checkouts and the rows.
func writeExercises(out *packdir.Set, ds dataset, rows []exercise, o Options) error {
	heads := map[string]string{}
	for _, name := range images(rows) {
		r := ds.recipes[name]
		files := map[string]string{}
		maps.Copy(files, r.common)
		for _, e := range rows {
			if e.image != name {
				continue
			}
			for path, text := range e.files {
				if _, taken := files[path]; taken {
					return fmt.Errorf("importing %s: two rows have a file %s", ds.format, path)
				}
				files[path] = text
			}
		}
		if r.complete != nil {
			r.complete(files)
		}
		head, err := onecommit.CommitID(files, commitMessage(ds))
		if err != nil {
			return fmt.Errorf("importing %s: %w", ds.format, err)
		}
		heads[name] = head.String()
		if err := writeCheckout(out, ds, name, files, heads[name]); err != nil {
			return err
		}
	}
	for _, e := range rows {
		e.Input = repoInput{ds.format + "/" + e.image, heads[e.image], e.Input.(repoInput).Instructions} //nolint:errcheck // it was made by ds.exercise
		e.Environment = repoEnvironment{imageRef(o.ID, e.image), testbed, ds.recipes[e.image].env}
		if err := out.Line("tasks.jsonl", e.row); err != nil {
			return err
		}
	}
	return nil
}

// imageID is what the id of a pack with images must look like.
var imageID = lazyregexp.New(`^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*$`)

// imageRef is the reference of an image that "pack build" makes of version 1
// of a pack.
func imageRef(id, name string) string { return "localhost/" + id + "/" + name + ":1" }

func commitMessage(ds dataset) string { return "The files of " + ds.format }

// writeCheckout writes the recipe of an image whose checkout has one commit.
// The build fails unless that gets the id that the rows name.
func writeCheckout(out *packdir.Set, ds dataset, name string, files map[string]string, head string) error {
	text := ds.recipes[name].base + fmt.Sprintf(`COPY testbed %[1]s
WORKDIR %[1]s
RUN git init -q --template= . \
 && git symbolic-ref HEAD refs/heads/main \
 && git config core.logAllRefUpdates false \
 && git add -A -f . \
 && GIT_AUTHOR_NAME=%[2]s GIT_AUTHOR_EMAIL=%[3]s GIT_AUTHOR_DATE=%[4]s \
    GIT_COMMITTER_NAME=%[2]s GIT_COMMITTER_EMAIL=%[3]s GIT_COMMITTER_DATE=%[4]s \
    git commit -q -m "%[5]s" \
 && rm -f .git/COMMIT_EDITMSG \
 && mkdir .git/info \
 && test "$(git rev-parse HEAD)" = %[6]s
`, testbed, onecommit.Author, onecommit.Email, onecommit.Date, commitMessage(ds), head)
	dir := path.Join("images", name)
	if err := out.Put(path.Join(dir, "Dockerfile"), text); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := out.Put(path.Join(dir, "testbed", name), files[name]); err != nil {
			return err
		}
	}
	return nil
}

// plainPath matches the paths that data sets use. None of them needs quotes in
// a patch or a shell.
var plainPath = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$`)

// fileTexts reads an object of files: text by path. It must not be empty.
func (o *object) fileTexts(name string) map[string]string {
	out := o.otherTexts(name)
	for file := range out {
		if !plainPath.MatchString(file) {
			o.fail(o.node.Get(name), "%q is not a plain path", file)
		}
	}
	return out
}

// otherTexts reads an object of texts by any name.
func (o *object) otherTexts(name string) map[string]string {
	n := o.get(name)
	if n == nil {
		return nil
	}
	if n.Kind != source.Map || len(n.Fields) == 0 {
		o.fail(n, "%s must be an object of files that is not empty", name)
		return nil
	}
	out := map[string]string{}
	for _, f := range n.Fields {
		if f.Value.Kind != source.String {
			o.fail(f.Value, "the file %s must be a string, not %s", f.Name, f.Value.Kind)
		}
		out[f.Name] = f.Value.Text
	}
	return out
}

// newFiles returns the patch that adds files.
func newFiles(files map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "diff --git a/%[1]s b/%[1]s\nnew file mode 100644\n", name)
		if files[name] == "" {
			continue
		}
		fmt.Fprintf(&b, "--- /dev/null\n+++ b/%s\n", name)
		hunk(&b, "", files[name])
	}
	return b.String()
}

// replacement returns the patch that gives a file another text. Both are not
// empty.
func replacement(name, before, after string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n", name)
	hunk(&b, before, after)
	return b.String()
}

// hunk writes the one hunk that replaces a whole text by another.
func hunk(b *strings.Builder, before, after string) {
	span := func(text string) string {
		switch n := strings.Count(text, "\n"); {
		case text == "":
			return "0,0"
		case strings.HasSuffix(text, "\n"):
			return fmt.Sprintf("1,%d", n)
		default:
			return fmt.Sprintf("1,%d", n+1)
		}
	}
	fmt.Fprintf(b, "@@ -%s +%s @@\n", span(before), span(after))
	for _, side := range []struct{ mark, text string }{{"-", before}, {"+", after}} {
		for line := range strings.Lines(side.text) {
			b.WriteString(side.mark + line)
			if !strings.HasSuffix(line, "\n") {
				b.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
}
