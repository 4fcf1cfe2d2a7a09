package main

import (
	"errors"
	"strings"
	"testing"

	"securebench/internal/earlier"
	"securebench/internal/fault"
	"securebench/internal/pipeline/record"
)

func TestParseFailOn(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"failed", "pending", "any", "rate<0.8", "rate<80%", "rate<1", "rate<1e-3", "regression:a:b", "regression:any"} {
		if _, err := parseFailOn([]string{good}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "fail", "rate", "rate<", "rate<0", "rate<1.1", "rate<101%", "rate<NaN", "rate<-1", "rate<80%%", "rate<inf", "rate>0.5", "rate<=0.5", "regression:", "regression"} {
		if _, err := parseFailOn([]string{"failed", bad}); fault.KindOf(err) != fault.Usage {
			t.Errorf("%q: %v", bad, err)
		}
	}
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
		"nothing asked":          {"", finished{Planned: 3, Failed: 3}, nil, ""},
		"failed":                 {"failed", finished{Planned: 3, Passed: 2, Failed: 1}, nil, "--fail-on failed: 1 failed, 0 pending"},
		"failed, only pending":   {"failed", finished{Planned: 3, Passed: 2, Pending: 1}, nil, ""},
		"pending":                {"pending", finished{Planned: 3, Passed: 2, Pending: 1}, nil, "0 failed, 1 pending"},
		"pending, only failed":   {"pending", finished{Planned: 3, Passed: 2, Failed: 1}, nil, ""},
		"any, failed":            {"any", finished{Planned: 3, Failed: 1}, nil, "1 failed"},
		"any, pending":           {"any", finished{Planned: 3, Pending: 1}, nil, "1 pending"},
		"any, neither":           {"any", finished{Planned: 3, Passed: 3}, nil, ""},
		"a rate below":           {"rate<0.8", finished{Planned: 100, Passed: 79, Failed: 21}, nil, "the rate is 0.79, 79 of 100"},
		"the rate itself":        {"rate<0.8", finished{Planned: 10, Passed: 8}, nil, ""},
		"percent":                {"rate<57%", finished{Planned: 100, Passed: 57}, nil, ""},
		"pending counts":         {"rate<0.6", finished{Planned: 4, Passed: 2, Pending: 2}, nil, "2 of 4"},
		"no task":                {"rate<0.1", finished{}, nil, "there is no task"},
		"no regression":          {"regression:x", finished{Planned: 4}, equal, ""},
		"a regression":           {"regression:x", finished{Planned: 4}, worse, "in 1 of 2 tasks, a smaller share of attempts passed than there: a"},
		"of two conditions, one": {"rate<0.1 failed", finished{Planned: 2, Passed: 1, Failed: 1}, nil, "--fail-on failed"},
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
