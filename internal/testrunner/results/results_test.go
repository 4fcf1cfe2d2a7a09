package results

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// show writes a report in one line.
func show(r *Report) string {
	var parts []string
	for _, t := range r.Tests {
		parts = append(parts, fmt.Sprintf("%s=%s", t.ID, t.Status))
	}
	for _, b := range r.Broken {
		parts = append(parts, "broken "+b)
	}
	return strings.Join(parts, ", ")
}

// say writes lines of a driver; K stands for the member with the key.
func say(lines ...string) string {
	text := strings.Join(lines, "\n")
	if text != "" {
		text += "\n"
	}
	return strings.ReplaceAll(text, "K", `"key":"k1"`)
}

const (
	testA   = `{K,"type":"test","id":"a","names":[]}`
	testB   = `{K,"type":"test","id":"b","names":["bb"]}`
	start2  = `{K,"type":"start","tests":2}`
	passA   = `{K,"type":"result","id":"a","status":"passed"}`
	failB   = `{K,"type":"result","id":"b","status":"failed"}`
	end1    = `{K,"type":"end","status":1}`
	brokenC = `{K,"type":"broken","id":"c.py"}`
)

func TestChannel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want string // "" with an error
		err  error
	}{
		"all":                  {say(testA, testB, start2, passA, failB, end1), "a=passed, b=failed", nil},
		"a file is broken":     {say(testA, brokenC, testB, start2, failB, end1), "a=, b=failed, broken c.py", nil},
		"the same id twice":    {say(testA, testA, start2, passA, passA, end1), "a=passed, a=passed", nil},
		"nothing":              {"", "", ErrUnfinished},
		"no end":               {say(testA, testB, start2, passA), "", ErrUnfinished},
		"half a line":          {strings.TrimSuffix(say(testA, testB, start2, end1), "\n"), "", ErrUnfinished},
		"no start":             {say(testA, testB, passA, end1), "", ErrForm},
		"an end alone":         {say(end1), "", ErrForm},
		"two starts":           {say(testA, testB, start2, start2, end1), "", ErrForm},
		"a miscount":           {say(testA, start2, end1), "", ErrForm},
		"a test after start":   {say(testA, testB, start2, testA, end1), "", ErrForm},
		"two results":          {say(testA, testB, start2, passA, passA, end1), "", ErrForm},
		"a result too early":   {say(testA, passA, testB, start2, end1), "", ErrForm},
		"an unknown test":      {say(testA, testB, start2, `{K,"type":"result","id":"x","status":"passed"}`, end1), "", ErrForm},
		"an unknown status":    {say(testA, testB, start2, `{K,"type":"result","id":"a","status":"PASSED"}`, end1), "", ErrForm},
		"a number as status":   {say(testA, testB, start2, `{K,"type":"result","id":"a","status":1}`, end1), "", ErrForm},
		"lines after the end":  {say(testA, testB, start2, end1, passA), "", ErrForm},
		"two ends":             {say(testA, testB, start2, end1, end1), "", ErrForm},
		"another key":          {say(testA, testB, start2, strings.Replace(passA, "K", `"key":"k2"`, 1), end1), "", ErrForm},
		"no key":               {say(testA, testB, start2, strings.Replace(passA, "K,", "", 1), end1), "", ErrForm},
		"a printed line":       {say(testA, testB, start2, "PASSED a", end1), "", ErrForm},
		"a blank line":         {say(testA, testB, start2, "", end1), "", ErrForm},
		"an unknown type":      {say(testA, testB, start2, `{K,"type":"pass","id":"a"}`, end1), "", ErrForm},
		"an unknown field":     {say(testA, testB, start2, `{K,"type":"result","id":"a","status":"passed","x":1}`, end1), "", ErrForm},
		"a field of another":   {say(testA, testB, start2, `{K,"type":"result","id":"a","status":"passed","tests":1}`, end1), "", ErrForm},
		"a repeated field":     {say(testA, testB, start2, `{K,"type":"result","id":"b","id":"a","status":"passed"}`, end1), "", ErrForm},
		"two values in a line": {say(testA, testB, start2, passA+" "+failB, end1), "", ErrForm},
		"not UTF-8":            {say(testA, testB, start2, "{K,\"type\":\"broken\",\"id\":\"\xff\"}", end1), "", ErrForm},
		"a long line":          {say(testA, testB, start2, `{K,"type":"broken","id":"`+strings.Repeat("x", maxLine)+`"}`, end1), "", ErrForm},
		"a huge exit status":   {say(testA, testB, start2, `{K,"type":"end","status":1e99}`), "", ErrForm},
		"a broken exit status": {say(testA, testB, start2, `{K,"type":"end","status":0.5}`), "", ErrForm},
	} {
		r, err := Channel([]byte(c.text), "k1")
		if !errors.Is(err, c.err) || err == nil && show(r) != c.want {
			t.Errorf("%s: %q, %v; not %q, %v", name, show(r), err, c.want, c.err)
		}
	}
}

