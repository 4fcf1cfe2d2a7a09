package testrunner

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
)

// canary is a file of tests that must fail.
type canary struct {
	Path  string  `json:"path"`  // relative to the folder of the command
	Place float64 `json:"place"` // where among the other files it runs, from 0 to 1
	Old   bool    `json:"old"`   // whether it gets the date of the files beside it
	// Functions are its test functions, for a runner that is set to look for
	// other names.
	Functions []string `json:"functions"`
	ids       []string
}

// canaryFiles is how many canaries a run has. A patch that spares one place
// among the files, whichever it is, hits no canary in one of canaryFiles+1 runs
// of a row with one test file.
const canaryFiles = 6

// words are what the names of canaries are made of: what real tests could be
// called.
//
//nolint:gochecknoglobals // a constant table
var words = strings.Fields(`access append basic bounds branch cache chain clean close compare convert copy create
	default delete edge empty encode error filter fixture format group handle index input invalid iter join keys lazy
	limit lookup match merge missing nested number option order output parse partial path prefix quote range replace
	reset result scan scope setup shape simple slice sort split state strip suffix token update value width write`)

// draw makes fresh names and values.
type draw struct {
	*rand.Rand
	used map[string]bool
	// row are names of test functions of the row. Canaries have them as well,
	// so that no patch that goes by the name of a test spares canaries.
	row []string
	// taken are names of files that no canary gets.
	taken []string
	form  Form
}

func newDraw(r *rand.Rand, row []string) *draw {
	d := &draw{Rand: r, used: map[string]bool{}, row: slices.Clone(row)}
	for _, name := range row {
		d.used[strings.TrimPrefix(name, "test_")] = true
	}
	d.Shuffle(len(d.row), func(i, j int) { d.row[i], d.row[j] = d.row[j], d.row[i] })
	return d
}

// functionName is the name of a test function.
var functionName = lazyregexp.New(`^test_[A-Za-z0-9_]{1,100}$`)

