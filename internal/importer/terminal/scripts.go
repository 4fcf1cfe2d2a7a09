package terminal

import (
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
)

// lines returns the commands of a shell script, without comments and blank
// lines. A line that is continued is one with the next.
func commandLines(script string) (out []string) {
	script = strings.ReplaceAll(script, "\\\n", " ")
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ": #") {
			continue
		}
		out = append(out, line)
	}
	return out
}

// fetching matches commands that load programs or data from elsewhere.
var fetching = lazyregexp.New(`(?:^|[;&|(\s])(?:(?:apt|apt-get|apk|yum|dnf)\s+(?:-\S+\s+)*(?:install|add|update|upgrade)\b|` +
	`(?:pip|pip3|uv|npm|yarn|pnpm|gem|cargo|go|conda|mamba)\s+(?:\S+\s+)*?(?:install|add|get|download|sync|init)\b|uvx\s|npx\s|` +
	`(?:curl|wget)\s[^|;&]*(?:https?|ftp)://|git\s+clone\s+(?:-\S+\s+)*(?:https?|git|ssh)://)`)

// ownHost matches addresses of this machine.
var ownHost = lazyregexp.New(`(?:https?|ftp)://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])\b`)

// downloads returns the first line of a script that needs a network.
func downloads(script string) (string, bool) {
	for _, line := range commandLines(script) {
		if fetching.MatchString(ownHost.ReplaceAllString(line, "")) {
			return line, true
		}
	}
	return "", false
}

// What the usual script of a task's tests consists of, beside the line that runs
// them: it installs a runner and writes the reward.
var usual = lazyregexp.New(strings.Join([]string{
	`^(?:set|export\s+(?:DEBIAN_FRONTEND|PATH|UV_\w+)=\S*|source|\.)(?:\s.*)?$`,
	`^(?:sudo\s+)?apt(?:-get)?\s+(?:-\S+\s+)*update\b[^;&|]*$`,
	`^(?:curl|wget)\s.*https://astral\.sh/uv/.*$`,
	`^(?:if|elif)\s+\[.*\];?\s*(?:then)?$`,
	`^(?:then|else|fi|exit(?:\s+\S+)?|echo\s+[^|;&]*|mkdir\s+-p\s+\S+)$`,
	`^(?:uv\s+(?:init|venv)\b[^|;&]*|python3?\s+-m\s+venv\s+\S+)$`,
	`^\w+=\$\?$`,
}, "|"))

var (
	aptInstall = lazyregexp.New(`^(?:sudo\s+)?(?:DEBIAN_FRONTEND=\S+\s+)?apt(?:-get)?\s+(?:-\S+\s+)*install\s+([^;&|]*)$`)
	pipInstall = lazyregexp.New(`^(?:uv\s+(?:pip\s+install|add)|(?:python3?\s+-m\s+)?pip3?\s+install)\s+([^;&|]*)$`)
	runPytest  = lazyregexp.New(`^(?:\w+=\S+\s+)*(uvx|uv\s+run|python3?\s+-m\s+pytest|pytest)\b([^;&|]*)$`)
	testTarget = lazyregexp.New(`^(?:"?\$\{?TEST_DIR\}?"?|/tests)(?:/([A-Za-z0-9_./-]*))?"?$`)
)

// known are packages that a test script installs, and that no checker needs.
func known() []string {
	return []string{"curl", "wget", "ca-certificates", "python3", "python3-pip", "python3-venv", "python3-pytest", "pip", "uv", "pytest", "pytest-json-ctrf"}
}

// usualScript reads a script that does no more than install a runner, start
// pytest once and write the reward.
func usualScript(script string) (c checker, ok bool) {
	runs := 0
	for _, line := range commandLines(script) {
		for _, part := range simpleCommands(line) {
			run, apt, pip := runPytest.FindStringSubmatch(part), aptInstall.FindStringSubmatch(part), pipInstall.FindStringSubmatch(part)
			switch {
			case apt != nil:
				c.apt = append(c.apt, packages(apt[1])...)
			case pip != nil:
				c.pip = append(c.pip, packages(pip[1])...)
			case run != nil && strings.Contains(part, "pytest"):
				if runs++; !c.pytestLine(run[2]) {
					return c, false
				}
			case strings.HasPrefix(part, "cd "):
				c.dir = strings.Trim(part[len("cd "):], "\"' ")
			case !usual.MatchString(part):
				return c, false
			}
		}
	}
	return c, runs == 1 && c.pytest != ""
}

// simpleCommands divides a line, without what it does with its output. What it
// divides wrongly is no usual line.
func simpleCommands(line string) (out []string) {
	line = strings.TrimSuffix(quiet.ReplaceAllString(line, ""), " || true")
	for part := range strings.SplitSeq(strings.ReplaceAll(line, "&&", ";"), ";") {
		part = strings.TrimSpace(part)
		for _, word := range []string{"then ", "else "} {
			part = strings.TrimSpace(strings.TrimPrefix(part, word))
		}
		if part != "" {
			out = append(out, part)
		}
	}
	return out
}

var quiet = lazyregexp.New(`\s*(?:[12]?>\s*/dev/null|2>&1)(?:\s|$)`)

// pytestLine reads the arguments of the line that runs pytest.
func (c *checker) pytestLine(args string) bool {
	words := strings.Fields(args)
	for i := 0; i < len(words); i++ {
		w := words[i]
		m := testTarget.FindStringSubmatch(strings.Trim(w, `"'`))
		switch {
		case m != nil && c.pytest == "" && !strings.Contains(m[1], ".."):
			c.pytest = m[1]
			if c.pytest == "" {
				c.pytest = "."
			}
		case (w == "-w" || w == "--with") && i+1 < len(words):
			i++
			c.pip = append(c.pip, packages(words[i])...)
		case (w == "-p" || w == "--python" || w == "--ctrf") && i+1 < len(words):
			i++
		case w == "pytest", strings.HasPrefix(w, "pytest=="), strings.HasPrefix(w, "--ctrf="), strings.HasPrefix(w, "-r"),
			slices.Contains([]string{"-v", "-vv", "-q", "-s", "-x", "--tb=short", "--tb=long", "--color=no", "2>&1"}, w):
		default:
			return false
		}
	}
	return true
}

// packages returns the packages of an installation that pytest does not bring.
func packages(args string) (out []string) {
	for _, w := range strings.Fields(args) {
		w = strings.Trim(w, `"'`)
		name, _, _ := strings.Cut(w, "==")
		if !strings.HasPrefix(w, "-") && !slices.Contains(known(), name) {
			out = append(out, w)
		}
	}
	return out
}

// scriptChecker says how a test script counts: as a pytest checker, if that is
// all that it is; else as a script that writes a reward.
func scriptChecker(name, text, reward string) (checker, error) {
	c, ok := usualScript(text)
	if !ok {
		if line, loads := downloads(text); loads {
			return c, leave("its test script downloads what the image lacks: %s", line)
		}
		if reward == "" {
			return c, leave("its test script is not one that runs pytest")
		}
		c = checker{script: name, reward: reward}
	}
	for _, w := range append(slices.Clone(c.apt), c.pip...) {
		if !plainPackage.MatchString(w) {
			return c, leave("its tests install %s, which is not a plain package", w)
		}
	}
	return c, nil
}

var plainPackage = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._+-]*(?:\[[a-z,]+\])?(?:[=<>~!]=?[A-Za-z0-9.*]+)?$`)
