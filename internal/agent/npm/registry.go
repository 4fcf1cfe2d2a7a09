package npm

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/redact"
	"securebench/internal/registry"
)

// ErrIntegrity is wrapped by the errors of what a registry sends against its word.
var ErrIntegrity = errors.New("the content is not what the registry promised")

// Limits of what a registry sends.
const (
	maxMetadata = 64 << 20
	maxTarball  = 1 << 30
)

// Client reads the registries that the npm client's configuration names.
type Client struct {
	config *Config
	asked  *registry.Client
	answer int64 // how long metadata may be
}

// New returns a client, which waits for pause before it repeats what failed on
// the way. It is closed by [Client.Close].
func New(config *Config, pause time.Duration) (*Client, error) {
	tls, err := config.TLS()
	if err != nil {
		return nil, err
	}
	proxy, err := config.Proxy()
	if err != nil {
		return nil, err
	}
	asked := registry.New(registry.Options{TLS: tls, Proxy: proxy, Pause: pause, Credentials: config.Authorization,
		CredentialsAt: ".npmrc", AuthoritiesAt: "cafile in .npmrc"})
	return &Client{config, asked, maxMetadata}, nil
}

// Close ends the connections.
func (c *Client) Close() { c.asked.Close() }

// Package is what a registry says about a package.
type Package struct {
	Name     string
	Tags     map[string]string // such as "latest", to a version
	registry *url.URL
	versions map[string]published
}

// published is a version in a registry's answer. The answer has more members
// than are used here.
type published struct {
	Dist struct {
		Tarball   string `json:"tarball"`
		Integrity string `json:"integrity"`
	} `json:"dist"`
}

// Build is one version of a package.
type Build struct {
	Package, Version string
	Integrity        string // "sha512-" and base64
	tarball          *url.URL
}

// Host is where the build's tarball comes from.
func (b Build) Host() string { return b.tarball.Host }

// Package asks for a package's versions.
func (c *Client) Package(ctx context.Context, name string) (*Package, error) {
	u, err := c.config.Registry(name)
	if err != nil {
		return nil, err
	}
	scope, rest, scoped := strings.Cut(name, "/")
	at := *u
	at.Path, at.RawPath = u.Path+name, u.EscapedPath()+url.PathEscape(scope)
	if scoped { // the registries' own form: @scope%2fname
		at.RawPath = u.EscapedPath() + scope + "%2f" + url.PathEscape(rest)
	}
	var p *Package
	err = c.asked.Repeat(ctx, func() error {
		var err error
		p, err = c.ask(ctx, &at, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("asking %s for %s: %w", u.Host, name, err)
	}
	p.registry = u
	return p, nil
}

func (c *Client) ask(ctx context.Context, u *url.URL, name string) (*Package, error) {
	// The short form of the answer, for installers; some registries know only the
	// long one.
	body, err := c.asked.Get(ctx, u, name, "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return decode(io.LimitReader(body, c.answer), name)
}

// decode reads the little that is needed of a registry's answer. Every version is
// decoded, so that a repeated one is noticed.
func decode(r io.Reader, name string) (*Package, error) {
	var answer struct {
		Name     string               `json:"name"`
		Tags     map[string]string    `json:"dist-tags"`
		Versions map[string]published `json:"versions"`
	}
	if err := json.UnmarshalRead(r, &answer); err != nil {
		var syntax *jsontext.SyntacticError
		var semantic *json.SemanticError
		if errors.As(err, &syntax) && !errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &semantic) {
			return nil, errors.New("the answer is not a description of a package (is the registry's address right?)")
		}
		return nil, fmt.Errorf("%w: the answer is cut or too long", registry.ErrUnreachable)
	}
	if answer.Name != name || answer.Versions == nil {
		return nil, fmt.Errorf("the answer describes %s instead", redact.QuoteShort(answer.Name, 100))
	}
	return &Package{Name: name, Tags: answer.Tags, versions: answer.Versions}, nil
}

// Has reports whether there is a version.
func (p *Package) Has(version string) bool { _, ok := p.versions[version]; return ok }

// Build returns a version, if the registry says how it can be fetched and
// checked.
func (p *Package) Build(version string) (Build, error) {
	v, ok := p.versions[version]
	if !ok {
		return Build{}, fmt.Errorf("%s@%s: %w", p.Name, redact.EscapeShort(version, 100), registry.ErrNotFound)
	}
	b := Build{Package: p.Name, Version: version}
	for _, word := range strings.Fields(v.Dist.Integrity) {
		word, _, _ = strings.Cut(word, "?") // options
		if strings.HasPrefix(word, "sha512-") {
			if b.Integrity != "" && b.Integrity != word {
				return Build{}, fmt.Errorf("%s@%s: %w: it names two SHA-512 digests", p.Name, version, ErrIntegrity)
			}
			b.Integrity = word
		}
	}
	if _, err := sum(b.Integrity); err != nil {
		return Build{}, fmt.Errorf("%s@%s: %w: %w", p.Name, version, ErrIntegrity, err)
	}
	u, err := url.Parse(v.Dist.Tarball)
	if err != nil || u.Host == "" || u.User != nil {
		return Build{}, fmt.Errorf("%s@%s: the registry's address of the tarball is not valid", p.Name, version)
	}
	b.tarball = p.own(u)
	return b, registry.CheckAddress(b.tarball)
}

// own returns where the registry itself has a tarball of the public registry:
// mirrors often pass on the public registry's addresses.
func (p *Package) own(u *url.URL) *url.URL {
	if u.Host != "registry.npmjs.org" || p.registry.Host == u.Host {
		return u
	}
	at := *p.registry
	at.Path, at.RawPath = p.registry.Path+strings.TrimPrefix(u.Path, "/"), p.registry.EscapedPath()+strings.TrimPrefix(u.EscapedPath(), "/")
	return &at
}

// sum reads the digest of an integrity such as "sha512-…".
func sum(integrity string) ([]byte, error) {
	text, ok := strings.CutPrefix(integrity, "sha512-")
	if !ok {
		return nil, errors.New("the registry gives no SHA-512 digest")
	}
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != sha512.Size {
		return nil, errors.New("the registry's SHA-512 digest is not valid")
	}
	return b, nil
}
