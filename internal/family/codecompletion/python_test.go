package codecompletion

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// fromASet is a row whose verdict hangs on the order of a set of strings: the
// tests want one of the 24 orders.
func fromASet() (s spec, candidate string) {
	s = spec{prompt: "Define first(words).", reference: "def first(words): return sorted(words)\n",
		tests: "assert first(['a', 'b', 'c', 'd']) == ['a', 'b', 'c', 'd']\n"}
	return s, "def first(words): return list(set(words))\n"
}

// seededEngine starts boxes with a random hash seed.
type seededEngine struct{ sandbox.Engine }

func (e seededEngine) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	spec.Env = slices.Clone(spec.Env)
	i := slices.Index(spec.Env, "PYTHONHASHSEED=0")
	spec.Env[i] = "PYTHONHASHSEED=random"
	return e.Engine.Open(ctx, spec)
}

// TestOneHashSeed: a candidate whose answer comes out of a set gets the same
// verdict every time; its twin that asks the tests' side for an order, too.
func TestOneHashSeed(t *testing.T) {
	t.Parallel()
	local := newLocalEngine(t)
	outcomes := func(e sandbox.Engine, s spec, candidate string, times int) map[verdict.Outcome]int {
		v, found := newTestVerifier(t, e), make(map[verdict.Outcome]int)
		for range times {
			found[verify(t, v, makeCase(t, s), candidate).Outcome]++
		}
		return found
	}
	s, candidate := fromASet()
	// The same order in the test box, so that it passes if the seed is one.
	same := s
	same.tests = "assert first(['a', 'b', 'c', 'd']) == list(set(['a', 'b', 'c', 'd']))\n"
	if got := outcomes(local, s, candidate, 20); len(got) != 1 {
		t.Errorf("the order of a set: %v", got)
	}
	if got := outcomes(local, same, candidate, 20); got[verdict.Passed] != 20 {
		t.Errorf("the order of a set on both sides: %v", got)
	}
	if got := outcomes(seededEngine{local}, same, candidate, 20); got[verdict.Passed] == 20 {
		t.Errorf("with seeds of chance: %v", got)
	}
}

// TestOneSeed: what a candidate draws from random is the same every time, whoever imports
// it. The tests draw other numbers.
func TestOneSeed(t *testing.T) {
	t.Parallel()
	v := newTestVerifier(t, newLocalEngine(t))
	for prompt, candidate := range map[string]string{
		"Define draw().": "import random\ndef draw(): return random.random()\n",
		"import random\n\ndef draw():\n    ...\n": "def draw(): return random.random()\n",
	} {
		c := makeCase(t, spec{prompt: prompt, reference: "def draw(): return 0.8444218515250481\n",
			tests: "import random\nassert draw() == 0.8444218515250481 != random.random()\n"})
		if got := verify(t, v, c, candidate); got.Outcome != verdict.Passed {
			t.Errorf("%q: %+v", prompt, got)
		}
	}
}

// hostileSettings are what an image may set for Python. Each would change what
// a program does, or keep it from running.
func hostileSettings(dir string) map[string]string {
	return map[string]string{
		"PYTHONPATH": dir, "PYTHONHOME": "/nonexistent", "PYTHONSTARTUP": dir + "/re.py", "PYTHONOPTIMIZE": "2",
		"PYTHONINSPECT": "1", "PYTHONWARNINGS": "error", "PYTHONBREAKPOINT": "os.abort", "PYTHONUTF8": "0",
		"PYTHONDEVMODE": "1", "PYTHONMALLOC": "malloc_debug", "PYTHONPLATLIBDIR": "nowhere", "PYTHONEXECUTABLE": "/nonexistent",
		"PYTHONIOENCODING": "utf-16", "PYTHONVERBOSE": "1", "PYTHONUSERBASE": dir, "PYTHONHASHSEED": "17", "PYTHONSAFEPATH": "",
		"PYTHONINTMAXSTRDIGITS": "640", "PYTHONFAULTHANDLER": "1", "PYTHONPROFILEIMPORTTIME": "1", "PYTHONCASEOK": "1",
		"PYTHON_VERSION": "3.11.2", "PYTHON_CPU_COUNT": "none", "PYTHON_GIL": "none",
	}
}

