// Package hubtest is a hub of data sets for tests: it answers as the Hugging Face hub does,
// with its forms, headers, codes, pages and redirects, and fails in the ways that a test
// asks for.
package hubtest

import (
	"crypto/sha1" //nolint:gosec // as git does
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// Commit is the commit of every branch.
const Commit = "0123456789abcdef0123456789abcdef01234567"

// perPage is how many files a page of a listing has.
const perPage = 2

// Set is a data set.
type Set struct {
	Card  map[string]any
	Files map[string]string
	// Branches have other files, by the names of their revisions.
	Branches map[string]map[string]string
	Private  bool // only for who has the token
	Gated    bool // for nobody
	Disabled bool
}

// Server is a hub and the host that has its large files.
type Server struct {
	*httptest.Server

	Sets  map[string]*Set // by OWNER/NAME
	Token string

	mu     sync.Mutex
	faults map[string]*Fault // by a file's name
	asked  []string          // what was asked for, with the header Range
	store  *httptest.Server
}

// Fault is how a large file fails.
type Fault struct {
	Times  int    // how often; -1 is always
	After  int    // bytes, after which the connection ends
	Status int    // in place of the file
	Other  string // its content
}

// New starts a hub, which ends with the test.
func New(t testing.TB, sets map[string]*Set) *Server {
	t.Helper()
	s := &Server{Sets: sets, faults: map[string]*Fault{}}
	s.store = httptest.NewServer(http.HandlerFunc(s.content))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/datasets/{owner}/{name}/revision/{revision}", s.revision)
	mux.HandleFunc("GET /api/datasets/{owner}/{name}/tree/{revision}", s.tree)
	mux.HandleFunc("GET /datasets/{owner}/{name}/resolve/{revision}/{path...}", s.resolve)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Cleanup(s.store.Close)
	return s
}

// Fail lets a large file fail.
func (s *Server) Fail(name string, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[name] = &f
}

// Asked returns what was asked for: the path, and the header Range after it.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *Server) note(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, strings.TrimSpace(r.URL.Path+" "+r.Header.Get("Range")))
}

// refuse answers as the hub refuses.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if code != "" {
		w.Header().Set("X-Error-Code", code)
	}
	w.Header().Set("X-Error-Message", message)
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":%q}`, message)
}

// set returns the data set that a request is about, or refuses.
func (s *Server) set(w http.ResponseWriter, r *http.Request) (*Set, bool) {
	s.note(r)
	token := r.Header.Get("Authorization")
	set := s.Sets[r.PathValue("owner")+"/"+r.PathValue("name")]
	switch {
	case token != "" && token != "Bearer "+s.Token:
		refuse(w, http.StatusUnauthorized, "", "Invalid credentials in Authorization header")
	case set == nil, set.Private && token == "":
		refuse(w, http.StatusUnauthorized, "RepoNotFound", "Repository not found")
	case set.Gated:
		refuse(w, http.StatusForbidden, "GatedRepo", "Access to dataset "+r.PathValue("name")+" is restricted and you are not in the authorized list.")
	default:
		return set, true
	}
	return nil, false
}

// files are those of a revision.
func (set *Set) files(revision string) (map[string]string, string, bool) {
	if revision == "main" || revision == Commit {
		return set.Files, Commit, true
	}
	for i, name := range slices.Sorted(maps.Keys(set.Branches)) {
		sha := fmt.Sprintf("%040x", i+1)
		if revision == name || revision == sha {
			return set.Branches[name], sha, true
		}
	}
	return nil, "", false
}

func (s *Server) revision(w http.ResponseWriter, r *http.Request) {
	set, ok := s.set(w, r)
	if !ok {
		return
	}
	files, sha, ok := set.files(r.PathValue("revision"))
	if !ok {
		refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+r.PathValue("revision"))
		return
	}
	siblings := []map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		siblings = append(siblings, map[string]string{"rfilename": name})
	}
	answer(w, map[string]any{"_id": "621ffdd236468d709f181d5e", "id": r.PathValue("owner") + "/" + r.PathValue("name"), "author": r.PathValue("owner"), "sha": sha,
		"lastModified": "2024-01-04T12:05:15.000Z", "private": set.Private, "gated": false, "disabled": set.Disabled, "tags": []string{}, "downloads": 1, "likes": 1,
		"cardData": set.Card, "siblings": siblings, "createdAt": "2022-04-12T10:22:10.000Z", "usedStorage": 1})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if err := json.MarshalWrite(w, v); err != nil {
		panic(err)
	}
}

