package bench

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
)

// chart is a picture of horizontal bars.
type chart struct {
	Title string
	Unit  string
	Note  string // the machine
	Log   bool   // the axis is logarithmic
	Bars  []bar
}

// bar is one bar. Bars with the same label are together.
type bar struct {
	Label  string
	Series string
	Value  float64
	High   float64 // the end of the whisker; 0 is none
}

// Sizes in pixels.
const (
	chartWidth = 760
	left       = 220 // of the bars
	right      = 120 // for the numbers
	top        = 76
	barHeight  = 16
	groupGap   = 10
	bottom     = 46
)

// drawn is a bar with its place.
type drawn struct {
	bar
	Y, Width, Whisker, Text, Middle int
	Colour                          string
	First                           bool // of its label
}

type picture struct {
	chart
	Left, Width, Height, Axis int
	Bars                      []drawn
	Legend                    []drawn
}

// picture lays a chart out.
func (c chart) picture() picture {
	p := picture{chart: c, Left: left, Width: chartWidth}
	var names []string
	largest, smallest := 0.0, math.Inf(1)
	for _, b := range c.Bars {
		if !slices.Contains(names, b.Series) {
			names = append(names, b.Series)
		}
		largest = max(largest, b.Value, b.High)
		if b.Value > 0 {
			smallest = min(smallest, b.Value)
		}
	}
	scale := func(x float64) int { return int((chartWidth - left - right) * share(x, smallest, largest, c.Log)) }
	colours := []string{"#2a6f97", "#e07a3f", "#7fb3d5", "#f2c9a8", "#6a994e", "#a7a7a7"}
	y := top
	for i, b := range c.Bars {
		first := i == 0 || c.Bars[i-1].Label != b.Label
		if first && i > 0 {
			y += groupGap
		}
		d := drawn{bar: b, Y: y, Width: scale(b.Value), Colour: colours[slices.Index(names, b.Series)%len(colours)], First: first, Middle: y + barHeight/2}
		if b.High > 0 {
			d.Whisker = scale(b.High)
		}
		d.Text = left + max(d.Width, d.Whisker) + 6
		p.Bars = append(p.Bars, d)
		y += barHeight + 2
	}
	for i, name := range names {
		p.Legend = append(p.Legend, drawn{bar: bar{Label: name}, Text: left + i*(chartWidth-left)/max(len(names), 1), Colour: colours[i%len(colours)]})
	}
	p.Axis, p.Height = y+4, y+bottom
	return p
}

// share is where a value lies on the axis, from 0 to 1.
func share(x, smallest, largest float64, logarithmic bool) float64 {
	switch {
	case x <= 0 || largest <= 0:
		return 0
	case !logarithmic:
		return x / largest
	}
	from := math.Log10(smallest / 2)
	return (math.Log10(x) - from) / (math.Log10(largest) - from)
}

// number formats the value of a bar, with its whisker.
func (b bar) Number() string {
	if b.High > 0 {
		return short(b.Value) + " … " + short(b.High)
	}
	return short(b.Value)
}

// short formats a number with about three digits.
func short(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="{{.Width}}" height="{{.Height}}" viewBox="0 0 {{.Width}} {{.Height}}" font-family="sans-serif" font-size="12" role="img">
<title>{{.Title}}</title>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="16" y="24" font-size="16" fill="#222222">{{.Title}}</text>
<text x="16" y="42" fill="#666666">{{.Unit}}{{if .Log}}, logarithmic{{end}}</text>
{{- range .Legend}}
<rect x="{{.Text}}" y="52" width="10" height="10" fill="{{.Colour}}"/>
<text x="{{.Text}}" dx="14" y="61" fill="#222222">{{.Label}}</text>
{{- end}}
{{- $left := .Left}}
{{- range .Bars}}
{{- if .First}}
<text x="{{$left}}" dx="-8" y="{{.Middle}}" dy="4" text-anchor="end" fill="#222222">{{.Label}}</text>
{{- end}}
<rect x="{{$left}}" y="{{.Y}}" width="{{.Width}}" height="16" fill="{{.Colour}}"/>
{{- if .Whisker}}
<path transform="translate({{$left}},0)" d="M{{.Width}},{{.Middle}}H{{.Whisker}}m0,-4v8" stroke="#444444" fill="none"/>
{{- end}}
<text x="{{.Text}}" y="{{.Middle}}" dy="4" fill="#222222">{{.Number}}</text>
{{- end}}
<path d="M{{$left}},70V{{.Axis}}" stroke="#444444"/>
<text x="16" y="{{.Axis}}" dy="26" fill="#666666">{{.Note}}</text>
</svg>
`

// draw writes a chart as SVG.
func (c chart) draw(w io.Writer) error {
	t, err := template.New("chart").Parse(svg)
	if err == nil {
		err = t.Execute(w, c.picture())
	}
	if err != nil {
		return fmt.Errorf("drawing %q: %w", c.Title, err)
	}
	return nil
}

// byLabel puts bars with the same label together, in the order in which labels
// appear.
func byLabel(bars []bar) []bar {
	place := map[string]int{}
	for _, b := range bars {
		if _, ok := place[b.Label]; !ok {
			place[b.Label] = len(place)
		}
	}
	slices.SortStableFunc(bars, func(a, b bar) int { return cmp.Compare(place[a.Label], place[b.Label]) })
	return bars
}
