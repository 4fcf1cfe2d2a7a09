package machine

import (
	"errors"
	"strings"
	"testing"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/fault"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/engines"
)

// TestDiagnosis: the first engine that can run is named; where none can, the
// command fails and says how to change that.
func TestDiagnosis(t *testing.T) {
	t.Parallel()
	good := sandbox.Requirement{Name: "an engine that answers", Holds: true, Found: "Docker 20.10"}
	bad := sandbox.Requirement{Name: "an OCI runtime", Found: "no\nrunc", Fix: "apt-get install runc"}
	option := sandbox.Requirement{Name: "users of their own", Optional: true, Found: "Linux 6.1", Fix: "a newer kernel"}
	for name, c := range map[string]struct {
		found []engines.Examination
		kind  fault.Kind
		table []string
		json  []string
	}{
		"one runs": {[]engines.Examination{{Engine: "native", Requirements: []sandbox.Requirement{good, bad}}, {Engine: "docker", Requirements: []sandbox.Requirement{good, option}}}, "",
			[]string{"native: cannot run\n", "NO ", `no\x0arunc`, "to fix:", "apt-get install runc\n", "docker: can run\n", "no (optional)", "\nA run with sandbox.engine auto takes docker.\n", "math-verify 0.9.0 for Python, which compares mathematical answers, is fetched"},
			[]string{`{"engine":"native","runs":false,"requirements":[{"name":"an engine that answers","optional":false,"holds":true,"found":"Docker 20.10","fix":""},{`, `{"engine":"docker","runs":true,`}},
		"none runs": {[]engines.Examination{{Engine: "native", Requirements: []sandbox.Requirement{bad}}}, fault.Problems,
			[]string{"native: cannot run\n"}, []string{`"runs":false`}},
	} {
		for _, asJSON := range []bool{false, true} {
			var out strings.Builder
			err := group{&subcommand.Shell{Stdout: &out, Getenv: func(string) string { return "" }}}.diagnose(c.found, asJSON)
			if (err != nil) != (c.kind != "") || err != nil && (fault.KindOf(err) != c.kind || !errors.Is(err, errNone)) {
				t.Errorf("%s: %v", name, err)
			}
			want := c.table
			if asJSON {
				want = c.json
			}
			for _, text := range want {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%s: %q is not in\n%s", name, text, out.String())
				}
			}
		}
	}
}
