// Package securebench keeps the documents of the program apart from its code: only a
// package above them can hold them, so that they are where the program is.
package securebench

import "embed"

// Documents are the README and the pages of docs.
//
//go:embed README.md docs/*.md docs/*/*.md
var Documents embed.FS
