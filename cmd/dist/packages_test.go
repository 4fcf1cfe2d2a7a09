package main

import (
	"strings"
	"testing"
)

// TestPlaces: every file of a release has its place on a system.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"securebench":                  "/usr/bin/securebench",
		"man/man1/securebench-run.1":   "/usr/share/man/man1/securebench-run.1.gz",
		"completions/bash/securebench": "/usr/share/bash-completion/completions/securebench",
		"completions/zsh/_securebench": "/usr/share/zsh/vendor-completions/_securebench deb, /usr/share/zsh/site-functions/_securebench rpm",
		"completions/fish/x.fish":      "/usr/share/fish/vendor_completions.d/x.fish",
		"python/securebench/verify.py": "/usr/share/doc/securebench/python/securebench/verify.py",
		"sbom.cdx.json":                "/usr/share/doc/securebench/sbom.cdx.json",
	} {
		var got []string
		for _, at := range placesOf(name) {
			got = append(got, strings.TrimSpace(at.Dst+" "+at.Packager))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s belongs to %q, want %q", name, got, want)
		}
	}
}

// TestPythonVersion: Python's installers spell versions in their own way.
func TestPythonVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"0.1.0": "0.1.0", "1.0.0-rc.1": "1.0.0rc1", "1.0.0-beta.2": "1.0.0b2", "0.2.0-dev": "0.2.0.dev0"} {
		if got := pythonVersion(version); got != want {
			t.Errorf("%s is %s, want %s", version, got, want)
		}
	}
}
