// Package npm reads an npm registry without the npm client: which versions of a package
// there are, and their tarballs, whose content is checked against the registry's
// digest. It reads the client's configuration as that does: which registry, with which
// credentials, through which proxy, and whose certificates are trusted. It keeps
// credentials and what a registry answers apart from the cache of programs.
package npm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"securebench/internal/redact"
	"securebench/internal/source"
)

// defaultRegistry is where packages come from unless a setting says otherwise.
const defaultRegistry = "https://registry.npmjs.org/"

// maxFile is the largest configuration file.
const maxFile = 1 << 20

// Config is the configuration: that of the environment, then of the files of the
// project, the user and the machine. The first that has a setting decides.
type Config struct {
	getenv func(string) string
	home   string
	files  []file
}

type file struct {
	name     string
	project  bool
	settings map[string][]setting
}

// Load reads the files that the npm client would read if it was started in dir.
func Load(dir string, getenv func(string) string) (*Config, error) {
	c := &Config{getenv: getenv, home: getenv("HOME")}
	user, err := c.path("userconfig", filepath.Join(c.home, ".npmrc"), c.home != "")
	if err != nil {
		return nil, err
	}
	if err := c.add(user, false); err != nil {
		return nil, err
	}
	global, err := c.globalFile()
	if err != nil {
		return nil, err
	}
	if err := c.add(global, false); err != nil {
		return nil, err
	}
	// The project's file comes first in the order of settings, but is read last: it
	// cannot name another file as the user's or the machine's.
	if project := projectFile(dir); project != user {
		return c, c.add(project, true)
	}
	return c, nil
}

// add reads a file; one that is not there has no settings.
func (c *Config) add(name string, project bool) error {
	if name == "" {
		return nil
	}
	text, err := source.ReadFile(name, maxFile)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, source.ErrNotRegular) && isNull(name) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the npm client's configuration: %w", err)
	}
	f := file{name, project, parse(string(text))}
	if project {
		c.files = slices.Insert(c.files, 0, f)
	} else {
		c.files = append(c.files, f)
	}
	return nil
}

// isNull reports whether the file is /dev/null, by which people switch a file of
// the npm client off.
func isNull(name string) bool { return name == os.DevNull }

// projectFile is the .npmrc of the closest folder, from dir upwards, that has a
// package, or else of dir.
func projectFile(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		for _, name := range []string{"package.json", "node_modules"} {
			if _, err := os.Stat(filepath.Join(at, name)); err == nil {
				return filepath.Join(at, ".npmrc")
			}
		}
		if filepath.Dir(at) == at {
			return filepath.Join(dir, ".npmrc")
		}
	}
}

// globalFile is the file of the machine. Its place depends on that of the npm
// client's runtime, if it is installed.
func (c *Config) globalFile() (string, error) {
	prefix, err := c.path("prefix", c.getenv("PREFIX"), true)
	if err != nil {
		return "", err
	}
	if prefix == "" {
		for _, dir := range filepath.SplitList(c.getenv("PATH")) {
			if node, err := filepath.EvalSymlinks(filepath.Join(dir, "node")); err == nil && filepath.IsAbs(node) {
				prefix = filepath.Dir(filepath.Dir(node))
				break
			}
		}
	}
	candidates := []string{"/usr/local/etc/npmrc", "/usr/etc/npmrc", "/etc/npmrc"}
	if prefix != "" {
		candidates = []string{filepath.Join(prefix, "etc", "npmrc"), "/etc/npmrc"}
	}
	found := ""
	for _, name := range candidates {
		if _, err := os.Stat(name); err == nil {
			found = name
			break
		}
	}
	return c.path("globalconfig", found, true)
}

