package wheels

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/bounded"
	"securebench/internal/lazyregexp"
	"securebench/internal/registry"
)

const (
	wait    = 5 * time.Minute // for one answer
	maxPage = 32 << 20        // a page of a project
)

// indexes are the registries that pip's configuration names. They are read by the simple
// repository interface, as JSON or as HTML.
type indexes struct {
	asked *registry.Client
	all   []*url.URL
}

func openIndexes(p *pip, pause time.Duration) (*indexes, error) {
	all, err := p.indexes()
	if err != nil {
		return nil, err
	}
	asked, err := p.client(pause)
	if err != nil {
		return nil, err
	}
	return &indexes{asked, all}, nil
}

func (r *indexes) close() { r.asked.Close() }

// fetch returns the content of a wheel from the first registry that has the file. The
// caller compares its digest.
func (r *indexes) fetch(ctx context.Context, w Wheel) ([]byte, error) {
	if len(r.all) == 0 {
		return nil, registry.ErrNotFound
	}
	var errs []error
	for _, index := range r.all {
		data, err := r.fetchFrom(ctx, index, w)
		if err == nil || ctx.Err() != nil {
			return data, err
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (r *indexes) fetchFrom(ctx context.Context, index *url.URL, w Wheel) ([]byte, error) {
	page := index.JoinPath(w.Project + "/")
	text, final, err := r.get(ctx, page, maxPage, pageTypes)
	if err != nil {
		return nil, err
	}
	at, err := find(text, w.File)
	if err != nil {
		return nil, err
	}
	file, err := final.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("%w: its page has no address for %s", registry.ErrNotFound, w.File)
	}
	if err := r.asked.Check(file); err != nil {
		return nil, err
	}
	if file.Host == index.Host && file.User == nil {
		file.User = index.User
	}
	data, _, err := r.get(ctx, file, maxWheel, "*/*")
	return data, err
}

var anchor = lazyregexp.New(`(?is)<a\s[^>]*?href\s*=\s*["']([^"']*)["'][^>]*>\s*([^<]*?)\s*</a`)

// pageTypes are the forms of a project's page.
const pageTypes = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"

// listedFile is a file on a project's page.
type listedFile struct {
	Filename string            `json:"filename"`
	URL      string            `json:"url"`
	Hashes   map[string]string `json:"hashes"`
}

// listedFiles are those on a project's page.
func listedFiles(page []byte) ([]listedFile, error) {
	if len(page) > 0 && page[0] == '{' {
		var listed struct {
			Files []listedFile `json:"files"`
		}
		if err := json.Unmarshal(page, &listed); err != nil {
			return nil, fmt.Errorf("%w: its page is no JSON", registry.ErrNotFound)
		}
		return listed.Files, nil
	}
	var out []listedFile
	for _, m := range anchor.FindAllSubmatch(page, -1) {
		at := html.UnescapeString(string(m[1]))
		out = append(out, listedFile{html.UnescapeString(string(m[2])), at, hashOf(at)})
	}
	return out, nil
}

// find returns the address of a file on a project's page.
func find(page []byte, file string) (string, error) {
	files, err := listedFiles(page)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if f.Filename == file {
			return f.URL, nil
		}
	}
	return "", registry.ErrNotFound
}

// get returns the body of a good answer and where it came from in the end.
func (r *indexes) get(ctx context.Context, u *url.URL, limit int64, accept string) (body []byte, from *url.URL, err error) {
	err = r.asked.Repeat(ctx, func() error {
		body, from, err = r.once(ctx, u, limit, accept)
		return err
	})
	return body, from, err
}

func (r *indexes) once(ctx context.Context, u *url.URL, limit int64, accept string) ([]byte, *url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	answer, err := r.asked.Get(ctx, u, "", accept)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Close()
	body, err := bounded.ReadAll(answer, limit)
	if errors.Is(err, bounded.ErrTooLong) {
		return nil, nil, fmt.Errorf("%w: it sends more than %d MiB", registry.ErrNotFound, limit>>20)
	}
	return body, answer.From, err
}
