package repopatch

import (
	"bytes"
	"context"
	"fmt"

	"securebench/internal/lazyregexp"
)

// apply gives a patch to the image's git on standard input: no patch is ever a
// file in the sandbox.
//
// Git is told that there is no repository, so it works on the files below its
// folder like any other patch program: it reads no configuration but this one
// and no attributes, runs no filter and no hook, and leaves the index alone. A
// filter that the repository's own configuration names could otherwise run a
// file that the patch has just changed.
func (s *scorer) apply(ctx context.Context, git string, patch []byte, options ...string) (said, error) {
	got, err := s.site.run(ctx, command{
		argv: gitApply(git, options...), env: gitEnvironment(),
		alone: true, stdin: bytes.NewReader(patch), timeout: s.stepLimit(), output: saidLimit,
	})
	if err != nil {
		return got, fmt.Errorf("applying a patch: %w", err)
	}
	if len(got.stderr) > 0 {
		s.restricted["git-"+string(s.phase)+".txt"] = got.stderr
	}
	return got, nil
}

// noLinks makes git write a file instead of a symbolic link. Git refuses to write
// through a link that the patch makes, but can be led to overlook one: a patch
// that copies a link, deletes the copy, and makes a file below it and one in its
// place has written through it.
const noLinks = "core.symlinks=false"

// gitApply is the command that applies the patch on its standard input to the
// files below its folder, with options of git's configuration.
func gitApply(git string, options ...string) []string {
	argv := []string{git, "-c", "core.autocrlf=false", "-c", "core.attributesFile=/dev/null", "-c", "core.hooksPath=/dev/null",
		"-c", "apply.whitespace=nowarn", "-c", "apply.ignoreWhitespace=no"}
	for _, o := range options {
		argv = append(argv, "-c", o)
	}
	return append(argv, "apply", "--whitespace=nowarn")
}

// linkMode finds the mode of a symbolic link that a patch makes or changes, in the
// header of a file's section. What a mail's message says is none.
var linkMode = lazyregexp.New(`(?m)^diff --git .*\n` +
	`(?:(?:(?:old|new|new file|deleted file) mode|(?:copy|rename) (?:from|to)|(?:dis)?similarity index|index|---|\+\+\+) .*\n)*?` +
	`(?:new file mode|new mode|index [0-9a-f]+\.\.[0-9a-f]+) 120000\r?$`)

// gitEnvironment is all of git's environment.
func gitEnvironment() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C", "GIT_DIR=/nonexistent",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=/", "GIT_TERMINAL_PROMPT=0"}
}
