// Package programs brings agents' programs into sandboxes: it fetches them from their
// registries, checks them, keeps them in a cache and puts them on an engine.
package programs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"securebench/internal/agent/catalogue"
	"securebench/internal/digest"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
)

// Program is the name of an agent's program, or of one that runs others.
type Program string

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
	// Integrity is the registry's digest of the package, "sha512-…", or that of all that
	// is pinned, "sha256:…", and Digest that of the unpacked tree, "sha256:…".
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
	return hyphened(string(p)) + "_" + strings.ToLower(version) + "_"
}

// Title describes the release to people.
func (r Release) Title() string { return fmt.Sprintf("%s %s %s", r.Program, r.Version, r.Platform) }

// ParseName reads NAME or NAME@VERSION of one of the programs; the version is "latest" if
// none is given.
func ParseName(s string, of []catalogue.Package) (p catalogue.Package, version string, err error) {
	name, version, given := strings.Cut(s, "@")
	i := slices.IndexFunc(of, func(p catalogue.Package) bool { return hyphened(p.Name) == hyphened(name) })
	if i < 0 {
		var names []string
		for _, p := range of {
			names = append(names, p.Name)
		}
		return p, "", fault.Errorf(fault.Usage, "there is no agent %s, only %s", redact.QuoteShort(name, 60), strings.Join(names, ", "))
	}
	if !given {
		version = "latest"
	}
	if !isExact(version) && !isTag(version) {
		return p, "", fault.Errorf(fault.Usage, "%s is not a version of %s: want one such as 1.2.3, or latest", redact.QuoteShort(version, 60), of[i].Name)
	}
	return of[i], version, nil
}

// hyphened is a name as keys and folders have it.
func hyphened(name string) string { return strings.ReplaceAll(name, "_", "-") }

// buildOf names the package and the version of a build in the npm registry.
func buildOf(p catalogue.Package, on Platform, version string) (name, v string, err error) {
	if err := checkPlatform(on); err != nil {
		return "", "", err
	}
	name, v = p.BuildOf(catalogue.Variant{Arch: npmArch(on.Arch), Musl: on.Musl}, version)
	return name, v, nil
}

func isExact(version string) bool {
	return len(version) <= 100 && regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`).MatchString(version)
}

func isTag(tag string) bool {
	return len(tag) <= 100 && regexp.MustCompile(`^[A-Za-z][0-9A-Za-z._-]*$`).MatchString(tag)
}
