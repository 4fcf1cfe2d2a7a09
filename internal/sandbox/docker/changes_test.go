package docker

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"

	"securebench/internal/sandbox"
)

func TestEachChange(t *testing.T) {
	enough := errors.New("enough")
	stopped := make(chan struct{})
	mux := http.NewServeMux()
	answer := func(name, body string, status int) {
		mux.HandleFunc("GET /{version}/containers/"+name+"/changes", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
	answer("some", `[{"Path":"/a","Kind":0},{"Path":"/b\u00e9","Kind":1,"New":[{}]},{"Path":"/c","Kind":2}]`, http.StatusOK)
	answer("none", `null`, http.StatusOK)
	answer("object", `{}`, http.StatusOK)
	answer("cut", `[{"Path":"/a","Kind":0},`, http.StatusOK)
	answer("deep", `{"message":"lstat /`+strings.Repeat("n", 5000)+`: file name too long"}`, http.StatusInternalServerError)
	answer("gone", `{"message":"no such container"}`, http.StatusNotFound)
	mux.HandleFunc("GET /{version}/containers/endless/changes", func(w http.ResponseWriter, r *http.Request) {
		defer close(stopped)
		_, _ = w.Write([]byte("["))
		for i := 0; r.Context().Err() == nil; i++ { // an answer that is read whole never ends
			if _, err := fmt.Fprintf(w, `{"Path":"/%d","Kind":1},`, i); err != nil {
				return
			}
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	c, err := newConn(Config{Host: "tcp://" + strings.TrimPrefix(server.URL, "http://")})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"some": "0 /a;1 /bé;2 /c;", "none": "", "object": "not a list", "cut": "EOF",
		"deep": sandbox.ErrTooLarge.Error(), "gone": "no such container", "endless": "enough"} {
		var got strings.Builder
		n := 0
		err := c.eachChange(t.Context(), name, func(change container.FilesystemChange) error {
			if n++; n > 1000 {
				return enough
			}
			fmt.Fprintf(&got, "%d %s;", change.Kind, change.Path)
			return nil
		})
		if err != nil {
			if !strings.Contains(err.Error(), want) || want == "" {
				t.Errorf("%s: got %v, want %q", name, err, want)
			}
			continue
		}
		if d := cmp.Diff(want, got.String()); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	<-stopped
}

func FuzzDecodeChanges(f *testing.F) {
	f.Add(`[{"Path":"/a","Kind":0}]`)
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		_ = decodeChanges(strings.NewReader(text), func(container.FilesystemChange) error { n++; return nil })
		if n > len(text) {
			t.Errorf("%d changes in %d bytes", n, len(text))
		}
	})
}
