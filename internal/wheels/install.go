package wheels

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"securebench/internal/lazyregexp"
	"securebench/internal/redact"
)

// The folders of a tree of requirements: what Python's path has, and programs.
const (
	libDir  = "lib"
	binDir  = "bin"
	dataDir = "data"
)

// The bounds of such a tree.
const (
	maxInstalled      = 1 << 30
	maxInstalledFiles = 50_000
	maxScript         = 1 << 20
	maxPath           = 400
)

// installer writes wheels as pip would lay them out. It runs nothing.
type installer struct {
	out   *tar.Writer
	files map[string]*[sha256.Size]byte // nil for a folder
	left  int64
}

// install writes the tree of a set whose wheels are installed: lib with the modules of
// all, bin with their programs, and data with what else they bring.
func (c *Cache) install(s Set, out *tar.Writer) error {
	i := &installer{out: out, files: map[string]*[sha256.Size]byte{}, left: maxInstalled}
	if err := i.folder(libDir); err != nil {
		return err
	}
	for _, w := range s.Wheels {
		data, err := c.Read(w)
		if err == nil {
			err = i.wheel(data)
		}
		if err != nil {
			return fmt.Errorf("unpacking %s: %w", w.File, err)
		}
	}
	return nil
}

// wheel writes the files of a wheel.
func (i *installer) wheel(data []byte) error {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return errors.New("it is no wheel")
	}
	files := slices.Clone(z.File)
	slices.SortFunc(files, func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range files {
		if err := i.file(f); err != nil {
			return err
		}
	}
	return nil
}

// file writes a file of a wheel.
func (i *installer) file(f *zip.File) error {
	name := strings.TrimSuffix(f.Name, "/")
	if !fs.ValidPath(name) || name == "." || len(name) > maxPath || strings.ContainsFunc(name, odd) || strings.HasPrefix(path.Base(name), ".wh.") {
		return fmt.Errorf("its file %s cannot be laid below a folder", redact.QuoteShort(f.Name, 80))
	}
	if f.Mode().IsDir() {
		return nil // which its files make
	}
	if !f.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", redact.QuoteShort(name, 80))
	}
	to, mode := place(name)
	if to == "" {
		return nil
	}
	if mode == 0 {
		mode = 0o644 | int64(f.Mode().Perm()&0o100) | int64(f.Mode().Perm()&0o100>>3) | int64(f.Mode().Perm()&0o100>>6)
	}
	if f.UncompressedSize64 > uint64(i.left) {
		return fmt.Errorf("all wheels together unpack to more than %d MiB", maxInstalled>>20)
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	size := int64(f.UncompressedSize64)
	if path.Dir(to) == binDir && size <= maxScript {
		script, err := io.ReadAll(io.LimitReader(in, maxScript+1))
		if err != nil {
			return err
		}
		script = runnable(script)
		return i.write(to, mode, int64(len(script)), bytes.NewReader(script))
	}
	if strings.HasSuffix(path.Dir(name), ".dist-info") && path.Base(name) == "entry_points.txt" && size <= maxScript {
		text, err := io.ReadAll(io.LimitReader(in, maxScript+1))
		if err != nil {
			return err
		}
		if err := i.programs(string(text)); err != nil {
			return err
		}
		return i.write(to, mode, size, bytes.NewReader(text))
	}
	return i.write(to, mode, size, in)
}

// odd characters are in no honest name.
func odd(r rune) bool { return r == '\\' || unicode.IsControl(r) || r == unicode.ReplacementChar }

// place is where a file of a wheel lies in the tree, "" if nowhere. A mode of 0 is the
// file's.
func place(name string) (to string, mode int64) {
	top, rest, _ := strings.Cut(name, "/")
	if !strings.HasSuffix(top, ".data") {
		return path.Join(libDir, name), 0
	}
	kind, rest, _ := strings.Cut(rest, "/")
	switch {
	case rest == "":
	case kind == "purelib", kind == "platlib":
		return path.Join(libDir, rest), 0
	case kind == "scripts" && !strings.Contains(rest, "/"):
		return path.Join(binDir, rest), 0o755
	case kind == "data":
		return path.Join(dataDir, rest), 0
	}
	return "", 0
}

// runnable is a program with the Python of the sandbox in the place of "python".
func runnable(script []byte) []byte {
	first, rest, _ := bytes.Cut(script, []byte("\n"))
	switch strings.TrimSpace(string(first)) {
	case "#!python", "#!pythonw":
		return append([]byte("#!/usr/bin/env python3\n"), rest...)
	}
	return script
}

var entryPoint = lazyregexp.New(`^([A-Za-z0-9_][A-Za-z0-9_.-]{0,99})\s*=\s*([A-Za-z_][\w.]*)\s*:\s*([A-Za-z_]\w*)((?:\.\w+)*)\s*(?:\[.*\])?$`)

// programs writes the programs that a wheel wants to have made.
func (i *installer) programs(text string) error {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
			continue
		}
		m := entryPoint.FindStringSubmatch(line)
		if section != "[console_scripts]" || m == nil {
			continue
		}
		script := fmt.Sprintf("#!/usr/bin/env python3\nimport sys\nfrom %s import %s\nsys.exit(%s%s())\n", m[2], m[3], m[3], m[4])
		if err := i.write(path.Join(binDir, m[1]), 0o755, int64(len(script)), strings.NewReader(script)); err != nil {
			return err
		}
	}
	return nil
}

// folder makes a folder and those above it.
func (i *installer) folder(dir string) error {
	if dir == "." {
		return nil
	}
	if is, there := i.files[dir]; there {
		if is != nil {
			return fmt.Errorf("%s is a file and a folder", redact.QuoteShort(dir, 80))
		}
		return nil
	}
	if err := i.folder(path.Dir(dir)); err != nil {
		return err
	}
	if err := i.room(); err != nil {
		return err
	}
	i.files[dir] = nil
	return i.out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: time.Unix(0, 0), Format: tar.FormatPAX})
}

// room reports that no more files are taken.
func (i *installer) room() error {
	if len(i.files) >= maxInstalledFiles {
		return fmt.Errorf("all wheels together have more than %d files and folders", maxInstalledFiles)
	}
	return nil
}

// write writes a file. Two wheels may have the same one.
func (i *installer) write(name string, mode, size int64, from io.Reader) error {
	if is, there := i.files[name]; there {
		sum := sha256.New()
		if _, err := io.Copy(sum, io.LimitReader(from, size)); err != nil {
			return err
		}
		if is == nil || [sha256.Size]byte(sum.Sum(nil)) != *is {
			return fmt.Errorf("%s is there already, with other content (two wheels that cannot be installed together)", redact.QuoteShort(name, 80))
		}
		return nil
	}
	if err := errors.Join(i.folder(path.Dir(name)), i.room()); err != nil {
		return err
	}
	i.left -= size
	if err := i.out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(i.out, sum), from, size); err != nil {
		return fmt.Errorf("%s is not as long as it says", redact.QuoteShort(name, 80))
	}
	content := [sha256.Size]byte(sum.Sum(nil))
	i.files[name] = &content
	if n, err := from.Read(make([]byte, 1)); n > 0 || err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s is longer than it says, or damaged", redact.QuoteShort(name, 80))
	}
	return nil
}
