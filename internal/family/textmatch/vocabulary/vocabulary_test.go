package vocabulary

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// rows returns the rows of a table of this package's tests, with n columns each.
func rows(t *testing.T, name string, n int) (out [][]string) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimRight(line, "\n"); line == "" || line[0] == '#' {
			continue
		}
		row := strings.Split(line, "\t")
		if len(row) != n {
			t.Fatalf("%s: %q has %d columns, expected %d", name, line, len(row), n)
		}
		out = append(out, row)
	}
	return out
}

func classOf(t *testing.T, name string) Class {
	t.Helper()
	i := slices.Index(names[:], name)
	if i < 0 {
		t.Fatalf("no class is called %q", name)
	}
	return 1 << i
}

// around returns the words before and after the number 120 in a statement.
func around(t *testing.T, s string) (before, after []Word) {
	t.Helper()
	words := Words(nil, s)
	i := slices.IndexFunc(words, func(w Word) bool { return s[w.Start:w.End] == "120" })
	if i < 0 {
		t.Fatalf("%q has no 120", s)
	}
	return words[:i], words[i+1:]
}

// understood returns the languages in which every word of a text is harmless, or of a class
// of also.
func understood(words []Word, also Class, in Languages) Languages {
	for _, w := range words {
		if w.Kind == Letters {
			in = w.Permits(also, in)
		}
		in &^= w.In(Restrictive &^ also)
	}
	return in
}

// TestRestrictive: in each language and for each class, a statement is restricted by the
// word of the class, whichever languages apply, and its twin by none.
func TestRestrictive(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range rows(t, "restrictive.tsv", 4) {
		language, _ := parseTag(row[0])
		class := classOf(t, row[1])
		seen[row[0]+row[1]] = true
		for _, in := range []Languages{Every, language} {
			before, after := around(t, row[2])
			if _, ok := Denying(before, after, class, in); !ok {
				t.Errorf("%s: %s in %v: nothing restricts %q", row[0], row[1], in, row[2])
			}
			before, after = around(t, row[3])
			if w, ok := Denying(before, after, Restrictive, in); ok {
				t.Errorf("%s: %q restricts %q as %v", row[0], row[3][w.Start:w.End], row[3], w.In(Restrictive))
			}
			if understood(append(before, after...), Number|Unit|Yes|No, in)&language == 0 {
				t.Errorf("%s: %q is not understood", row[0], row[3])
			}
			before, after = around(t, row[2])
			if understood(append(before, after...), Number|Unit, in)&language != 0 {
				t.Errorf("%s: %q is understood as harmless", row[0], row[2])
			}
		}
	}
	for _, tag := range tags {
		for c := Class(1); c <= Restrictive; c <<= 1 {
			if c&Restrictive != 0 && !seen[tag+c.String()] {
				t.Errorf("%s has no example of %v", tag, c)
			}
		}
	}
}

// TestClasses: each class has a word in each language, and not every word has it.
func TestClasses(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range rows(t, "classes.tsv", 4) {
		language, _ := parseTag(row[0])
		class := classOf(t, row[1])
		seen[row[0]+row[1]] = true
		if w := Words(nil, row[2])[0]; w.In(class)&language == 0 {
			t.Errorf("%s: %q is no %s: %v", row[0], row[2], row[1], w.Meanings)
		}
		if w := Words(nil, row[3])[0]; w.In(class)&language != 0 || w.known()&language == 0 {
			t.Errorf("%s: %q should be known, and no %s: %v", row[0], row[3], row[1], w.Meanings)
		}
	}
	for _, tag := range tags {
		for i, name := range names {
			if c := Class(1) << i; c&Restrictive == 0 && c != Particle && !seen[tag+name] {
				t.Errorf("%s has no example of %s", tag, name)
			}
		}
	}
}

// TestEntries: what a table lists is found, as one word with the meaning that it lists.
func TestEntries(t *testing.T) {
	entries := 0
	check := func(word, tag string, class Class) {
		entries++
		language, ok := parseTag(tag)
		if !ok {
			language = Every
		}
		found := Words(nil, word)
		if len(found) == 0 || found[0].In(class)&language != language {
			// A prefix and a suffix are found only beside another word.
			if !strings.HasSuffix(word, "'") && !strings.HasPrefix(word, "'") && !strings.HasPrefix(word, "-") {
				t.Errorf("%s: %q is not found as %v: %v", tag, word, class, found)
			}
		}
	}
	for _, tag := range append(tags[:], "signs") {
		listed := map[string]bool{}
		for line := range read(tag + ".tsv") {
			if listed[line] {
				t.Errorf("%s lists %q twice", tag, line)
			}
			listed[line] = true
			word, rest, _ := strings.Cut(line, "\t")
			list, _, _ := strings.Cut(rest, "\t")
			for name := range strings.SplitSeq(list, ",") {
				if name != "near" {
					check(word, tag, parseClass(tag, name))
				}
			}
		}
	}
	for line := range read("cldr.tsv") {
		row := strings.SplitN(line, "\t", 4)
		for word := range strings.SplitSeq(row[3], "|") {
			check(word, row[0], parseClass("cldr.tsv", row[1]))
		}
	}
	if entries < 10000 {
		t.Errorf("read %d entries", entries)
	}
}

