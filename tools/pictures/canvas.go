package main

import (
	"image"
	"image/color"
	"math"
)

// The colours, by their place in the palette.
const (
	white = iota
	black
	red
	blue
	green
	yellow
	grey
	orange
)

// A canvas is a picture that is drawn.
type canvas struct{ img *image.Paletted }

const width, height = 240, 180

func newCanvas() *canvas {
	return &canvas{image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{
		color.RGBA{255, 255, 255, 255}, color.RGBA{20, 20, 20, 255}, color.RGBA{210, 40, 40, 255}, color.RGBA{40, 80, 200, 255},
		color.RGBA{40, 150, 70, 255}, color.RGBA{240, 200, 40, 255}, color.RGBA{150, 150, 150, 255}, color.RGBA{240, 130, 30, 255},
	})}
}

func (c *canvas) box(x, y, w, h int, ink uint8) {
	for j := y; j < y+h; j++ {
		for i := x; i < x+w; i++ {
			if image.Pt(i, j).In(c.img.Rect) {
				c.img.SetColorIndex(i, j, ink)
			}
		}
	}
}

// frame draws the outline of a box.
func (c *canvas) frame(x, y, w, h int, ink uint8) {
	c.box(x, y, w, 2, ink)
	c.box(x, y+h-2, w, 2, ink)
	c.box(x, y, 2, h, ink)
	c.box(x+w-2, y, 2, h, ink)
}

func (c *canvas) disc(x, y, r int, ink uint8) {
	for j := -r; j <= r; j++ {
		for i := -r; i <= r; i++ {
			if i*i+j*j <= r*r {
				c.box(x+i, y+j, 1, 1, ink)
			}
		}
	}
}

// ring draws a circle.
func (c *canvas) ring(x, y, r int, ink uint8) {
	for j := -r; j <= r; j++ {
		for i := -r; i <= r; i++ {
			if d := i*i + j*j; d <= r*r && d > (r-2)*(r-2) {
				c.box(x+i, y+j, 1, 1, ink)
			}
		}
	}
}

// line draws a line of two pixels.
func (c *canvas) line(x0, y0, x1, y1 int, ink uint8) {
	n := max(abs(x1-x0), abs(y1-y0), 1)
	for k := 0; k <= n; k++ {
		c.box(x0+(x1-x0)*k/n, y0+(y1-y0)*k/n, 2, 2, ink)
	}
}

// triangle draws a filled triangle with a flat side below.
func (c *canvas) triangle(x, y, size int, ink uint8) {
	for j := range size {
		c.box(x-j/2, y+j, j+1, 1, ink)
	}
}

// hand draws a hand of a clock.
func (c *canvas) hand(x, y, length int, turn float64, ink uint8) {
	c.line(x, y, x+int(math.Round(float64(length)*math.Sin(turn*2*math.Pi))), y-int(math.Round(float64(length)*math.Cos(turn*2*math.Pi))), ink)
}

func abs(n int) int { return max(n, -n) }

// text writes capitals, digits and a few signs, each of 5 by 7 dots.
func (c *canvas) text(x, y, size int, s string, ink uint8) {
	for _, r := range s {
		for j, row := range glyphs[r] {
			for i := range 5 {
				if row>>(4-i)&1 == 1 {
					c.box(x+i*size, y+j*size, size, size, ink)
				}
			}
		}
		x += 6 * size
	}
}

// glyphs are the characters, a row of five dots each.
var glyphs = map[rune][7]uint8{
	'A': {14, 17, 17, 31, 17, 17, 17}, 'B': {30, 17, 17, 30, 17, 17, 30}, 'C': {14, 17, 16, 16, 16, 17, 14}, 'D': {30, 17, 17, 17, 17, 17, 30},
	'E': {31, 16, 16, 30, 16, 16, 31}, 'F': {31, 16, 16, 30, 16, 16, 16}, 'G': {14, 17, 16, 23, 17, 17, 14}, 'H': {17, 17, 17, 31, 17, 17, 17},
	'I': {14, 4, 4, 4, 4, 4, 14}, 'J': {7, 2, 2, 2, 2, 18, 12}, 'K': {17, 18, 20, 24, 20, 18, 17}, 'L': {16, 16, 16, 16, 16, 16, 31},
	'M': {17, 27, 21, 21, 17, 17, 17}, 'N': {17, 25, 21, 19, 17, 17, 17}, 'O': {14, 17, 17, 17, 17, 17, 14}, 'P': {30, 17, 17, 30, 16, 16, 16},
	'Q': {14, 17, 17, 17, 21, 18, 13}, 'R': {30, 17, 17, 30, 20, 18, 17}, 'S': {15, 16, 16, 14, 1, 1, 30}, 'T': {31, 4, 4, 4, 4, 4, 4},
	'U': {17, 17, 17, 17, 17, 17, 14}, 'V': {17, 17, 17, 17, 17, 10, 4}, 'W': {17, 17, 17, 21, 21, 27, 17}, 'X': {17, 17, 10, 4, 10, 17, 17},
	'Y': {17, 17, 10, 4, 4, 4, 4}, 'Z': {31, 1, 2, 4, 8, 16, 31},
	'0': {14, 17, 19, 21, 25, 17, 14}, '1': {4, 12, 4, 4, 4, 4, 14}, '2': {14, 17, 1, 6, 8, 16, 31}, '3': {31, 2, 4, 6, 1, 17, 14},
	'4': {2, 6, 10, 18, 31, 2, 2}, '5': {31, 16, 30, 1, 1, 17, 14}, '6': {6, 8, 16, 30, 17, 17, 14}, '7': {31, 1, 2, 4, 8, 8, 8},
	'8': {14, 17, 17, 14, 17, 17, 14}, '9': {14, 17, 17, 15, 1, 2, 12},
	'.': {0, 0, 0, 0, 0, 12, 12}, ':': {0, 12, 12, 0, 12, 12, 0}, '-': {0, 0, 0, 14, 0, 0, 0}, '?': {14, 17, 1, 2, 4, 0, 4}, '%': {25, 25, 2, 4, 8, 19, 19},
}
