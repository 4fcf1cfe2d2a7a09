// Package hub fetches tables from elsewhere: the files of a data set of the Hugging Face
// hub at one revision, and files at an https address.
//
// What is fetched is kept in the user's cache. A download that was cut off goes on where it
// ended, and every file of the hub is compared with the digest that its revision has. The
// token goes to the hub and to no host that it redirects to.
package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/bounded"
	"securebench/internal/fault"
	"securebench/internal/lazyregexp"
	"securebench/internal/redact"
	"securebench/internal/registry"
)

// The variables of the hub's own tools.
const (
	endpointVar = "HF_ENDPOINT"
	tokenVar    = "HF_TOKEN" //nolint:gosec // the name of a variable
	caVar       = "REQUESTS_CA_BUNDLE"
)

const (
	defaultEndpoint = "https://huggingface.co"
	maxAnswer       = 32 << 20 // of the API
	maxPages        = 200      // of a listing
	converted       = "refs/convert/parquet"
)

// Options say how tables are fetched.
type Options struct {
	Getenv func(string) string
	// Say gets a line before anything large is fetched.
	Say   func(format string, args ...any)
	Split string        // of a data set of the hub, unless its name has one
	Pause time.Duration // before a server is asked again
}

// File is a fetched table.
type File struct {
	Path string // in the cache
	Name string // in messages
	At   string // its address
}

// Result is what was fetched.
type Result struct {
	Files   []File
	Dataset string // its name
	Origin  string // its name with the revision and the part, for the pack's readers
	Licence string // as its card has it, "" if it says nothing
}

// IsAddress reports whether --from names something that [Fetch] fetches.
func IsAddress(from string) bool {
	return strings.HasPrefix(from, "hf:") || strings.Contains(from, "://")
}

// fetcher fetches tables.
type fetcher struct {
	Options

	asked    *registry.Client
	endpoint *url.URL
	cache    string
}

// Fetch fetches hf:OWNER/NAME[@REVISION][:CONFIG/SPLIT], or a file at https://…
func Fetch(ctx context.Context, from string, o Options) (Result, error) {
	f, err := open(o)
	if err != nil {
		return Result{}, err
	}
	defer f.asked.Close()
	name, ok := strings.CutPrefix(from, "hf:")
	if !ok {
		return f.address(ctx, from)
	}
	r, err := parseRef(name)
	if err != nil {
		return Result{}, fault.As(fault.Usage, err)
	}
	if o.Split != "" && r.split != "" && o.Split != r.split {
		return Result{}, fault.Errorf(fault.Usage, "--from names the split %s, and --split %s: give one of the two", r.split, o.Split)
	}
	if r.split == "" {
		r.split = o.Split
	}
	return f.dataset(ctx, r)
}

func open(o Options) (*fetcher, error) {
	f := &fetcher{Options: o}
	at := o.Getenv(endpointVar)
	if at == "" {
		at = defaultEndpoint
	}
	var err error
	if f.endpoint, err = url.Parse(strings.TrimSuffix(at, "/")); err != nil || f.endpoint.Host == "" {
		return nil, fault.Errorf(fault.Config, "%s is no address such as %s", endpointVar, defaultEndpoint)
	}
	if f.cache, err = cacheOf(o.Getenv); err != nil {
		return nil, err
	}
	conf, err := registry.Trusting(o.Getenv(caVar), caVar)
	if err != nil {
		return nil, fault.As(fault.Config, err)
	}
	proxy := registry.EnvironmentProxy(o.Getenv)
	f.asked = registry.New(registry.Options{TLS: conf, Proxy: proxy.ProxyFunc(), Pause: o.Pause, Credentials: f.credentials, Explain: explain,
		CredentialsAt: tokenVar, AuthoritiesAt: caVar})
	return f, nil
}

// cacheOf is the folder for what is fetched.
func cacheOf(getenv func(string) string) (string, error) {
	base := getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(base) {
		var err error
		if base, err = os.UserCacheDir(); err != nil {
			return "", fault.Errorf(fault.Config, "there is no folder for what is fetched: set XDG_CACHE_HOME")
		}
	}
	return filepath.Join(base, "securebench", "tables"), nil
}

