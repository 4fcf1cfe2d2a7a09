package reader

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestLineEnds: a line ends with a line feed, however it is written; what a reference
// stands for is none.
func TestLineEnds(t *testing.T) {
	for in, want := range map[string]string{
		"a\r\nb\rc\n":          "a\nb\nc\n",
		"a\r\n&amp;\r":         "a\n&\n",
		"&lt;\r\n\r\n&gt;\r\n": "<\n\n>\n",
		"a&#13;\nb&#xd;&#10;":  "a\r\nb\r\n",
	} {
		if got, err := unescape([]byte(in)); err != nil || got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

// FuzzXML: what the scanner takes for XML, the standard library takes for the same.
func FuzzXML(f *testing.F) {
	for _, seed := range []string{
		`<?xml version="1.0" encoding="UTF-8"?><a x="1" b:y='2'><b:c/>t &amp; &#x41;<![CDATA[<x>]]><!-- c --></a>`,
		"<a>\r\n</a>", "<a>&amp;\r\n&#13;\n\r</a>", "<a><![CDATA[\r\n]]></a>", "<a", "<a></b>", "<a x=1/>", "<!DOCTYPE a><a/>", "<a>&b;</a>", "<a x='<'/>", `<a x="1" x="2"/>`, "\ufeff<a/>",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var ours strings.Builder
		s, err := scanXML(data)
		if err != nil {
			return
		}
		for {
			kind, err := s.next()
			if err != nil {
				return
			}
			if kind == end {
				break
			}
			switch kind {
			case opening:
				ours.WriteString("<" + s.name)
			case closing:
				ours.WriteString(">" + s.name)
			case chars:
				text, err := s.content()
				if err != nil {
					return
				}
				ours.WriteString(text)
			}
		}
		theirs, ok := standard(data)
		if ok && ours.String() != theirs {
			t.Errorf("%q: %q, and %q to the standard library", data, ours.String(), theirs)
		}
	})
}

// standard returns what the standard library reads. It is stricter about names and
// characters, which is not what this is about.
func standard(data []byte) (string, bool) {
	var out strings.Builder
	in := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	for {
		t, err := in.RawToken()
		if errors.Is(err, io.EOF) {
			return out.String(), true
		}
		if err != nil {
			return "", false
		}
		switch t := t.(type) {
		case xml.StartElement:
			out.WriteString("<" + t.Name.Local)
		case xml.EndElement:
			out.WriteString(">" + t.Name.Local)
		case xml.CharData:
			out.Write(t)
		}
	}
}

// FuzzFormula: a formula that is not moved stays as it is, but for the writing of its
// references, and one that is moved there and back, too.
func FuzzFormula(f *testing.F) {
	for _, seed := range []string{"A1+$B$2", "SUM(A:A,3:4)", "'It''s'!A1:B2&\"A1\"", "Sheet1!C3", "LOG10(1)", "1E+3*AB12", "#REF!+A1", "[1]S!A1", "cmd|'x'!A0", "A1:", "$", "'", "XFD1048576+A1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, formula string) {
		once := moved(formula, 0, 0)
		if !strings.EqualFold(once, formula) && !strings.ContainsAny(formula, "0$") {
			t.Errorf("%q became %q", formula, once)
		}
		if there := moved(once, 1, 1); !strings.Contains(there, "#REF!") && moved(there, -1, -1) != once {
			t.Errorf("%q became %q on its way", once, moved(there, -1, -1))
		}
		argument(blankTexts(formula))
		if len(blankTexts(formula)) != len(formula) {
			t.Errorf("%q is of another length", formula)
		}
		odd(formula, scanFormula(formula))
		withRow(formula)
	})
}

func BenchmarkTree(b *testing.B) {
	data := []byte("<a>" + strings.Repeat(`<b c="1" r:d="2"/>`, 100_000) + "</a>")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := new(forest).parse(data); err != nil {
			b.Fatal(err)
		}
	}
}
