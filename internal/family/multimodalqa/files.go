package multimodalqa

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/textmatch"
	"securebench/internal/picture"
)

// file is a public file as a row names it.
type file struct {
	Path  string `json:"path"`
	Type  string `json:"type"`
	Mount string `json:"mount"`
}

// filesOf reads the files of a row. What has another form is no file.
func filesOf(assets jsontext.Value) []file {
	var out []file
	if json.Unmarshal(assets, &out) != nil {
		return nil
	}
	for i, f := range out {
		out[i].Path = path.Clean(f.Path)
		if f.Type == "" {
			out[i].Type = typed(f.Path)
		}
	}
	return out
}

// typed returns the type that a file's name says, "" for none.
func typed(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".png", ".jpg", ".jpeg", ".webp", ".gif":
		return "image"
	case ".pdf":
		return "pdf"
	}
	return ""
}

// shown reports whether a file is a picture or a document.
func (f file) shown() bool { return f.Type == "image" || f.Type == "pdf" }

// checkFiles refuses a row without anything to look at, and a picture that is none or
// that declares a size which whoever decodes it would pay for.
func checkFiles(row family.Row) (out []family.Problem) {
	some := false
	for i, f := range filesOf(row.Assets) {
		some = some || f.shown() || f.Type == "video" || f.Type == "audio"
		if !f.shown() {
			continue
		}
		at := []string{"assets", strconv.Itoa(i), "path"}
		info, there, err := examine(row.Public, f.Path, picture.Size)
		switch isPDF := info.Type == picture.PDF; {
		case err != nil:
			out = append(out, family.Problem{Path: at, Message: fmt.Sprintf("names a file that %v", err), Fix: "bring a picture of a usual size as PNG, JPEG, WebP or GIF, or a PDF"})
		case there && isPDF != (f.Type == "pdf"):
			out = append(out, family.Problem{Path: at, Message: fmt.Sprintf("names a file of type %s, not a %s", info.Type, f.Type), Fix: "correct the asset's type"})
		}
	}
	if !some {
		out = append(out, family.Problem{Path: []string{"assets"}, Message: "has nothing to look at", Fix: `add an asset such as {"path": "images/1.png", "type": "image"}`})
	}
	return out
}

// examine reads what a file says of itself. It is false for one that is not there, of
// which the pack's own rules speak.
func examine(files fs.FS, name string, read func(io.Reader) (picture.Info, error)) (info picture.Info, there bool, err error) {
	if files == nil {
		return info, false, nil
	}
	f, err := files.Open(name)
	if err != nil {
		return info, false, nil //nolint:nilerr // see above
	}
	defer f.Close()
	info, err = read(f)
	return info, true, err
}

// doubtful finds a choice that is only a letter, and the label of another one: who names
// the letter in the picture names the other.
func doubtful(row family.Row) []family.Problem {
	if row.Input["choices"] == nil {
		return nil
	}
	out, choices := multiplechoice.Family().Doubts(row), texted(elements(row.Input["choices"]))
	for i, c := range choices {
		letter := strings.Trim(strings.ToUpper(textmatch.Normalize(c)), "()[]")
		if len(letter) == 1 && letter >= "A" && int(letter[0]-'A') < len(choices) && letter != string(rune('A'+i)) {
			out = append(out, family.Problem{Path: []string{"input", "choices", strconv.Itoa(i)},
				Message: fmt.Sprintf("is the letter %s, which is the label of another choice", letter), Fix: "put the choices in the order of their letters"})
		}
	}
	return out
}

// maxCompared is the most bytes of a picture that is compared with another.
const maxCompared = 64 << 20

// inspect finds pictures that give the answer away, that show nothing, or that are there
// twice.
func inspect(row family.Row) (out []family.Problem) {
	answers := answersOf(row)
	files := filesOf(row.Assets)
	sizes := map[int64][]int{} // the pictures before, by their bytes
	for i, f := range files {
		if !f.shown() {
			continue
		}
		warn := func(message, fix string) {
			out = append(out, family.Problem{Path: []string{"assets", strconv.Itoa(i), "path"}, Message: message, Fix: fix})
		}
		if slices.ContainsFunc([]string{f.Path, f.Mount}, func(name string) bool { return named(name, answers) }) {
			warn("has the answer in its name", "rename the file")
		}
		info, there, err := examine(row.Public, f.Path, picture.Read)
		if !there || err != nil {
			continue
		}
		if slices.ContainsFunc(info.Words(), func(s string) bool { return tells(s, answers) }) {
			warn("names a picture with the answer in its metadata", "remove EXIF, comments and other texts from the picture")
		}
		if info.OneColour {
			warn("names a picture of one colour", "bring the picture that the question is about")
		}
		about, err := fs.Stat(row.Public, f.Path)
		if err != nil {
			continue
		}
		twin := slices.IndexFunc(sizes[about.Size()], func(j int) bool { return sameContent(row.Public, f.Path, files[j].Path) })
		if twin >= 0 {
			warn(fmt.Sprintf("names the same picture as assets[%d]", sizes[about.Size()][twin]), "remove one of the two, or bring the picture that is missing")
			continue
		}
		sizes[about.Size()] = append(sizes[about.Size()], i)
	}
	return out
}

// named reports whether the name of a file gives an answer. One letter or digit is the
// usual name of a picture.
func named(name string, answers []string) bool {
	stem := strings.TrimSuffix(path.Base(name), path.Ext(name))
	return utf8.RuneCountInString(stem) > 1 && tells(stem, answers)
}

// sameContent reports whether two files have the same bytes. Only files of one size need
// to be read for that.
func sameContent(files fs.FS, a, b string) bool {
	x, okX := sumOf(files, a)
	y, okY := sumOf(files, b)
	return okX && okY && x == y
}

// sumOf returns the digest of a file.
func sumOf(files fs.FS, name string) (sum [sha256.Size]byte, ok bool) {
	f, err := files.Open(name)
	if err != nil {
		return sum, false
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxCompared))
	return [sha256.Size]byte(h.Sum(nil)), err == nil && n < maxCompared
}

// answersOf returns the texts of a row's right answers in normal form.
func answersOf(row family.Row) (out []string) {
	choices := texted(elements(row.Input["choices"]))
	if len(choices) == 0 {
		out = texted(golds(row.Eval["answer"]))
	}
	for _, i := range multiplechoice.Right(choices, row.Eval["answer"]) {
		out = append(out, choices[i], string(rune('A'+i)))
	}
	for i, text := range out {
		out[i] = textmatch.Normalize(text)
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// minTold is the fewest characters of an answer that is looked for inside a text; a
// shorter one must be the whole of it, or follow a word for an answer.
const minTold = 4

// tells reports whether a text gives an answer.
func tells(s string, answers []string) bool {
	s = textmatch.Normalize(strings.NewReplacer("_", " ", "-", " ").Replace(s))
	for _, a := range answers {
		spaced := textmatch.Normalize(strings.NewReplacer("_", " ", "-", " ").Replace(a))
		if s == a || spaced != "" && s == spaced {
			return true
		}
		if utf8.RuneCountInString(a) >= minTold && (textmatch.HasPhrase(s, a) || textmatch.HasPhrase(s, spaced)) {
			return true
		}
		for _, word := range []string{"answer", "answer:", "answer is", "answer =", "solution:"} {
			if textmatch.HasPhrase(s, word+" "+a) {
				return true
			}
		}
	}
	return false
}
