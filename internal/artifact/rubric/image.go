package rubric

import (
	"errors"
	"fmt"
	"math"

	"securebench/internal/artifact"
	"securebench/internal/source"
	"securebench/internal/verdict"
)

// imageRule compares pictures by all their pixels, or by how alike they look.
type imageRule struct {
	compareBy string // pixels or ssim
	size      string // same or any
	atLeast   *float64
}

func readImage(n *source.Node) (rule, source.Problems) {
	r := &imageRule{compareBy: "pixels", size: "same"}
	var ps source.Problems
	ps.Closed(n, "a rubric of type image", "type", "compare", "size", "at_least")
	source.Optional(&ps, n, "compare", &r.compareBy, one("pixels", "ssim"))
	source.Optional(&ps, n, "size", &r.size, one("same", "any"))
	source.Optional(&ps, n, "at_least", &r.atLeast, share)
	alike := r.compareBy == "ssim"
	switch {
	case len(ps) > 0:
	case alike != (r.atLeast != nil):
		ps.Add(n.Pos, "", "a rubric of type image needs at_least for ssim and for no other")
	case alike && (*r.atLeast <= 0 || *r.atLeast > 1):
		ps.Add(n.Pos, "", "at_least must be above 0 and at most 1")
	case !alike && r.size == "any":
		ps.Add(n.Pos, "add compare: ssim", "pictures of any size have not the same pixels")
	}
	return r, ps
}

func (r *imageRule) official() string { return "" }

func (r *imageRule) compare(got, want *artifact.File) (Result, error) {
	w, g := want.Image, got.Image
	if w == nil || len(w.Small) != artifact.SmallSide*artifact.SmallSide {
		return Result{}, errors.New("the reference is no picture to compare with")
	}
	if g == nil || len(g.Small) != artifact.SmallSide*artifact.SmallSide {
		return fail("the file is no picture"), nil
	}
	if r.size == "same" && (g.Width != w.Width || g.Height != w.Height) {
		return fail("it is %d x %d pixels, not %d x %d", g.Width, g.Height, w.Width, w.Height), nil
	}
	if r.compareBy == "pixels" {
		if g.Pixels != w.Pixels {
			return fail("some pixels differ"), nil
		}
		return Result{Pass: true}, nil
	}
	value := ssim(g.Small, w.Small, artifact.SmallSide)
	res := Result{Pass: true}
	if !(value >= *r.atLeast-nearZero) {
		res = fail("the mean SSIM is %.4f", value)
	}
	res.Measure = &verdict.Measure{Name: "ssim", Value: min(max(value, 0), 1)}
	return res, nil
}

func (r *imageRule) check(want *artifact.File) []string {
	if _, err := r.compare(want, want); err != nil {
		return []string{err.Error()}
	}
	if r.atLeast == nil {
		return nil
	}
	grey := make([]byte, len(want.Image.Small))
	sum := 0
	for _, v := range want.Image.Small {
		sum += int(v)
	}
	for i := range grey {
		grey[i] = byte(sum / len(grey))
	}
	if v := ssim(grey, want.Image.Small, artifact.SmallSide); v >= *r.atLeast {
		return []string{fmt.Sprintf("a picture of one grey would pass: its mean SSIM is %.4f", v)}
	}
	return nil
}

// The constants of the mean SSIM, as Wang, Bovik, Sheikh and Simoncelli give them ("Image
// quality assessment: from error visibility to structural similarity", 2004).
const (
	ssimRadius = 5   // of the window, of 11 x 11 pixels
	ssimSigma  = 1.5 // of its weights
	ssimC1     = (0.01 * 255) * (0.01 * 255)
	ssimC2     = (0.03 * 255) * (0.03 * 255)
)

// ssim is the mean structural similarity of two grey pictures with a side.
func ssim(a, b []byte, side int) float64 {
	weights := gaussian()
	x, y := make([]float64, len(a)), make([]float64, len(a))
	xx, yy, xy := make([]float64, len(a)), make([]float64, len(a)), make([]float64, len(a))
	for i := range a {
		x[i], y[i] = float64(a[i]), float64(b[i])
		xx[i], yy[i], xy[i] = x[i]*x[i], y[i]*y[i], x[i]*y[i]
	}
	for _, plane := range [][]float64{x, y, xx, yy, xy} {
		blur(plane, side, weights)
	}
	sum, n := 0.0, 0
	for row := ssimRadius; row < side-ssimRadius; row++ {
		for column := ssimRadius; column < side-ssimRadius; column++ {
			i := row*side + column
			mx, my := x[i], y[i]
			sum += (2*mx*my + ssimC1) * (2*(xy[i]-mx*my) + ssimC2) /
				((mx*mx + my*my + ssimC1) * (xx[i] - mx*mx + yy[i] - my*my + ssimC2))
			n++
		}
	}
	return sum / float64(n)
}

// gaussian are the weights of the window in one direction.
func gaussian() []float64 {
	out := make([]float64, 2*ssimRadius+1)
	sum := 0.0
	for i := range out {
		d := float64(i - ssimRadius)
		out[i] = math.Exp(-d * d / (2 * ssimSigma * ssimSigma))
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// blur weighs each place with its neighbours, in rows and then in columns. The edges, where
// the window does not fit, are of no use.
func blur(plane []float64, side int, weights []float64) {
	line, out := make([]float64, side), make([]float64, side)
	weigh := func() {
		for i := ssimRadius; i < side-ssimRadius; i++ {
			sum := 0.0
			for k, w := range weights {
				sum += w * line[i+k-ssimRadius]
			}
			out[i] = sum
		}
	}
	for row := range side {
		copy(line, plane[row*side:])
		weigh()
		copy(plane[row*side:(row+1)*side], out)
	}
	for column := range side {
		for i := range side {
			line[i] = plane[i*side+column]
		}
		weigh()
		for i := range side {
			plane[i*side+column] = out[i]
		}
	}
}
