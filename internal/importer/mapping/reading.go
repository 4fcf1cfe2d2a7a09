package mapping

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/picture"
	"securebench/internal/source"
)

// binding is what the rows of one table are read with.
type binding struct {
	*run
	fields  []boundField
	where   []selector // of the conditions, in their order
	classes []string   // of the answer's column, unless choices are mapped
	name    string     // of the table
	folder  string     // that of the table, for pictures
}

// boundField is a field of the family with the columns that it takes.
type boundField struct {
	field
	from bound
}

// reading makes a row of a pack of a row of a table.
type reading struct {
	*binding
	row    *source.Node
	number int // of the row, over all tables, from 1
	id     string
	named  source.Pos // where the id comes from

	problems                           source.Problems
	input, eval, metadata, environment *source.Node
	assets                             *source.Node
	files                              []pictureFile
	indexed                            []int // positions that were taken for such
	position                           int   // of the one right choice, -1
	choices                            int
}

// pictureFile is a picture that goes into the pack.
type pictureFile struct {
	name string
	data []byte
}

func (r *reading) fail(n *source.Node, fix, format string, args ...any) {
	r.problems.Add(n.Pos, fix, format, args...)
}

func (r *reading) note(p *source.Problem) bool { return r.problems.Note(p) }

// has reports whether a field is mapped.
func (r *reading) has(name string) bool {
	return slices.ContainsFunc(r.fields, func(f boundField) bool { return f.name == name })
}

// take returns the values of a field, nil if it is not mapped or cannot be read.
func (r *reading) take(name string) []*source.Node {
	for _, f := range r.fields {
		if f.name == name {
			nodes, p := f.from.values(r.row)
			r.note(p)
			return nodes
		}
	}
	return nil
}

// missing says that a field has no value in this row.
func (r *reading) missing(name string) {
	if len(r.problems) > 0 {
		return
	}
	for _, f := range r.fields {
		if f.name == name {
			pos := r.row
			if nodes, _ := f.from.values(r.row); len(nodes) > 0 {
				pos = at(nodes[0], r.row)
			}
			r.fail(pos, leaveOut, "the row has no %s: %s is empty", name, f.from.text)
		}
	}
}

// put puts a value into the row.
func (r *reading) put(path []string, value *source.Node) {
	switch path[0] {
	case "id":
		r.id, r.named = strings.TrimSpace(value.Text), value.Pos
	case "input":
		set(r.input, path[1], value)
	case "eval":
		set(r.eval, path[1], value)
	case "environment":
		set(r.environment, path[1], value)
	default:
		set(r.metadata, path[1], value)
	}
}

// read makes the row.
func (r *reading) read() {
	empty := func() *source.Node { return &source.Node{Pos: r.row.Pos, Kind: source.Map} }
	r.input, r.eval, r.metadata, r.environment = empty(), empty(), empty(), empty()
	r.id, r.named, r.position = r.options.ID+"/"+strconv.Itoa(r.number), r.row.Pos, -1
	set(r.metadata, "dataset", &source.Node{Pos: r.row.Pos, Kind: source.String, Text: r.options.Dataset})
	set(r.metadata, "row", &source.Node{Pos: r.row.Pos, Kind: source.Number, Text: strconv.Itoa(r.number)})
	for _, f := range r.fields {
		if f.take == nil {
			continue
		}
		nodes, p := f.from.values(r.row)
		if r.note(p) {
			continue
		}
		switch value := f.take(r, f.name, nodes); {
		case value != nil:
			r.put(f.at, value)
		case f.need || f.name == "id":
			r.missing(f.name)
		}
	}
	if r.shape.finish != nil && len(r.problems) == 0 {
		r.shape.finish(r)
	}
}

// object is the row as a line of the pack has it.
func (r *reading) object() *source.Node {
	out := &source.Node{Pos: r.row.Pos, Kind: source.Map}
	set(out, "id", &source.Node{Pos: r.named, Kind: source.String, Text: r.id})
	set(out, "input", r.input)
	if r.assets != nil {
		set(out, "assets", r.assets)
	}
	set(out, "eval", r.eval)
	if len(r.environment.Fields) > 0 {
		set(out, "environment", r.environment)
	}
	set(out, "metadata", r.metadata)
	return out
}

// order puts choices into the order of the seed, if there is one, and keeps which are right.
func (r *reading) order(choices []*source.Node, right []int) {
	if r.options.Seed == "" {
		return
	}
	r.shuffle(choices, right)
	set(r.metadata, "choice_seed", &source.Node{Pos: r.row.Pos, Kind: source.String, Text: r.options.Seed})
}

