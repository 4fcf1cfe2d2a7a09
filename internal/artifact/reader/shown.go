package reader

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"

	"securebench/internal/artifact"
)

// shown is a picture for people that is being made, on white: of one that is too large,
// each pixel is the mean of those that fall into it.
type shown struct {
	width, height int // of the picture
	to            *image.RGBA
	sums          []uint32 // red, green and blue of the row that is being made, by pixel
	counts        []uint32
	row           int // which that is
}

func newShown(width, height int) *shown {
	w, h := width, height
	if side := max(w, h); side > artifact.ShownSide {
		w, h = max(1, w*artifact.ShownSide/side), max(1, h*artifact.ShownSide/side)
	}
	return &shown{width: width, height: height, to: image.NewRGBA(image.Rect(0, 0, w, h)), sums: make([]uint32, 3*w), counts: make([]uint32, w)}
}

// add adds a row of pixels that are not premultiplied. Rows come in order.
func (s *shown) add(y int, row []byte) {
	if at := y * s.to.Rect.Dy() / s.height; at != s.row {
		s.settle()
		s.row = at
	}
	w := s.to.Rect.Dx()
	for x := range s.width {
		p, at := row[4*x:4*x+4], x*w/s.width
		alpha := uint32(p[3])
		for i := range 3 {
			s.sums[3*at+i] += (uint32(p[i])*alpha + 255*(255-alpha)) / 255
		}
		s.counts[at]++
	}
}

// settle writes the row that is complete.
func (s *shown) settle() {
	out := s.to.Pix[s.row*s.to.Stride:]
	for x, n := range s.counts {
		for i := range 3 {
			out[4*x+i] = byte((s.sums[3*x+i] + n/2) / n)
		}
		out[4*x+3] = 0xff
	}
	clear(s.sums)
	clear(s.counts)
}

// jpeg returns the picture. Noise takes the most bytes, and loses the most of them by a
// lower quality.
func (s *shown) jpeg() ([]byte, error) {
	s.settle()
	var b bytes.Buffer
	for _, quality := range []int{85, 50} {
		b.Reset()
		if err := jpeg.Encode(&b, s.to, &jpeg.Options{Quality: quality}); err != nil {
			return nil, fmt.Errorf("writing a picture for people: %w", err)
		}
		if b.Len() <= artifact.MaxShown {
			break
		}
	}
	return b.Bytes(), nil
}
