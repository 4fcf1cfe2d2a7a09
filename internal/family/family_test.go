package family_test

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/repopatch"
	"securebench/internal/family/terminaltask"
	"securebench/internal/task"
)

func TestVerifyLimit(t *testing.T) {
	for name, c := range map[string]struct {
		row, operator, want time.Duration
	}{
		"neither is set":         {0, 0, 300 * time.Second},
		"only the row's":         {600 * time.Second, 0, 600 * time.Second},
		"only the operator's":    {0, 10 * time.Second, 10 * time.Second},
		"the row's is less":      {5 * time.Second, 10 * time.Second, 5 * time.Second},
		"the operator's is less": {600 * time.Second, 10 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			f := family.Family{VerifySeconds: 300, TimeLimit: func(task.SandboxView) time.Duration { return c.row }}
			if got := f.VerifyLimit(task.SandboxView{}, c.operator); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	if got := (family.Family{VerifySeconds: 30}).VerifyLimit(task.SandboxView{}, 0); got != 30*time.Second {
		t.Errorf("a family whose rows have no limit: %v", got)
	}
}

// TestRowTimeLimits reads the limits from rows as packs write them.
func TestRowTimeLimits(t *testing.T) {
	for name, c := range map[string]struct {
		family      family.Family
		value       string // of tests or checker
		environment time.Duration
		want        time.Duration
	}{
		"tests":                       {repopatch.Family(), `{"timeout_seconds": 1.5}`, time.Hour, 1500 * time.Millisecond},
		"tests without":               {repopatch.Family(), `{"command": "true"}`, time.Hour, 0},
		"checker":                     {terminaltask.Family(), `{"command": "true", "timeout_seconds": 7}`, time.Hour, 7 * time.Second},
		"checker without":             {terminaltask.Family(), `{"command": "true"}`, time.Minute, time.Minute},
		"neither checker nor the row": {terminaltask.Family(), `{"command": "true"}`, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			key := map[string]string{"repo_patch": "tests", "terminal_task": "checker"}[c.family.Name]
			one, err := task.New(task.Config{ID: "a", Family: c.family.Name, Pack: task.Pack{ID: "p"},
				Environment: task.Environment{Timeout: c.environment},
				Resources:   []task.Resource{{Name: key, Lane: c.family.Lanes[key], Value: jsontext.Value(c.value)}}})
			if err != nil {
				t.Fatal(err)
			}
			if got := c.family.TimeLimit(one.TestSandbox()); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
