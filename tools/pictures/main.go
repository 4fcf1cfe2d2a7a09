// Command pictures draws packs/pictures-sample, the pictures and the rows about them, and
// the picture of "securebench init --family multimodal_qa".
//
//	go run . PACK TEMPLATE
//
// PACK is the folder of the pack, and TEMPLATE that of the template's public files. Every picture is drawn here, so that the repository has
// none of others. It is a module of its own, because nothing of it is linked into the
// program.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: pictures PACK TEMPLATE")
	}
	if err := paint(filepath.Join(args[1], "squares.png"), squares([2]int{30, 40}, [2]int{150, 30}, [2]int{90, 110})); err != nil {
		return err
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	enc.SetEscapeHTML(false)
	for _, r := range rows() {
		var assets []map[string]string
		for i, draw := range r.pictures {
			name := fmt.Sprintf("%s-%d.png", r.id, i+1)
			if err := paint(filepath.Join(args[0], "assets", name), draw); err != nil {
				return err
			}
			assets = append(assets, map[string]string{"path": name, "type": "image"})
		}
		row := struct {
			ID     string         `json:"id"`
			Input  map[string]any `json:"input"`
			Assets any            `json:"assets"`
			Eval   map[string]any `json:"eval"`
		}{"pictures/" + r.id, r.input, assets, r.eval}
		if err := enc.Encode(row); err != nil {
			return err
		}
	}
	return write(filepath.Join(args[0], "tasks.jsonl"), lines.Bytes())
}

// paint writes a picture.
func paint(path string, draw func(*canvas)) error {
	c := newCanvas()
	draw(c)
	var file bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, c.img); err != nil {
		return err
	}
	return write(path, file.Bytes())
}

func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
