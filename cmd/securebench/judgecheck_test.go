package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/judge"
	"securebench/internal/judge/agreement"
	"securebench/internal/judge/judgetest"
)

// contains fails unless a text has all of these.
func contains(t *testing.T, what, text string, wants ...string) {
	t.Helper()
	unbroken := strings.Join(strings.Fields(text), " ") // tables break long lines
	for _, want := range wants {
		if !strings.Contains(text, want) && !strings.Contains(unbroken, want) {
			t.Errorf("%s: no %q in\n%s", what, want, text)
		}
	}
}

// TestJudgedReports: every command that shows a judged run names the judge, its votes and
// what came of its canaries, and counts nothing of it with what was computed.
func TestJudgedReports(t *testing.T) {
	t.Parallel()
	b := newJudgeBench(t, judgetest.Careful, 4)
	b.submit(func(i int) string { return b.right(i - i%2) })
	code, stdout, stderr := b.call("run", "--config", b.config, "--env-file", filepath.Join(b.dir, "env"), "--agent", "replay:"+b.answers, "--dry-run")
	if code != 0 || len(b.server.Questions()) != 0 {
		t.Fatalf("a dry run: exit %d: %s", code, stderr)
	}
	contains(t, "dry run", stdout, "judge-1 decides on 4 tasks: 12 requests for 3 votes each, and more for votes that decide nothing",
		"before that it is tried on at most 4 rows, with about 168 requests", "its cost is unknown: no earlier records have one, and it has no budget")
	if code, stdout, stderr = b.run(); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	contains(t, "summary", stdout, "total=4 verification=complete verified=0 passed=0", "judged=4 judged_verified=4 judged_passed=2")
	page, xml, bundle := filepath.Join(b.dir, "out.html"), filepath.Join(b.dir, "out.xml"), filepath.Join(b.dir, "out.zip")
	const judge = "judge-1, 3 votes, majority, canaries on 4 rows: "
	for _, c := range []struct {
		args  []string
		wants []string
	}{
		{[]string{"report", b.out, "--html", page, "--junit", xml}, []string{"judge     " + judge, "TOTAL, JUDGED", "2 of 4 attempts"}},
		{[]string{"report", b.out, "--json"}, []string{`"judge": "` + judge, `"judge_canaries": "passed"`, `"judged": {`}},
		{[]string{"report", b.out, "--csv"}, []string{",judged,judge-1,3,3,passed", ",judged,judge-1,3,0,passed"}},
		{[]string{"verify", b.out}, []string{"judge: " + judge, "judged: 4 of 4 tasks"}},
		{[]string{"show", b.out, "t0", "--no-pager"}, []string{"basis        judged", "model: judge-1", "votes: 3 of 3 passed"}},
		{[]string{"compare", b.out, b.out}, []string{"\nJUDGED", "judged  4: 4 passive"}},
		{[]string{"bundle", b.out, "-o", bundle}, nil},
		{[]string{"verify", bundle}, []string{"judge: " + judge}},
	} {
		code, stdout, stderr := b.call(c.args...)
		if code != 0 {
			t.Errorf("%v: exit %d: %s", c.args, code, stderr)
		}
		contains(t, strings.Join(c.args[:1], " "), stdout, c.wants...)
		if strings.Contains(stdout, "TOTAL, COMPUTED") {
			t.Errorf("%v counts what was computed, of which there is nothing:\n%s", c.args, stdout)
		}
	}
	for file, wants := range map[string][]string{
		page: {`"title":"Result, judged"`, "Judge: " + judge},
		xml:  {`<property name="judge" value="` + judge, `<property name="judge_votes" value="3 of 3">`, `name="free_response (judged)" tests="4" failures="2"`},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		contains(t, file, string(text), wants...)
	}
}

