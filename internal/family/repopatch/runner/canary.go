package runner

import (
	"fmt"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// canary is a file of tests that must fail.
type canary struct {
	Path  string  `json:"path"`  // relative to the folder of the command
	Place float64 `json:"place"` // where among the other files it runs, from 0 to 1
	ids   []string
}

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
}

func (d draw) name(parts int) string {
	for {
		var picked []string
		for range parts {
			picked = append(picked, words[d.IntN(len(words))])
		}
		name := strings.Join(picked, "_")
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
		"self.assertTrue([] if %[1]d else [1])",
		"self.assertIn(%[1]d, [%[2]d])",
		"with self.assertRaises(KeyError):\n            int('%[1]d')",
		"self.fail('%[1]d')",
		"assert %[1]d == %[2]d",
		"raise RuntimeError(%[1]d)",
	}
)

func (d draw) body(kind string) string {
	a := 1000 + d.IntN(1<<20)
	return fmt.Sprintf(kind, a, a+1+d.IntN(1<<10))
}

// functions writes test functions of n of the given kinds, and returns their
// names.
func (d draw) functions(b *strings.Builder, kinds []string, n int) (names []string) {
	for _, i := range d.Perm(len(kinds))[:n] {
		name := "test_" + d.name(2)
		fmt.Fprintf(b, "\n\ndef %s():\n    %s\n", name, d.body(kinds[i]))
		names = append(names, name)
	}
	return names
}

// class writes a test class with three methods over base, and returns its name
// and theirs.
func (d draw) class(b *strings.Builder, base string) (class string, methods []string) {
	for part := range strings.SplitSeq(d.name(2), "_") {
		class += strings.ToUpper(part[:1]) + part[1:]
	}
	class = "Test" + class
	fmt.Fprintf(b, "\n\nclass %s(%s):\n", class, base)
	for n, i := range d.Perm(len(methodBodies))[:3] {
		if n > 0 {
			b.WriteString("\n")
		}
		name := "test_" + d.name(2)
		fmt.Fprintf(b, "    def %s(self):\n        %s\n", name, d.body(methodBodies[i]))
		methods = append(methods, name)
	}
	return class, methods
}

// canaries makes the canaries of a driver, by path relative to the command's
// folder, and what they must be reported as.
func (d draw) canaries(driver string, folders []string) ([]canary, map[string][]byte) {
	files := map[string][]byte{}
	out := make([]canary, 0, 2)
	for range 2 {
		folder := folders[d.IntN(len(folders))]
		module := fmt.Sprintf("test_%s_%d", d.name(2), 10000+d.IntN(90000))
		c := canary{Path: path.Join(folder, module+".py"), Place: d.Float64()}
		var b strings.Builder
		switch driver {
		case "pytest":
			b.WriteString("import unittest\n\nimport pytest\n")
			for _, name := range append(d.functions(&b, plainBodies, 3), d.functions(&b, pytestBodies, 1)...) {
				c.ids = append(c.ids, c.Path+"::"+name)
			}
			class, methods := d.class(&b, "unittest.TestCase")
			for _, m := range methods {
				c.ids = append(c.ids, c.Path+"::"+class+"::"+m)
			}
		case "sympy":
			b.WriteString("from sympy import Symbol\n")
			for _, name := range d.functions(&b, plainBodies, 4) {
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
			class, methods := d.class(&b, base)
			for _, m := range methods {
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
	dir := strings.TrimSuffix(p.workdir(t.Dir), "/") + "/"
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
		if f = path.Join(t.Dir, f); strings.HasPrefix(f, dir) && strings.HasSuffix(f, ".py") {
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