// isLarge reports whether the hub has a file in its store of large ones.
func isLarge(name string) bool { return strings.HasSuffix(name, ".parquet") }

func blob(text string) string {
	sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text)) //nolint:gosec // as git does
	return hex.EncodeToString(sum[:])
}

func (s *Server) tree(w http.ResponseWriter, r *http.Request) {
	set, ok := s.set(w, r)
	if !ok {
		return
	}
	files, _, ok := set.files(r.PathValue("revision"))
	if !ok {
		refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+r.PathValue("revision"))
		return
	}
	var all []map[string]any
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		if folder, _, below := strings.Cut(name, "/"); below && !slices.ContainsFunc(all, func(e map[string]any) bool { return e["path"] == folder }) {
			all = append(all, map[string]any{"type": "directory", "oid": blob(folder), "size": 0, "path": folder})
		}
		entry := map[string]any{"type": "file", "oid": blob(text), "size": len(text), "path": name}
		if isLarge(name) {
			sum := sha256.Sum256([]byte(text))
			entry["lfs"] = map[string]any{"oid": hex.EncodeToString(sum[:]), "size": len(text), "pointerSize": 131}
			entry["xetHash"] = hex.EncodeToString(sum[:])
		}
		all = append(all, entry)
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	to := min(from+perPage, len(all))
	if to < len(all) {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?recursive=true&expand=false&cursor=%d>; rel="next"`, s.URL, r.URL.EscapedPath(), to))
	}
	answer(w, all[from:to])
}

func (s *Server) resolve(w http.ResponseWriter, r *http.Request) {
	set, ok := s.set(w, r)
	if !ok {
		return
	}
	name := r.PathValue("path")
	files, sha, _ := set.files(r.PathValue("revision"))
	text, ok := files[name]
	if !ok {
		refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	w.Header().Set("X-Repo-Commit", sha)
	if !isLarge(name) {
		s.serve(w, r, name, text)
		return
	}
	sum := sha256.Sum256([]byte(text))
	w.Header().Set("X-Linked-Size", strconv.Itoa(len(text)))
	w.Header().Set("X-Linked-Etag", `"`+hex.EncodeToString(sum[:])+`"`)
	to := url.URL{Path: "/" + r.PathValue("owner") + "/" + r.PathValue("name") + "/" + sha + "/" + name, RawQuery: "X-Amz-Signature=0"}
	http.Redirect(w, r, s.store.URL+to.String(), http.StatusFound)
}

// content serves the large files, to requests that have no token.
func (s *Server) content(w http.ResponseWriter, r *http.Request) {
	s.note(r)
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 4)
	if r.Header.Get("Authorization") != "" || len(parts) != 4 {
		http.Error(w, "only one of the two ways to authorise is allowed", http.StatusBadRequest)
		return
	}
	files, _, _ := s.Sets[parts[0]+"/"+parts[1]].files(parts[2])
	s.serve(w, r, parts[3], files[parts[3]])
}

// serve sends a file, or fails as it was told.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, name, text string) {
	s.mu.Lock()
	f := s.faults[name]
	if f != nil && f.Times == 0 {
		f = nil
	}
	if f != nil {
		f.Times--
	}
	s.mu.Unlock()
	switch {
	case f == nil:
	case f.Status != 0:
		w.WriteHeader(f.Status)
		return
	case f.Other != "":
		text = f.Other
	case f.After > 0:
		w = &cut{w, f.After}
	}
	w.Header().Set("ETag", `"`+blob(text)+`"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
}

// cut ends the connection after some bytes.
type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Write(p []byte) (int, error) {
	if len(p) > c.left {
		_, _ = c.ResponseWriter.Write(p[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}
