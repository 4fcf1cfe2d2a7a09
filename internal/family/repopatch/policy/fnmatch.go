package policy

import "slices"

// fnmatch reports whether a name matches a pattern as Python's fnmatchcase
// does: "*" is any text, "?" any character, "[abc]" and "[!a-z]" are one
// character of a set, and there is no escape. Its time is bounded by the
// product of the lengths.
func fnmatch(pattern, name string) bool {
	pat, text := []rune(pattern), []rune(name)
	p, t := 0, 0
	star, resume := -1, 0 // where the last "*" is, and where it gives way next
	for t < len(text) {
		if p < len(pat) && pat[p] == '*' {
			star, resume = p, t
			p++
			continue
		}
		if p < len(pat) {
			if next, ok := one(pat, p, text[t]); ok {
				p, t = next, t+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		resume++
		p, t = star+1, resume
	}
	for p < len(pat) && pat[p] == '*' {
		p++
	}
	return p == len(pat)
}

// one compares one character with the part of the pattern at p, and returns
// where the next part begins.
func one(pat []rune, p int, c rune) (next int, ok bool) {
	switch pat[p] {
	case '?':
		return p + 1, true
	case '[':
		if end := setEnd(pat, p); end > 0 {
			return end + 1, inSet(pat[p+1:end], c)
		}
	}
	return p + 1, pat[p] == c
}

// setEnd returns where a set that begins at p ends, or 0: then it is no set.
func setEnd(pat []rune, p int) int {
	from := p + 1
	if from < len(pat) && pat[from] == '!' {
		from++
	}
	if from < len(pat) && pat[from] == ']' {
		from++ // the first one is a member
	}
	if from > len(pat) {
		return 0
	}
	if i := slices.Index(pat[from:], ']'); i >= 0 {
		return from + i
	}
	return 0
}

func inSet(set []rune, c rune) bool {
	negative := set[0] == '!'
	if negative {
		set = set[1:]
	}
	found := false
	for i := 0; i < len(set); i++ {
		lo, hi := set[i], set[i]
		if i+2 < len(set) && set[i+1] == '-' {
			hi = set[i+2]
			i += 2
		}
		found = found || lo <= c && c <= hi
	}
	return found != negative
}