// TestRunsOfOtherJudges: runs that other judges decided, or one in another way, are not
// compared unless that is asked for; nor does one gate the other.
func TestRunsOfOtherJudges(t *testing.T) {
	t.Parallel()
	b := newJudgeBench(t, judgetest.Careful, 3)
	before := b.out
	if code, _, stderr := b.run(); code != 0 {
		t.Fatal(code, stderr)
	}
	b.configure("  votes: 5\n")
	b.out = filepath.Join(b.dir, "five")
	if code, _, stderr := b.run("-o", b.out, "--fail-on", "regression:"+before); code != exitRefused || !strings.Contains(stderr, "judged by judge-1") {
		t.Errorf("a run that is compared with one of another judge: exit %d: %s", code, stderr)
	}
	if code, _, stderr := b.run("-o", b.out, "--fail-on", "regression:"+before, "--allow", "judge"); code != 0 {
		t.Errorf("the same, allowed: exit %d: %s", code, stderr)
	}
	code, _, stderr := b.call("compare", before, b.out)
	if code != exitRefused {
		t.Errorf("exit %d", code)
	}
	contains(t, "compare", stderr, "judged by judge-1 (openai_chat, 3 votes, majority, prompt 1) and judge-1 (openai_chat, 5 votes, majority, prompt 1)", "give --allow judge")
	for more, want := range map[string]string{
		"  reasoning_effort: low\n": "majority, prompt 1) and judge-1 (openai_chat, 3 votes, majority, prompt 1, effort low)",
		"  api: chat\n":             "was asked at different base URLs",
	} {
		if strings.Contains(more, "api") {
			h := httptest.NewServer(b.server)
			defer h.Close()
			b.url = h.URL
		}
		b.configure(more)
		b.out = filepath.Join(b.dir, "another")
		if code, _, stderr := b.run("-o", b.out, "--force"); code != 0 {
			t.Fatal(code, stderr)
		}
		code, _, stderr := b.call("compare", before, b.out)
		if code != exitRefused {
			t.Errorf("%s: exit %d", more, code)
		}
		contains(t, more, stderr, want)
	}
	if code, stdout, stderr := b.call("compare", before, b.out, "--allow", "judge"); code != 0 || !strings.Contains(stdout, "\nJUDGED") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// TestValidateTriesTheJudge: the canaries are tried without a run, and refuse as before one.
func TestValidateTriesTheJudge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of   judgetest.Character
		code int
		says string
	}{
		"careful":  {judgetest.Careful, 0, "the judge judge-1 is trusted: canaries on 3 rows"},
		"gullible": {judgetest.Gullible, exitProblems, "the judge judge-1 is not trusted: it let"},
	} {
		b := newJudgeBench(t, c.of, 3)
		code, _, stderr := b.call("validate", b.config, "--env-file", filepath.Join(b.dir, "env"))
		if code != c.code || !strings.Contains(stderr, c.says) || len(b.server.Questions()) == 0 {
			t.Errorf("%s: exit %d after %d questions: %s", name, code, len(b.server.Questions()), stderr)
		}
	}
}

// TestJudgeCheck: a judge is compared with people's labels, of texts and of pairs.
func TestJudgeCheck(t *testing.T) {
	t.Parallel()
	check := func(of judgetest.Character, label func(b *judgeBench, i int) string) (agreement.Result, string) {
		t.Helper()
		b := newJudgeBench(t, of, 6)
		b.configure("  prices: {judge-1: {input: 1, output: 2}}\n")
		labels, env := filepath.Join(b.dir, "labels.jsonl"), filepath.Join(b.dir, "env")
		var all strings.Builder
		for i := range 6 {
			all.WriteString(label(b, i) + "\n")
		}
		write(t, labels, all.String())
		code, stdout, stderr := b.call("judge", "check", b.config, "--labels", labels, "--env-file", env, "--json")
		var got struct {
			Digest string
			Result agreement.Result
		}
		if err := json.Unmarshal([]byte(stdout), &got, json.MatchCaseInsensitiveNames(true)); code != 0 || err != nil {
			t.Fatalf("exit %d, %v: %s", code, err, stderr)
		}
		if sum, err := got.Result.Digest(); err != nil || sum != got.Digest {
			t.Errorf("digest %s, and of the result %s, %v", got.Digest, sum, err)
		}
		code, stdout, stderr = b.call("judge", "check", b.config, "--labels", labels, "--env-file", env)
		if code != 0 || !strings.Contains(stdout, got.Digest) {
			t.Errorf("exit %d: another digest than %s in\n%s%s", code, got.Digest, stdout, stderr)
		}
		if strings.Contains(stdout, "hidden-rubric") || strings.Contains(stdout, judgeKey) {
			t.Error("the rubric or the key is shown")
		}
		return got.Result, stdout
	}
	texts, table := check(judgetest.Careful, func(b *judgeBench, i int) string {
		// People err about the last: the judge passes it.
		return fmt.Sprintf(`{"task_id": "t%d", "text": %q, "passed": %t}`, i, b.right(i-i%2), i%2 == 0 && i < 4)
	})
	if texts.Texts == nil || texts.Texts.Accuracy.N != 5 || texts.Texts.FalsePasses.N != 1 || texts.Usage["requests"] != 18 || texts.Usage["cost_microusd"] == 0 {
		t.Errorf("%+v, %+v", texts, texts.Texts)
	}
	contains(t, "table", table, "accuracy 5 of 6, 83.3 % [43.6, 97.0]", "kappa 0.667", "false passes 1 of 4", " USD")
	pairs, table := check(judgetest.PositionBound, func(_ *judgeBench, i int) string {
		return fmt.Sprintf(`{"task_id": "t%d", "texts": ["one", "another"], "preferred": 1}`, i)
	})
	if pairs.Pairs == nil || pairs.Pairs.Position.N != 6 || pairs.Pairs.FirstPlace != 6 || pairs.Pairs.Accuracy.N != 0 {
		t.Errorf("%+v", pairs.Pairs)
	}
	contains(t, "table", table, "position 6 of 6, 100.0 %")
}

