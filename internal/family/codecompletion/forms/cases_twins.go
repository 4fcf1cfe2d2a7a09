package forms

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/task"
)

var _ family.Twinner = casesVerifier{}

// Twins returns, for a row that asks for Python and gives its cases something to work
// on, a program that does what the first case expects whatever it is given.
func (casesVerifier) Twins(_ context.Context, c family.Case) ([]family.Twin, error) {
	r, refused := readCases(c.Sandbox)
	if refused != nil || r.language != Python || r.compile != nil || !r.given() {
		return nil, nil
	}
	return []family.Twin{{
		What:      "the program always does what case 1 expects",
		Advice:    "add a case that expects something else",
		Candidate: candidate.New(task.Code, candidate.Given, []byte(r.constant())),
	}}, nil
}

// given reports whether a case has input. A program without any may be a constant.
func (r casesRow) given() bool {
	return slices.ContainsFunc(r.cases, func(c testCase) bool {
		return len(c.Args) > 0 || c.Stdin != "" || len(c.Files) > 0
	})
}

// constant is a program in Python that does what the first case expects.
func (r casesRow) constant() string {
	want := r.cases[0].Expect
	var b strings.Builder
	b.WriteString("import os, sys\n")
	for _, name := range slices.Sorted(maps.Keys(want.Files)) {
		fmt.Fprintf(&b, "os.makedirs(os.path.dirname(%[1]s) or '.', exist_ok=True)\nopen(%[1]s, 'wb').write(bytes.fromhex('%[2]x'))\n", strconv.QuoteToASCII(name), want.Files[name])
	}
	if want.Stdout != nil {
		fmt.Fprintf(&b, "sys.stdout.buffer.write(bytes.fromhex('%x'))\n", *want.Stdout)
	}
	fmt.Fprintf(&b, "sys.exit(%d)\n", want.ExitCode)
	return b.String()
}
