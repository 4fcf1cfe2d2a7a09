// Package agenttest says which releases of agents' programs tests run, and
// whether they must. scripts/agents.sh reads the same list.
package agenttest

import (
	_ "embed"
	"os"
	"strings"
)

// Releases lists the releases as "securebench agent fetch" takes them, the oldest
// of a program first. It is the only place that pins them.
func Releases() []string { return strings.Fields(releases) }

//go:embed versions.txt
var releases string

// Versions returns the versions of a program, the oldest first.
func Versions(program string) (out []string) {
	for _, r := range Releases() {
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
