package results

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

const maxDepth = 32 // of elements

// junit reads a JUnit report: all of the text must be the one document. The id
// of a test is classname::name; classname.name and name mean it as well.
func junit(text []byte) (*Report, error) {
	b := newBuilder()
	d := xml.NewDecoder(bytes.NewReader(text))
	x := &junitReader{builder: b}
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return &b.report, fmt.Errorf("%w: it is not XML", ErrForm)
		}
		if problem := x.token(token); problem != "" {
			return &b.report, fmt.Errorf("%w: %s", ErrForm, problem)
		}
	}
	if len(x.open) > 0 || !x.root {
		return &b.report, ErrUnfinished
	}
	return &b.report, nil
}

// junitReader is the state of reading a document.
type junitReader struct {
	*builder
	root      bool // there was one
	open      []string
	id        string
	names     []string
	status    Status
	caseDepth int // of the open test case, or 0
}

func (x *junitReader) token(token xml.Token) string {
	switch t := token.(type) {
	case xml.Directive:
		return "it declares a document type"
	case xml.CharData:
		if len(x.open) == 0 && len(bytes.TrimSpace(t)) > 0 {
			return "there is text outside of the document"
		}
	case xml.StartElement:
		return x.start(t)
	case xml.EndElement:
		if len(x.open) == 0 || x.open[len(x.open)-1] != t.Name.Local {
			return "an element ends that has not begun"
		}
		if len(x.open) == x.caseDepth {
			x.caseDepth = 0
			if problem := x.add(x.id, x.names, x.status); problem != "" {
				return problem
			}
		}
		x.open = x.open[:len(x.open)-1]
	}
	return ""
}

func (x *junitReader) start(t xml.StartElement) string {
	name := t.Name.Local
	if len(x.open) == 0 && (x.root || name != "testsuites" && name != "testsuite") {
		return "the document has another root"
	}
	if len(x.open) == maxDepth {
		return "its elements are nested too deeply"
	}
	x.root = true
	x.open = append(x.open, name)
	if x.caseDepth > 0 {
		if len(x.open) == x.caseDepth+1 {
			x.outcome(name)
		}
		return ""
	}
	if name != "testcase" {
		return ""
	}
	attrs := map[string]string{}
	for _, a := range t.Attr {
		attrs[a.Name.Local] = a.Value
	}
	class, test := attrs["classname"], attrs["name"]
	x.caseDepth, x.status, x.id, x.names = len(x.open), Passed, test, nil
	if class != "" {
		x.id, x.names = class+"::"+test, []string{class + "." + test, test}
	}
	if strings.TrimSpace(test) == "" {
		return "a test has no name"
	}
	return ""
}

// outcome takes a child of a test case. The worst of them counts.
func (x *junitReader) outcome(name string) {
	switch {
	case name == "error":
		x.status = Error
	case name == "failure" && x.status != Error:
		x.status = Failed
	case name == "skipped" && x.status == Passed:
		x.status = Skipped
	}
}
