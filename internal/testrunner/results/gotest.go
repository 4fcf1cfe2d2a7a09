package results

import (
	"strings"

	"github.com/go-json-experiment/json"
)

// event is one line of go test -json, as far as it matters.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
}

// goTest reads the output of go test -json. The id of a test is its package, a
// slash and its name; its name by itself means it as well.
func goTest(text []byte) (*Report, error) {
	b, failed := newBuilder(), map[string]bool{}
	err := lines(text, func(line string) string {
		if rest, ok := strings.CutPrefix(line, "FAIL\t"); ok { // before Go 1.24: a package that is not built
			b.report.Broken = append(b.report.Broken, rest)
			return ""
		}
		if line == "" || line == "FAIL" {
			return ""
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			return "it is not an event"
		}
		return b.event(e, failed)
	})
	return &b.report, err
}

// event takes one event. failed holds the packages in which a test has failed.
func (b *builder) event(e event, failed map[string]bool) string {
	var status Status
	switch e.Action {
	case "run":
	case "pass":
		status = Passed
	case "fail":
		status = Failed
	case "skip":
		status = Skipped
	case "build-fail":
		b.report.Broken = append(b.report.Broken, e.ImportPath)
		return ""
	case "start", "pause", "cont", "output", "bench", "attr", "artifacts", "build-output":
		return ""
	default:
		return "it is of an unknown kind"
	}
	if e.Test != "" {
		failed[e.Package] = failed[e.Package] || status == Failed
		return b.add(e.Package+"/"+e.Test, []string{e.Test}, status)
	}
	if status == Failed && !failed[e.Package] { // it panicked, or was not built
		b.report.Broken = append(b.report.Broken, e.Package)
	}
	return ""
}