// TestCommonWords: a word that many texts of a language have restricts nothing in them
// because of another language. Each that would is listed as one of its own language.
func TestCommonWords(t *testing.T) {
	for _, row := range rows(t, "common.tsv", 2) {
		language, _ := parseTag(row[0])
		for word := range strings.FieldsSeq(row[1]) {
			w := Words(nil, word)[0]
			if foreign := w.restricts(Restrictive, true) &^ language; foreign != 0 && w.known()&language == 0 {
				t.Errorf("%s: %q restricts as a word of %v: list it as ordinary", row[0], word, foreign)
			}
		}
	}
}

// TestHarmlessElsewhere: a word that restricts in one language is harmless in hardly any
// other, because an answer may be announced in another language than it is given in. Of
// those that are, none is written beside a number to change it.
func TestHarmlessElsewhere(t *testing.T) {
	known := map[string]bool{"o": true, "par": true, "por": true, "se": true}
	for _, tag := range tags {
		for line := range read(tag + ".tsv") {
			word, _, _ := strings.Cut(line, "\t")
			w := Words(nil, word)[0]
			restricts := w.In(Restrictive)
			if harmless := w.In(Harmless) &^ restricts; restricts != 0 && harmless != 0 && !known[word] {
				t.Errorf("%q restricts in %v and is harmless in %v", word, restricts, harmless)
			}
		}
	}
}

// TestSharedWords: what one language denies with is harmless in a text that is plainly in
// another, and denies where the text does not say which it is.
func TestSharedWords(t *testing.T) {
	for _, tt := range []struct {
		text   string
		denied bool
	}{
		{"The fast train takes 120", false},
		{"fast 120", true},
		{"No total, o resultado é 120", false},
		{"o 120", true},
		{"no 120", true},
		{"Il est temps, son frère a 120", false},
		{"Since the sin is 1/2, the answer is 120", false},
		{"The answer is nicht 120", true},
		{"The answer is 120万", true},
		{"The answer is 120 falsch", true},
		{"La respuesta es 120, wrong", true},
		{"El resultado de la suma es 120", false},
		{"Die Antwort auf die Frage ist 120", false},
		{"Ответ: 120 million", true},
		{"不等式的解集为120", false},
		{"这是不120", true},
	} {
		before, after := around(t, tt.text)
		if w, ok := Denying(before, after, Restrictive, Every); ok != tt.denied {
			t.Errorf("%q: denied is %v (%q), expected %v", tt.text, ok, tt.text[w.Start:w.End], tt.denied)
		}
	}
	for _, s := range []string{"120 die", "120 apples falsch", "o 120 the"} {
		before, after := around(t, s)
		english, _ := Parse("en")
		if l := understood(append(before, after...), 0, english); l != 0 {
			t.Errorf("%q is understood in %v", s, l)
		}
	}
	before, after := around(t, "O resultado é 120")
	if l := understood(append(before, after...), 0, Every); l.String() != "pt" {
		t.Errorf("Portuguese is understood in %q", l)
	}
}

// TestParse: languages by tag.
func TestParse(t *testing.T) {
	if l, err := Parse(); err != nil || l != Every {
		t.Errorf("none are %v, %v", l, err)
	}
	l, err := Parse("de", "ja")
	if err != nil || l.String() != "de ja" {
		t.Errorf("two are %q, %v", l, err)
	}
	if _, err := Parse("xx"); err == nil || !strings.Contains(err.Error(), "en, zh, de") {
		t.Errorf("an unknown one: %v", err)
	}
}