// textCase is the text of a runner and what it says.
type textCase struct {
	runner, text string
	want         string
	err          error
}

func textCases() map[string]textCase {
	return map[string]textCase{
		"go": {"go", `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestB\n"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}
`, "p/TestA=failed, p/TestA/x=passed, p/TestC=skipped", nil},
		"go: a panic": {"go", `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
`, "p/TestA=, broken p", nil},
		"go: not built": {"go", `{"ImportPath":"p [p.test]","Action":"build-output","Output":"x\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}
FAIL	q [build failed]
FAIL
`, "broken p [p.test], broken p, broken q [build failed]", nil},
		"go: twice": {"go", `{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
`, "p/TestA=failed, p/TestA=passed", nil},
		"go: text":           {"go", "ok  \tp\t0.1s\n", "", ErrForm},
		"go: unknown action": {"go", `{"Action":"passed","Package":"p","Test":"TestA"}`, "", ErrForm},
		"go: not UTF-8":      {"go", "\xff", "", ErrForm},
		"junit": {"junit", `<?xml version="1.0"?>
<testsuites><testsuite name="s"><properties/><testcase classname="m.C" name="a"/><testcase classname="m.C" name="b"><failure>x</failure></testcase>
<testcase name="c"><skipped/><system-out>&lt;testcase name="z"/&gt;</system-out></testcase>
<testcase name="d"><failure/><error/></testcase></testsuite></testsuites>
`, "m.C::a=passed, m.C::b=failed, c=skipped, d=error", nil},
		"junit: twice":     {"junit", `<testsuite><testcase name="a"><failure/></testcase><testcase name="a"/></testsuite>`, "a=failed, a=passed", nil},
		"junit: no name":   {"junit", `<testsuite><testcase classname="c"/></testsuite>`, "", ErrForm},
		"junit: cut":       {"junit", `<testsuite><testcase name="a"/>`, "", ErrUnfinished},
		"junit: crossed":   {"junit", `<testsuite><testcase name="a"></testsuite></testcase>`, "", ErrForm},
		"junit: two roots": {"junit", `<testsuite/><testsuite/>`, "", ErrForm},
		"junit: other":     {"junit", `<html/>`, "", ErrForm},
		"junit: empty":     {"junit", ``, "", ErrUnfinished},
		"junit: text":      {"junit", `ok <testsuite/>`, "", ErrForm},
		"junit: doctype":   {"junit", `<!DOCTYPE x [<!ENTITY e "x">]><testsuite/>`, "", ErrForm},
		"junit: entity":    {"junit", `<testsuite>&e;</testsuite>`, "", ErrForm},
		"junit: depth":     {"junit", `<testsuite>` + strings.Repeat("<x>", maxDepth), "", ErrForm},
		"tap": {"tap", "TAP version 14\n# x\nok 1 - first one\nnot ok 2 second # TODO later\n    ok 1 - inner\nok 3 - third # SKIP none\n" +
			"not ok 4 - a \\# b\n  ---\n  message: x\n  ...\nok\nok 6 - todo # todo\n1..6\n",
			"first one=passed, second=xfailed, third=skipped, a # b=failed, 5=passed, todo=xpassed", nil},
		"tap: twice":    {"tap", "1..2\nnot ok 1 - a\nok 2 - a\n", "a=failed, a=passed", nil},
		"tap: bail out": {"tap", "1..1\nok 1 - a\nBail out! x\n", "a=passed, broken Bail out!", nil},
		"tap: no plan":  {"tap", "ok 1 - a\n", "", ErrUnfinished},
		"tap: plans":    {"tap", "1..1\nok 1 - a\n1..1\n", "", ErrForm},
		"tap: too many": {"tap", "1..1\nok 1 - a\nok 2 - b\n", "", ErrForm},
		"tap: order":    {"tap", "1..2\nok 2 - a\nok 1 - b\n", "", ErrForm},
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for name, c := range textCases() {
		r, err := Text(c.runner, []byte(c.text))
		if !errors.Is(err, c.err) || err == nil && show(r) != c.want {
			t.Errorf("%s: %q, %v; not %q, %v", name, show(r), err, c.want, c.err)
		}
	}
}

func TestExplained(t *testing.T) {
	t.Parallel()
	of := func(broken int, s ...Status) *Report {
		r := &Report{Broken: make([]string, broken)}
		for _, s := range s {
			r.Tests = append(r.Tests, Test{Status: s})
		}
		return r
	}
	for _, c := range []struct {
		report *Report
		exit   int
		want   bool
	}{
		{of(0, Passed, Skipped, XFailed, XPassed), 0, true},
		{of(0, Passed, Failed), 0, false},
		{of(0, Error), 0, false},
		{of(1, Passed), 0, false},
		{of(0, Passed, Failed), 1, true},
		{of(0, XPassed), 1, true}, // unittest ends so
		{of(1), 1, true},
		{of(0, Passed, Skipped, XFailed), 1, false},
		{of(0), 1, false},
	} {
		if got := c.report.Explained(c.exit); got != c.want {
			t.Errorf("%s with exit status %d: %v", show(c.report), c.exit, got)
		}
	}
}

// checkReport checks what holds for every report that is accepted.
func checkReport(t *testing.T, r *Report, text []byte) {
	known := []Status{"", Passed, Failed, Error, Skipped, XFailed, XPassed}
	for _, test := range r.Tests {
		if !slices.Contains(known, test.Status) {
			t.Errorf("status %q", test.Status)
		}
	}
	if len(r.Tests) > len(text) {
		t.Errorf("%d tests in %d bytes", len(r.Tests), len(text))
	}
}

func FuzzChannel(f *testing.F) {
	f.Add([]byte(say(testA, testB, start2, passA, failB, end1)))
	f.Add([]byte(say(testA, brokenC, testB, start2, failB, end1)))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Channel(text, "k1")
		checkReport(t, r, text)
		if err != nil {
			return
		}
		if again, err := Channel(append(slices.Clone(text), text...), "k1"); err == nil {
			t.Errorf("twice the same report is accepted: %s", show(again))
		}
		if _, err := Channel(text, "k2"); err == nil {
			t.Error("another key is accepted")
		}
	})
}

func FuzzText(f *testing.F) {
	f.Add("go", []byte(`{"Action":"run","Package":"p","Test":"TestA"}`))
	f.Add("junit", []byte(`<testsuite><testcase classname="m.C" name="a"/><testcase name="b"><failure>x</failure></testcase></testsuite>`))
	f.Add("tap", []byte("1..2\nok 1 - first # SKIP\nnot ok 2 second # TODO\n"))
	f.Fuzz(func(t *testing.T, runner string, text []byte) {
		if !slices.Contains([]string{"go", "junit", "tap"}, runner) {
			return
		}
		r, _ := Text(runner, text)
		checkReport(t, r, text)
	})
}
