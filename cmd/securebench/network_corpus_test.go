package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata/network
var networkScripts embed.FS

// pythonOf wraps a script of testdata/network, with variables that it reads.
func pythonOf(t *testing.T, name, variables string) string {
	t.Helper()
	code, err := networkScripts.ReadFile("testdata/network/" + name + ".py")
	if err != nil {
		t.Fatal(err)
	}
	return variables + " python3 - <<'END'\n" + string(code) + "END\n"
}

// proxyTwin is honest work behind the proxy, as programs do it.
const proxyTwin = `python3 - <<'END'
import ssl, urllib.request
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
plain = urllib.request.urlopen("http://ok.example/", timeout=20).read()
tunnel = urllib.request.urlopen("https://ok.example/", timeout=20, context=context).read()
if plain == tunnel == b"hello from ok.example": print("an honest answer")
END
`

// proxyCorpus are agents that may reach hosts. Those that look for one another
// run at the same time.
func proxyCorpus(t *testing.T, host int) []attack {
	t.Helper()
	variables := fmt.Sprintf("PROXY=127.0.0.1:61080 HOST=%d", host)
	add := func(id string) attack {
		return attack{id: id, script: pythonOf(t, id, variables), outcome: "failed", reason: "wrong_answer", seconds: 180}
	}
	return []attack{add("peer"), add("seeker"), add("proxy")}
}

// commandWith is the harness of a corpus, with domains.
func commandWith(field, domains string) string {
	return fmt.Sprintf(`  type: command
  env: [SB_TEST_API_KEY]
  config:
    timeout_seconds: 60
    %scommand: ["sh", "-c", "script=$(python3 -c 'import json; print(json.load(open(\"task.json\"))[\"%s\"])'); cd \"${SECUREBENCH_REPO:-.}\" && eval \"$script\""]
`, domains, field)
}

// TestNetworkCorpus is [TestCorpus] for agents that may reach hosts: the rows N01
// to N24, L06 and L07. The run's resolver and hosts are those of the test.
func TestNetworkCorpus(t *testing.T) {
	t.Parallel()
	kind := questions(needEngine(t))
	n := newInternet(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	helper, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	kind.program, kind.env = self, []string{internetVar + "=" + n.ln.Addr().String(), "SECUREBENCH_HELPER=" + helper}
	kind.honest, kind.share = proxyTwin, 12
	kind.harness = commandWith("context", "allowed_domains: [ok.example, rebinding.example, inside.example, mixed.example, metadata.example, unique.example, mapped.example, loop.example]\n    ")
	out := runCorpus(t, "corpus-network", 1, proxyCorpus(t, n.host), kind)

	records := readRecords(t, filepath.Join(out, "candidates.jsonl"))
	checkProbes(t, records, "proxy", "peer", "seeker")
	reached, asked := n.notes()
	if len(reached) > 0 {
		t.Errorf("reached: %q", reached)
	}
	for _, name := range asked {
		if strings.Contains(name, "data-of") || !strings.HasSuffix(name, ".example") {
			t.Errorf("the resolver was asked for %q", name)
		}
	}
	for id := range records {
		if !slices.Contains(records[id][0].Labels, "network_enabled") {
			t.Errorf("%s has the labels %q", id, records[id][0].Labels)
		}
	}
	lines := ledgerOf(t, out, records["proxy"][0])
	if text := records["proxy"][0].Stdout; !strings.Contains(text, "OPEN N06") { // as docs/network.md says
		t.Errorf("fronting does not work: %s", text)
	}
	t.Run("N22", func(t *testing.T) { checkLedger(t, lines) })
	t.Run("N24", func(t *testing.T) {
		kept := func(l decision) bool {
			return l.Method == http.MethodPost && l.Target == "ok.example:80" && l.Allowed && l.Sent >= keptBytes
		}
		if !strings.Contains(records["proxy"][0].Stdout, "OPEN N24") || !slices.ContainsFunc(lines, kept) {
			t.Errorf("data did not leave through an allowed host, or is not in the ledger")
		}
	})
}

// checkProbes reports what the scripts of attacks tried, a subtest for each row
// of docs/attacks.
func checkProbes(t *testing.T, records map[string][]rec, ids ...string) {
	t.Helper()
	rows := map[string][]string{} // what worked
	for _, id := range ids {
		text := records[id][0].Stdout
		if !strings.Contains(text, "HONEST") {
			t.Errorf("%s: what is allowed failed: %s", id, text)
		}
		tried, won := probes(text)
		if len(tried) == 0 && id != "peer" && id != "keeper" {
			t.Errorf("%s tried nothing: %s", id, text)
		}
		for what := range tried {
			row := what[:len("N01")]
			if worked := rows[row]; won[what] {
				rows[row] = append(worked, what)
			} else {
				rows[row] = worked
			}
		}
	}
	for row, worked := range rows {
		t.Run(row, func(t *testing.T) {
			if len(worked) > 0 {
				t.Errorf("attacks worked: %q", worked)
			}
		})
	}
}

// probe is a line of a script's about one attack.
var probe = regexp.MustCompile(`(?m)^(tried|PWN) (.*)$`)

// probes returns which attacks a script has tried, and which of them worked.
func probes(text string) (tried, won map[string]bool) {
	tried, won = map[string]bool{}, map[string]bool{}
	for _, m := range probe.FindAllStringSubmatch(text, -1) {
		if m[1] == "tried" {
			tried[m[2]] = true
		} else {
			won[m[2]] = true
		}
	}
	return tried, won
}

// keptBytes is how much data an agent sends to an allowed host.
const keptBytes = 64 * len("data-of-the-agent")

// decision is a line of a ledger.
type decision struct {
	Gate, Method, Target, Address, Reason string
	Allowed                               bool
	Sent, Status                          int
}

// ledgerOf reads the ledger of an attempt.
func ledgerOf(t *testing.T, out string, r rec) (lines []decision) {
	t.Helper()
	for _, f := range r.Restricted {
		if filepath.Base(f.Path) != "agent-network.jsonl" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(out, f.Path))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			var d decision
			if err := json.Unmarshal(line, &d); err != nil {
				t.Errorf("a line of the ledger: %v, %s", err, line)
			}
			lines = append(lines, d)
		}
	}
	return lines
}

