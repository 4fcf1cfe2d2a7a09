package hub_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/importer/hub"
	"securebench/internal/importer/hub/hubtest"
)

// fetched fetches with a cache of its own, and returns the content of the files by their names.
func fetched(t *testing.T, from string, env map[string]string, split string) (map[string]string, hub.Result, error) {
	t.Helper()
	if env["XDG_CACHE_HOME"] == "" {
		env["XDG_CACHE_HOME"] = t.TempDir()
	}
	got, err := hub.Fetch(context.Background(), from, hub.Options{Getenv: func(k string) string { return env[k] }, Say: func(string, ...any) {}, Split: split, Pause: time.Millisecond})
	files := map[string]string{}
	for _, f := range got.Files {
		text, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(text)
	}
	return files, got, err
}

// declaring is a card that declares the files of its splits.
func declaring() map[string]any {
	return map[string]any{"license": []string{"mit"}, "configs": []any{
		map[string]any{"config_name": "main", "data_files": []any{map[string]any{"split": "train", "path": "main/train-*"}, map[string]any{"split": "test", "path": []string{"main/test-*"}}}},
		map[string]any{"config_name": "other", "data_dir": "second", "data_files": "**/*.csv"},
	}}
}

func sets() map[string]*hubtest.Set {
	return map[string]*hubtest.Set{
		"o/declared": {Card: declaring(), Files: map[string]string{"README.md": "x", "main/train-00000-of-00001.parquet": "tr", "main/test-00000-of-00002.parquet": "t0",
			"main/test-00001-of-00002.parquet": "t1", "second/a/b.csv": "q\n", "second/c.csv": "q\n1\n", "stray.csv": "x"}},
		"o/named":  {Card: map[string]any{"license": "cc-by-4.0"}, Files: map[string]string{".gitattributes": "x", "data/train.csv": "a", "data/my_test file.csv": "b", "data/dev.csv": "c", "dataset_infos.json": "{}"}},
		"o/shards": {Files: map[string]string{"law/test-00000-of-00001.parquet": "l", "math/test-00000-of-00001.parquet": "m", "math/all.txt": "x"}},
		"o/script": {Files: map[string]string{"script.py": "x"}, Branches: map[string]map[string]string{"refs/convert/parquet": {"default/test/0000.parquet": "p0", "default/test/0001.parquet": "p1"}}},
		"o/secret": {Private: true, Files: map[string]string{"test.csv": "s"}},
		"o/tagged": {Files: map[string]string{"test.csv": "new"}, Branches: map[string]map[string]string{"v1.0": {"test.csv": "old"}}},
	}
}

// TestParts: which files of a data set a name means, and what is recorded of it.
func TestParts(t *testing.T) {
	t.Parallel()
	const other = "0000000000000000000000000000000000000001"
	s := hubtest.New(t, sets())
	s.Token = "hf_x"
	for _, tt := range []struct {
		from, split, token string
		want               map[string]string
		origin, licence    string
	}{
		{"hf:o/declared:main/test", "", "", map[string]string{"hf:o/declared/main/test-00000-of-00002.parquet": "t0", "hf:o/declared/main/test-00001-of-00002.parquet": "t1"}, "hf:o/declared@" + hubtest.Commit + ":main/test", "mit"},
		{"hf:o/declared:other", "", "", map[string]string{"hf:o/declared/second/a/b.csv": "q\n", "hf:o/declared/second/c.csv": "q\n1\n"}, "hf:o/declared@" + hubtest.Commit + ":other/train", "mit"},
		{"hf:o/declared", "test", "", map[string]string{"hf:o/declared/main/test-00000-of-00002.parquet": "t0", "hf:o/declared/main/test-00001-of-00002.parquet": "t1"}, "hf:o/declared@" + hubtest.Commit + ":main/test", "mit"},
		{"hf:o/named:/test", "", "", map[string]string{"hf:o/named/data/my_test file.csv": "b"}, "hf:o/named@" + hubtest.Commit + ":default/test", "cc-by-4.0"},
		{"hf:o/named", "validation", "", map[string]string{"hf:o/named/data/dev.csv": "c"}, "hf:o/named@" + hubtest.Commit + ":default/validation", "cc-by-4.0"},
		{"hf:o/shards:law/test", "", "", map[string]string{"hf:o/shards/law/test-00000-of-00001.parquet": "l"}, "hf:o/shards@" + hubtest.Commit + ":law/test", ""},
		{"hf:o/script", "", "", map[string]string{"hf:o/script/default/test/0000.parquet": "p0", "hf:o/script/default/test/0001.parquet": "p1"}, "hf:o/script@" + other + ":default/test", ""},
		{"hf:o/secret", "", "hf_x", map[string]string{"hf:o/secret/test.csv": "s"}, "hf:o/secret@" + hubtest.Commit + ":default/test", ""},
		{"hf:o/tagged@v1.0", "", "", map[string]string{"hf:o/tagged/test.csv": "old"}, "hf:o/tagged@" + other + ":default/test", ""},
	} {
		got, sum, err := fetched(t, tt.from, map[string]string{"HF_ENDPOINT": s.URL, "HF_TOKEN": tt.token}, tt.split)
		if err != nil {
			t.Errorf("%s: %v", tt.from, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.from, diff)
		}
		if sum.Origin != tt.origin || sum.Licence != tt.licence {
			t.Errorf("%s: origin %s, licence %s", tt.from, sum.Origin, sum.Licence)
		}
	}
}