// TestReadNumber reads number words.
func TestReadNumber(t *testing.T) {
	for text, want := range map[string]string{
		"three hundred and five": "305", "two million three hundred thousand": "2300000", "twenty-one": "21", "twenty one hundred": "2100",
		"三百二十": "320", "两亿三千万": "230000000", "十二": "12", "zweihundertfünfundzwanzig": "225", "einundzwanzig": "21",
		"vingt et un": "21", "quatre-vingt-dix-sept": "97", "واحد وعشرون": "21", "dua ratus lima puluh": "250", "cinco mil millones": "5000000000",
		"двести пять": "205", "백이십": "120", "एक लाख बीस हज़ार": "120000", "cento e vinte": "120", "treinta y cinco": "35", "zero": "0",
	} {
		words := Words(nil, text)
		if got, n := ReadNumber(words, Every); got != want || n != len(words) {
			t.Errorf("%q is %q of %d of %d words, expected %q", text, got, n, len(words), want)
		}
	}
	for text, want := range map[string]int{"five six": 1, "apples": 0, "and five": 0, "five and apples": 1, "a hundred": 0} {
		if _, n := ReadNumber(Words(nil, text), Every); n != want {
			t.Errorf("%q has %d number words, expected %d", text, n, want)
		}
	}
}

// TestWordsCover: words have an order, lie within the text, and leave out only white space
// and characters without width; the same text gives the same words in any surroundings of
// spaces.
func TestWordsCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		at := 0
		for _, w := range Words(nil, s) {
			if w.Start < at || w.End <= w.Start || w.End > len(s) {
				t.Fatalf("%q: word %d to %d after %d", s, w.Start, w.End, at)
			}
			if left := strings.TrimFunc(s[at:w.Start], func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }); left != "" {
				t.Fatalf("%q: %q is left out", s, left)
			}
			at = w.End
		}
		if n, m := len(Words(nil, s)), len(Words(nil, "  "+s+"\n")); n != m {
			t.Fatalf("%q has %d words, with spaces around %d", s, n, m)
		}
	})
}

// TestUnknownWords: a word outside of all tables makes no text understood, wherever it is
// put, and takes no denial away.
func TestUnknownWords(t *testing.T) {
	texts := rows(t, "restrictive.tsv", 4)
	unknown := rapid.StringMatching(`[bcdfghjklmnpqrstvwxz]{5,9}`).Filter(func(s string) bool { return Words(nil, s)[0].known() == 0 })
	rapid.Check(t, func(t *rapid.T) {
		row := texts[rapid.IntRange(0, len(texts)-1).Draw(t, "text")]
		word := unknown.Draw(t, "word")
		for _, text := range []string{word + " " + row[2], row[2] + " " + word, row[3] + " " + word, word + " " + row[3]} {
			if l := understood(Words(nil, text), Number|Unit|Yes|No, Every); l != 0 {
				t.Fatalf("%q is understood in %v", text, l)
			}
		}
		denied := row[2] + " " + word
		words := Words(nil, denied)
		i := slices.IndexFunc(words, func(w Word) bool { return w.Kind == Digits })
		if _, ok := Denying(words[:i], words[i+1:], Restrictive, Every); !ok {
			t.Fatalf("nothing restricts %q", denied)
		}
	})
}

// TestFolding: what writers vary in a word does not matter.
func TestFolding(t *testing.T) {
	for _, tt := range [][2]string{
		{"ANTWORT", "Antwort"}, {"re\u0301ponse", "réponse"}, {"ｎｏｔ", "not"}, {"isn’t", "isn't"}, {"الـإجـابة", "الإجابة"}, {"الإِجَابَةُ", "الاجابه"},
		{"jumlahnya", "jumlah"}, {"ещё", "еще"}, {"हज़ार", "हजार"}, {"at\u00a0least", "at least"}, {"an\u00adswer", "answer"}, {"at-least", "at least"}, {"v.Chr.", "v. Chr."},
	} {
		a, b := Words(nil, tt[0]), Words(nil, tt[1])
		if len(a) == 0 || len(a) != len(b) || a[0].known() == 0 || !slices.EqualFunc(a[0].Meanings, b[0].Meanings, func(x, y Meaning) bool { return x == y }) {
			t.Errorf("%q is %v, %q is %v", tt[0], a, tt[1], b)
		}
	}
}

// TestAllocations: looking words up allocates nothing.
func TestAllocations(t *testing.T) {
	text := "The train travels 120 km in two hours, so the answer is at most 60 km/h. Die Antwort ist 故选B。"
	buffer := Words(nil, text)
	if n := testing.AllocsPerRun(20, func() { buffer = Words(buffer[:0], text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkWords(b *testing.B) {
	text := strings.Repeat("The train travels 120 km in two hours, so the answer is at most 60 km/h. Die Antwort ist 故选B。 ", 20)
	buffer := Words(nil, text)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		buffer = Words(buffer[:0], text)
	}
}
