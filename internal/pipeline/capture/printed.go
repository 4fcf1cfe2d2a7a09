package capture

import (
	"bytes"

	"securebench/internal/lazyregexp"
)

// leads are the first lines of a patch: git's or a unified one, with the lines
// that tools put in front.
var leads = lazyregexp.New(`^(diff -|--- |Index: |From [0-9a-f]{40} |commit [0-9a-f]{40})`)

// files are the lines that name the files of a patch.
var files = lazyregexp.New(`(?m)^(diff --git \S|--- \S.*\n\+\+\+ \S)`)

// isPatch reports whether a text that an agent printed is a patch. Text around
// a patch makes it something else: an agent that talks about a change has not
// submitted one.
func isPatch(text []byte) bool {
	text = bytes.TrimLeft(text, "\r\n\t ")
	return leads.Match(text) && files.Match(text)
}
