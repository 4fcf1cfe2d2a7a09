package terminaltask

import (
	"strings"
	"testing"
)

// TestParseRewardFile: an object of rewards counts by one of them; every other form is
// none, also what would be read as 1 somewhere.
func TestParseRewardFile(t *testing.T) {
	const file = "reward.json"
	for text, want := range map[string]float64{`{"reward": 1}`: 1, `{"reward": 1.0, "style": 0.5}`: 1, "{\"accuracy\": 0.75}\n": 0.75, `{"a": 1, "reward": 0}`: 0,
		`{"reward": 0.5, "seconds": 120.5}`: 0.5, `{"reward": 5e-05}`: 5e-05, `{"loss": -3, "reward": 1}`: 1, `{"reward": 0.0}`: 0, "1\n": 1} {
		if got, ok := parseReward(file, []byte(text)); !ok || got != want {
			t.Errorf("%q: %v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "2", "[1]", "{}", "null", `{"a": 1, "b": 1}`, `{"reward": "1"}`, `{"reward": true}`, `{"reward": null}`, `{"reward": {"x": 1}}`,
		`{"reward": 1, "details": "x"}`, `{"reward": 1, "reward": 0}`, `{"reward": 0}{"reward": 1}`, `{"reward": 2}`, `{"reward": -0}`, `{"reward": -1}`, `{"reward": 1e0}`,
		`{"reward": 10e-1}`, `{"reward": NaN}`, `{"Reward": 1, "x": 0}`, `{"reward": 1`, "{\"reward\": 1}\x00", `{"rew\ud800ard": 1}`, `{"reward": 1e400}`} {
		if got, ok := parseReward(file, []byte(text)); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
	if got, ok := parseReward(file, []byte(`{"reward": 0.`+strings.Repeat("9", 40)+`}`)); !ok || got >= 1 {
		t.Errorf("almost 1 is %v, %t", got, ok)
	}
	if got, ok := parseReward("reward.txt", []byte("1\n")); !ok || got != 1 {
		t.Errorf("a text is %v, %t", got, ok)
	}
	if _, ok := parseReward("reward.txt", []byte(`{"reward": 1}`)); ok {
		t.Error("an object counts in a text")
	}
}