// hostileModules would end every process that imports one.
func hostileModules(dir string) map[string]string {
	out := make(map[string]string)
	for _, name := range []string{"sitecustomize", "usercustomize", "collections", "copy", "re", "random", "typing", "math", "numbers"} {
		out[filepath.Join(dir, name+".py")] = "import os\nos._exit(9)\n"
	}
	return out
}

// unimpressed is a row that shows whether Python is as it should be on both
// sides.
func unimpressed() spec {
	const look = `
import sys
def settings():
    try:
        assert False
        optimized = True
    except AssertionError:
        optimized = False
    import numbers
    f = sys.flags
    return (optimized, f.dev_mode, f.inspect, f.utf8_mode, list(sys.warnoptions), f.verbose, f.hash_randomization,
            '' in sys.path, sys.get_int_max_str_digits() if hasattr(sys, 'get_int_max_str_digits') else 4300)
`
	return spec{prompt: "Define settings().", reference: look, entry: "settings",
		tests: strings.ReplaceAll(look, "def settings", "def here") +
			"want = (False, False, 0, 0, [], 0, 0, False, 4300)\n" +
			"assert here() == want, here()\nassert settings() == want, settings()\n"}
}

// TestImageSettings: what an image sets for Python, and modules that lie where
// Python might look, change nothing.
func TestImageSettings(t *testing.T) {
	t.Parallel()
	t.Run("local", func(t *testing.T) {
		e := newLocalEngine(t)
		dir := openFolder(t)
		var names []string
		for name, value := range hostileSettings(dir) {
			names = append(names, name)
			e.env = append(e.env, name+"="+value)
		}
		write := func(files map[string]string) {
			for path, text := range files {
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Error(err)
				}
			}
		}
		write(hostileModules(dir))
		e.furnish = func(_, dir string) { write(hostileModules(dir)) } // the working folder
		c := makeCase(t, unimpressed())
		c.Image.Env = names
		if got := verify(t, newTestVerifier(t, e), c, unimpressed().reference); got.Outcome != verdict.Passed {
			t.Error(describe(got))
		}
		// Before Python 3.11 there is no safe path.
		older := olderEngine{e}
		if got := verify(t, newTestVerifier(t, older), c, unimpressed().reference); got.Outcome != verdict.Passed {
			t.Errorf("an older Python: %s", describe(got))
		}
	})
	t.Run("docker", func(t *testing.T) {
		e := enginetest.Open(t)
		changes := []string{}
		for name, value := range hostileSettings("/evil") {
			changes = append(changes, "ENV "+name+"="+value)
		}
		img := enginetest.Derive(t, e, enginetest.Image(t, e), hostileModules("evil"), changes...)
		if got := verify(t, newTestVerifier(t, e), onDocker(t, img, unimpressed()), unimpressed().reference); got.Outcome != verdict.Passed {
			t.Error(describe(got))
		}
		weak := img
		weak.Env = nil // the settings arrive
		s := newTestVerifier(t, e).Open(t.Context(), onDocker(t, weak, unimpressed()))
		if got, err := s.Verify(t.Context(), module(unimpressed().reference)); err == nil && got.Outcome == verdict.Passed {
			t.Error("the settings have no effect at all")
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// olderEngine runs boxes as if Python knew no safe path.
type olderEngine struct{ sandbox.Engine }

func (e olderEngine) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	spec.Env = slices.DeleteFunc(slices.Clone(spec.Env), func(v string) bool { return v == "PYTHONSAFEPATH=1" })
	return e.Engine.Open(ctx, spec)
}
