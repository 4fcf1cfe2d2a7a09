package importer

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"securebench/internal/importer/hostgit"
	"securebench/internal/importer/onecommit"
	"securebench/internal/importer/packdir"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// sweTimeout is SWE-bench's own time limit for the tests of a row.
const sweTimeout = 1800

// sweImport is the state of an import of SWE-bench.
type sweImport struct {
	ctx   context.Context
	o     Options
	out   *packdir.Set
	specs sweSpecs
	bases map[string]string // packages → the name of the image that has them
	clone map[string]*hostgit.Repo
	names map[string]bool
	notes []string
}

func importSWEBench(ctx context.Context, in io.Reader, outDir string, o Options) (sum Result, err error) {
	if !imageID.MatchString(o.ID) {
		return Result{}, fmt.Errorf("importing %s: the id %q becomes part of images' names: use lower-case letters, digits and single . _ or -", SWEBench, o.ID)
	}
	w := &sweImport{ctx: ctx, o: o, bases: map[string]string{}, clone: map[string]*hostgit.Repo{}, names: map[string]bool{}}
	if o.Specs != "" {
		if w.specs, err = readSpecs(o.Specs); err != nil {
			return Result{}, err
		}
	}
	o.array = true
	if w.out, err = packdir.New(outDir, o.Force, packFiles()...); err != nil {
		return Result{}, err
	}
	defer w.out.Discard()
	defer func() {
		for _, c := range w.clone {
			_ = c.Close() // it was only read
		}
	}()
	sum = Result{Format: SWEBench, Dir: outDir, Files: packFiles()}
	seen := make(map[string]int)
	sum.Source, err = eachRow(ctx, in, o, func(obj *object) error {
		row := obj.sweRow(w.specs)
		if err := obj.err(seen, row.ID); err != nil {
			return err
		}
		sum.Rows++
		return w.row(obj.node, row)
	})
	if err != nil {
		return Result{}, err
	}
	sum.Images = len(w.names) + len(w.bases)
	return sum, finishPack(w.out, w.dataset(), o, sum)
}

// row writes a row, and the recipe of its image unless it names one.
func (w *sweImport) row(at *source.Node, r sweRow) error {
	image, names := r.Image, []string(nil)
	if image == "" {
		repo, err := w.checkout(r)
		if err != nil {
			return source.Problemf(at.Pos, "%s: %v", r.ID, err)
		}
		name := strings.ToLower(r.ID)
		if strings.HasPrefix(name, baseName) {
			return source.Problemf(at.Pos, "the id %q is the name of an image that rows share", name)
		}
		if w.names[name] {
			return source.Problemf(at.Pos, "two rows have the id %q in lower-case letters", name)
		}
		w.names[name] = true
		if err := w.recipe(name, r, repo); err != nil {
			return err
		}
		image, names = imageRef(w.o.ID, name), repo.Names()
	}
	policy := repoPolicy{OnDenied: "drop", Preserved: preserved(r.Repo, names, r.GoldPatch)}
	if w.o.Denied != nil {
		policy.AllowSensitive = w.o.Denied(patchPaths(r.GoldPatch))
	}
	w.note(r, policy)
	tests := repoTests{Source: "command", Command: r.Command, Runner: r.Runner, Timeout: sweTimeout,
		FailToPass: r.FailToPass, PassToPass: r.PassToPass, TestPatch: r.TestPatch, Policy: policy}
	metadata := map[string]any{"dataset": "SWE-bench", "instance_id": r.ID}
	for key, value := range map[string]string{"version": r.Version, "subset": r.Subset, "licence": r.Licence} {
		if value != "" {
			metadata[key] = value
		}
	}
	for key, list := range map[string][]string{"not_test_ids": r.NotIDs, "dropped_pass_to_pass": r.Dropped} {
		if len(list) > 0 {
			metadata[key] = list
		}
	}
	return w.out.Line("tasks.jsonl", row{ID: r.ID, Input: repoInput{r.Repo, r.BaseCommit, r.Statement}, Eval: repoEval{tests, r.GoldPatch},
		Environment: repoEnvironment{image, testbed, r.Env}, Metadata: metadata})
}

