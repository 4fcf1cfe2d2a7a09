package picture

import (
	"bytes"
	"compress/zlib"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Words returns the readable parts of what a picture says beside its pixels, one for each
// run of characters: EXIF and the like hold texts among numbers.
func (i Info) Words() []string {
	var out []string
	for _, t := range i.Texts {
		for _, form := range [][]byte{t, inflated(t)} {
			for _, s := range []string{string(form), strings.ReplaceAll(string(form), "\x00", "")} { // the latter of wide characters
				out = append(out, runs(s)...)
			}
		}
	}
	return out
}

// inflated returns what a compressed text of a PNG holds, nil if there is none.
func inflated(t []byte) []byte {
	_, rest, ok := bytes.Cut(t, []byte{0})
	if !ok {
		return nil
	}
	for at := range rest[:min(len(rest), 64)] {
		if rest[at] != 0x78 { // as deflated texts begin
			continue
		}
		z, err := zlib.NewReader(bytes.NewReader(rest[at:]))
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(z, maxTexts))
		if len(text) > 0 && (err == nil || len(text) == maxTexts) {
			return text
		}
	}
	return nil
}

// runs returns the runs of characters that can be read.
func runs(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) && r != '\n' && r != '\t' })
}
