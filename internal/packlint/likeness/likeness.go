// Package likeness tells whether one text is a copy of another: byte for byte, laid
// out anew, with its lines in another order, or within a longer text. It compares
// hashes of what such changes leave as it is, so that many texts are compared with many
// at the cost of reading each once. It keeps the reading of archives that others made
// apart from the checks that ask it.
package likeness

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"path"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/digest"
	"securebench/internal/lazyregexp"
)

// The bounds of what is compared.
const (
	minText  = 16      // bytes below which texts are alike by chance
	maxText  = 1 << 20 // bytes above which contents are compared byte for byte alone
	minLine  = 6       // bytes of a line, without blanks, below which it is in every text
	minLines = 3       // in which one text is looked for within another
	maxLines = 5000    // of a text that are looked for
	minWords = 8       // of a text whose words are compared
	// maxSame is how many texts a line may be in and still tell them apart.
	maxSame     = 64
	maxPostings = 2 << 20 // of an index; 16 bytes each
)

// How says in what way one text is a copy of another. The zero value is none.
type How uint8

// The ways, the closest first.
const (
	Same     How = 1 << iota // apart from line ends, and blanks around it
	LaidOut                  // apart from blanks, commas, the kind of quotes and what all lines begin with
	Shuffled                 // the same lines in another order
	Reworded                 // the same words in another order, apart from punctuation
	Contains                 // all lines of the other, and more
)

// String completes a sentence between the names of two texts.
func (h How) String() string {
	switch h {
	case Same:
		return "is the same as"
	case LaidOut:
		return "is, laid out in another way, the same as"
	case Shuffled:
		return "has the lines, in another order, of"
	case Reworded:
		return "has the words, in another order, of"
	case Contains:
		return "contains the lines of"
	}
	return "has nothing of"
}

// Marks are what is compared of one content.
type Marks struct {
	whole [4]uint64 // by the place of their bit in [How]; 0 is none
	lines []uint64  // distinct
}

// Whole returns the marks of the content as a whole, without those of its lines.
func (m Marks) Whole() Marks { return Marks{whole: m.whole} }

// seed differs from process to process: hashes are not kept.
var seed = maphash.MakeSeed() //nolint:gochecknoglobals // one for all texts

// ofDigest returns the marks of a content that is compared byte for byte.
func ofDigest(sum string) Marks {
	return Marks{whole: [4]uint64{mix(maphash.String(seed, sum), 9)}}
}

// Of returns the marks of a content.
func Of(content []byte) Marks {
	if len(content) > maxText {
		return ofDigest(digest.Bytes(content))
	}
	text := bytes.TrimSpace(decoded(content))
	if len(text) < minText {
		return Marks{}
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	m := Marks{whole: [4]uint64{mix(maphash.Bytes(seed, text), 0)}}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return m
	}
	m.text(text)
	return m
}

