package onecommit_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"securebench/internal/importer/onecommit"
)

// store is objects by id.
type store map[onecommit.ID][]byte

func (s store) add(k onecommit.Kind, data string) onecommit.ID {
	id := onecommit.NewID(k, []byte(data))
	s[id] = []byte(data)
	return id
}

func (s store) get(id onecommit.ID, _ onecommit.Kind) ([]byte, error) {
	if data, ok := s[id]; ok {
		return data, nil
	}
	return nil, errors.New("no such object")
}

// commit makes a commit of a tree.
func (s store) commit(tree string) onecommit.ID {
	return s.add(onecommit.Commit, "tree "+s.add(onecommit.Tree, tree).String()+"\nauthor a <a> 0 +0000\n\nx\n")
}

// TestKnownIDs: ids are git's.
func TestKnownIDs(t *testing.T) {
	for want, got := range map[string]onecommit.ID{
		"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391": onecommit.NewID(onecommit.Blob, nil),
		"4b825dc642cb6eb9a060e54bf8d69288fbee4904": onecommit.NewID(onecommit.Tree, nil),
	} {
		if got.String() != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, files := range []onecommit.Files{{"../x": ""}, {".git/config": ""}, {"a//b": ""}, {"a": "", "a/b": ""}, {"/a": ""}, {".GIT": ""}} {
		if id, err := onecommit.CommitID(files, "x"); err == nil {
			t.Errorf("%v: %s", files, id)
		}
	}
}

// TestHostileObjects: a tree that is damaged, nests for ever or steps out of its
// folder is refused, and so is an object that is not what its id says.
func TestHostileObjects(t *testing.T) {
	s := store{}
	blob := s.add(onecommit.Blob, "x")
	raw := string(blob[:])
	for name, head := range map[string]onecommit.ID{
		"up":        s.commit("100644 ..\x00" + raw),
		"git":       s.commit("100644 .GIT\x00" + raw),
		"slash":     s.commit("100644 a/b\x00" + raw),
		"nameless":  s.commit("100644 \x00" + raw),
		"cut":       s.commit("100644 a\x00" + raw[:5]),
		"no mode":   s.commit("a\x00" + raw),
		"odd mode":  s.commit("100600 a\x00" + raw),
		"missing":   s.commit("100644 a\x00" + strings.Repeat("\x01", 20)),
		"no tree":   s.add(onecommit.Commit, "author a\n"),
		"too short": s.add(onecommit.Commit, "tree 1234\n"),
	} {
		if _, err := onecommit.Read(head, s.get); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	good := s.commit("100644 a\x00" + raw)
	if _, err := onecommit.Read(good, s.get); err != nil {
		t.Fatal(err)
	}
	s[blob] = []byte("y")
	if _, err := onecommit.Read(good, s.get); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("another content: %v", err)
	}
	deep := s.add(onecommit.Tree, "")
	for range 70 {
		deep = s.add(onecommit.Tree, "40000 d\x00"+string(deep[:]))
	}
	if _, err := onecommit.Read(s.add(onecommit.Commit, "tree "+deep.String()+"\n"), s.get); err == nil {
		t.Error("70 folders in one another: accepted")
	}
}

// TestTreeBomb: a few objects that stand for more folders than can be counted,
// or for names that fill the memory, are refused soon.
func TestTreeBomb(t *testing.T) {
	s := store{}
	twice := s.add(onecommit.Tree, "")
	for range 60 {
		twice = s.add(onecommit.Tree, "40000 a\x00"+string(twice[:])+"40000 b\x00"+string(twice[:]))
	}
	if _, err := onecommit.Read(s.add(onecommit.Commit, "tree "+twice.String()+"\n"), s.get); err == nil || !strings.Contains(err.Error(), "files and folders") {
		t.Errorf("2^60 folders: %v", err)
	}
	blob := s.add(onecommit.Blob, "x")
	inner := s.add(onecommit.Tree, "100644 a\x00"+string(blob[:]))
	for size, want := range map[int]string{4094: "", 4095: "is longer than 4096 bytes"} {
		head := s.commit("40000 " + strings.Repeat("n", size) + "\x00" + string(inner[:]))
		if _, err := onecommit.Read(head, s.get); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a folder's name of %d bytes: %v, want %q", size, err, want)
		}
	}
}

// FuzzTree: a tree is refused, or makes an archive whose names stay below its
// folder.
func FuzzTree(f *testing.F) {
	f.Add("100644 a\x00"+strings.Repeat("\x01", 20), "x")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, tree, content string) {
		s := store{}
		blob := s.add(onecommit.Blob, content)
		tree = strings.ReplaceAll(tree, strings.Repeat("\x01", 20), string(blob[:]))
		r, err := onecommit.Read(s.commit(tree), s.get)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := r.WriteTar(&out, "top"); err != nil {
			return // a name that no archive can hold
		}
		for _, name := range r.Names() {
			if name == "" || strings.HasPrefix(name, "/") || strings.Contains(fmt.Sprintf("/%s/", name), "/../") {
				t.Errorf("the name %q", name)
			}
		}
		_, _ = io.Copy(io.Discard, &out)
	})
}