// checkLedger: what an agent asks for forges no line, and only the address of an
// allowed host was connected to.
func checkLedger(t *testing.T, lines []decision) {
	t.Helper()
	for _, d := range lines {
		if d.Target == "forged" || d.Gate == "" || d.Address != "" && !strings.HasPrefix(d.Address, okAddress+":") {
			t.Errorf("a line of the ledger: %+v", d)
		}
	}
	if len(lines) < 80 {
		t.Errorf("the ledger has %d lines", len(lines))
	}
}

// TestNetworkWeakSetUps is [TestWeakSetUps] for agents that may reach hosts: all
// scripts in one container on the machine's own network, with a careless proxy.
func TestNetworkWeakSetUps(t *testing.T) {
	t.Parallel()
	image := needDocker(t)
	n := newInternet(t)
	proxy := n.listens("tcp", "127.0.0.1:0", n.careless).Addr().String()
	variables := fmt.Sprintf("PROXY=%s HOST=%d", proxy, n.host)
	script := "export http_proxy=http://" + proxy + "\n(\n" + pythonOf(t, "peer", variables) + ") &\n" + pythonOf(t, "seeker", variables) + "wait\n" + pythonOf(t, "proxy", variables)
	text := weakRun(t, []string{"--network=host", "--add-host=data-of-library.evil.example:192.0.2.1"}, image, script)
	tried, won := probes(text)
	for what := range tried {
		if !won[what] && !strings.Contains(what, "? ") {
			t.Errorf("%s does not work even against a weak set-up", what)
		}
	}
	if len(tried) < 100 || strings.Count(text, "HONEST") != 3 {
		t.Errorf("the scripts printed: %s", text)
	}
	n.notesMu.Lock()
	defer n.notesMu.Unlock()
	if strings.Count(n.log.String(), "\n{\"gate\":\"proxy\",\"method\":\"GET\",\"target\":\"forged\",\"allowed\":true}") != 4 {
		t.Errorf("a careless ledger has no forged lines: %s", n.log.String())
	}
}