// note keeps for ATTRIBUTION.md what the import decided about a row.
func (w *sweImport) note(r sweRow, p repoPolicy) {
	for _, n := range []struct {
		what string
		list []string
	}{
		{"no test ids, left out", r.NotIDs},
		{"pass_to_pass that do not pass in this environment, left out", r.Dropped},
		{"sensitive paths that the gold patch needs, opened", p.AllowSensitive},
	} {
		if len(n.list) > 0 {
			w.notes = append(w.notes, fmt.Sprintf("- %s: %s: %s\n", r.ID, n.what, codes(n.list)))
		}
	}
}

// codes renders words of a data set as Markdown that shows them and nothing
// else.
func codes(words []string) string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = "`" + strings.ReplaceAll(redact.Escape(word), "`", "'") + "`"
	}
	return strings.Join(out, ", ")
}

// checkout reads the commit of a row from its clone.
func (w *sweImport) checkout(r sweRow) (*onecommit.Repository, error) {
	if w.o.Repos == "" {
		return nil, fmt.Errorf("its image needs a clone of %s: give --repos DIR", r.Repo)
	}
	clone := w.clone[r.Repo]
	if clone == nil {
		dir, err := hostgit.Find(w.o.Repos, r.Repo)
		if err != nil {
			return nil, err
		}
		if clone, err = hostgit.Open(w.ctx, dir); err != nil {
			return nil, err
		}
		w.clone[r.Repo] = clone
	}
	id, err := onecommit.ParseID(r.BaseCommit)
	if err != nil {
		return nil, err
	}
	return onecommit.Read(id, clone.Object)
}

// recipe writes what makes the image of a row.
func (w *sweImport) recipe(name string, r sweRow, repo *onecommit.Repository) error {
	base, err := w.base(r.Packages)
	if err != nil {
		return err
	}
	dir, text := path.Join("images", name), "FROM "+base+"\nADD checkout.tar /\n"
	// Each file is named: no other one in the folder is the image's.
	for _, file := range slices.Sorted(maps.Keys(r.Write)) {
		text += "COPY write/" + file + " " + path.Join(testbed, file) + "\n"
		if err := w.out.Put(path.Join(dir, "write", file), r.Write[file]); err != nil {
			return err
		}
	}
	if err := w.out.Put(path.Join(dir, "Dockerfile"), text+"WORKDIR "+testbed+"\n"); err != nil {
		return err
	}
	archive, err := w.out.Add(path.Join(dir, "checkout.tar"))
	if err != nil {
		return err
	}
	if err := repo.WriteTar(archive, strings.TrimPrefix(testbed, "/")); err != nil {
		return fmt.Errorf("%w: %w", packdir.ErrOutput, err)
	}
	return nil
}

// baseName is the start of the names of images that rows share.
const baseName = "base-"

// base returns the image that has packages, and writes its recipe once. Debian
// keeps a part of Python's standard library in a package of its own, which lists
// of what a repository needs therefore leave out.
func (w *sweImport) base(packages []string) (string, error) {
	all := slices.Sorted(slices.Values(append([]string{"git", "python3", "python3-distutils"}, packages...)))
	all = slices.Compact(all)
	key := strings.Join(all, " ")
	name, known := w.bases[key]
	if !known {
		name = baseName + itoa(int64(len(w.bases)+1))
		w.bases[key] = name
		if err := w.out.Put(path.Join("images", name, "Dockerfile"), debianWith(all...)); err != nil {
			return "", err
		}
	}
	return imageRef(w.o.ID, name), nil
}

// dataset says what the manifest and ATTRIBUTION.md say.
func (w *sweImport) dataset() dataset {
	changes := "- `instructions` are `problem_statement`. `hints_text` is left out: it comes from after the task was set, and SWE-bench does not give it to agents.\n" +
		"- The checkout has one commit, which is `base_commit`, and no other history.\n" +
		"- Denied changes are dropped, not refused: a script that an agent forgot does not cost the task. What runs the tests keeps the base's version.\n"
	if len(w.notes) > 0 {
		changes += "\n### Row by row\n\n" + strings.Join(w.notes, "")
	}
	return dataset{
		format: SWEBench,
		family: "repo_patch",
		about: `# SWE-bench

Rows of SWE-bench or of a data set in its form. Carlos E. Jimenez and others,
"SWE-bench: Can Language Models Resolve Real-World GitHub Issues?" (2024),
https://arxiv.org/abs/2310.06770

Licence: SWE-bench is under the MIT licence (LICENSE). Problem statements and
patches belong to their repositories, under the licences of these.
`,
		changes: changes,
		licence: sweBenchLicence,
	}
}

//go:embed licences/swebench.txt
var sweBenchLicence string
