package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A rule of a rule set: how numbers from base on are spelled. divisor is the power of
// the radix that the substitutions divide by.
type rule struct {
	base, divisor int64
	text          string
}

// rules are the rule sets of one language, by name.
type rules map[string][]rule

// readRules reads the spell-out rules of a language as CLDR's JSON has them: pairs of
// a base, which may have a radix after a slash, and a text.
func readRules(sets map[string][][2]string) rules {
	out := rules{}
	for name, pairs := range sets {
		for _, p := range pairs {
			base, radix, _ := strings.Cut(strings.TrimRight(p[0], ">"), "/")
			b, err := strconv.ParseInt(base, 10, 64)
			if err != nil {
				continue // negative numbers and fractions
			}
			r := int64(10)
			if radix != "" {
				r, _ = strconv.ParseInt(radix, 10, 64)
			}
			d := int64(1)
			for r > 1 && d <= b/r {
				d *= r
			}
			out[name] = append(out[name], rule{b, d, strings.TrimPrefix(strings.TrimSuffix(p[1], ";"), "'")})
		}
	}
	return out
}

// public lists the rule sets that spell cardinal or ordinal numbers.
func (r rules) public(kind string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		cardinal := strings.HasPrefix(name, "%spellout-cardinal") || name == "%spellout-numbering" || name == "%spellout-numbering-verbose"
		if kind == "cardinal" && cardinal || kind == "ordinal" && strings.HasPrefix(name, "%spellout-ordinal") {
			names = append(names, name)
		}
	}
	return names
}

// choose returns the rule of a set that spells n.
func (r rules) choose(set string, n int64) (rule, bool) {
	list := r[set]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].base > n {
			continue
		}
		// A rule with two substitutions that n leaves no rest for gives way to the
		// one before it.
		c := list[i]
		if i > 0 && strings.Contains(c.text, "←") && strings.Contains(c.text, "→") && !strings.Contains(c.text, "[") &&
			c.base%c.divisor != 0 && n%c.divisor == 0 {
			c = list[i-1]
		}
		return c, true
	}
	return rule{}, false
}

// spell returns n in words by the rules of a set, or "" where they have digits.
func (r rules) spell(set string, n int64) string {
	c, ok := r.choose(set, n)
	if !ok {
		return ""
	}
	text := c.text
	if open := strings.IndexByte(text, '['); open >= 0 {
		end := strings.IndexByte(text, ']')
		inside := text[open+1 : end]
		if n%c.divisor == 0 {
			inside = ""
		}
		text = text[:open] + inside + text[end+1:]
	}
	if text = plural(text, n/c.divisor, r.category); strings.Contains(text, "#") {
		return ""
	}
	for _, s := range [...]struct {
		mark string
		n    int64
	}{{"←", n / c.divisor}, {"→", n % c.divisor}, {"=", n}} {
		for strings.Contains(text, s.mark) {
			before, rest, _ := strings.Cut(text, s.mark)
			name, after, _ := strings.Cut(rest, s.mark)
			if name == "" {
				name = set
			}
			text = before + r.spell(name, s.n) + after
		}
	}
	return text
}

// category names the plural category of a small number, as far as the rules of the
// languages here use them.
func (r rules) category(n int64) string {
	switch {
	case n == 1:
		return "one"
	case n > 1 && n < 5:
		return "few"
	}
	return "other"
}

// plural replaces each $(cardinal,one{a}other{b})$ by the form for n.
func plural(text string, n int64, category func(int64) string) string {
	for {
		before, rest, ok := strings.Cut(text, "$(")
		if !ok {
			return text
		}
		inside, after, _ := strings.Cut(rest, ")$")
		forms := pluralForms(inside)
		form, ok := forms[category(n)]
		if !ok {
			form = forms["other"]
		}
		text = before + form + after
	}
}

// pluralForms returns the forms of cardinal,one{a}other{b}, by category.
func pluralForms(s string) map[string]string {
	forms := map[string]string{}
	_, s, _ = strings.Cut(s, ",")
	for s != "" {
		name, rest, _ := strings.Cut(s, "{")
		form, after, _ := strings.Cut(rest, "}")
		forms[name], s = form, after
	}
	return forms
}

// scales returns the words that multiply, such as "thousand", with their values.
func (r rules) scales(least int64) map[string]string {
	out := map[string]string{}
	for _, set := range r.public("cardinal") {
		for _, c := range r[set] {
			if c.base < least || !strings.Contains(c.text, "←") && c.base < 1000 || strings.Contains(c.text, "#") {
				continue
			}
			for _, form := range [...]string{"one", "few", "other"} {
				text := plural(c.text, 1, func(int64) string { return form })
				text, _, _ = strings.Cut(text, "[")
				if i := strings.LastIndex(text, "←"); i >= 0 {
					text = text[i+len("←"):]
				}
				text, _, _ = strings.Cut(text, "→")
				words := strings.Fields(strings.ReplaceAll(text, "\u00ad", ""))
				if len(words) > 0 {
					out[words[len(words)-1]] = strconv.FormatInt(c.divisor, 10)
				}
			}
		}
	}
	return out
}
