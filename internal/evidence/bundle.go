package evidence

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"securebench/internal/pipeline/record"
	"securebench/internal/source"
)

// bundleFolder is the one folder of a bundle.
const bundleFolder = "securebench-run"

// WriteBundle writes an archive of what may be published of the run in fsys.
// The same run gives the same bytes: names are sorted, times fixed, and
// nothing is compressed, since compressors change between releases.
func WriteBundle(w io.Writer, fsys fs.FS) error {
	names, err := published(fsys)
	if err != nil {
		return err
	}
	z := zip.NewWriter(w)
	for _, name := range names {
		if err := addFile(z, fsys, name); err != nil {
			return fmt.Errorf("bundling %s: %w", name, err)
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("ending the bundle: %w", err)
	}
	return nil
}

// published lists the files of a run that may be published, sorted.
func published(fsys fs.FS) ([]string, error) {
	var names []string
	for _, name := range []string{record.LinesName, record.ManifestName, record.StatementName, record.TraceName} {
		if _, err := fs.Stat(fsys, name); err == nil {
			names = append(names, name)
		}
	}
	stored, err := fs.ReadDir(fsys, record.CandidatesName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the candidate store: %w", err)
	}
	for _, e := range stored {
		names = append(names, path.Join(record.CandidatesName, e.Name()))
	}
	slices.Sort(names)
	return names, nil
}

func addFile(z *zip.Writer, fsys fs.FS, name string) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := z.CreateHeader(&zip.FileHeader{Name: path.Join(bundleFolder, name), Method: zip.Store,
		Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// Run is a run's directory or bundle that was opened for reading.
type Run struct {
	fs.FS
	bundle  *os.File // nil for a directory
	archive []*zip.File
	close   func() error
}

// errBroken is returned by [OpenRun] for a file that is not an intact bundle.
var errBroken = errors.New("it is damaged, or not a bundle")

// Bundle reports whether the run is a bundle.
func (r *Run) Bundle() bool { return r.bundle != nil }

// OpenRun opens the directory of a run, or a bundle of one.
func OpenRun(name string) (*Run, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		root, err := os.OpenRoot(name)
		if err != nil {
			return nil, err
		}
		return &Run{FS: source.FS(root), close: root.Close}, nil
	}
	f, err := source.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	z, err := zip.NewReader(f, info.Size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s is neither the directory of a run nor an intact bundle: %w", name, errBroken), f.Close())
	}
	sub, err := fs.Sub(z, bundleFolder)
	if err == nil {
		err = plainArchive(z, info.Size())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s is not a bundle: %w: %w", name, errBroken, err), f.Close())
	}
	return &Run{FS: sub, bundle: f, archive: z.File, close: f.Close}, nil
}

// plainArchive refuses compressed archives and overlapping files, which could
// expand to far more than their size.
func plainArchive(z *zip.Reader, size int64) error {
	var sum uint64
	for _, f := range z.File {
		sum += f.UncompressedSize64
		if f.Method != zip.Store || f.UncompressedSize64 > uint64(size) || sum > uint64(size) {
			return errors.New("it is compressed, or its files overlap")
		}
	}
	return nil
}

// Records opens the records of the run, whose places a check gave.
func (r *Run) Records() (io.ReadSeekCloser, error) {
	f, err := r.Open(record.LinesName)
	if err != nil {
		return nil, err
	}
	if s, ok := f.(io.ReadSeekCloser); ok {
		return s, nil
	}
	for _, e := range r.archive {
		if e.Name != path.Join(bundleFolder, record.LinesName) {
			continue
		}
		at, err := e.DataOffset()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return inArchive{io.NewSectionReader(r.bundle, at, int64(min(e.UncompressedSize64, 1<<62))), f}, nil //nolint:gosec // bounded
	}
	return nil, errors.Join(fs.ErrNotExist, f.Close())
}

// inArchive is a file that is stored as it is in an archive.
type inArchive struct {
	*io.SectionReader
	io.Closer
}

// Close releases what was opened.
func (r *Run) Close() error { return r.close() }

// Verify checks the run as [Verify] does. A bundle must besides be, byte for
// byte, the one that its run gives: nothing can be hidden in the archive.
func (r *Run) Verify(ctx context.Context, opts Options) (*Result, error) {
	res, err := Verify(ctx, r.FS, opts)
	if err != nil || r.bundle == nil {
		return res, err
	}
	if _, err := r.bundle.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the bundle again: %w", err)
	}
	same := &comparer{r: r.bundle}
	err = WriteBundle(same, r.FS)
	if err == nil {
		err = same.end()
	}
	if err != nil {
		res.problem(filepath.Base(r.bundle.Name()), 0, "the archive differs from the bundle of its run")
	}
	return res, nil
}

var errDiffers = errors.New("the bytes differ")

// comparer is a writer that wants the bytes that r holds.
type comparer struct{ r io.Reader }

func (c *comparer) Write(p []byte) (int, error) {
	got := make([]byte, len(p))
	if _, err := io.ReadFull(c.r, got); err != nil || !bytes.Equal(got, p) {
		return 0, errDiffers
	}
	return len(p), nil
}

// end wants that r has no more.
func (c *comparer) end() error {
	if n, err := io.ReadFull(c.r, make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return errDiffers
	}
	return nil
}
