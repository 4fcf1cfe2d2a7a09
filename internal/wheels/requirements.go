package wheels

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"securebench/internal/digest"
	"securebench/internal/lazyregexp"
	"securebench/internal/redact"
)

// The bounds of a file of requirements.
const (
	MaxRequirements = 1 << 20 // bytes
	maxProjects     = 500
)

// Requirement is a project of the registry at a version, with the digests that its file
// may have.
type Requirement struct {
	Project, Version string // the project as the registry's addresses have it
	Marker           string // says for which Pythons; "" is all
	SHA256           []string
	line             int
}

// howTo ends refusals of what has no version or no digest.
const howTo = "uv pip compile --generate-hashes and pip-compile --generate-hashes write such a file"

// options are those of pip that a file may not have, each with what to do.
func options(name string) string {
	switch name {
	case "-e", "--editable":
		return "nothing is built here: bring your own packages with harness.config.files"
	case "-r", "--requirement", "-c", "--constraint":
		return "one file has all that is needed, with digests: " + howTo
	case "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-index", "--trusted-host":
		return "remove it: the registry is that of your pip configuration, as index-url there has it"
	}
	return "remove it: beside requirements, only --require-hashes and --only-binary :all: may be there"
}

// ParseRequirements reads a file of requirements in the form of pip, of which everything
// is pinned: each has a version and at least one SHA-256 digest. An error begins with the
// number of its line.
func ParseRequirements(text []byte) (out []Requirement, err error) {
	if len(text) > MaxRequirements {
		return nil, fmt.Errorf("it is longer than %d bytes", MaxRequirements)
	}
	number, begun, whole := 0, 0, ""
	for line := range strings.Lines(string(text) + "\n") {
		number++
		if whole == "" {
			begun = number
		}
		line = strings.TrimRight(line, "\r\n")
		if at := comment(line); at >= 0 {
			line = line[:at]
		}
		part, more := strings.CutSuffix(line, `\`)
		if whole += part + " "; more {
			continue
		}
		r, err := parseRequirement(strings.TrimSpace(whole), begun)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", begun, err)
		}
		if whole = ""; r.Project != "" {
			out = append(out, r)
		}
		if len(out) > maxProjects {
			return nil, fmt.Errorf("line %d: there are more than %d requirements", begun, maxProjects)
		}
	}
	switch {
	case strings.TrimSpace(whole) != "":
		return nil, fmt.Errorf("line %d: the last line is continued, and nothing follows", begun)
	case len(out) == 0:
		return nil, fmt.Errorf("it requires nothing")
	}
	return out, nil
}

// comment is where one begins, -1 if there is none.
func comment(line string) int {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return i
		}
	}
	return -1
}

var (
	pinned  = lazyregexp.New(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[A-Za-z0-9._, -]*\])?\s*==\s*([A-Za-z0-9][A-Za-z0-9.!+_-]*)$`)
	hashes  = lazyregexp.New(`\s--hash[= ]\s*(\S+)`)
	address = lazyregexp.New(`://|^[A-Za-z0-9._\[\], -]+\s@\s|^\.{0,2}/|\.(whl|zip|tar\.gz)$`)
	runs    = lazyregexp.New(`[-_.]+`)
	hex64   = lazyregexp.New(`^[0-9a-f]{64}$`)
)

// parseRequirement reads a line. One without a requirement has no project.
func parseRequirement(line string, number int) (r Requirement, err error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return r, nil
	}
	if name, value, _ := strings.Cut(words[0], "="); strings.HasPrefix(name, "-") {
		value = strings.TrimSpace(value + strings.Join(words[1:], " "))
		if name == "--require-hashes" && value == "" || name == "--only-binary" && value == ":all:" {
			return r, nil
		}
		return r, fmt.Errorf("%s may not be there (%s)", redact.QuoteShort(name, 40), options(name))
	}
	for _, m := range hashes.FindAllStringSubmatch(line, -1) {
		sum, ok := strings.CutPrefix(strings.ToLower(m[1]), "sha256:")
		if !ok || !hex64.MatchString(sum) {
			return r, fmt.Errorf("%s is no SHA-256 digest (want --hash=sha256:…)", redact.QuoteShort(m[1], 40))
		}
		r.SHA256 = append(r.SHA256, sum)
	}
	what, _, _ := strings.Cut(line, " --")
	what, marker, marked := strings.Cut(what, ";")
	what, r.Marker, r.line = strings.TrimSpace(what), strings.TrimSpace(marker), number
	shown := redact.QuoteShort(what, 80)
	if address.MatchString(what) {
		return r, fmt.Errorf("%s: addresses, repositories and files are not fetched (require a version that the registry has, or bring the package with harness.config.files)", shown)
	}
	m := pinned.FindStringSubmatch(what)
	if m == nil {
		return r, fmt.Errorf("%s does not say NAME==VERSION (%s)", shown, howTo)
	}
	if r.Project, r.Version = normal(m[1]), m[2]; len(r.SHA256) == 0 {
		return r, fmt.Errorf("%s has no --hash=sha256:… (%s)", shown, howTo)
	}
	if strings.Count(line, " --") != len(r.SHA256) {
		return r, fmt.Errorf("%s: of options, a requirement may have only --hash", shown)
	}
	if _, err := (Python{}).meets(r.Marker); marked && err != nil {
		return r, fmt.Errorf("%s: the marker %s: %w", shown, redact.QuoteShort(r.Marker, 80), err)
	}
	return r, nil
}

// normal is the one spelling of a project's name.
func normal(name string) string { return strings.ToLower(runs.ReplaceAllString(name, "-")) }

// VersionOf is the version that is required of a project, "" if none is.
func VersionOf(all []Requirement, project string) string {
	for _, r := range all {
		if r.Project == normal(project) {
			return r.Version
		}
	}
	return ""
}

// DigestOf is the digest of what is required.
func DigestOf(all []Requirement) string {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Requirement) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Marker, b.Marker))
	})
	h := sha256.New()
	for _, r := range all {
		sums := slices.Sorted(slices.Values(r.SHA256))
		fmt.Fprintf(h, "%q %q %q %q\n", r.Project, r.Version, r.Marker, slices.Compact(sums))
	}
	return digest.Format(h.Sum(nil))
}
