package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// wheelPython runs a script with the modules of the wheel and the shipped binary.
func wheelPython(t *testing.T, dir, script string) string {
	t.Helper()
	name, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED: python3 is missing: its modules are not tried")
	}
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	modules, err := filepath.Abs("../../python")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "-B", "-c", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PYTHONPATH="+modules, "SECUREBENCH="+program, "SECUREBENCH_KEYS="+keysBeside(program))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestPythonModule: a run that Python starts, its records, what is said of it, and what is
// no result.
func TestPythonModule(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "pack"), os.DirFS("../../packs/gsm8k-sample")); err != nil {
		t.Fatal(err)
	}
	got := wheelPython(t, dir, `
import securebench, subprocess, sys
done = securebench.run("pack", agent="oracle", output_dir="a folder", limit=3, force=False, workers=None)
print(done, done.code, [r["outcome"] for r in done.records()], done.verify()["ok"])
none = securebench.run("pack", agent="null", output_dir="none", limit=2, fail_on=["rate<0.5"])
print(none.code, none.passed, none.total)
subprocess.run([securebench.program(), "bundle", "none", "-o", "none.zip"], check=True, stderr=subprocess.DEVNULL)
print([r["verification_status"] for r in securebench.records("none.zip")])
try:
    securebench.run("nothing", agent="oracle")
except securebench.Failed as e:
    print(e.code, "nothing" in str(e))
subprocess.run([sys.executable, "-m", "securebench.verify", "none.zip", "--any-signer"], check=True, stdout=subprocess.DEVNULL)
sys.exit(subprocess.run([sys.executable, "-m", "securebench", "version"], stdout=subprocess.DEVNULL).returncode)
`)
	want := "Run('" + filepath.Join(dir, "a folder") + "', 3 of 3 passed) 0 ['passed', 'passed', 'passed'] True\n20 0 2\n['failed', 'failed']\n11 True\n"
	if got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	text, err := os.ReadFile("../../python/securebench/__init__.py")
	if n := bytes.Count(text, []byte("\n")); err != nil || n > 200 {
		t.Errorf("the module has %d lines: %v", n, err)
	}
}
