// Package programs brings agents' programs into sandboxes: it fetches them from the
// npm registry, checks them, keeps them in a cache and puts them on an engine.
package programs

import (
	"fmt"
	"regexp"
	"strings"

	"securebench/internal/digest"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
)

// Program is a kind of agent.
type Program string

// The programs.
const (
	Codex      Program = "codex"
	ClaudeCode Program = "claude_code"
)

// Platform is what a package is built for.
type Platform struct {
	OS, Arch string // as Go names them
	Musl     bool   // the C library of the image
}

// String formats a platform as linux/amd64 or linux/amd64/musl, which
// [ParsePlatform] reads.
func (p Platform) String() string {
	s := p.OS + "/" + p.Arch
	if p.Musl {
		s += "/musl"
	}
	return s
}

// ParsePlatform reads the name of a platform.
func ParsePlatform(s string) (Platform, error) {
	words := strings.Split(s, "/")
	p := Platform{Musl: len(words) == 3 && words[2] == "musl"}
	if len(words) >= 2 {
		p.OS, p.Arch = words[0], words[1]
	}
	if p.String() != s || checkPlatform(p) != nil {
		return p, fault.Errorf(fault.Usage, "the platform is %s, want linux/amd64 or linux/arm64, with /musl for images with that C library", redact.Quote(s))
	}
	return p, nil
}

func checkPlatform(p Platform) error {
	if p.OS != "linux" || npmArch(p.Arch) == "" {
		return fault.Errorf(fault.Config, "there are no agents for %s, only for linux/amd64 and linux/arm64", redact.Quote(p.String()))
	}
	return nil
}

// npmArch is npm's name of a processor, "" if no agent is built for it.
func npmArch(arch string) string {
	return map[string]string{"amd64": "x64", "arm64": "arm64"}[arch]
}

// Release is one version of a program for one platform, whose content is known.
type Release struct {
	Program  Program
	Version  string // exact
	Platform Platform
	// Integrity is the registry's digest of the package, "sha512-…", and Digest
	// that of the unpacked tree, "sha256:…".
	Integrity, Digest string
}

// Key names the release's content, for an overlay. It begins with [KeyPrefix].
func (r Release) Key() string {
	sum, _ := digest.Hex(r.Digest)
	return KeyPrefix(r.Program, r.Version) + strings.ReplaceAll(r.Platform.String(), "/", "-") + "_" + sum[:min(32, len(sum))]
}

// Spec names the overlay of a release.
func (r Release) Spec() sandbox.OverlaySpec {
	return sandbox.OverlaySpec{Key: r.Key(), Title: r.Title()}
}

// KeyPrefix begins the keys of all releases of a version, and of no others.
func KeyPrefix(p Program, version string) string {
	return strings.ReplaceAll(string(p), "_", "-") + "_" + strings.ToLower(version) + "_"
}

// Title describes the release to people.
func (r Release) Title() string { return fmt.Sprintf("%s %s %s", r.Program, r.Version, r.Platform) }

// ParseName reads NAME or NAME@VERSION; the version is "latest" if none is given.
func ParseName(s string) (Program, string, error) {
	name, version, given := strings.Cut(s, "@")
	p := Program(strings.ReplaceAll(name, "-", "_"))
	if _, err := buildOf(p, Platform{OS: "linux", Arch: "amd64"}, "0.0.0"); err != nil {
		return p, "", fault.Errorf(fault.Usage, "%w", err)
	}
	if !given {
		version = "latest"
	}
	if !isExact(version) && !isTag(version) {
		return p, "", fault.Errorf(fault.Usage, "%s is not a version of %s: want one such as 1.2.3, or latest", redact.QuoteShort(version, 60), p)
	}
	return p, version, nil
}

// build is what the npm registry calls a program's build for a platform.
type build struct {
	main    string // the package whose versions and tags are the program's
	name    string // the package of the build
	version string // the build's version in it
	musl    bool   // whether builds differ by the C library
}

// buildOf returns where the registry has a build. Codex's builds are versions of
// its own package, and run with every C library. Claude Code's are packages.
func buildOf(p Program, on Platform, version string) (build, error) {
	if err := checkPlatform(on); err != nil {
		return build{}, err
	}
	suffix := "-linux-" + npmArch(on.Arch)
	switch p {
	case Codex:
		return build{main: "@openai/codex", name: "@openai/codex", version: version + suffix}, nil
	case ClaudeCode:
		if on.Musl {
			suffix += "-musl"
		}
		return build{main: "@anthropic-ai/claude-code", name: "@anthropic-ai/claude-code" + suffix, version: version, musl: true}, nil
	}
	return build{}, fault.Errorf(fault.Config, "there is no agent %s, only %s and %s", redact.QuoteShort(string(p), 60), Codex, ClaudeCode)
}

// Executable is the path of a program in its tree.
func (p Program) Executable() string {
	if p == ClaudeCode {
		return "bin/claude"
	}
	return "bin/codex"
}

// place says where a file of a program's package goes.
//
// Codex finds its helpers from its own path: the folder above bin is its package
// if it holds codex-package.json. It runs bin/codex-code-mode-host for models
// that write code, codex-path/rg to search, and what lies in codex-resources,
// and voice, an eighth of all, is for conversations with people.
func (p Program) place(name string) string {
	if p == ClaudeCode {
		return map[string]string{"claude": "bin/claude", "LICENSE.md": "LICENSE.md"}[name]
	}
	vendor, rest, _ := strings.Cut(name, "/")
	_, rest, ok := strings.Cut(rest, "/") // the target, such as x86_64-unknown-linux-musl
	if vendor != "vendor" || !ok || strings.HasPrefix(rest, "codex-resources/voice/") {
		return ""
	}
	return rest
}

func isExact(version string) bool {
	return len(version) <= 100 && regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`).MatchString(version)
}

func isTag(tag string) bool {
	return len(tag) <= 100 && regexp.MustCompile(`^[A-Za-z][0-9A-Za-z._-]*$`).MatchString(tag)
}