// credentials gives the token to the hub alone.
func (f *fetcher) credentials(u *url.URL, _ string) (string, error) {
	if token := f.Getenv(tokenVar); token != "" && u.Scheme == f.endpoint.Scheme && u.Host == f.endpoint.Host {
		return "Bearer " + token, nil
	}
	return "", nil
}

// errPart means that a file has no such part.
var errPart = errors.New("it has no such part")

// explain says what the hub means with an answer, by the code that it gives with it.
func explain(res *http.Response) error {
	if res.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return errPart
	}
	switch res.Header.Get("X-Error-Code") {
	case "RepoNotFound":
		return fmt.Errorf("%w: there is no such data set, or it is private (correct the name, or give a token that may read it in %s)", registry.ErrNotFound, tokenVar)
	case "GatedRepo":
		return fmt.Errorf("%w: the data set is gated (accept its conditions on its page, and give the token of that account in %s)", registry.ErrDenied, tokenVar)
	case "RevisionNotFound":
		return fmt.Errorf("%w: the data set has no such revision (correct what follows the @)", registry.ErrNotFound)
	case "EntryNotFound":
		return fmt.Errorf("%w: the revision has no such file", registry.ErrNotFound)
	}
	return nil
}

// card is what the hub says of a data set.
type card struct {
	ID       string `json:"id"`
	SHA      string `json:"sha"`
	Disabled bool   `json:"disabled"`
	About    struct {
		License any      `json:"license"`
		Configs []config `json:"configs"`
	} `json:"cardData"`

	Configs []config `json:"-"`
}

// config is a configuration as a card declares it.
type config struct {
	Name  string `json:"config_name"`
	Dir   string `json:"data_dir"`
	Files any    `json:"data_files"`
}

// declaration is a split as a card declares it.
type declaration struct {
	split    string
	patterns []string
}

// files reads the forms that data_files has: a pattern, several, or those of each split.
func (c config) files() (out []declaration) {
	switch files := c.Files.(type) {
	case string:
		return []declaration{{"train", []string{files}}}
	case []any:
		if plain := texts(files); len(plain) == len(files) {
			return []declaration{{"train", plain}}
		}
		for _, one := range files {
			if d, ok := one.(map[string]any); ok {
				split, _ := d["split"].(string)
				out = append(out, declaration{split, texts(d["path"])})
			}
		}
	}
	return out
}

// texts is a text, or a list of them.
func texts(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			if s, ok := one.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// licence is what the card calls the licence.
func (c card) licence() string { return strings.Join(texts(c.About.License), ", ") }

// dataset fetches a part of a data set.
func (f *fetcher) dataset(ctx context.Context, r ref) (Result, error) {
	about, files, err := f.listing(ctx, r)
	if err != nil {
		return Result{}, failed("hf:"+r.repo, f.endpoint.Host, err)
	}
	parts := about.declared(files)
	if len(parts) == 0 {
		parts = found(files)
	}
	if len(parts) == 0 && r.revision == "" { // what the hub made of a data set that has no tables itself
		other := r
		other.revision = converted
		if about, files, err = f.listing(ctx, other); err == nil {
			parts = found(files)
		}
	}
	if len(parts) == 0 {
		return Result{}, fault.Errorf(fault.Pack, "hf:%s has no files in %s (it may be one that a script makes: give the address of its files)", r.repo, "CSV, TSV, JSON, JSON lines or Parquet")
	}
	p, err := r.choose(parts)
	if err != nil {
		return Result{}, fault.As(fault.Pack, err)
	}
	out := Result{Dataset: path.Base(r.repo), Origin: fmt.Sprintf("hf:%s@%s:%s", r.repo, about.SHA, p), Licence: about.licence()}
	for _, e := range p.files {
		at := f.endpoint.JoinPath(append([]string{"datasets", r.repo, "resolve", about.SHA}, escaped(e.Path)...)...)
		shown := *at
		shown.User = nil // that of HF_ENDPOINT is the operator's
		file := File{Name: fmt.Sprintf("hf:%s/%s", r.repo, e.Path), At: shown.String()}
		d := download{at: at, name: file.Name, size: e.Size, blob: e.OID}
		if e.LFS != nil {
			d.size, d.blob, d.sha256 = e.LFS.Size, "", e.LFS.OID
		}
		if file.Path, err = f.fetch(ctx, d); err != nil {
			return Result{}, failed(file.Name, f.endpoint.Host, err)
		}
		out.Files = append(out.Files, file)
	}
	return out, nil
}

// escaped is a path as parts of an address.
func escaped(name string) []string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return parts
}