// decoded returns a text without its byte order mark, and one in UTF-16 that has such a
// mark in UTF-8.
func decoded(content []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(content, []byte("\xef\xbb\xbf")):
		return content[3:]
	case bytes.HasPrefix(content, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(content, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return content
	}
	units := make([]uint16, 0, len(content)/2)
	for at := 2; at+1 < len(content); at += 2 {
		units = append(units, order.Uint16(content[at:]))
	}
	return []byte(string(utf16.Decode(units)))
}

// text takes the marks that outlive a change of layout or order.
func (m *Marks) text(text []byte) {
	var all maphash.Hash
	all.SetSeed(seed)
	var bare []byte
	var size int
	var shuffled, words, count uint64
	mark := markOfAll(text)
	for line := range linesOf(text) {
		bare = strip(bare[:0], bytes.TrimPrefix(line, mark))
		_, _ = all.Write(bare)
		size += len(bare)
		if len(bare) > 0 {
			h := mix(maphash.Bytes(seed, bare), 4)
			shuffled += h
			if inner := bytes.TrimLeft(bare, lineMarks); len(inner) < len(bare) {
				bare, h = inner, mix(maphash.Bytes(seed, inner), 4)
			}
			if len(bare) >= minLine && len(m.lines) <= maxLines {
				m.lines = append(m.lines, h)
			}
		}
		for word := range bytes.FieldsFuncSeq(line, func(r rune) bool { return !isWord(r) }) {
			words += mix(maphash.Bytes(seed, word), 3)
			count++
		}
	}
	if slices.Sort(m.lines); len(m.lines) > maxLines {
		m.lines = nil
	}
	m.lines = slices.Compact(m.lines)
	if size < minText {
		return
	}
	m.whole[1], m.whole[2] = mix(all.Sum64(), 1), mix(shuffled, 2)
	if count >= minWords {
		m.whole[3] = mix(words+count, 3)
	}
}

// lineMarks are what lines begin with where they are quoted, commented out, or lines of a
// patch. One such line tells a wrong program from a right one, so they are left out where
// a longer text is searched for lines, or if all lines begin so.
const lineMarks = "+->#*/|%"

func linesOf(text []byte) iter.Seq[[]byte] {
	return bytes.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' })
}

// markOfAll returns the marks with which all lines of a text begin.
func markOfAll(text []byte) []byte {
	mark := text[:len(text)-len(bytes.TrimLeft(text, lineMarks))]
	for line := range linesOf(text) {
		for !bytes.HasPrefix(line, mark) {
			mark = mark[:len(mark)-1]
		}
	}
	return mark
}

// strip appends a line without what formatters change.
func strip(to, line []byte) []byte {
	for _, c := range line {
		switch c {
		case ' ', '\t', '\f', '\v', ',', ';', '\\':
		case '"':
			to = append(to, '\'')
		default:
			to = append(to, c)
		}
	}
	return to
}

func isWord(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > '~'
}

// mix makes a hash of one kind differ from all of another.
func mix(h, kind uint64) uint64 {
	h += kind * 0x9e3779b97f4a7c15
	h ^= h >> 31
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 29
	return max(h, 1)
}

// Match is one text of an index that is a copy of another.
type Match struct {
	ID  int32
	How How
}

// Index has the marks of many texts.
type Index struct {
	postings []posting
	sorted   bool
}

type posting struct {
	key uint64
	id  int32
}

// Empty reports whether there are no texts.
func (x *Index) Empty() bool { return len(x.postings) == 0 }

// Add adds a text, unless there are too many already.
func (x *Index) Add(id int32, m Marks) {
	if len(x.postings)+len(m.whole)+len(m.lines) > maxPostings {
		return
	}
	for _, key := range m.whole {
		if key != 0 {
			x.postings = append(x.postings, posting{key, id})
		}
	}
	for _, key := range m.lines {
		x.postings = append(x.postings, posting{key, id})
	}
	x.sorted = false
}

// Find returns the texts that are copies of the one with these marks, in one of some
// ways, each once.
func (x *Index) Find(m Marks, ways How) (out []Match) {
	if !x.sorted {
		slices.SortFunc(x.postings, func(a, b posting) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id)) })
		x.sorted = true
	}
	seen := map[int32]bool{}
	add := func(id int32, how How) {
		if !seen[id] {
			seen[id] = true
			out = append(out, Match{id, how})
		}
	}
	for i, key := range m.whole {
		if how := How(1) << i; key != 0 && ways&how != 0 {
			for _, p := range x.at(key) {
				add(p.id, how)
			}
		}
	}
	if ways&Contains != 0 {
		for _, id := range x.holders(m.lines) {
			add(id, Contains)
		}
	}
	return out
}

// at returns the postings of a key.
func (x *Index) at(key uint64) []posting {
	i, ok := slices.BinarySearchFunc(x.postings, key, func(p posting, key uint64) int { return cmp.Compare(p.key, key) })
	if !ok {
		return nil
	}
	n := i
	for n < len(x.postings) && x.postings[n].key == key {
		n++
	}
	return x.postings[i:n]
}

// holders returns the texts that have all of some lines, except for those that are
// everywhere.
func (x *Index) holders(lines []uint64) (out []int32) {
	if len(lines) < minLines {
		return nil
	}
	want, have := 0, map[int32]int{}
	for _, key := range lines {
		found := x.at(key)
		if len(found) > maxSame {
			continue
		}
		if want++; want > 1 && len(have) == 0 {
			return nil
		}
		for _, p := range found {
			have[p.id]++
		}
	}
	for id, n := range have {
		if n == want && want >= minLines {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

var (
	codeName = lazyregexp.New(`(?i)\.(py|pyi|ipynb|sh|bash|zsh|js|mjs|cjs|ts|tsx|jsx|go|rs|c|h|cc|cpp|cxx|hh|hpp|java|kt|kts|scala|cs|rb|pl|pm|php|lua|r|jl|sql|swift|hs|ml|ex|exs|erl|clj|dart|zig|nim|m|mm|ps1|bats|t|patch|diff)$`)
	dataName = lazyregexp.New(`(?i)\.(json|jsonl|csv|tsv|txt|ya?ml|toml|ini|xml|html?|svg|md|rst|log|out)$`)
	codeLine = lazyregexp.New(`(?m)^[ \t]*(?:(?:def|class|func|fn|function|package|module|import|from|using|assert|return|let|const|var|public|private|static|if|elif|for|while|try|with|case|set|echo|exit|export|test|diff|\[{1,2}|@|#include)[ \t(].*|.*[;{}]|\w[\w.]*\(.*\)(?:[ \t]*==.*)?|\w+[ \t]*:?=[^=].*|[-+@ ]{1,3}.*[;{}()])$`)
)

// IsCode reports whether a content is a program rather than data, which may have the
// same lines as other data in another order for an honest reason.
func IsCode(name string, content []byte) bool {
	if codeName.MatchString(path.Base(name)) || bytes.HasPrefix(content, []byte("#!")) {
		return true
	}
	if dataName.MatchString(path.Base(name)) || jsontext.Value(content).IsValid() {
		return false
	}
	content = content[:min(len(content), 16<<10)]
	lines := 0
	for line := range strings.Lines(string(content)) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	return 3*len(codeLine.FindAll(content, -1)) >= lines
}
