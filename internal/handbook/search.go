package handbook

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Hit is a section that a search found.
type Hit struct {
	Name    string // of the page and the section, as [Book.Text] takes it
	Heading string
	Excerpt string // a line of it
}

// The bounds of what a search finds, of hits and of the characters of an excerpt.
const (
	maxHits    = 8
	maxExcerpt = 76
)

// empty are words of a question that say nothing of what is asked.
const empty = " a an and are be by can do does for from get has have how i if in into is it me my of on one or our so that the then there this to use was we what when where which who why will with you your "

// scored is a section with what it says about a question.
type scored struct {
	*section
	words, named []string // of the text; of heading, title and page
	has          int      // words of the question
	score        float64
}

// Search finds the sections that say most about a question. Words that few sections have
// count for more.
func (b *Book) Search(question string) []Hit {
	var asked []string
	for _, w := range words(question) {
		if !strings.Contains(empty, " "+w+" ") && !slices.Contains(asked, stem(w)) {
			asked = append(asked, stem(w))
		}
	}
	all := make([]scored, len(b.sections))
	for i := range b.sections {
		s := &b.sections[i]
		all[i] = scored{section: s, words: words(s.text), named: words(s.heading + " " + s.title + " " + s.page)}
	}
	for _, w := range asked {
		says, with := make([]float64, len(all)), 0
		for i := range all {
			if says[i] = all[i].says(w); says[i] > 0 {
				with++
			}
		}
		for i, n := range says {
			if n > 0 {
				all[i].has++
				all[i].score += n * math.Log(float64(2*len(all))/float64(with))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	var out []Hit
	for _, is := range all {
		if is.has > 0 && 2*is.has >= len(asked) && len(out) < maxHits {
			out = append(out, is.hit(asked))
		}
	}
	return out
}

// stem is a word without what grammar adds to it.
func stem(w string) string {
	for _, end := range []string{"ing", "ies", "es", "ed", "s", "e", "y"} {
		if short, ok := strings.CutSuffix(w, end); ok && len(short) >= 3 {
			return short
		}
	}
	return w
}

// says says how much the section says about a word.
func (s *scored) says(w string) float64 {
	said := 0
	for _, word := range s.words {
		if strings.HasPrefix(word, w) {
			said++
		}
	}
	n := math.Sqrt(float64(min(said, 9)))
	if slices.ContainsFunc(s.named, func(word string) bool { return strings.HasPrefix(word, w) }) {
		n += 3
	}
	return n
}

// hit is the section with the line that has most of the words.
func (s *section) hit(asked []string) Hit {
	h := Hit{Name: s.page + "#" + s.anchor, Heading: s.title}
	if s.heading != s.title {
		h.Heading += ": " + s.heading
	}
	most := -1
	for line := range strings.Lines(s.text) {
		line = strings.TrimSpace(line)
		n := 0
		for _, word := range words(line) {
			if slices.ContainsFunc(asked, func(w string) bool { return strings.HasPrefix(word, w) }) {
				n++
			}
		}
		if line != "" && !strings.HasPrefix(line, "|--") && !strings.HasPrefix(line, "```") && n > most {
			most, h.Excerpt = n, line
		}
	}
	if short := []rune(h.Excerpt); len(short) > maxExcerpt {
		h.Excerpt = string(short[:maxExcerpt-1]) + "…"
	}
	return h
}