// functionNames returns the names of the test functions that ids mean, as far as
// they are in the ids.
func functionNames(ids []string) (names []string) {
	for _, id := range ids {
		name, _, _ := strings.Cut(id, "[")
		name, _, _ = strings.Cut(name, " (")
		name = name[strings.LastIndexAny(name, ":.")+1:]
		if functionName.MatchString(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// functionLine is the first line of a test function in Python.
var functionLine = lazyregexp.New(`(?m)^[ \t]*(?:async[ \t]+)?def[ \t]+(test_[A-Za-z0-9_]{1,100})[ \t]*\(`)

// Functions returns the names of the test functions in a Python file.
func Functions(text []byte) (names []string) {
	for _, found := range functionLine.FindAllSubmatch(text, -1) {
		names = append(names, string(found[1]))
	}
	return names
}

// test returns a name for the n-th test function of a file or class: the first
// is one of the row's, in turn.
func (d *draw) test(n int) string {
	if n > 0 || len(d.row) == 0 {
		return "test_" + d.name()
	}
	d.row = append(d.row[1:], d.row[0])
	return d.row[len(d.row)-1]
}

// module returns a name for the n-th file: three words, since a file of one or
// two could stand there already, divided in several ways, so that no pattern of
// the name's form finds all canaries.
func (d *draw) module(n int) string {
	for {
		if name := d.moduleName(n); !slices.Contains(d.taken, name+".py") {
			return name
		}
	}
}

func (d *draw) moduleName(n int) string {
	name := words[d.IntN(len(words))] + "_" + d.name()
	if d.form.Stem != "" {
		return d.form.Stem + "_" + name
	}
	if n%2 > 0 {
		name = strings.Replace(name, "_", "", 1)
	}
	if n%4 > 1 {
		at := strings.LastIndex(name, "_")
		name = name[:at] + name[at+1:]
	}
	return "test_" + name
}

// FileName returns a name for the test file of a row that does not name it itself. It
// has the form of a canary's, so that no patch that goes by constant names or by their
// form tells the file from canaries.
func FileName(seed [32]byte) string {
	random := rand.NewChaCha8(sha256.Sum256(append([]byte("test file\x00"), seed[:]...)))
	d := newDraw(rand.New(random), nil)
	return d.module(d.IntN(canaryFiles)) + ".py"
}

func (d *draw) name() string {
	for {
		name := words[d.IntN(len(words))] + "_" + words[d.IntN(len(words))]
		if !d.used[name] {
			d.used[name] = true
			return name
		}
	}
}

// The bodies of failing tests. Each gets two different numbers, and text that
// holds the first.
//
//nolint:gochecknoglobals // constant tables
var (
	plainBodies = []string{
		"assert %[1]d == %[2]d",
		"left, right = [%[1]d], [%[2]d]\n    assert left == right",
		"raise ValueError(%[1]d)",
		"assert str(%[1]d).startswith('x'), %[2]d",
		"assert not sorted([%[1]d, %[2]d])",
		"values = {%[1]d: 'a'}\n    values[%[2]d]",
	}
	pytestBodies = []string{
		"with pytest.raises(ValueError):\n        int('%[1]d')",
		"pytest.raises(KeyError, {%[1]d: 1}.__getitem__, %[1]d)",
		"pytest.fail('%[1]d')",
	}
	methodBodies = []string{
		"self.assertEqual(%[1]d, %[2]d)",
		"self.assertEqual([%[1]d], [%[2]d])",
		"self.assertEqual({%[1]d: 1}, {%[2]d: 1})",
		"self.assertEqual('%[1]d', '%[2]d')",
		"self.assertNotEqual(%[1]d, %[1]d)",
		"self.assertTrue([] if %[1]d else [1])",
		"self.assertFalse([%[1]d])",
		"self.assertIn(%[1]d, [%[2]d])",
		"self.assertIs(%[1]d, None)",
		"self.assertIsNone(%[1]d)",
		"self.assertIsInstance(%[1]d, str)",
		"self.assertGreater(%[1]d, %[2]d)",
		"with self.assertRaises(KeyError):\n            int('%[1]d')",
		"with self.assertRaisesRegex(ValueError, 'x'):\n            raise ValueError(%[1]d)",
		"self.fail('%[1]d')",
		"assert %[1]d == %[2]d",
		"raise RuntimeError(%[1]d)",
	}
)

func (d *draw) body(kind string) string {
	a := 1000 + d.IntN(1<<20)
	return fmt.Sprintf(kind, a, a+1+d.IntN(1<<10))
}

// deal shuffles kinds and divides them between n files, so that each is in one.
func (d *draw) deal(kinds []string, n int) [][]string {
	out := make([][]string, n)
	for place, i := range d.Perm(len(kinds)) {
		out[place%n] = append(out[place%n], kinds[i])
	}
	return out
}

// functions writes a test function of each kind, and returns their names.
func (d *draw) functions(b *strings.Builder, kinds []string) (names []string) {
	for n, kind := range kinds {
		name := d.test(n)
		fmt.Fprintf(b, "\n\n%sdef %s():\n    %s\n", d.marks(""), name, d.body(kind))
		names = append(names, name)
	}
	return names
}

// marks are the lines above a test that mark it.
func (d *draw) marks(indent string) (out string) {
	for _, m := range d.form.Markers {
		out += indent + "@pytest.mark." + m + "\n"
	}
	return out
}

// class writes a test class over base with a method of each kind, and returns
// its name and theirs.
func (d *draw) class(b *strings.Builder, base string, kinds []string) (class string, methods []string) {
	for part := range strings.SplitSeq(d.name(), "_") {
		class += strings.ToUpper(part[:1]) + part[1:]
	}
	class = "Test" + class
	fmt.Fprintf(b, "\n\nclass %s(%s):\n", class, base)
	for n, kind := range kinds {
		if n > 0 {
			b.WriteString("\n")
		}
		name := d.test(n)
		fmt.Fprintf(b, "%s    def %s(self):\n        %s\n", d.marks("    "), name, d.body(kind))
		methods = append(methods, name)
	}
	return class, methods
}

// canaries makes the canaries of a driver, by path relative to the command's
// folder, and what they must be reported as.
func (d *draw) canaries(driver string, folders []string) ([]canary, map[string][]byte) {
	files := map[string][]byte{}
	out := make([]canary, 0, canaryFiles)
	plain, special, methods := d.deal(plainBodies, canaryFiles), d.deal(pytestBodies, canaryFiles), d.deal(methodBodies, canaryFiles)
	forms, ages := d.Perm(canaryFiles), d.Perm(canaryFiles)
	for n := range canaryFiles {
		folder := folders[d.IntN(len(folders))]
		c := canary{Path: path.Join(folder, d.module(forms[n])+".py"), Place: d.Float64(), Old: ages[n]%2 > 0}
		var b strings.Builder
		switch driver {
		case "pytest":
			b.WriteString("import unittest\n\nimport pytest\n")
			c.Functions = d.functions(&b, slices.Concat(plain[n], special[n]))
			for _, name := range c.Functions {
				c.ids = append(c.ids, c.Path+"::"+name)
			}
			class, names := d.class(&b, "unittest.TestCase", methods[n])
			for _, m := range names {
				c.ids = append(c.ids, c.Path+"::"+class+"::"+m)
			}
		case "sympy":
			b.WriteString("from sympy import Symbol\n")
			for _, name := range d.functions(&b, plain[n]) {
				c.ids = append(c.ids, c.Path+"::"+name)
			}
		default:
			base := "unittest.TestCase"
			if driver == "django" && d.IntN(3) > 0 {
				base = "SimpleTestCase"
				b.WriteString("from django.test import SimpleTestCase\n")
			} else {
				b.WriteString("import unittest\n")
			}
			class, names := d.class(&b, base, methods[n])
			for _, m := range names {
				c.ids = append(c.ids, moduleName(c.Path)+"."+class+"."+m)
			}
		}
		files[c.Path] = []byte(b.String())
		out = append(out, c)
	}
	return out, files
}

// moduleName is the dotted name of a Python file.
func moduleName(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(path.Clean(file), ".py"), "/", ".")
}

// folders returns the folders, relative to the command's, in which the row has
// test files: those that the test patch writes, and those that the command
// names.
func (t Tests) folders(p program, driver string) []string {
	var files, dirs []string
	dir := strings.TrimSuffix(t.root(p), "/") + "/"
	add := func(file string) {
		file, _, _ = strings.Cut(strings.TrimPrefix(file, dir), "::")
		switch {
		case !filepath.IsLocal(file):
		case strings.HasSuffix(file, ".py"):
			files = append(files, path.Dir(file))
		case driver == "pytest" && strings.HasPrefix(file, "test"), strings.Contains(file, "/"):
			dirs = append(dirs, path.Clean(file))
		}
	}
	for _, f := range t.TestFiles {
		if f = path.Join(cmp.Or(t.Root, t.Dir), f); strings.HasPrefix(f, dir) && strings.HasSuffix(f, ".py") {
			add(f)
		}
	}
	for _, a := range p.args {
		if !strings.HasPrefix(a, "-") {
			add(a)
		}
	}
	for _, found := range [][]string{files, dirs} {
		if len(found) > 0 {
			slices.Sort(found)
			return slices.Compact(found)
		}
	}
	if driver == "django" {
		return []string{path.Dir(p.script)}
	}
	return []string{"."}
}