// listing asks for the commit of a revision, and for its files.
func (f *fetcher) listing(ctx context.Context, r ref) (c card, files []entry, err error) {
	revision := r.revision
	if revision == "" {
		revision = "main"
	}
	api := f.endpoint.JoinPath("api/datasets", r.repo)
	if _, err := f.ask(ctx, api.JoinPath("revision", url.PathEscape(revision)), &c); err != nil {
		return c, nil, err
	}
	if !commit.MatchString(c.SHA) || c.Disabled {
		return c, nil, errors.New("the hub names no commit of the data set, or has disabled it")
	}
	c.Configs = c.About.Configs
	next := api.JoinPath("tree", c.SHA)
	next.RawQuery = "recursive=true&expand=false"
	for n := 0; next != nil; n++ {
		if n == maxPages {
			return c, nil, errors.New("the data set has too many files: give the address of one with --from https://…")
		}
		var page []entry
		if next, err = f.ask(ctx, next, &page); err != nil {
			return c, nil, err
		}
		for _, e := range page {
			if e.Type == "file" && filepath.IsLocal(e.Path) {
				files = append(files, e)
			}
		}
	}
	return c, files, nil
}

var nextPage = lazyregexp.New(`<([^<>]+)>\s*;\s*rel="next"`)

// ask reads an answer of the API, and returns the address of the page after it, nil without
// one.
func (f *fetcher) ask(ctx context.Context, u *url.URL, into any) (next *url.URL, err error) {
	err = f.asked.Repeat(ctx, func() error {
		answer, err := f.asked.Get(ctx, u, "", "application/json")
		if err != nil {
			return err
		}
		defer answer.Close()
		text, err := bounded.ReadAll(answer, maxAnswer)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, into); err != nil {
			return errors.New("the hub's answer is not of its API (check " + endpointVar + ")")
		}
		if m := nextPage.FindStringSubmatch(answer.Header.Get("Link")); m != nil {
			if next, err = u.Parse(m[1]); err != nil || next.Host != u.Host {
				return errors.New("the hub's answer goes on at another host")
			}
		}
		return nil
	})
	return next, err
}

// failed says of what an error is, and which host was asked.
func failed(what, host string, err error) error {
	asked := ""
	if errors.Is(err, registry.ErrUnreachable) {
		asked = " (from " + host + "; a proxy is taken from HTTPS_PROXY)"
	}
	return fault.As(fault.Pack, fmt.Errorf("fetching %s: %w%s", redact.Escape(what), asHost{err}, redact.Escape(asked)))
}

// asHost words an error of a registry for hosts that are none.
type asHost struct{ error }

func (e asHost) Error() string {
	return strings.ReplaceAll(e.error.Error(), "the registry", "the host")
}

// Unwrap returns the error.
func (e asHost) Unwrap() error { return e.error }

// address fetches one file.
func (f *fetcher) address(ctx context.Context, from string) (Result, error) {
	u, err := url.Parse(from)
	if err != nil || u.Host == "" {
		return Result{}, fault.Errorf(fault.Usage, "--from is no address: want hf:OWNER/NAME or https://HOST/FILE")
	}
	if err := registry.CheckAddress(u); err != nil {
		return Result{}, fault.As(fault.Usage, fmt.Errorf("--from %w", err))
	}
	d := download{at: u}
	if pin, ok := strings.CutPrefix(u.Fragment, "sha256="); ok {
		if d.sha256 = strings.ToLower(pin); len(d.sha256) != hex.EncodedLen(sha256.Size) {
			return Result{}, fault.Errorf(fault.Usage, "--from pins no SHA-256 of 64 hexadecimal digits")
		}
	}
	shown := *u
	shown.Fragment, shown.User, shown.RawQuery, u.Fragment = "", nil, "", ""
	d.name = shown.String()
	base := path.Base(u.Path)
	out := Result{Dataset: strings.TrimSuffix(base, path.Ext(base)), Origin: d.name}
	file := File{Name: d.name, At: d.name}
	if file.Path, err = f.fetch(ctx, d); err != nil {
		return Result{}, failed(d.name, u.Host, err)
	}
	out.Files = []File{file}
	return out, nil
}
