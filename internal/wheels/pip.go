package wheels

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"securebench/internal/registry"
	"securebench/internal/source"
)

// defaultIndex is where wheels come from unless a setting says otherwise.
const defaultIndex = "https://pypi.org/simple"

// maxFile is the largest configuration file.
const maxFile = 1 << 20

// pip is the configuration of the pip client: its files in order, where later ones win,
// and then the variables PIP_*.
type pip struct {
	getenv   func(string) string
	settings map[string]string
}

// loadPip reads the files that pip would read.
func loadPip(getenv func(string) string) (*pip, error) {
	p := &pip{getenv: getenv, settings: map[string]string{}}
	own := getenv("PIP_CONFIG_FILE")
	if own == os.DevNull {
		return p, nil
	}
	home, config := getenv("HOME"), getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		config = filepath.Join(home, ".config")
	}
	files := []string{"/etc/xdg/pip/pip.conf", "/etc/pip.conf"}
	if home != "" {
		files = append(files, filepath.Join(home, ".pip", "pip.conf"), filepath.Join(config, "pip", "pip.conf"))
	}
	if venv := getenv("VIRTUAL_ENV"); venv != "" {
		files = append(files, filepath.Join(venv, "pip.conf"))
	}
	if own != "" {
		files = append(files, own)
	}
	for _, name := range files {
		text, err := source.ReadFile(name, maxFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading pip's configuration: %w", err)
		}
		p.add(string(text))
	}
	return p, nil
}

// add takes the sections global and download of a file. What is indented continues
// the value above it.
func (p *pip) add(text string) {
	sections, section, key := map[string]map[string]string{"global": {}, "download": {}}, "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		words := strings.TrimSpace(line)
		switch {
		case words == "" || words[0] == '#' || words[0] == ';':
		case words[0] == '[' && strings.HasSuffix(words, "]"):
			section, key = words[1:len(words)-1], ""
		case words != line && key != "":
			if s := sections[section]; s != nil {
				s[key] += "\n" + words
			}
		default:
			at := strings.IndexAny(words, "=:")
			if at < 0 {
				continue
			}
			key = settingName(words[:at])
			if s := sections[section]; s != nil {
				s[key] = strings.TrimSpace(words[at+1:])
			}
		}
	}
	for _, name := range []string{"global", "download"} {
		for key, value := range sections[name] {
			p.settings[key] = value
		}
	}
}

// settingName is the one spelling of a setting.
func settingName(s string) string {
	return strings.ReplaceAll(strings.ToLower(strings.Trim(strings.TrimSpace(s), "-")), "_", "-")
}

// get returns a setting, "" if there is none.
func (p *pip) get(key string) string {
	if v := p.getenv("PIP_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))); v != "" {
		return v
	}
	return p.settings[key]
}

// isOn reports whether a switch is on.
func (p *pip) isOn(key string) bool {
	switch strings.ToLower(p.get(key)) {
	case "1", "true", "yes", "on", "y", "t":
		return true
	}
	return false
}

// folders are the local folders in which pip looks for wheels (find-links).
func (p *pip) folders() (out []string) {
	for _, at := range strings.Fields(p.get("find-links")) {
		if path, ok := strings.CutPrefix(at, "file://"); ok {
			at = path
		}
		if filepath.IsAbs(at) {
			out = append(out, at)
		}
	}
	return out
}

// indexes are the addresses of registries, in the order in which they are asked.
func (p *pip) indexes() (out []*url.URL, err error) {
	if p.isOn("no-index") {
		return nil, nil
	}
	first := p.get("index-url")
	if first == "" {
		first = defaultIndex
	}
	for _, at := range append([]string{first}, strings.Fields(p.get("extra-index-url"))...) {
		u, err := url.Parse(strings.TrimSuffix(at, "/") + "/")
		if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, errors.New("an index of pip's configuration is no address: want one such as " + defaultIndex)
		}
		if err := p.check(u); err != nil {
			return nil, fmt.Errorf("pip's configuration: %w", err)
		}
		out = append(out, u)
	}
	return out, nil
}

// check refuses addresses that others on the way could change, unless the setting
// trusted-host has them.
func (p *pip) check(u *url.URL) error {
	if u.Scheme == "http" && p.trusts(u) {
		return nil
	}
	return registry.CheckAddress(u)
}

// trusts reports whether the setting trusted-host names the host of an address.
func (p *pip) trusts(u *url.URL) bool {
	for _, host := range strings.Fields(p.get("trusted-host")) {
		if host == u.Hostname() || host == u.Host {
			return true
		}
	}
	return false
}

// client asks registries through the configured proxy, with the configured authorities
// or those of the system.
func (p *pip) client(pause time.Duration) (*registry.Client, error) {
	conf, err := registry.Trusting(cmp.Or(p.get("cert"), p.getenv("REQUESTS_CA_BUNDLE")), "pip's configuration")
	if err != nil {
		return nil, err
	}
	proxy := registry.EnvironmentProxy(p.getenv)
	if own := p.get("proxy"); own != "" {
		proxy.HTTPProxy, proxy.HTTPSProxy = own, own
	}
	return registry.New(registry.Options{TLS: conf, Proxy: proxy.ProxyFunc(), Check: p.check, Pause: pause,
		CredentialsAt: "pip's index-url", AuthoritiesAt: "pip's setting cert"}), nil
}