// TestResumed: a download goes on where it was cut off, in the same run and in the next one,
// and what is there is not fetched again. The store never sees the token.
func TestResumed(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789", 10_000)
	s := hubtest.New(t, map[string]*hubtest.Set{"o/d": {Files: map[string]string{"test.parquet": text}}})
	s.Token = "hf_x"
	env := map[string]string{"HF_ENDPOINT": s.URL, "HF_TOKEN": "hf_x", "XDG_CACHE_HOME": t.TempDir()}
	s.Fail("test.parquet", hubtest.Fault{Times: 4, After: 10_000})
	if _, _, err := fetched(t, "hf:o/d", env, ""); err == nil || !strings.Contains(err.Error(), "fetching hf:o/d/test.parquet: the host cannot be reached") {
		t.Fatalf("after three cuts: %v", err)
	}
	got, _, err := fetched(t, "hf:o/d", env, "")
	if err != nil || got["hf:o/d/test.parquet"] != text {
		t.Fatalf("the rest: %v", err)
	}
	before := s.Asked()
	if last := before[len(before)-1]; !strings.HasSuffix(last, "bytes=40000-") {
		t.Errorf("the last part was asked for as %s", last)
	}
	if _, _, err := fetched(t, "hf:o/d", env, ""); err != nil {
		t.Fatal(err)
	}
	for _, asked := range s.Asked()[len(before):] {
		if strings.Contains(asked, ".parquet") {
			t.Errorf("what is there was asked for again: %s", asked)
		}
	}
	name, err := filepath.Glob(filepath.Join(env["XDG_CACHE_HOME"], "securebench", "tables", "*"))
	if err != nil || len(name) != 2 {
		t.Errorf("the cache has %q, %v", name, err)
	}
}

// TestAddress: a file of any host, whose state is followed by its tag, and pinned by a digest.
func TestAddress(t *testing.T) {
	t.Parallel()
	text, cut := "one,two\n", true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+text[:3]+`"`)
		if cut {
			cut = false
			w.Header().Set("Content-Length", "8")
			_, _ = w.Write([]byte(text[:4]))
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	}))
	t.Cleanup(s.Close)
	env := map[string]string{"XDG_CACHE_HOME": t.TempDir()}
	name := s.URL + "/a/t.csv"
	got, sum, err := fetched(t, name+"?signature=1", env, "")
	if err != nil || got[name] != text || sum.Dataset != "t" {
		t.Fatalf("%q, %+v, %v", got, sum, err)
	}
	text = "two,one,three\n"
	if got, _, err = fetched(t, name+"?signature=1", env, ""); err != nil || got[name] != text {
		t.Errorf("another state of the file: %q, %v", got, err)
	}
	const digest = "#sha256=75d8ed7cb72b8e9eb1cfbc3ff5c3ba0e1a44b9a5ab1bb8d6e6dc5de0a6d9ab0c"
	if _, _, err = fetched(t, name+digest, env, ""); err == nil || !strings.Contains(err.Error(), "it is not what was pinned") {
		t.Errorf("another digest: %v", err)
	}
}

// TestProxy: what is fetched comes through the proxy that the environment names.
func TestProxy(t *testing.T) {
	t.Parallel()
	var through []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		through = append(through, r.Method+" "+r.Host)
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	_, _, err := fetched(t, "https://data.example/t.csv", map[string]string{"https_proxy": proxy.URL}, "")
	if err == nil || len(through) == 0 || through[0] != "CONNECT data.example:443" {
		t.Errorf("asked the proxy for %q: %v", through, err)
	}
}
