package validate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"securebench/internal/family"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/sandbox"
)

// The bounds on what is shown about a reference that does not pass.
const (
	maxLines   = 40
	maxLineLen = 300
)

// explain says why a row's own solution does not pass. What the verifier keeps from
// records, an author may see.
func explain(ctx context.Context, v family.Verifier, at family.Case, got family.Verdict) (lines []string, err error) {
	if e, ok := v.(family.Explainer); ok {
		if lines, err = e.Explain(ctx, at, got); err != nil {
			return nil, fmt.Errorf("looking for the reason: %w", err)
		}
	}
	if len(lines) == 0 {
		lines = printed(got.Restricted)
	}
	return shortened(lines), nil
}

// solutionSaid returns what a solution that is a program said, if it failed itself.
func solutionSaid(p attempt.Produced) []string {
	if p.Argv == nil || p.End != sandbox.Exited || p.ExitCode == 0 {
		return nil
	}
	out := []string{fmt.Sprintf("the solution ended with exit code %d", p.ExitCode)}
	return append(out, printed(map[string][]byte{"solution-stderr.txt": p.Raw["stderr"], "solution-stdout.txt": p.Raw["stdout"]})...)
}

// printed returns the ends of what a verification printed.
func printed(files map[string][]byte) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := strings.TrimSpace(string(files[name]))
		if !strings.HasSuffix(name, ".txt") || text == "" || !utf8.ValidString(text) {
			continue
		}
		out = append(out, strings.TrimSuffix(name, ".txt")+":")
		for _, line := range shortened(strings.Split(text, "\n")) {
			out = append(out, "  "+strings.TrimRight(line, " \r"))
		}
	}
	return out
}

// shortened keeps the first and the last lines, and the beginning of each.
func shortened(lines []string) []string {
	if len(lines) > maxLines {
		out := slices.Clone(lines[:maxLines/2])
		out = append(out, fmt.Sprintf("(%d lines left out)", len(lines)-maxLines))
		lines = append(out, lines[len(lines)-maxLines/2:]...)
	}
	for i, line := range lines {
		if r := []rune(line); len(r) > maxLineLen {
			lines[i] = string(r[:maxLineLen]) + "…"
		}
	}
	return lines
}
