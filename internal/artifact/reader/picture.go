package reader

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"image"
	"image/draw"
	"image/jpeg"
	"image/png"

	"securebench/internal/artifact"
	"securebench/internal/picture"
)

// strip is the number of rows that are converted at once, so that no second picture is
// kept.
const strip = 64

// maxWidePixels is the number of pixels of a picture whose decoder needs more memory.
const maxWidePixels = 16_000_000

func readPNG(data []byte, f *artifact.File) error {
	return readImage(data, f, picture.PNG, "a PNG", func() (image.Image, error) { return png.Decode(bytes.NewReader(data)) })
}

func readJPEG(data []byte, f *artifact.File) error {
	return readImage(data, f, picture.JPEG, "a JPEG", func() (image.Image, error) { return jpeg.Decode(bytes.NewReader(data)) })
}

// readImage decodes a picture whose declared size is in bounds.
func readImage(data []byte, f *artifact.File, kind, called string, decode func() (image.Image, error)) error {
	info, err := picture.Size(bytes.NewReader(data))
	switch {
	case errors.Is(err, picture.ErrType):
		return refuse("is not %s", called)
	case err != nil:
		return refuse("%s", err)
	case info.Type != kind:
		return refuse("is not %s", called)
	case kind == picture.PNG && !pngEnds(data):
		return refuse("goes on after the end of its picture")
	case info.Width*info.Height > maxWidePixels && wide(data, kind):
		return refuse("declares more than %d megapixels of 16 bits, in four colours or in several passes", maxWidePixels/1_000_000)
	}
	m, err := decode()
	if err != nil {
		return refuse("is broken: its pixels cannot be read")
	}
	b := m.Bounds()
	if b.Dx() != info.Width || b.Dy() != info.Height {
		return refuse("%s", picture.ErrSizes)
	}
	f.Image, err = pixels(m)
	return err
}

// wide says whether the decoder needs more than four bytes for a pixel: a PNG of 16 bits, or
// a JPEG in four colours or several passes.
func wide(data []byte, kind string) bool {
	if kind == picture.PNG {
		return data[24] > 8
	}
	for at := 2; at+4 <= len(data) && data[at] == 0xff; {
		marker := data[at+1]
		switch {
		case marker == 0xff:
			at++
			continue
		case marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc:
			return marker != 0xc0 && marker != 0xc1 || at+9 >= len(data) || data[at+9] > 3
		case marker == 0xda:
			return true
		}
		at += 2 + int(binary.BigEndian.Uint16(data[at+2:]))
	}
	return true
}

// pngEnds says whether the last chunk of a PNG is also the end of the file.
func pngEnds(data []byte) bool {
	return bytes.HasSuffix(data, []byte("\x00\x00\x00\x00IEND\xae\x42\x60\x82"))
}

// pixels takes the digest of a picture and its other forms in one pass over its rows. A
// pixel of the small form is the mean of those that fall into it, or the nearest one where
// the picture is smaller.
func pixels(m image.Image) (*artifact.Image, error) {
	b := m.Bounds()
	width, height := b.Dx(), b.Dy()
	sum := sha256.New()
	var size [8]byte
	binary.BigEndian.PutUint32(size[:4], uint32(width))
	binary.BigEndian.PutUint32(size[4:], uint32(height))
	sum.Write(size[:])
	s, people := newSmall(width, height), newShown(width, height)
	rows := image.NewNRGBA(image.Rect(0, 0, width, min(strip, height)))
	for y := 0; y < height; y += strip {
		n := min(strip, height-y)
		toNRGBA(rows, m, b.Min.X, b.Min.Y+y, n)
		sum.Write(rows.Pix[:n*rows.Stride])
		for i := range n {
			row := rows.Pix[i*rows.Stride : (i+1)*rows.Stride]
			s.add(y+i, row)
			people.add(y+i, row)
		}
	}
	out, err := people.jpeg()
	if err != nil {
		return nil, err
	}
	return &artifact.Image{Width: width, Height: height, Pixels: hex.EncodeToString(sum.Sum(nil)), Small: s.luma(), Shown: out}, nil
}

// toNRGBA converts rows of a picture. The colours of pixels that are not premultiplied are
// kept as they are; draw would premultiply them and lose some.
func toNRGBA(to *image.NRGBA, m image.Image, x0, y0, rows int) {
	width := to.Rect.Dx()
	switch from := m.(type) {
	case *image.NRGBA:
		for y := range rows {
			at := from.PixOffset(x0, y0+y)
			copy(to.Pix[y*to.Stride:(y+1)*to.Stride], from.Pix[at:at+4*width])
		}
	case *image.NRGBA64, *image.Paletted:
		for y := range rows {
			for x := range width {
				to.Set(x, y, m.At(x0+x, y0+y))
			}
		}
	default: // without transparency, where RGBA is the same; to that, draw is fast
		draw.Draw(&image.RGBA{Pix: to.Pix, Stride: to.Stride, Rect: to.Rect}, image.Rect(0, 0, width, rows), m, image.Pt(x0, y0), draw.Src)
	}
}

// A small is the small form of a picture that is being made.
type small struct {
	width, height int
	sums          []uint64
	counts        []uint32
}

func newSmall(width, height int) *small {
	n := artifact.SmallSide * artifact.SmallSide
	return &small{width, height, make([]uint64, n), make([]uint32, n)}
}

// share returns the pixels of the small form that a pixel of the picture falls into.
func share(at, of int) (first, last int) {
	if of >= artifact.SmallSide {
		first = at * artifact.SmallSide / of
		return first, first
	}
	return (at*artifact.SmallSide + of - 1) / of, ((at+1)*artifact.SmallSide+of-1)/of - 1
}

// add adds a row of pixels, shown on white.
func (s *small) add(y int, row []byte) {
	top, bottom := share(y, s.height)
	for x := range s.width {
		p := row[4*x : 4*x+4]
		luma := 299*uint64(p[0]) + 587*uint64(p[1]) + 114*uint64(p[2])
		luma = (luma*uint64(p[3]) + 255_000*(255-uint64(p[3]))) / 255
		left, right := share(x, s.width)
		for i := top; i <= bottom; i++ {
			for j := left; j <= right; j++ {
				s.sums[i*artifact.SmallSide+j] += luma
				s.counts[i*artifact.SmallSide+j]++
			}
		}
	}
}

func (s *small) luma() []byte {
	out := make([]byte, len(s.sums))
	for i, n := range s.counts {
		if n > 0 {
			out[i] = byte((s.sums[i]/uint64(n) + 500) / 1000)
		}
	}
	return out
}
