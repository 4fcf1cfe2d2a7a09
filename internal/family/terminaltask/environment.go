package terminaltask

import (
	"path"
	"slices"
	"strings"

	"securebench/internal/pathname"
	"securebench/internal/sandbox"
	"securebench/internal/workspace"
)

// targetVar tells a checker of pytest where the tests are.
const targetVar = "SECUREBENCH_CHECKER_TARGET"

// usualPath is the PATH of commands if the image's has nothing that a candidate
// cannot change.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// The variables by which programs load or run files that the one who starts them
// does not name. A checker has none of them.
func hijacks(name string) bool {
	return strings.HasPrefix(name, "LD_") || slices.Contains([]string{"BASH_ENV", "ENV", "PYTHONPATH", "PYTHONSTARTUP",
		"PYTHONHOME", "PYTHONINSPECT", "PERL5LIB", "PERL5OPT", "RUBYLIB", "RUBYOPT", "NODE_OPTIONS", "NODE_PATH",
		"PERL5DB", "PERL_USE_UNSAFE_INC", "RUBYGEMS_GEMDEPS", "LUA_INIT", "GIT_EXTERNAL_DIFF",
		"GCONV_PATH", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"}, name)
}

// checkerEnv returns the checker's variables, on top of the image's: the row's,
// and over them those that keep the candidate's files from being loaded.
func (r row) checkerEnv(image sandbox.Image) []string {
	fixed := []string{
		"PATH=" + r.safePath(image.Path),
		"PYTHONNOUSERSITE=1", "PYTHONDONTWRITEBYTECODE=1",
		"SECUREBENCH_WORKSPACE=" + r.workdir,
		"SECUREBENCH_EVALUATOR=" + evaluatorDir,
	}
	if !r.modules || r.form == formPytest { // pytest itself never loads the candidate's
		fixed = append(fixed, "PYTHONSAFEPATH=1")
	}
	if !r.modules {
		fixed = append(fixed, "PYTHONPATH="+siteDir)
	}
	switch r.form {
	case formPytest:
		fixed = append(fixed, targetVar+"="+r.target())
	case formScript:
		fixed = append(fixed, "TEST_DIR="+path.Dir(r.target())+"/tests")
	}
	for _, name := range image.Env {
		set := slices.ContainsFunc(fixed, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if hijacks(name) && !set {
			fixed = append(fixed, name+"=") // an empty one has no effect
		}
	}
	return over(r.env, fixed)
}

// siteDir has the start-up module of Python that lets scripts find the modules beside
// them, and nothing else; see [testrunner.Site].
const siteDir = evaluatorDir + "/" + siteFolder

const siteFolder = ".securebench"

// settings are variables that keep programs which a command or script starts from
// reading settings that the candidate can have made: pytest in the folder that it runs
// in and in those above the tests, others in the user's home. config is a pytest.ini of
// the pack's, or "".
func (r row) settings(home, config string) (out []string) {
	root := evaluatorDir
	if r.inWorkspace() {
		root = path.Join(r.workdir, workspace.EvaluationRoot)
	}
	if config = path.Join(root, config); config == root {
		config = "/dev/null"
	}
	out = []string{"PYTEST_ADDOPTS=-c " + config + " --rootdir=" + root + " --confcutdir=" + root}
	if covers(r.captured, r.workdir, home) {
		out = append(out, "PIP_CONFIG_FILE=/dev/null", "CURL_HOME="+siteDir, "WGETRC=/dev/null", "PSQLRC=/dev/null", "NPM_CONFIG_USERCONFIG=/dev/null")
	}
	return out
}

// over returns the variables of env that are not set in fixed and can be left
// to a row, and then those of fixed.
func over(env, fixed []string) (out []string) {
	set := map[string]bool{}
	for _, v := range fixed {
		name, _, _ := strings.Cut(v, "=")
		set[name] = true
	}
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); !set[name] && !hijacks(name) {
			out = append(out, v)
		}
	}
	return append(out, fixed...)
}

// replaced returns the variables of env with those of more, and without their former
// values.
func replaced(env, more []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(more, func(m string) bool { return strings.HasPrefix(m, name+"=") })
	})
	return append(out, more...)
}

// safePath returns the folders of a PATH in which a candidate can have nothing.
func (r row) safePath(image string) string {
	var out []string
	for dir := range strings.SplitSeq(image, ":") {
		if plainPath(dir) == "" && !r.reaches(dir) {
			out = append(out, dir)
		}
	}
	if len(out) == 0 {
		return usualPath
	}
	return strings.Join(out, ":")
}

// reaches reports whether a candidate can have files at a path of the checker's
// sandbox or, as a captured root, in that folder, or the workspace, which it
// owns, is there.
func (r row) reaches(p string) bool {
	if pathname.Within(p, r.workdir) || slices.ContainsFunc(r.roots(), func(root string) bool { return path.Dir(root) == p && !r.elsewhere(root) }) {
		return true
	}
	return covers(r.captured, r.workdir, p) && !r.elsewhere(p)
}

// elsewhere reports whether a captured path is not at its own place in an image
// of the checker's own.
func (r row) elsewhere(p string) bool { return r.image != "" && workspace.SystemPath(p) }
