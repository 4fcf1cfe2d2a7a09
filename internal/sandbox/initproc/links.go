package initproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"securebench/internal/sandbox/wire"
)

const (
	// maxPaths bounds the paths of one request, of at most 4096 bytes each.
	maxPaths = 64
	maxList  = 2 << 20 // bytes of a list
)

// pathList is a list of paths.
type pathList struct {
	Paths []string `json:"paths"`
}

// placeList is a list of where paths lead.
type placeList struct {
	Places []Place `json:"places"`
}

func (l placeList) Check() error {
	if len(l.Places) > maxPaths {
		return fmt.Errorf("a list of %d places: %w", len(l.Places), wire.ErrInvalid)
	}
	return nil
}

func (l pathList) Check() error {
	if len(l.Paths) > maxPaths {
		return fmt.Errorf("a list of %d paths: %w", len(l.Paths), wire.ErrInvalid)
	}
	return nil
}

// Destinations returns where absolute paths of the sandbox lead, with all links
// followed; see [follower]. Like Apply it fails after the first command.
func (c *Client) Destinations(ctx context.Context, paths []string) ([]Place, error) {
	var out []Place
	for part := range slices.Chunk(paths, maxPaths) {
		asked, err := wire.Encode(pathList{part})
		if err != nil {
			return nil, err
		}
		b, err := c.ask(ctx, http.MethodPost, "/destinations", bytes.NewReader(asked), maxList)
		if err != nil {
			return nil, fmt.Errorf("following links: %w", err)
		}
		l, err := wire.Decode[placeList](b)
		if err == nil && len(l.Places) != len(part) {
			err = fmt.Errorf("%d destinations of %d paths: %w", len(l.Places), len(part), wire.ErrInvalid)
		}
		if err != nil {
			return nil, c.hostile(err)
		}
		out = append(out, l.Places...)
	}
	return out, nil
}

// handleDestinations follows the links of the paths in a request.
func (p *processes) handleDestinations(w http.ResponseWriter, r *http.Request) {
	p.changing.Lock()
	defer p.changing.Unlock()
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxList))
	if err == nil && !p.changes {
		err = errors.New("links can be followed only as long as files can be changed")
	}
	var l pathList
	if err == nil {
		l, err = wire.Decode[pathList](b)
	}
	if err != nil {
		wire.Answer(w, err)
		return
	}
	if p.links == nil {
		p.links = newFollower("/")
	}
	found := placeList{Places: make([]Place, len(l.Paths))}
	for i, at := range l.Paths {
		found.Places[i] = p.links.Look(at)
		found.Places[i].Path = strings.ToValidUTF8(found.Places[i].Path, "\ufffd")
	}
	wire.Reply(w, found)
}
