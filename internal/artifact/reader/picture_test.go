package reader

import (
	"image"
	"image/color"
	"math/rand/v2"
	"testing"
)

// TestToNRGBA: of each type that the decoders yield, the rows are the pixels as the
// picture gives them one by one.
func TestToNRGBA(t *testing.T) {
	const width, height, skipped = 19, 11, 3
	r := image.Rect(0, 0, width, height)
	random := rand.New(rand.NewPCG(1, 2))
	fill := func(parts ...[]byte) {
		for _, part := range parts {
			for i := range part {
				part[i] = byte(random.Uint32())
			}
		}
	}
	gray, gray16, cmyk, rgba, rgba64 := image.NewGray(r), image.NewGray16(r), image.NewCMYK(r), image.NewRGBA(r), image.NewRGBA64(r)
	fill(gray.Pix, gray16.Pix, cmyk.Pix, rgba.Pix, rgba64.Pix)
	for y := range height {
		for x := range width { // these types are for pictures without transparency
			rgba.Pix[rgba.PixOffset(x, y)+3] = 0xff
			at := rgba64.PixOffset(x, y)
			rgba64.Pix[at+6], rgba64.Pix[at+7] = 0xff, 0xff
		}
	}
	nrgba, nrgba64 := image.NewNRGBA(r), image.NewNRGBA64(r)
	fill(nrgba.Pix, nrgba64.Pix)
	pictures := []image.Image{gray, gray16, cmyk, rgba, rgba64, nrgba, nrgba64}
	for _, ratio := range []image.YCbCrSubsampleRatio{image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420, image.YCbCrSubsampleRatio440, image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410} {
		m := image.NewYCbCr(r, ratio)
		fill(m.Y, m.Cb, m.Cr)
		pictures = append(pictures, m)
	}
	for _, m := range pictures {
		rows := image.NewNRGBA(image.Rect(0, 0, width, strip))
		toNRGBA(rows, m, 0, skipped, height-skipped)
		for y := range height - skipped {
			for x := range width {
				if got, want := rows.NRGBAAt(x, y), color.NRGBAModel.Convert(m.At(x, y+skipped)); got != want {
					t.Fatalf("%T, pixel %d of row %d: %v, want %v", m, x, y+skipped, got, want)
				}
			}
		}
	}
}

func BenchmarkToNRGBA(b *testing.B) {
	m := image.NewYCbCr(image.Rect(0, 0, 4000, strip), image.YCbCrSubsampleRatio420)
	rows := image.NewNRGBA(m.Rect)
	for b.Loop() {
		toNRGBA(rows, m, 0, 0, strip)
	}
}
