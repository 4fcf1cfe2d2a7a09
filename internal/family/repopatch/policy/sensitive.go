package policy

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/text/cases"

	"securebench/internal/repository"
)

// fold removes differences in letter case.
func fold(s string) string { return cases.Fold().String(s) }

// sensitive returns the rule of the deny list that a change falls under, or "".
// docs/families/repo-patch.md explains the list.
func sensitive(c repository.Change) string {
	folded := fold(c.Path)
	parts := strings.Split(folded, "/")
	name := parts[len(parts)-1]
	switch {
	case oneOf(parts[0], ciFolders):
		return "continuous integration"
	case slices.ContainsFunc(parts, isTestFolder):
		return "a test folder"
	}
	for _, part := range parts {
		if rule := anyPart(part); rule != "" {
			return rule
		}
	}
	if rule := fileName(name); rule != "" {
		return rule
	}
	if slices.Contains(parts[:len(parts)-1], "requirements") && hasSuffix(name, ".txt .in") {
		return dependencies
	}
	if isTestFile(name, path.Base(c.Path), len(parts) == 1) {
		return "a test file"
	}
	if shadows(c, parts) {
		return "a module that would be imported instead of Python's or the test runner's"
	}
	return ""
}

func oneOf(name, list string) bool { return slices.Contains(strings.Fields(list), name) }

// The lists of the deny list, in folded case.
const (
	ciFolders = ".github .gitlab .circleci .buildkite ci"
	ciFiles   = ".gitlab-ci.yml .travis.yml appveyor.yml .appveyor.yml azure-pipelines.yml jenkinsfile .drone.yml"

	testFolders = "test tests testing testdata spec specs __tests__ __mocks__ __snapshots__"

	gitFiles = ".gitattributes .gitmodules .lfsconfig"

	pythonConfig = "conftest.py pyproject.toml setup.cfg setup.py tox.ini .coveragerc unittest.cfg nose.cfg .noserc " +
		"pipfile uv.toml pyvenv.cfg entry_points.txt tox.toml hatch.toml poetry.toml pdm.toml pixi.toml"
	nodeConfig = "package.json npm-shrinkwrap.json .npmrc lerna.json nx.json deno.json deno.jsonc bunfig.toml"
	// What version managers read: it chooses the interpreter that runs the tests.
	versionFiles = ".python-version .tool-versions mise.toml .mise.toml .nvmrc .node-version .ruby-version .go-version .java-version .sdkmanrc"
	buildFiles   = "cargo.toml build.rs rust-toolchain rust-toolchain.toml go.mod go.sum go.work go.work.sum " +
		"makefile gnumakefile cmakelists.txt meson.build rakefile gemfile .rspec composer.json mix.exs " +
		"pom.xml gradle.properties build.sbt " +
		"gradlew mvnw phpunit.xml phpunit.xml.dist package-lock.json pnpm-lock.yaml environment.yml environment.yaml .envrc"

	// Prefixes of names.
	configPrefixes = "pytest. .pytest. noxfile. jest.config. jest.setup. setuptests. vitest.config. vitest.setup. vitest.workspace. vite.config. " +
		".mocharc karma.conf. ava.config. cypress.config. playwright.config. babel.config. .babelrc .nycrc .swcrc tsconfig. .yarnrc .pnp."

	// Suffixes of names.
	scripts  = ".sh .bash .zsh .fish .ksh .csh .tcsh .bat .cmd .ps1"
	compiled = ".pyc .pyo .pyd .so .dll .dylib .o .a .class .jar .node .exe .egg .whl"
)

func isTestFolder(part string) bool { return oneOf(part, testFolders) }

// anyPart returns the rule for a folder or file of this name, wherever it is.
func anyPart(part string) string {
	stem, _, _ := strings.Cut(part, ".")
	switch {
	case part == "__pycache__":
		return "compiled code"
	case part == ".cargo" || part == ".mvn" || part == ".yarn":
		return "a build file"
	case part == "node_modules" || part == "site-packages" || part == "dist-packages":
		return "installed packages"
	case stem == "sitecustomize" || stem == "usercustomize",
		hasSuffix(part, ".pth ._pth .egg-info .egg-link .dist-info"):
		return "a Python start-up file"
	}
	return ""
}

// fileName returns the rule for a file of this name.
func fileName(name string) string {
	switch {
	case oneOf(name, gitFiles):
		return "a file that steers git"
	case oneOf(name, ciFiles):
		return "continuous integration"
	case oneOf(name, pythonConfig), oneOf(name, nodeConfig), oneOf(name, versionFiles), hasPrefix(name, configPrefixes):
		return "configuration of a build or of tests"
	case oneOf(name, buildFiles), hasSuffix(name, ".mk .gradle .gradle.kts"):
		return "a build file"
	case strings.HasSuffix(name, ".lock"), isRequirements(name):
		return dependencies
	case hasSuffix(name, scripts):
		return "a script"
	case hasSuffix(name, compiled), strings.Contains(name, ".so."):
		return "compiled code"
	}
	return ""
}

const dependencies = "a list of dependencies"

func isRequirements(name string) bool {
	return hasSuffix(name, ".txt .in") && hasPrefix(name, "requirements constraints")
}

func hasPrefix(name, list string) bool {
	return slices.ContainsFunc(strings.Fields(list), func(p string) bool { return strings.HasPrefix(name, p) })
}

func hasSuffix(name, list string) bool {
	return slices.ContainsFunc(strings.Fields(list), func(s string) bool { return strings.HasSuffix(name, s) })
}