// path returns a setting that is a file's name, or a default.
func (c *Config) path(key, fallback string, hasFallback bool) (string, error) {
	v, err := c.get(key)
	if err != nil {
		return "", err
	}
	name := v.text
	if name == "" {
		if !hasFallback {
			return "", nil
		}
		return fallback, nil
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok && c.home != "" {
		return filepath.Join(c.home, rest), nil
	}
	return name, nil
}

// value is a setting and where it was found.
type value struct {
	text string
	from string // "PATH:LINE" or a variable's name
	// project is set if it comes from the project's file.
	project bool
}

// get returns the last value of a setting, whose text is "" if there is
// none.
func (c *Config) get(key string) (value, error) {
	all, err := c.all(key)
	if err != nil || len(all) == 0 {
		return value{}, err
	}
	return all[len(all)-1], nil
}

// all returns the values of a setting at the first place that has it.
func (c *Config) all(key string) ([]value, error) {
	for _, name := range variables(key) {
		if text := c.getenv(name); text != "" {
			v, err := c.expand(text, name, false)
			return []value{v}, err
		}
	}
	for _, f := range c.files {
		var out []value
		for _, s := range f.settings[key] {
			v, err := c.expand(s.text, fmt.Sprintf("%s:%d", redact.Escape(f.name), s.line), f.project)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		if len(out) > 0 {
			return out, nil
		}
	}
	// A key of a file may itself contain a variable: //${HOST}/:_authToken.
	return c.allExpanded(key)
}

func (c *Config) allExpanded(key string) ([]value, error) {
	for _, f := range c.files {
		for name, settings := range f.settings {
			if !strings.Contains(name, "${") {
				continue
			}
			for _, s := range settings {
				from := fmt.Sprintf("%s:%d", redact.Escape(f.name), s.line)
				if k, err := c.expand(name, from, f.project); err == nil && k.text == key {
					v, err := c.expand(s.text, from, f.project)
					return []value{v}, err
				}
			}
		}
	}
	return nil, nil
}

// variables are the environment variables of a setting.
func variables(key string) []string {
	if strings.HasPrefix(key, "//") {
		return []string{"npm_config_" + key, "NPM_CONFIG_" + key}
	}
	key = key[:1] + strings.ReplaceAll(key[1:], "-", "_")
	return []string{"npm_config_" + key, "NPM_CONFIG_" + strings.ToUpper(key)}
}

// expand replaces ${NAME} by the variable's value. ${NAME?} may be unset, and a
// backslash before the dollar keeps the text.
//
// A project's file is often someone else's, and what it names is sent to the
// registry that it names. So it can name only variables that are made for that.
func (c *Config) expand(text, from string, project bool) (value, error) {
	var b strings.Builder
	end := 0
	for _, m := range regexp.MustCompile(`(\\*)\$\{([^${}?]+)(\?)?\}`).FindAllStringSubmatchIndex(text, -1) {
		slashes, name, optional := m[3]-m[2], text[m[4]:m[5]], m[6] >= 0
		b.WriteString(text[end:m[0]])
		end = m[1]
		if slashes%2 == 1 {
			b.WriteString(text[m[0]+(slashes+1)/2 : m[1]])
			continue
		}
		b.WriteString(text[m[0] : m[0]+slashes/2])
		switch v := c.getenv(name); {
		case project && !forRegistries(name):
			return value{}, fmt.Errorf("%s: a project's .npmrc cannot use the variable %s: move the line to your own .npmrc", from, redact.Quote(name))
		case v == "" && !optional:
			return value{}, fmt.Errorf("%s: the variable %s is not set", from, redact.Quote(name))
		default:
			b.WriteString(v)
		}
	}
	b.WriteString(text[end:])
	return value{b.String(), from, project}, nil
}

// forRegistries reports whether a variable is one that holds a credential of a
// registry by convention.
func forRegistries(name string) bool {
	switch name {
	case "CI_JOB_TOKEN", "CI_PROJECT_ID", "GITHUB_TOKEN", "NODE_AUTH_TOKEN", "HOME", "PWD":
		return true
	}
	return strings.HasPrefix(strings.ToUpper(name), "NPM_")
}

// Warnings says which settings are not followed, and why.
func (c *Config) Warnings() []string {
	v, err := c.get("strict-ssl")
	if err == nil && strings.EqualFold(v.text, "false") {
		return []string{fmt.Sprintf("%s: strict-ssl=false is not followed: certificates are always checked (name the registry's own authority with cafile)", v.from)}
	}
	return nil
}
