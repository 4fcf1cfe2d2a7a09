// Command tables writes packs/tables-sample, the files and the rows about them.
//
//	go run . PACK
//
// PACK is the folder of the pack. Every file is made here, so that the repository has none
// of others. It is a module of its own, because nothing of it is linked into the program.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

// row is a task: files to work on, and the file that is expected.
type row struct {
	id, brief  string
	kind, path string // of the file that is expected
	public     map[string][]byte
	want       []byte
	rubric     map[string]any
}

type object = map[string]any

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: tables PACK")
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	enc.SetEscapeHTML(false)
	for _, r := range rows() {
		var assets []object
		for _, name := range slices.Sorted(maps.Keys(r.public)) {
			at := r.id + "/" + name
			if err := write(filepath.Join(args[0], "assets", at), r.public[name]); err != nil {
				return err
			}
			asset := object{"path": at, "mount": name}
			if name == r.path {
				asset["read_only"] = false
			}
			assets = append(assets, asset)
		}
		want := "expected/" + r.id + "/" + r.path
		if err := write(filepath.Join(args[0], "hidden", want), r.want); err != nil {
			return err
		}
		if err := enc.Encode(struct {
			ID     string `json:"id"`
			Input  object `json:"input"`
			Assets any    `json:"assets"`
			Eval   object `json:"eval"`
		}{"tables/" + r.id, object{"brief": r.brief, "output_spec": object{"type": r.kind, "path": r.path}}, assets,
			object{"reference_artifact": object{"path": want}, "rubric": r.rubric}}); err != nil {
			return err
		}
	}
	return write(filepath.Join(args[0], "tasks.jsonl"), lines.Bytes())
}

func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
