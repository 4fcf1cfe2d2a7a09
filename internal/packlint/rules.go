package packlint

import (
	"path"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
)

// rule is one thing that a line of a checker should not do.
type rule struct {
	finds func(line, dir string) bool
	what  func(dir string) string
	fix   string
}

// says is a message without the folder.
func says(s string) func(string) string { return func(string) string { return s } }

var (
	installs = lazyregexp.New(`\b(?:pip3?|uv|npm|pnpm|yarn|gem|cargo|apt|apt-get|apk|dnf|yum|conda|uv pip)\s+(?:-\S+\s+)*(?:install|add|update|sync|ci)\b|\buvx\s|\bgit\s+clone\s+\S*(?:https?|git|ssh)://`)
	remote   = lazyregexp.New(`\b(?:curl|wget|urlopen|urlretrieve|requests\.\w+|httpx\.\w+)\b.*?\b(?:https?|ftp)://([^\s/"'` + "`" + `:)]+)`)
	local    = lazyregexp.New(`^(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[.*)$`)
	greps    = lazyregexp.New(`\bgrep\b[^|;&]*\b(?i:pass(?:ed)?|success(?:ful)?|ok)\b|["'](?i:pass(?:ed)?|success(?:ful)?|ok)["']\s+(?:not\s+)?in\s+\w`)
	evals    = lazyregexp.New(`(?:^|[;&|(]\s*|\bthen\s+|\bdo\s+)eval\s+["'$\w]|(?:^|[^.\w])(?:eval|exec)\(|\bshell\s*=\s*True\b|\bos\.(?:system|popen)\(|\bpickle\.loads?\(`)
	verdicts = lazyregexp.New(`(?i)(?:\bcat\b|\bread\b|<|\bopen\(|read_text|\bload\(|\bjq\b|\btest\s+-|\[\s+-[efs]\b).*?\b(?:reward|verdict|score|grade|passed)\.(?:txt|json)\b`)
	writes   = lazyregexp.New(`>|["'](?:w|wt|wb|a)["']|write_text`)
	modules  = lazyregexp.New(`(?:\bpython[0-9.]*|\bsys\.executable)["']?[\s,]+(?:["']-[A-Za-z]+["'][\s,]+|-[A-Za-z]+\s+)*["']?-(?:m|c)\b`)
	apart    = lazyregexp.New(`(?:\bpython[0-9.]*|\bsys\.executable)["']?[\s,]+(?:["']?-\w+["']?[\s,]+)*["']?-[A-Za-z]*[IP]`)
	pytests  = lazyregexp.New(`["']?-m["']?[\s,]+["']?(?:pytest|py\.test)\b|(?:^|[;&|(]\s*|\bthen\s+|\bdo\s+)(?:\w+=\S+\s+)*(?:py\.test|pytest)(?:\s+[-\w./$"']|\s*$)`)
	answers  = lazyregexp.New(`(?i)^[^\s"'` + "`" + `;|&)]*(?:expected|golden|reference|baseline|answer_key|hidden_ref)`)
)

// rules are applied to each line of what decides on a tree.
func rules() []rule {
	return []rule{
		{downloads, says("the checker downloads something: a sandbox has no network"), "put it into the image that the checker runs in"},
		{func(s, _ string) bool { return greps.MatchString(s) }, says("the checker looks for a word such as PASS, which the agent's program can print"),
			"decide by exit status, or by comparing values"},
		{func(s, _ string) bool { return evals.MatchString(s) }, says("the checker runs text as code (eval, exec, shell=True, pickle): a value of the agent's can reach it"),
			"parse values, and pass arguments as a list"},
		{func(s, _ string) bool { return verdicts.MatchString(s) && !writes.MatchString(s) }, says("the checker reads a verdict from a file, which the agent may have written"),
			"decide by exit status"},
		{startsModules, says("the checker starts Python with -m or -c, which finds the agent's modules beside it (with candidate_modules, or before Python 3.11)"),
			"start python3 -I, or a file of the pack's"},
		{func(s, _ string) bool { return pytests.MatchString(s) }, says("the checker starts pytest itself, which looks for settings and conftest.py where the agent can have put them"),
			`write "source": "pytest" and "path" instead of a command`},
		{readsAnswers, func(dir string) string {
			return "the checker compares with a file in " + dir + ", which the agent can change"
		}, "keep it among the pack's evaluation files"},
	}
}

// startsModules reports whether a line starts Python so that it would import what lies
// where it runs. Of pytest there is a rule of its own.
func startsModules(s, _ string) bool {
	return modules.MatchString(s) && !apart.MatchString(s) && !pytests.MatchString(s)
}

// downloads reports whether a line installs or fetches something from elsewhere.
func downloads(s, _ string) bool {
	if installs.MatchString(s) {
		return true
	}
	m := remote.FindStringSubmatch(s)
	return m != nil && !local.MatchString(m[1])
}

// readsAnswers reports whether a line names what sounds like a reference below
// the workdir.
func readsAnswers(s, dir string) bool {
	for rest := s; ; {
		i := strings.Index(rest, dir+"/")
		if i < 0 {
			return false
		}
		if rest = rest[i+len(dir)+1:]; answers.MatchString(rest) && !strings.HasPrefix(rest, workspaceInputs) {
			return true
		}
	}
}

// workspaceInputs is where evaluation files are mounted in the workspace.
const workspaceInputs = "securebench/evaluation_inputs/"

// piped matches a program whose output a further one gets before $? is read.
var piped = lazyregexp.New(`\|\s*tee\b`)

// pipedStatus reports whether a text reads the exit status of a pipe.
func pipedStatus(text string) bool {
	return piped.MatchString(text) && strings.Contains(text, "$?") && !strings.Contains(text, "pipefail") && !strings.Contains(text, "PIPESTATUS")
}

// started returns the file that a checker's command starts in the workdir, or
// "". What comes after `sh -c` is not looked at.
func started(words []string, dir string) string {
	interpreters := []string{"sh", "bash", "dash", "python", "python3", "pytest", "node", "perl", "ruby", "source", "."}
	for len(words) > 0 && slices.Contains(interpreters, path.Base(words[0])) {
		words = words[1:]
		for len(words) > 0 && strings.HasPrefix(words[0], "-") {
			if strings.HasSuffix(words[0], "c") {
				return ""
			}
			words = words[1:]
		}
	}
	if len(words) == 0 {
		return ""
	}
	file := words[0]
	if strings.HasPrefix(file, workspaceInputs) || strings.HasPrefix(file, dir+"/"+workspaceInputs) {
		return ""
	}
	if strings.HasPrefix(file, dir+"/") || strings.HasPrefix(file, "./") || strings.HasPrefix(file, "$SECUREBENCH_WORKSPACE/") ||
		!strings.HasPrefix(file, "/") && strings.ContainsAny(file, "/.") && !strings.HasPrefix(file, "$") {
		return file
	}
	return ""
}
