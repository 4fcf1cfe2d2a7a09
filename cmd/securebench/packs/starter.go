package packs

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// A family's template is row.json, which becomes one line; what is below public and
// eval becomes assets, and images an image of the pack. In all of them, @ID@ means
// the row's id, @PACK@ and @VERSION@ for the pack's.
//
//go:embed templates
var templates embed.FS

// templateFamilies lists the families that have a template.
func templateFamilies() []string {
	entries, err := templates.ReadDir("templates")
	if err != nil {
		panic(err) // they are part of the program
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// starterFile is a file of a pack, by its path in the pack's folder.
type starterFile struct {
	Path string
	Data []byte
}

// rowPlace says where a row goes: into which pack, and where that has its files.
type rowPlace struct {
	Pack         string
	Version      int64
	Public, Eval string // the asset roots
	Task         string // the folder of tasks of a pack that has one
}

// starterRow is a row made of a template, as a line, with its files.
type starterRow struct {
	Line  []byte
	Files []starterFile
	// Image is set if one of the files is the recipe of an image.
	Image bool
}

// plainName is what can be a part of an image's name.
var plainName = lazyregexp.New(`^[a-z0-9]+(?:[._-][a-z0-9]+)*$`)

// checkName returns an error unless a name can be that of a row with files, or of a
// pack with images.
func checkName(what, name string) error {
	if len(name) > 64 || !plainName.MatchString(name) {
		return fmt.Errorf("%s is %q: write lower-case letters and digits, with single - . or _ between them", what, name)
	}
	return nil
}

// freshID returns an id for a row of a family that is not taken.
func freshID(family string, taken func(string) bool) string {
	for n := 1; ; n++ {
		if id := strings.ReplaceAll(family, "_", "-") + "-" + strconv.Itoa(n); !taken(id) {
			return id
		}
	}
}

// newRow makes a row of the family's template.
func newRow(family, id string, at rowPlace) (row starterRow, err error) {
	if !slices.Contains(templateFamilies(), family) {
		return row, fmt.Errorf("there is no template for family %q: choose from %s", family, strings.Join(templateFamilies(), ", "))
	}
	fill := strings.NewReplacer("@ID@", id, "@PACK@", at.Pack, "@VERSION@", strconv.FormatInt(at.Version, 10))
	root := path.Join("templates", family)
	err = fs.WalkDir(templates, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templates.ReadFile(name)
		if err != nil {
			return err
		}
		text = []byte(fill.Replace(string(text)))
		top, rest, _ := strings.Cut(strings.TrimPrefix(name, root+"/"), "/")
		switch top {
		case "row.json":
			row.Line, err = oneLine(text)
			if at.Task != "" && err == nil {
				var task []byte
				task, err = taskOf(row.Line, id)
				row.Files = append(row.Files, starterFile{path.Join(at.Task, id, "task.yaml"), task})
			}
		case "public":
			row.Files = append(row.Files, starterFile{path.Join(cmp.Or(at.Task, at.Public), id, rest), text})
		case "eval":
			row.Files = append(row.Files, starterFile{path.Join(cmp.Or(at.Task, at.Eval), id, rest), text})
		case "images":
			row.Image = true
			row.Files = append(row.Files, starterFile{path.Join("images", id, rest), text})
		}
		return err
	})
	if err != nil {
		return row, fmt.Errorf("making a row of %s: %w", family, err)
	}
	return row, nil
}

// taskOf writes a row as the task of a folder of its own, in which its files lie.
func taskOf(line []byte, id string) ([]byte, error) {
	root, err := source.ParseJSON("row.json", 1, line)
	if err != nil {
		return nil, err
	}
	root.Fields = slices.DeleteFunc(root.Fields, func(f source.Field) bool { return f.Name == "id" })
	var beside func(n *source.Node)
	beside = func(n *source.Node) {
		for _, f := range n.Fields {
			if f.Name == "path" && f.Value.Kind == source.String {
				f.Value.Text = strings.TrimPrefix(f.Value.Text, id+"/")
			}
			beside(f.Value)
		}
		for _, item := range n.Items {
			beside(item)
		}
	}
	beside(root)
	return root.YAML(), nil
}

// oneLine writes a value as a row is usually written: on one line, with blanks after
// commas and colons.
func oneLine(text []byte) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(text))
	if err := v.Compact(jsontext.SpaceAfterComma(true), jsontext.SpaceAfterColon(true)); err != nil {
		return nil, err
	}
	return append(v, '\n'), nil
}

// schemaDir is the folder of a new pack with the schemas that its files name.
const schemaDir = "schema"

// starterPack is a new pack.
type starterPack struct {
	Files []starterFile
	Rows  int
	Image bool // it has images to build
}

// firstPack makes a pack with one row of each of the families.
func firstPack(name string, families []string) (out starterPack, err error) {
	at := rowPlace{Pack: name, Version: 1, Public: "assets", Eval: "hidden"}
	var rows []byte
	var files []starterFile
	for _, f := range families {
		row, err := newRow(f, freshID(f, func(string) bool { return false }), at)
		if err != nil {
			return out, err
		}
		rows, files = append(rows, row.Line...), append(files, row.Files...)
		out.Rows, out.Image = out.Rows+1, out.Image || row.Image
	}
	out.Files = append([]starterFile{
		{"manifest.yaml", fmt.Appendf(nil, manifestTemplate, name)},
		{"tasks.jsonl", rows},
		{"tester.yaml", fmt.Appendf(nil, testerTemplate, name)},
	}, files...)
	return out, nil
}

const manifestTemplate = `# yaml-language-server: $schema=` + schemaDir + `/manifest.schema.json
#
# What the pack is. Raise the version whenever a row changes.
id: %s
version: 1

# For rows that do not say otherwise.
defaults:
  environment:
    image: securebench-python:3
    timeout_seconds: 120
`

const testerTemplate = `# yaml-language-server: $schema=` + schemaDir + `/tester.schema.json
#
# Which pack is run, and how the agent starts. Paths are relative to this file.
schema_version: "0.2"

run:
  id: %s
  output_dir: runs/first

benchmark:
  manifest: manifest.yaml
  tasks: tasks.jsonl

harness:
  type: command
  config:
    timeout_seconds: 60
    # This stands in for your agent and solves nothing. It starts in a sandbox with
    # the public part of one task in task.json; what it prints is its answer.
    command: [python3, -c, "import json; print(len(json.load(open('task.json'))), 'values, no idea')"]
`
