package terminaltask

import (
	"math"
	"strings"
	"testing"
)

// TestParseReward: a reward is one number from 0 to 1 in its plain form (W25).
func TestParseReward(t *testing.T) {
	for text, want := range map[string]float64{"1": 1, "1\n": 1, "0": 0, "0.5": 0.5, "1.0": 1, "1.000\n": 1, "0.0": 0} {
		if got, ok := parseNumber([]byte(text)); !ok || got != want {
			t.Errorf("%q: %v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "\n", "nan", "NaN", "inf", "-0", "-0.5", "+1", "1.5", "2", "1e308", "1e0", "0x1", "01", "1.", ".5", "1 ", " 1",
		"1\n1", "1\n\n", "1\r\n", "[1]", `{"reward": 1}`, "1\x00", "1.0000000000000000000001", strings.Repeat("0", 3), "\xff"} {
		if got, ok := parseNumber([]byte(text)); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
	if got, ok := parseNumber([]byte("0." + strings.Repeat("9", 40))); !ok || got >= 1 {
		t.Errorf("almost 1 is %v, %t", got, ok)
	}
}

func FuzzParseReward(f *testing.F) {
	for _, text := range []string{"1", "0.5", "nan", "1e308", "-0"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, ok := parseNumber(data)
		if math.IsNaN(v) || math.IsInf(v, 0) || ok && (v < 0 || v > 1) {
			t.Errorf("%q: %v", data, v)
		}
	})
}