// shuffle orders texts by the digest of seed, id and text. The order says nothing about
// which is right, and any language can recompute it.
func (r *reading) shuffle(texts []*source.Node, right []int) {
	type place struct {
		was int
		key string
	}
	places := make([]place, len(texts))
	for i, t := range texts {
		sum := sha256.Sum256([]byte(r.options.Seed + "\x00" + r.id + "\x00" + t.Text))
		places[i] = place{i, string(sum[:])}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.key, b.key) })
	before, now := slices.Clone(texts), make([]int, len(texts))
	for i, p := range places {
		texts[i], now[p.was] = before[p.was], i
	}
	for i, was := range right {
		right[i] = now[was]
	}
	slices.Sort(right)
}

// maxPicture is the most bytes of a picture that is taken over.
const maxPicture = 20 << 20

// pictures adds the pictures of a row to the public files of the pack.
func (r *reading) pictures(nodes []*source.Node) {
	var all []*source.Node
	for _, n := range nodes {
		if n.Kind == source.List {
			all = append(all, n.Items...)
			continue
		}
		all = append(all, n)
	}
	r.assets = &source.Node{Pos: r.row.Pos, Kind: source.List}
	for _, n := range all {
		if blank(n) || n.Kind == source.Map && blank(n.Get("bytes")) && blank(n.Get("path")) {
			continue // a row with fewer pictures than columns
		}
		data, err := r.pictureOf(n)
		info, bad := picture.Info{}, error(nil)
		if err == nil {
			info, bad = picture.Size(bytes.NewReader(data))
		}
		switch {
		case err != nil:
			r.fail(n, leaveOut, "the picture cannot be read: %v", err)
			return
		case bad != nil:
			r.fail(n, "bring a picture of a usual size as PNG, JPEG, WebP or GIF", "the picture %v", bad)
			return
		}
		r.asset(n, info.Type, data)
	}
	if len(r.assets.Items) == 0 {
		r.missing("image")
	}
}

// asset adds one picture, under the digest of its content: rows that share one have one file.
func (r *reading) asset(n *source.Node, media string, data []byte) {
	sum := sha256.Sum256(data)
	kind, ext := "image", "."+strings.TrimPrefix(media, "image/")
	if media == picture.PDF {
		kind, ext = "pdf", ".pdf"
	}
	name := "pictures/" + hex.EncodeToString(sum[:16]) + ext
	item := &source.Node{Pos: n.Pos, Kind: source.Map}
	set(item, "path", &source.Node{Pos: n.Pos, Kind: source.String, Text: name})
	set(item, "type", &source.Node{Pos: n.Pos, Kind: source.String, Text: kind})
	if slices.ContainsFunc(r.files, func(f pictureFile) bool { return f.name == name }) { // twice in a row
		mount := fmt.Sprintf("pictures/%d-%s", len(r.assets.Items)+1, strings.TrimPrefix(name, "pictures/"))
		set(item, "mount", &source.Node{Pos: n.Pos, Kind: source.String, Text: mount})
	}
	r.assets.Items = append(r.assets.Items, item)
	r.files = append(r.files, pictureFile{name, data})
}

// pictureOf returns the bytes of a picture: those in the value, or of the file that it
// names beside the table.
func (r *reading) pictureOf(n *source.Node) ([]byte, error) {
	if n.Kind == source.Map { // as the hub's data sets have them
		if data := n.Get("bytes"); !blank(data) {
			return r.pictureOf(data)
		}
		if name := n.Get("path"); !blank(name) {
			return r.pictureOf(name)
		}
	}
	if n.Kind != source.String {
		return nil, fmt.Errorf("it is %s, and neither bytes nor the name of a file", n.Kind)
	}
	text, inline := n.Text, false
	if rest, ok := strings.CutPrefix(text, "data:"); ok {
		if _, text, inline = strings.Cut(rest, ";base64,"); !inline {
			return nil, errors.New("its data address is not in base64")
		}
	}
	if len(text) > base64.StdEncoding.EncodedLen(maxPicture) {
		return nil, fmt.Errorf("it has more than %d MiB", maxPicture>>20)
	}
	data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err == nil && (inline || len(data) > longestName) {
		return data, nil
	}
	if err == nil {
		if _, err := picture.Size(bytes.NewReader(data)); err == nil {
			return data, nil
		}
	}
	if inline || len(text) > longestName || !fs.ValidPath(text) {
		return nil, errors.New("it is neither base64 nor the name of a file beside the table")
	}
	return r.pictureFile(text)
}

// longestName is the longest name of a picture's file in bytes; what is longer is its content.
const longestName = 1024

// pictureFile reads a regular file beside the table.
func (r *reading) pictureFile(name string) ([]byte, error) {
	root, err := os.OpenRoot(r.folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return source.ReadFileIn(root, name, maxPicture)
}
