package testrunner

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/lazyregexp"
	"securebench/internal/testrunner/results"
)

// maxShown is how many lines are kept of what a command printed, where no failures
// of tests can be told apart in it.
const maxShown = 12

// resultFile is the restricted file with the result of each test.
type resultFile struct {
	Tests    []results.Test `json:"tests"`
	Broken   []string       `json:"broken"`
	Missing  []string       `json:"missing"`
	Canaries []results.Test `json:"canaries"`
	Lost     []string       `json:"canaries_lost"`
	Beaten   []string       `json:"canaries_beaten"`
	Exit     int            `json:"exit_status"`
}

// Explain tells a row's author, from the restricted files of a verdict, which tests
// did not pass and what the runner said about them. Canaries are left out.
func Explain(files map[string][]byte) []string {
	var got resultFile
	if text := files["test-results.json"]; len(text) > 0 && json.Unmarshal(text, &got, jsontext.AllowInvalidUTF8(true)) != nil {
		return nil
	}
	var out, printed []string
	for _, id := range got.Broken {
		out = append(out, id+": cannot be collected")
	}
	for _, r := range got.Tests {
		if r.Status.Bad() {
			out = append(out, r.ID+": "+string(r.Status))
		}
	}
	for _, id := range got.Missing {
		out = append(out, id+": was not run")
	}
	canaries := map[string]bool{}
	for _, r := range got.Canaries {
		file, _, _ := strings.Cut(r.ID, "::")
		canaries[file], canaries[path.Base(file)] = true, true // their names are random
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".txt") {
			printed = append(printed, said(string(files[name]), canaries)...)
		}
	}
	return append(out, printed...)
}

var (
	// heading begins what pytest says about one test.
	heading = lazyregexp.New(`^_{3,} (.+) _{3,}\s*$`)
	// location ends it.
	location = lazyregexp.New(`^(\S+\.py):[0-9]+: `)
	// part begins a part of pytest's output.
	part = lazyregexp.New(`^={3,} (.+) ={3,}\s*$`)
)

// said returns what pytest said about the failures of tests that are no canaries,
// or the end of other output.
func said(text string, canaries map[string]bool) (out []string) {
	var lines, section []string
	failures, seen, foreign := false, false, false
	flush := func() {
		if !foreign {
			out = append(out, section...)
		}
		section, foreign = nil, false
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \r\n")
		if strings.HasPrefix(line, `{"key":`) || line == "" {
			continue // of securebench's driver
		}
		lines = append(lines, line)
		if m := part.FindStringSubmatch(line); m != nil {
			flush()
			failures = m[1] == "FAILURES" || m[1] == "ERRORS"
			seen = seen || failures
			continue
		}
		if !failures {
			continue
		}
		if heading.MatchString(line) {
			flush()
		}
		if m := location.FindStringSubmatch(line); m != nil {
			foreign = canaries[m[1]] || canaries[path.Base(m[1])]
		}
		section = append(section, line)
	}
	flush()
	if !seen {
		return lines[max(0, len(lines)-maxShown):]
	}
	return out
}
