package main

import (
	"maps"
	"testing"
)

// sample has the forms of rules that CLDR's languages use.
var sample = map[string][][2]string{
	"%spellout-cardinal": {
		{"-x", "minus →→;"}, {"0", "zero;"}, {"1", "one;"}, {"2", "two;"}, {"3", "three;"}, {"4", "four;"}, {"5", "=%%five=;"},
		{"20", "twenty[-→→];"}, {"30", "[→→and]thirty;"}, {"60/20", "sixty[-→→];"}, {"100", "←← hundred[ →→];"},
		{"1000", "←← thou$(cardinal,one{sand}other{sands})$[ →→];"}, {"1000000", "a million[ →→];"}, {"1000000000", "=#,##0=;"},
	},
	"%%five": {{"5", "five;"}},
}

// TestSpell spells numbers by rules: with a rest or without, in another set, by scores, and
// with plurals.
func TestSpell(t *testing.T) {
	r := readRules(sample)
	for n, want := range map[int64]string{
		0: "zero", 5: "five", 20: "twenty", 24: "twenty-four", 30: "thirty", 31: "oneandthirty", 65: "sixty-five", 200: "two hundred",
		320: "three hundred twenty", 1000: "one thousand", 2001: "two thousands one", 1000000000: "",
	} {
		if got := r.spell("%spellout-cardinal", n); got != want {
			t.Errorf("%d is %q, expected %q", n, got, want)
		}
	}
	if got := r.spell("%spellout-cardinal", 85); got == "eighty-five" {
		t.Error("a rule that is not there was applied")
	}
}

// TestScales finds the words that multiply.
func TestScales(t *testing.T) {
	want := map[string]string{"hundred": "100", "thousand": "1000", "thousands": "1000", "million": "1000000"}
	if got := readRules(sample).scales(100); !maps.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
}
