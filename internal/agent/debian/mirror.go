// Package debian brings files of Debian's packages into a folder, without dpkg and apt:
// it fetches packages whose content is pinned from a mirror, and unpacks what is wanted of
// them. It runs nothing of them. It keeps mirrors, and archives that others made, apart
// from the cache of programs.
package debian

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"securebench/internal/bounded"
	"securebench/internal/redact"
	"securebench/internal/registry"
	"securebench/internal/source"
)

const (
	// mirrorVar names mirrors, with blanks between them.
	mirrorVar = "SECUREBENCH_DEBIAN_MIRROR"
	// defaultMirror is asked where neither that nor apt's configuration names one.
	defaultMirror = "https://deb.debian.org/debian"
	aptFolder     = "/etc/apt"

	maxPackage = 64 << 20
	maxSources = 1 << 20 // a file of apt's sources
	wait       = 5 * time.Minute
)

// Package is a package of a mirror, whose content is known.
type Package struct {
	File   string `json:"file"` // its path on a mirror, such as pool/main/z/zlib/….deb
	SHA256 string `json:"sha256"`
}

// ErrIntegrity is wrapped by the errors of packages that are not the pinned ones.
var ErrIntegrity = errors.New("its SHA-256 digest is another")

// Client fetches packages from mirrors.
type Client struct {
	asked   *registry.Client
	mirrors []*url.URL
}

// Open returns a client of the mirrors that are configured; it waits for pause before it
// repeats what failed on the way. It is closed by [Client.Close].
func Open(getenv func(string) string, pause time.Duration) (*Client, error) {
	mirrors, err := mirrors(getenv, aptFolder)
	if err != nil {
		return nil, err
	}
	proxy := registry.EnvironmentProxy(getenv)
	return &Client{registry.New(registry.Options{Proxy: proxy.ProxyFunc(), Check: checkAddress, Pause: pause, CredentialsAt: mirrorVar}), mirrors}, nil
}

// Close ends the connections.
func (c *Client) Close() { c.asked.Close() }

// checkAddress takes HTTP as well, as apt does: what is fetched is pinned.
func checkAddress(u *url.URL) error {
	if (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" {
		return nil
	}
	return fmt.Errorf("%s must be an http or https address", redact.Quote(u.Redacted()))
}

// mirrors are those of the variable, or else those of apt's sources and the default.
func mirrors(getenv func(string) string, apt string) (out []*url.URL, err error) {
	named := strings.Fields(getenv(mirrorVar))
	all := named
	if len(all) == 0 {
		all = append(sources(apt), defaultMirror)
	}
	for _, at := range all {
		u, err := url.Parse(strings.TrimSuffix(at, "/") + "/")
		if err == nil {
			err = checkAddress(u)
		}
		if err == nil && (u.RawQuery != "" || u.Fragment != "") {
			err = errors.New("it has a query")
		}
		switch {
		case err == nil:
			out = append(out, u)
		case len(named) > 0:
			return nil, fmt.Errorf("%s: %s is no address of a mirror: want one such as %s", mirrorVar, redact.QuoteShort(at, 80), defaultMirror)
		}
	}
	return out, nil
}

// sources are the mirrors of Debian that apt is configured for, by the name that all of
// them have for its archive. What cannot be read has none.
func sources(apt string) (out []string) {
	files, _ := filepath.Glob(filepath.Join(apt, "sources.list.d", "*"))
	for _, name := range append([]string{filepath.Join(apt, "sources.list")}, files...) {
		text, err := source.ReadFile(name, maxSources)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			if kind != "deb" && !strings.EqualFold(kind, "uris:") {
				continue
			}
			for _, at := range strings.Fields(rest) {
				if strings.HasSuffix(strings.TrimSuffix(at, "/"), "/debian") && !slices.Contains(out, at) {
					out = append(out, at)
				}
			}
		}
	}
	return out
}

// Fetch returns a package from the first mirror that has it.
func (c *Client) Fetch(ctx context.Context, p Package) ([]byte, error) {
	var errs []error
	for _, mirror := range c.mirrors {
		data, err := c.fetch(ctx, mirror.JoinPath(p.File))
		if err == nil && !p.is(data) {
			err = ErrIntegrity
		}
		if err == nil || ctx.Err() != nil {
			return data, err
		}
		errs = append(errs, fmt.Errorf("%s: %w", redact.Escape(mirror.Host), err))
	}
	return nil, fmt.Errorf("fetching %s: %w", filepath.Base(p.File), errors.Join(errs...))
}

func (c *Client) fetch(ctx context.Context, u *url.URL) (data []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("%w: %w", registry.ErrUnreachable, os.ErrDeadlineExceeded))
	defer cancel()
	err = c.asked.Repeat(ctx, func() error {
		answer, err := c.asked.Get(ctx, u, "", "*/*")
		if err != nil {
			return err
		}
		defer answer.Close()
		data, err = bounded.ReadAll(answer, maxPackage)
		return err
	})
	return data, err
}

func (p Package) is(data []byte) bool {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]) == p.SHA256
}
