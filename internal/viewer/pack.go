package viewer

import (
	"bytes"
	"encoding/base64"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/picture"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/transcript"
)

// Pack is what the pack of runs adds to what they wrote, for the operator alone: the tags
// of its rows, their pictures, and what agents did not see.
type Pack struct {
	// Of reports whether a run is of the pack; of a published copy, the digests of the
	// hidden parts are nil.
	Of func(record.Manifest, *record.PackDigests) bool

	rows     map[string]packRow
	pictures int // bytes that are kept
}

// of returns the pack if a run in a directory is of it, else nil.
func (p *Pack) of(dir fs.FS, m record.Manifest) *Pack {
	if p == nil {
		return nil
	}
	var hidden *record.PackDigests
	if d, err := record.ReadPack(dir); err == nil {
		hidden = &d
	}
	if !p.Of(m, hidden) {
		return nil
	}
	return p
}

// packRow is what is kept of a row.
type packRow struct {
	tags  []string
	eval  jsontext.Value // what the agent did not see
	files []transcript.File
}

// The bounds of the pictures that are kept of a pack, of one and of all, in bytes.
const (
	maxRowPicture   = 1 << 20
	maxPackPictures = 128 << 20
)

// Add adds a row.
func (p *Pack) Add(row pack.Row) {
	if p.rows == nil {
		p.rows = map[string]packRow{}
	}
	kept := packRow{}
	kept.tags, _ = row.Tags()
	var parts struct {
		Eval jsontext.Value `json:"eval"`
	}
	if json.Unmarshal(row.Whole, &parts) == nil {
		kept.eval = parts.Eval.Clone()
	}
	for _, a := range row.Assets {
		if files := row.Public(); files != nil && p.pictures < maxPackPictures {
			if f, ok := p.picture(files, a.Path); ok {
				kept.files = append(kept.files, f)
			}
		}
	}
	p.rows[row.ID] = kept
}

// picture reads a file of a row's, if it is a picture.
func (p *Pack) picture(files fs.FS, path string) (transcript.File, bool) {
	f, err := files.Open(path)
	if err != nil {
		return transcript.File{}, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRowPicture+1))
	info, sizeErr := picture.Size(bytes.NewReader(data))
	if err != nil || sizeErr != nil || len(data) > maxRowPicture || info.Width == 0 || !strings.HasPrefix(info.Type, "image/") {
		return transcript.File{}, false
	}
	p.pictures += len(data)
	return transcript.File{Path: redact.Quote(path), Kind: "file", Mode: "0444", Size: int64(len(data)), Picture: base64.StdEncoding.EncodeToString(data), Type: info.Type}, true
}

// parts are what the pack adds to an attempt at a task.
func (p *Pack) parts(task string) (out []transcript.Part) {
	row, ok := p.rows[task]
	if !ok {
		return nil
	}
	if len(row.files) > 0 {
		out = append(out, transcript.Part{Title: "prompt: pictures", Form: transcript.Tree, Files: row.files})
	}
	var eval map[string]jsontext.Value
	if json.Unmarshal(row.eval, &eval) != nil {
		return out
	}
	var names []string
	for name := range eval {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out = append(out, transcript.NewPart(transcript.Code, "hidden: "+name, eval[name], maxText))
	}
	return out
}
