package viewer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/earlier"
	"securebench/internal/evidence"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/transcript"
)

// folderPolicy is the policy on content of a page in a folder: it loads the scripts, the
// style and the data beside it.
const folderPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"

// Export writes the runs of a library to a new folder, as pages that need no server. It
// holds only what runs publish. The page itself is written last.
func (l *Library) Export(ctx context.Context, dir, version string) (err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // for publication
		return fmt.Errorf("making the folder: %s", source.Words(err))
	}
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // for publication
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s is there already: give a new folder, or remove it", redact.Quote(dir))
		}
		return fmt.Errorf("making the folder: %s", source.Words(err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening the folder: %s", source.Words(err))
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	e := &export{root: root, ids: map[string]bool{}}
	list := List{Runs: []Summary{}}
	p := &pairs{export: e, trust: l.options.Trust, opened: map[string]*earlier.Run{}}
	for _, s := range l.List().Runs {
		summary, err := l.exportRun(ctx, e, s.ID)
		if err != nil {
			return fmt.Errorf("writing %s: %w", redact.Quote(s.ID), err)
		}
		list.Runs = append(list.Runs, summary)
		at, err := l.path(s.ID)
		if err != nil {
			return fmt.Errorf("writing %s: %w", redact.Quote(s.ID), err)
		}
		p.paths = append(p.paths, at)
	}
	if err := p.write(ctx, &list); err != nil {
		return err
	}
	if err := e.data("list", list); err != nil {
		return err
	}
	return e.page(version)
}

// exportRun writes a run, and returns its place in the list.
func (l *Library) exportRun(ctx context.Context, e *export, id string) (Summary, error) {
	run, summary, err := l.Get(ctx, id)
	if ctx.Err() != nil {
		return summary, ctx.Err()
	}
	summary.ID = e.id(id)
	if err != nil {
		return summary, nil //nolint:nilerr // the list says that it cannot be read
	}
	if summary.Path == "." {
		summary.Path = summary.RunID
	}
	if err := e.data("run/"+summary.ID, run.pageOf(summary)); err != nil {
		return summary, err
	}
	dir, err := evidence.OpenRun(run.path)
	if err != nil {
		return summary, err
	}
	// Without the salt, nothing of the operator's folder is read.
	from := transcript.Source{FS: dir, Limit: textLimit(len(run.Rows)), Brief: true, Apart: true}
	err = run.parts(dir, from, func(n int, part []transcript.Attempt) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return e.data(fmt.Sprintf("attempts/%s/%d", summary.ID, n), part)
	})
	return summary, errors.Join(err, dir.Close())
}

// export is a folder that is written.
type export struct {
	root *os.Root
	ids  map[string]bool
}

// id is what a run is called in addresses and names of files.
func (e *export) id(name string) string {
	id := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '-'
	}, name), "-")
	if id == "" {
		id = alone
	}
	id = id[:min(len(id), maxID)]
	for n, first := 2, id; e.ids[strings.ToLower(id)]; n++ {
		id = fmt.Sprintf("%s-%d", first, n)
	}
	e.ids[strings.ToLower(id)] = true
	return id
}

// maxID bounds the name of a run in names of files.
const maxID = 80

// data writes a value as a script that the page loads: from disk, it can load nothing
// else.
func (e *export) data(name string, value any) error {
	text, err := encode(value)
	if err != nil {
		return err
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	return e.write(path.Join("data", name+".js"), fmt.Appendf(nil, "sb.data(%s, %s);\n", quoted, text))
}

// page writes the page with its scripts and its style.
func (e *export) page(version string) error {
	for _, name := range append(scripts(), "style.css") {
		text, err := page.ReadFile("page/" + name)
		if err == nil {
			err = e.write(name, text)
		}
		if err != nil {
			return err
		}
	}
	var b strings.Builder
	if err := writeShell(&b, shell{Version: version, Policy: folderPolicy}); err != nil {
		return err
	}
	return e.write("index.html", []byte(b.String()))
}

func (e *export) write(name string, text []byte) error {
	if err := e.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return fmt.Errorf("writing: %s", source.Words(err))
	}
	if err := e.root.WriteFile(name, text, 0o644); err != nil {
		return fmt.Errorf("writing: %s", source.Words(err))
	}
	return nil
}
