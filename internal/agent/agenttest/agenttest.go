// Package agenttest says which releases of agents' programs tests run, and
// whether they must. scripts/agents.sh reads the same list.
package agenttest

import (
	_ "embed"
	"os"
	"strings"
)

// Releases lists the releases that every run of the tests needs, as "securebench agent
// fetch" takes them, the oldest of a program first. The rest of versions.txt, behind the
// line that begins with a #, is for "make agents-test". It is the only place that pins
// releases.
func Releases() []string {
	first, _, _ := strings.Cut(releases, "#")
	return strings.Fields(first)
}

//go:embed versions.txt
var releases string

// All reports whether the tests run all agents.
func All() bool { return os.Getenv("SECUREBENCH_TEST_ALL_AGENTS") == "1" }

// Pinned returns the newest version of a program that is pinned, "" for none.
func Pinned(program string) string {
	v := Versions(program)
	if len(v) == 0 {
		return ""
	}
	return v[len(v)-1]
}

// Versions returns the versions of a program, the oldest first.
func Versions(program string) (out []string) {
	for _, r := range strings.Fields(releases) {
		if name, version, _ := strings.Cut(r, "@"); name == program {
			out = append(out, version)
		}
	}
	return out
}

// Mode is what the environment says of tests that need the programs.
type Mode string

// The modes. In any other the tests run if the programs are in the cache or a
// registry answers, and are skipped otherwise.
const (
	Require Mode = "require" // a registry that does not answer is a failure
	Fetched Mode = "fetched" // the programs are in the cache: that one is missing is a failure
	Never   Mode = "never"   // the tests are skipped
)

// Current returns the mode of SECUREBENCH_TEST_AGENTS.
func Current() Mode { return Mode(os.Getenv("SECUREBENCH_TEST_AGENTS")) }
