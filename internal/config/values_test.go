package config_test

import (
	"testing"
	"time"

	"securebench/internal/config"
	"securebench/internal/source"
)

func TestParseSize(t *testing.T) {
	tests := map[string]int64{
		"1B": 1, "100B": 100, "4KiB": 4096, "512MiB": 512 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40,
		"007MiB": 7 << 20, "8388607TiB": 8388607 << 40,
		"": 0, "512": 0, "0MiB": 0, "-1MiB": 0, "1.5GiB": 0, "1MB": 0, "1mib": 0, " 1MiB": 0, "1 MiB": 0,
		"1MiB\n": 0, "8388608TiB": 0, "99999999999999999999B": 0, "MiB": 0, "١MiB": 0,
	}
	for in, want := range tests {
		got, err := config.ParseSize(in)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	tests := map[string]time.Duration{
		"30": 30 * time.Second, "0.25": 250 * time.Millisecond, "1e-300": time.Millisecond,
		"4e9": 4e9 * time.Second, "0": 0, "-3": 0, "1e10": 0, "1e300": 0, `"30"`: 0, "true": 0,
	}
	for in, want := range tests {
		n, err := source.ParseJSON("f", 1, []byte(in))
		if err != nil {
			t.Fatal(err)
		}
		got, problem := config.Seconds(n, "x")
		if got != want || (problem == nil) != (want > 0) {
			t.Errorf("Seconds(%s) = %v, %v; want %v", in, got, problem, want)
		}
	}
}
