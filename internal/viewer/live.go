package viewer

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/steer"
)

// beatEvery is how often a stream of news says that it is alive.
const beatEvery = 15 * time.Second

// maxStreams bounds the pages that are told of news at the same time.
const maxStreams = 64

// news tells a page, in server-sent events, that something about a run is known that was
// not. What it is, the page asks for.
func (s *Server) news(w http.ResponseWriter, r *http.Request) {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer s.streams.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		news := s.Library.News()
		if _, err := fmt.Fprint(w, "data: news\n\n"); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-news:
		case <-beat.C:
		case <-r.Context().Done():
			return
		}
	}
}

// maxOrder bounds an order, in bytes.
const maxOrder = 4 << 10

// steer gives an order to a run that goes on.
func (s *Server) steer(r *http.Request) (any, error) {
	if r.Header.Get("Content-Type") != "application/json" {
		return nil, errors.New("an order is application/json")
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxOrder))
	if err != nil {
		return nil, fmt.Errorf("reading the order: %w", err)
	}
	var o steer.Order
	if err := json.Unmarshal(text, &o, json.RejectUnknownMembers(true)); err != nil {
		return nil, errors.New("this is no order")
	}
	path, err := s.Library.path(r.URL.Query().Get("run"))
	if err != nil {
		return nil, err
	}
	return steer.Ask(r.Context(), path, o)
}

// steered is how a run that goes on is set; nil if it cannot be changed.
func (s *Server) steered(r *http.Request, summary Summary) *steer.State {
	if summary.State != Running {
		return nil
	}
	path, err := s.Library.path(summary.ID)
	if err != nil {
		return nil
	}
	state, err := steer.Ask(r.Context(), path, steer.Order{Act: steer.Look})
	if err != nil {
		return nil
	}
	return &state
}
