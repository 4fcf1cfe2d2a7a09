package likeness

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"

	"securebench/internal/bounded"
)

// Visitor is shown what is in a layer of an image.
type Visitor struct {
	Enter func(h *tar.Header) // for each entry, before its content
	// Whole gets each file as it is, and Part each content in one that is an archive or
	// compressed; what follows in either is another content.
	Whole, Part io.Writer
	WholeEnd    func()
	PartEnd     func(member string)
	// Each is called as by [Walk].
	Each func(member string, content []byte, m Marks)
	Cut  func() // the file has more than is unpacked
}

// WalkTar shows a tar stream that is a layer of an image, file by file; each has the bounds
// of [Walk] for itself. A stream that is damaged is an error.
func WalkTar(ctx context.Context, r io.Reader, v Visitor) error {
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the layer is damaged: %w", err)
		}
		v.Enter(h)
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse {
			continue
		}
		content := io.TeeReader(bounded.Until(ctx, t), v.Whole)
		u := &unpacker{left: maxUnpacked, each: v.Each, visit: &v}
		u.content("", content, 0)
		if u.left <= 0 || u.members > maxMembers {
			v.Cut()
		}
		if _, err := io.Copy(io.Discard, content); err != nil { // what was not unpacked is searched as it is
			return fmt.Errorf("the layer is damaged: %w", err)
		}
		v.WholeEnd()
	}
}
