package viewer

import (
	"os"
	"path/filepath"
	"testing"

	"securebench/internal/browsertest"
)

// TestPictures makes the pictures of the documents, of the runs below the folder that
// SECUREBENCH_PICTURE_RUNS names, into the folder SECUREBENCH_PICTURES.
func TestPictures(t *testing.T) {
	runs, dir := os.Getenv("SECUREBENCH_PICTURE_RUNS"), os.Getenv("SECUREBENCH_PICTURES")
	if runs == "" || dir == "" {
		t.Skip("SKIPPED: only make pictures makes pictures")
	}
	b := browsertest.Open(t, serve(t, runs), 1280, 900)
	above := "html" // what the pictures begin with
	shoot := func(name, at string, width, height int) {
		t.Helper()
		b.Size(width, height)
		b.Eval("location.hash = '"+at+"'", nil)
		b.Until(shown)
		b.Eval("document.activeElement.blur(); window.scrollTo(0, 0)", nil)
		var top float64
		b.Eval("document.querySelector('"+above+"').getBoundingClientRect().top", &top)
		png := b.Picture(0, top, float64(width), float64(height))
		if len(png) < 5<<10 || len(png) > 400<<10 {
			t.Errorf("%s has %d bytes", name, len(png))
		}
		if err := os.WriteFile(filepath.Join(dir, name), png, 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
	b.Until(shown + " && document.querySelectorAll('tbody a').length === 3")
	run := "#/run/demo"
	shoot("report.png", run, 1280, 1100)
	shoot("report-phone.png", run, 390, 844)
	b.Eval("location.hash = '"+run+"?outcome=failed'", nil)
	b.Until(shown + " && document.querySelector('#attempts tbody a')")
	b.Until("document.querySelector('#attempts .outcome.failed')")
	shoot("report-attempt.png", b.Text("document.querySelector('#attempts tbody tr:has(.outcome.failed) a').hash"), 1280, 1100)
	b.Eval("location.hash = '#/run/judged'", nil)
	b.Until(shown + " && document.querySelector('#attempts .outcome.failed')")
	above = "#verification"
	shoot("judged.png", b.Text("document.querySelector('#attempts tbody tr:has(.outcome.failed) a').hash"), 1280, 1100)
	above = "html"
	b.Eval("location.hash = '#/run/own-agent'", nil)
	b.Until(shown + " && document.querySelector('#attempts .outcome.passed')")
	steps := b.Text("document.querySelector('#attempts tbody tr:has(.outcome.passed) a').hash")
	for name, width := range map[string]int{"steps.png": 1280, "steps-phone.png": 390, "steps-wide.png": 2560} {
		shoot(name, steps, width, 1100)
	}
}
