package dist

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Wheel is a program as a package for Python's installers: pip, pipx and uv lay its
// scripts into a folder of the path, as they are.
type Wheel struct {
	Name, Version, Summary string
	Tags                   []string // that it is for, such as py3-none-manylinux_2_17_x86_64
	Python                 string   // the versions of Python that its modules are for
	Readme                 []byte   // in Markdown
	Modules                []File   // below the folder of packages
	Scripts                []File
	Materials              []byte // its bill of materials
}

// FileName is the name that installers demand.
func (w Wheel) FileName() string {
	var platforms []string
	for _, tag := range w.Tags {
		platforms = append(platforms, tag[strings.LastIndexByte(tag, '-')+1:])
	}
	return fmt.Sprintf("%s-%s-py3-none-%s.whl", w.Name, w.Version, strings.Join(platforms, "."))
}

// Write writes the wheel.
func (w Wheel) Write(to io.Writer, made time.Time) error {
	files := w.files()
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	record := w.info("RECORD")
	files = append(files, File{Name: record, Body: sumsOf(files, record)}) // installers want it last
	z := zip.NewWriter(to)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: sinceDOS(made)}
		h.SetMode(f.fsMode())
		part, err := z.CreateHeader(h)
		if err == nil {
			_, err = part.Write(f.Body)
		}
		if err != nil {
			return fmt.Errorf("writing %s into the wheel: %w", f.Name, err)
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("completing the wheel: %w", err)
	}
	return nil
}

// files are those of the wheel but the list of them.
func (w Wheel) files() []File {
	files := slices.Clone(w.Modules)
	for _, s := range w.Scripts {
		files = append(files, File{Name: fmt.Sprintf("%s-%s.data/scripts/%s", w.Name, w.Version, s.Name), Body: s.Body, Exec: true})
	}
	var about, kind bytes.Buffer
	fmt.Fprintf(&about, "Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: %s\nRequires-Python: %s\nDescription-Content-Type: text/markdown\n\n%s",
		w.Name, w.Version, w.Summary, w.Python, w.Readme)
	fmt.Fprintf(&kind, "Wheel-Version: 1.0\nGenerator: securebench\nRoot-Is-Purelib: false\n")
	for _, tag := range w.Tags {
		fmt.Fprintf(&kind, "Tag: %s\n", tag)
	}
	return append(files, File{Name: w.info("METADATA"), Body: about.Bytes()}, File{Name: w.info("WHEEL"), Body: kind.Bytes()},
		File{Name: w.info("sboms/" + w.Name + ".cdx.json"), Body: w.Materials})
}

// info is a file of the folder that says what the wheel is.
func (w Wheel) info(name string) string {
	return fmt.Sprintf("%s-%s.dist-info/%s", w.Name, w.Version, name)
}

// sumsOf lists files as installers check them. The list itself has no digest.
func sumsOf(files []File, self string) []byte {
	var b bytes.Buffer
	for _, f := range files {
		sum := sha256.Sum256(f.Body)
		fmt.Fprintf(&b, "%s,sha256=%s,%d\n", f.Name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.Body))
	}
	fmt.Fprintf(&b, "%s,,\n", self)
	return b.Bytes()
}

// sinceDOS is a time that an archive of this kind can have.
func sinceDOS(t time.Time) time.Time {
	if first := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC); t.Before(first) {
		return first
	}
	return t.UTC()
}
