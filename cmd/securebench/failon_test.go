package main

import (
	"errors"
	"strings"
	"testing"

	"securebench/internal/earlier"
	"securebench/internal/fault"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/verdict"
)

func TestParseFailOn(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"failed", "pending", "any", "rate<0.8", "rate<80%", "rate<1", "rate<1e-3", "judged-rate<0.8", "judged-rate<1%", "regression:a:b", "regression:any"} {
		if _, err := parseFailOn([]string{good}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "fail", "rate", "rate<", "rate<0", "rate<1.1", "rate<101%", "rate<NaN", "rate<-1", "rate<80%%", "rate<inf", "rate>0.5", "rate<=0.5", "judged-rate<0", "judged-rate>0.5", "judged-failed", "regression:", "regression"} {
		if _, err := parseFailOn([]string{"failed", bad}); fault.KindOf(err) != fault.Usage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// result is that of a run of which all was computed.
func result(planned, passed, failed, pending int) finished {
	r := finished{Planned: pipeline.Planned{All: planned}}
	*r.Counts.Of(verdict.Computed) = verdict.Counts{Passed: passed, Failed: failed, Pending: pending}
	return r
}

// with adds what was judged in the same run.
func (r finished) with(planned, passed, failed, pending int) finished {
	r.Planned.All += planned
	r.Planned.Judged = planned
	*r.Counts.Of(verdict.Judged) = verdict.Counts{Passed: passed, Failed: failed, Pending: pending}
	return r
}

func TestFailOn(t *testing.T) {
	t.Parallel()
	before := &earlier.Run{Tasks: []earlier.Task{{ID: "a", Attempts: 1, Passed: 1}, {ID: "b", Attempts: 1}, {ID: "c", Attempts: 1, Passed: 1}}}
	equal := []earlier.Task{{ID: "a", Attempts: 2, Passed: 2}, {ID: "b", Attempts: 2, Passed: 1}}
	worse := []earlier.Task{{ID: "a", Attempts: 2, Passed: 1}, {ID: "b", Attempts: 2, Passed: 2}}
	for name, c := range map[string]struct {
		words  string
		result finished
		tasks  []earlier.Task
		want   string // "" for not met
	}{
		"nothing asked":          {"", result(3, 0, 3, 0), nil, ""},
		"failed":                 {"failed", result(3, 2, 1, 0), nil, "--fail-on failed: 1 failed, 0 pending"},
		"failed, only pending":   {"failed", result(3, 2, 0, 1), nil, ""},
		"pending":                {"pending", result(3, 2, 0, 1), nil, "0 failed, 1 pending"},
		"pending, only failed":   {"pending", result(3, 2, 1, 0), nil, ""},
		"any, failed":            {"any", result(3, 0, 1, 0), nil, "1 failed"},
		"any, pending":           {"any", result(3, 0, 0, 1), nil, "1 pending"},
		"any, neither":           {"any", result(3, 3, 0, 0), nil, ""},
		"a rate below":           {"rate<0.8", result(100, 79, 21, 0), nil, "the rate is 0.79, 79 of 100"},
		"the rate itself":        {"rate<0.8", result(10, 8, 0, 0), nil, ""},
		"percent":                {"rate<57%", result(100, 57, 0, 0), nil, ""},
		"pending counts":         {"rate<0.6", result(4, 2, 0, 2), nil, "2 of 4"},
		"no task":                {"rate<0.1", finished{}, nil, "there is no task"},
		"judged apart":           {"rate<0.8", result(10, 8, 2, 0).with(10, 0, 10, 0), nil, ""},
		"no help of a judge":     {"rate<0.8", result(10, 7, 3, 0).with(90, 90, 0, 0), nil, "the rate is 0.7, 7 of 10"},
		"a judged rate":          {"judged-rate<80%", result(90, 90, 0, 0).with(10, 7, 3, 0), nil, "the rate is 0.7, 7 of 10"},
		"a judged rate, enough":  {"judged-rate<0.7", result(10, 0, 10, 0).with(10, 7, 3, 0), nil, ""},
		"judged, failed":         {"failed", result(1, 1, 0, 0).with(1, 0, 1, 0), nil, "--fail-on failed: judged: 1 failed, 0 pending"},
		"both failed":            {"any", result(1, 0, 1, 0).with(2, 0, 1, 1), nil, "1 failed, 0 pending; judged: 1 failed, 1 pending"},
		"judged, pending":        {"pending", result(1, 0, 1, 0).with(1, 0, 0, 1), nil, "--fail-on pending: 1 failed, 0 pending; judged: 0 failed, 1 pending"},
		"no regression":          {"regression:x", result(4, 0, 0, 0), equal, ""},
		"a regression":           {"regression:x", result(4, 0, 0, 0), worse, "in 1 of 2 tasks, a smaller share of attempts passed than there: a"},
		"of two conditions, one": {"rate<0.1 failed", result(2, 1, 1, 0), nil, "--fail-on failed"},
	} {
		t.Run(name, func(t *testing.T) {
			conditions, err := parseFailOn(strings.Fields(c.words))
			if err != nil {
				t.Fatal(err)
			}
			for i := range conditions.all {
				if conditions.all[i].run != "" {
					conditions.all[i].before = before
				}
			}
			c.result.Read = func() (*earlier.Run, error) {
				if c.tasks == nil {
					return nil, errors.New("nobody asked for it")
				}
				return &earlier.Run{Tasks: c.tasks}, nil
			}
			err = conditions.Check(c.result)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("met: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != fault.Threshold):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestFailOnAbout: a condition on a rate that no task has is refused before the run.
func TestFailOnAbout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		word          string
		tasks, judged int
		want          string
	}{
		{"rate<1", 3, 3, "a judge decides on all 3 tasks: give judged-rate<"}, {"rate<1", 3, 2, ""}, {"rate<1", 3, 0, ""}, {"rate<1", 0, 0, ""},
		{"judged-rate<1", 3, 0, "no task asks for a judge: give rate<"}, {"judged-rate<1", 3, 1, ""}, {"judged-rate<1", 3, 3, ""}, {"failed", 3, 3, ""},
	} {
		conditions, err := parseFailOn([]string{c.word})
		if err != nil {
			t.Fatal(err)
		}
		err = conditions.all[0].about(c.tasks, c.judged)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != fault.Refused) {
			t.Errorf("%s with %d of %d judged: %v, want %q", c.word, c.judged, c.tasks, err, c.want)
		}
	}
}

// TestFailOnGiven: a run is refused for what makes it hard to compare with those that
// conditions name, unless that is allowed.
func TestFailOnGiven(t *testing.T) {
	t.Parallel()
	manifest := func(change func(*record.Manifest)) record.Manifest {
		m := record.Manifest{Version: "1.0", Images: map[string]string{"img": "sha256:a", "theirs": "sha256:b"}, Limits: record.RunLimits{Memory: 1}}
		m.Digests.Verifier = "sha256:v"
		change(&m)
		return m
	}
	for name, c := range map[string]struct {
		allow  string
		change func(*record.Manifest)
		want   string // "" for none
	}{
		"the same":           {"", func(*record.Manifest) {}, ""},
		"a build":            {"", func(m *record.Manifest) { m.Digests.Verifier = "sha256:w" }, "verifier: before and now were scored by different builds of securebench"},
		"a build, allowed":   {"verifier", func(m *record.Manifest) { m.Digests.Verifier = "sha256:w" }, ""},
		"an image":           {"", func(m *record.Manifest) { m.Images["img"] = "sha256:c" }, "images: in before and now, img is sha256:a and sha256:c"},
		"an image, allowed":  {"images", func(m *record.Manifest) { m.Images["img"] = "sha256:c" }, ""},
		"one more image":     {"", func(m *record.Manifest) { m.Images["ours"] = "sha256:c" }, ""},
		"a limit":            {"verifier,images", func(m *record.Manifest) { m.Limits.Memory = 2 }, "limits: before and now: memory 1 and 2"},
		"a limit, allowed":   {"limits", func(m *record.Manifest) { m.Limits.Memory = 2 }, ""},
		"the pack":           {"limits", func(m *record.Manifest) { m.Digests.Public = "sha256:p" }, "pack: the public parts of the packs of before and now differ"},
		"what it was about":  {"", func(m *record.Manifest) { m.Planned.Tasks = 7 }, ""},
		"its agent or model": {"", func(m *record.Manifest) { m.Agent, m.Model = "other", "other" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			conditions, err := parseFailOn([]string{"failed", "regression:before"})
			if err != nil {
				t.Fatal(err)
			}
			if err := conditions.Allow(strings.FieldsFunc(c.allow, func(r rune) bool { return r == ',' })); err != nil {
				t.Fatal(err)
			}
			conditions.all[1].before = &earlier.Run{Name: "before", Manifest: manifest(func(*record.Manifest) {}), Tasks: []earlier.Task{{ID: "a"}}}
			err = conditions.Given("now", manifest(c.change))
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != fault.Refused):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
