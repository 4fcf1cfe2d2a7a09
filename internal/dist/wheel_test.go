package dist_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"securebench/internal/dist"
)

// aWheel is a wheel with a script in the place of the program.
func aWheel() dist.Wheel {
	return dist.Wheel{Name: "thing", Version: "1.2.0", Summary: "does things", Python: ">=3.9", Readme: []byte("# Thing\n"), Materials: []byte("{}"),
		Tags:    []string{"py3-none-manylinux2014_x86_64", "py3-none-manylinux2014_aarch64"},
		Modules: []dist.File{{Name: "thing/__init__.py", Body: []byte("answer = 42\n")}},
		Scripts: []dist.File{{Name: "thing", Body: []byte("#!/bin/sh\necho ran with \"$@\"\n")}}}
}

// TestWheel: equal parts give equal bytes, and the list of files has the digest of each.
func TestWheel(t *testing.T) {
	t.Parallel()
	w := aWheel()
	var one, two, early bytes.Buffer
	for to, at := range map[*bytes.Buffer]time.Time{&one: made, &two: made.In(time.FixedZone("", 3600)), &early: {}} {
		if err := w.Write(to, at); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the wheels differ")
	}
	if want := "thing-1.2.0-py3-none-manylinux2014_x86_64.manylinux2014_aarch64.whl"; w.FileName() != want {
		t.Errorf("it is called %s, want %s", w.FileName(), want)
	}
	z, err := zip.NewReader(bytes.NewReader(one.Bytes()), int64(one.Len()))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	var last []byte
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if last, err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(last)
		sums[f.Name] = "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:])
		if exec := strings.Contains(f.Name, "/scripts/"); exec != (f.Mode().Perm() == 0o755) || !f.Modified.Equal(made) {
			t.Errorf("%s has mode %s and time %s", f.Name, f.Mode(), f.Modified)
		}
	}
	list, err := csv.NewReader(bytes.NewReader(last)).ReadAll() // the record is the last file
	if err != nil || len(list) != len(z.File) {
		t.Fatalf("%d files are listed, %d are there: %v", len(list), len(z.File), err)
	}
	for _, l := range list {
		if l[0] != "thing-1.2.0.dist-info/RECORD" && sums[l[0]] != l[1] {
			t.Errorf("%s has %s, listed is %s", l[0], sums[l[0]], l[1])
		}
	}
}

// TestWheelInstalls: Python's installer accepts the wheel, and the program in it runs.
func TestWheelInstalls(t *testing.T) {
	t.Parallel()
	if err := exec.Command("python3", "-m", "pip", "--version").Run(); err != nil {
		t.Skip("SKIPPED: python3 with pip is missing: no wheel is installed")
	}
	dir := t.TempDir()
	w := aWheel()
	w.Tags = []string{"py3-none-any"}
	var b bytes.Buffer
	if err := w.Write(&b, made); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, w.FileName())
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "to")
	if out, err := exec.Command("python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-compile", "--target", to, name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command(filepath.Join(to, "bin", "thing"), "care").CombinedOutput(); err != nil || string(out) != "ran with care\n" {
		t.Errorf("%v\n%s", err, out)
	}
	python := exec.Command("python3", "-B", "-c", "import importlib.metadata as m, thing; print(thing.answer, m.version('thing'), m.metadata('thing')['Summary'])")
	python.Env = append(os.Environ(), "PYTHONPATH="+to)
	if out, err := python.CombinedOutput(); err != nil || string(out) != "42 1.2.0 does things\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
