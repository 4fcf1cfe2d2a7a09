package wheels

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/attended"
	"securebench/internal/bounded"
	"securebench/internal/lazyregexp"
	"securebench/internal/redact"
	"securebench/internal/source"
)

const (
	handshake = 30 * time.Second
	patience  = time.Minute // to the head of an answer
	wait      = 5 * time.Minute
	tries     = 3
	redirects = 5
	maxPage   = 32 << 20 // a page of a project
)

// Why a registry does not give a wheel.
var (
	errNotFound    = errors.New("the registry does not have it")
	errUnreachable = errors.New("the registry cannot be reached")
	errDenied      = errors.New("the registry denies access: check the credentials in pip's index-url")
)

// registry reads the registries that pip's configuration names, by the simple
// repository interface, as JSON or as HTML.
type registry struct {
	pip     *pip
	http    *http.Client
	pause   time.Duration // before what failed on the way is repeated
	indexes []*url.URL
}

func openRegistry(p *pip, pause time.Duration) (*registry, error) {
	indexes, err := p.indexes()
	if err != nil {
		return nil, err
	}
	way, err := p.transport()
	if err != nil {
		return nil, err
	}
	r := &registry{pip: p, pause: pause, indexes: indexes}
	r.http = &http.Client{Transport: way, CheckRedirect: func(to *http.Request, via []*http.Request) error {
		if len(via) > redirects {
			return errors.New("too many redirects")
		}
		return p.checkScheme(to.URL)
	}}
	return r, nil
}

func (r *registry) close() { r.http.CloseIdleConnections() }

// fetch returns the content of a wheel from the first registry that has the file. The
// caller compares its digest.
func (r *registry) fetch(ctx context.Context, w Wheel) ([]byte, error) {
	if len(r.indexes) == 0 {
		return nil, errNotFound
	}
	var errs []error
	for _, index := range r.indexes {
		data, err := r.fetchFrom(ctx, index, w)
		if err == nil || ctx.Err() != nil {
			return data, err
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (r *registry) fetchFrom(ctx context.Context, index *url.URL, w Wheel) ([]byte, error) {
	page := index.JoinPath(w.Project + "/")
	text, final, err := r.get(ctx, page, maxPage, "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1")
	if err != nil {
		return nil, err
	}
	at, err := find(text, w.File)
	if err != nil {
		return nil, err
	}
	file, err := final.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("%w: its page has no address for %s", errNotFound, w.File)
	}
	if err := r.pip.checkScheme(file); err != nil {
		return nil, err
	}
	if file.Host == index.Host && file.User == nil {
		file.User = index.User
	}
	data, _, err := r.get(ctx, file, maxWheel, "*/*")
	return data, err
}

var anchor = lazyregexp.New(`(?is)<a\s[^>]*?href\s*=\s*["']([^"']*)["'][^>]*>\s*([^<]*?)\s*</a`)

// find returns the address of a file on a project's page.
func find(page []byte, file string) (string, error) {
	var listed struct {
		Files []struct {
			Filename string `json:"filename"`
			URL      string `json:"url"`
		} `json:"files"`
	}
	if len(page) > 0 && page[0] == '{' {
		if err := json.Unmarshal(page, &listed); err != nil {
			return "", fmt.Errorf("%w: its page is no JSON", errNotFound)
		}
		for _, f := range listed.Files {
			if f.Filename == file {
				return f.URL, nil
			}
		}
		return "", errNotFound
	}
	for _, m := range anchor.FindAllSubmatch(page, -1) {
		if html.UnescapeString(string(m[2])) == file {
			return html.UnescapeString(string(m[1])), nil
		}
	}
	return "", errNotFound
}

// get returns the body of a good answer and where it came from in the end.
func (r *registry) get(ctx context.Context, u *url.URL, limit int64, accept string) (body []byte, from *url.URL, err error) {
	for n := 1; ; n++ {
		body, from, err = r.once(ctx, u, limit, accept)
		if err == nil || n == tries || !errors.Is(err, errUnreachable) || ctx.Err() != nil {
			return body, from, err
		}
		if err := attended.Pause(ctx, time.Duration(n)*r.pause); err != nil {
			return nil, nil, err
		}
	}
}

func (r *registry) once(ctx context.Context, u *url.URL, limit int64, accept string) ([]byte, *url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	q.Header.Set("Accept", accept)
	q.Header.Set("User-Agent", "securebench")
	res, err := r.http.Do(q)
	if err != nil {
		return nil, nil, unreachable(err)
	}
	defer res.Body.Close()
	switch status := redact.EscapeShort(res.Status, 60); res.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return nil, nil, fmt.Errorf("%w (%s)", errNotFound, status)
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return nil, nil, fmt.Errorf("%w (%s)", errDenied, status)
	default:
		return nil, nil, fmt.Errorf("%w: it answered %s", errUnreachable, status)
	}
	body, err := io.ReadAll(bounded.Until(ctx, io.LimitReader(res.Body, limit+1)))
	if err != nil {
		return nil, nil, unreachable(err)
	}
	if int64(len(body)) > limit {
		return nil, nil, fmt.Errorf("%w: it sends more than %d MiB", errNotFound, limit>>20)
	}
	return body, res.Request.URL, nil
}

// unreachable describes an error of a connection without the address, which can hold
// credentials.
func unreachable(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %s", errUnreachable, strings.TrimSpace(redact.EscapeShort(source.Words(err), 300)))
}