// TestJudgeCheckRefuses: what is wrong is said before a judge is paid.
func TestJudgeCheckRefuses(t *testing.T) {
	t.Parallel()
	b := newJudgeBench(t, judgetest.Careful, 2)
	labels := filepath.Join(b.dir, "labels.jsonl")
	write(t, labels, `{"task_id": "nobody", "text": "x", "passed": true}`)
	for want, args := range map[string][]string{
		"give --labels FILE": {b.config},
		"no judge given":     {b.dir, "--labels", labels},
		"labels.jsonl: line 1: no task of the pack that asks for a judge: nobody": {b.config, "--labels", labels},
		"reading the labels": {b.config, "--labels", labels + ".none"},
	} {
		code, _, stderr := b.call(append([]string{"judge", "check", "--env-file", filepath.Join(b.dir, "env")}, args...)...)
		if code != exitUsage || !strings.Contains(stderr, want) || len(b.server.Questions()) != 0 {
			t.Errorf("%v: exit %d after %d questions: %s", args, code, len(b.server.Questions()), stderr)
		}
	}
}

// TestValidateAsksTheJudge: with a judge, the reference of each row that it decides has to
// pass, and a meaningless word to fail. Rows whose answers it reads are for their rule.
func TestValidateAsksTheJudge(t *testing.T) {
	b := newJudgeBench(t, judgetest.CarefulReader(), 6)
	validate := func(args ...string) (int, string) {
		code, stdout, stderr := b.call(append([]string{"validate", b.config, "--env-file", filepath.Join(b.dir, "env"), "--progress", "none"}, args...)...)
		return code, stdout + stderr
	}
	b.pack(func(i int) string { return []string{b.rubricRow(i), readRow(i)}[i%2] }, "free_response")
	code, said := validate()
	want := 3*(3*judge.CanariesPerRow()+3*judge.CanariesPerReadRow()) + 3*2*3
	if code != 0 || !strings.Contains(said, "6 tasks: 6 valid, 0 with problems, 0 skipped") || len(b.server.Questions()) != want ||
		!strings.Contains(said, "asking the judge about the reference and about a meaningless word, of 3 rows: at most 18 requests") {
		t.Errorf("exit %d after %d questions, want %d: %s", code, len(b.server.Questions()), want, said)
	}
	b.pack(func(i int) string {
		if i == 5 {
			return `{"id": "t5", "input": {"prompt": "Q?"}, "eval": {"rubric": "Says it."}}`
		}
		return b.rubricRow(i)
	}, "free_response")
	if code, said := validate(); code != 0 || !strings.Contains(said, "6 tasks: 5 valid, 0 with problems, 1 skipped") {
		t.Errorf("a row without a reference: exit %d: %s", code, said)
	}
	// One reference of 15 that the judge does not accept: the canaries take it, this does not.
	b.rows = 15
	b.pack(func(i int) string {
		if i == 14 {
			return strings.Replace(b.rubricRow(i), `"rubric": "hidden-rubric:`, `"rubric": "hidden-rubric (broken):`, 1)
		}
		return b.rubricRow(i)
	}, "free_response")
	b.server.Of = func(p judgetest.Paper) ([]judgetest.Finding, bool) {
		findings, refuses := judgetest.Careful(p)
		if strings.Contains(p.User, "(broken)") && strings.EqualFold(p.Answer, p.Reference) {
			for i := range findings {
				findings[i] = judgetest.Finding{ID: findings[i].ID}
			}
		}
		return findings, refuses
	}
	if code, said := validate(); code != exitProblems || !strings.Contains(said, "15 tasks: 14 valid, 1 with problems, 0 skipped") || !strings.Contains(said, "the judge does not find the rubric met") {
		t.Errorf("exit %d: %s", code, said)
	}
	b.configure(fmt.Sprintf("  votes: 1\n  budget: {requests: %d}\n", judge.MaxSpecimens*judge.CanariesPerRow()+5))
	if code, said := validate("-w", "1"); code != exitRefused || !strings.Contains(said, "the judge's budget is spent before every row was checked (raise judge.budget, or give --limit)") {
		t.Errorf("a spent budget: exit %d: %s", code, said)
	}
}
