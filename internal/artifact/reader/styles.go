package reader

import (
	"strconv"
	"strings"
	"sync"

	"github.com/xuri/excelize/v2"

	"securebench/internal/artifact"
)

// styles are the formats that cells refer to by their numbers.
type styles struct {
	formats []artifact.Format // of cells
	dates   []bool
	differ  []artifact.Format // of conditions
	theme   []string          // colours
	codes   map[int]string
}

// builtIn are the number formats that files have no code for.
var builtIn = sync.OnceValue(func() map[int]string { //nolint:gochecknoglobals // made once
	return map[int]string{
		0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??",
		14: "mm-dd-yy", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss",
		22: "m/d/yy h:mm", 37: "#,##0 ;(#,##0)", 38: "#,##0 ;[Red](#,##0)", 39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;[Red](#,##0.00)",
		41: `_(* #,##0_);_(* \(#,##0\);_(* "-"_);_(@_)`, 42: `_("$"* #,##0_);_("$"* \(#,##0\);_("$"* "-"_);_(@_)`,
		43: `_(* #,##0.00_);_(* \(#,##0.00\);_(* "-"??_);_(@_)`, 44: `_("$"* #,##0.00_);_("$"* \(#,##0.00\);_("$"* "-"??_);_(@_)`,
		45: "mm:ss", 46: "[h]:mm:ss", 47: "mmss.0", 48: "##0.0E+0", 49: "@",
	}
})

func (b *book) readStyles(relations map[string]relation) error {
	b.styles.codes = map[int]string{}
	theme, err := b.tree(related(relations, "theme"))
	if err != nil {
		return err
	}
	b.styles.readTheme(theme)
	root, err := b.tree(related(relations, "styles"))
	if err != nil {
		return err
	}
	return b.styles.read(root)
}

// readTheme reads the colours of a theme, in the order in which files number them.
func (s *styles) readTheme(root *node) {
	scheme := root.child("themeElements", "clrScheme")
	for _, name := range strings.Fields("lt1 dk1 lt2 dk2 accent1 accent2 accent3 accent4 accent5 accent6 hlink folHlink") {
		color := ""
		if c := scheme.child(name); c != nil && len(c.nodes) > 0 {
			if color = c.nodes[0].attr("val"); c.nodes[0].name == "sysClr" {
				color = c.nodes[0].attr("lastClr")
			}
		}
		s.theme = append(s.theme, hex6(color))
	}
}

func (s *styles) read(root *node) error {
	for _, n := range root.child("numFmts").all("numFmt") {
		id, err := strconv.Atoi(n.attr("numFmtId"))
		if code := n.attr("formatCode"); err != nil || len(code) > 1024 {
			return refuse("has a number format that is not valid")
		}
		s.codes[id] = n.attr("formatCode")
	}
	var fonts, fills []artifact.Format
	for _, n := range root.child("fonts").all("font") {
		var f artifact.Format
		if err := s.font(&f, n); err != nil {
			return err
		}
		fonts = append(fonts, f)
	}
	for _, n := range root.child("fills").all("fill") {
		fills = append(fills, artifact.Format{Fill: s.fill(n, false)})
	}
	for _, n := range root.child("cellXfs").all("xf") {
		f := at(fonts, n.attr("fontId"))
		f.Fill = at(fills, n.attr("fillId")).Fill
		id, err := strconv.Atoi(n.attr("numFmtId"))
		if err != nil {
			id = 0
		}
		code, own := s.codes[id]
		if !own {
			code = builtIn()[id]
		}
		f.Number = code
		s.formats = append(s.formats, f)
		s.dates = append(s.dates, dateCode(code) || !own && (id >= 27 && id <= 36 || id >= 50 && id <= 58))
	}
	if len(s.formats) == 0 {
		s.formats, s.dates = []artifact.Format{{Number: builtIn()[0]}}, []bool{false}
	}
	for _, n := range root.child("dxfs").all("dxf") {
		var f artifact.Format
		if err := s.font(&f, n.child("font")); err != nil {
			return err
		}
		f.Fill, f.Number = s.fill(n.child("fill"), true), n.child("numFmt").attr("formatCode")
		s.differ = append(s.differ, f)
	}
	return nil
}

func at(formats []artifact.Format, index string) artifact.Format {
	if i, err := strconv.Atoi(index); err == nil && i >= 0 && i < len(formats) {
		return formats[i]
	}
	return artifact.Format{}
}

// of returns the format of a number, and whether it shows numbers as dates.
func (s *styles) of(style int) (artifact.Format, bool, error) {
	if style >= len(s.formats) {
		return artifact.Format{}, false, refuse("has a cell whose format is not there")
	}
	return s.formats[style], s.dates[style], nil
}

// plain says whether a style is that of a cell that nobody formatted.
func (s *styles) plain(style int) bool { return s.formats[style] == s.formats[0] }

// differential returns the format of a condition.
func (s *styles) differential(id string) artifact.Format { return at(s.differ, id) }

func (s *styles) font(f *artifact.Format, n *node) error {
	f.Bold, f.Italic, f.Underline = n.child("b").on(), n.child("i").on(), n.child("u").on()
	f.Font = n.child("name").attr("val")
	if len(f.Font) > 255 {
		return refuse("has a font whose name is too long")
	}
	if size, err := strconv.ParseFloat(n.child("sz").attr("val"), 64); err == nil && size > 0 && size < 1000 {
		f.Size = size
	}
	f.Color = s.color(n.child("color"))
	return nil
}

// fill returns the colour of a fill. Those of conditions have it as their background.
func (s *styles) fill(n *node, condition bool) string {
	p := n.child("patternFill")
	switch kind := p.attr("patternType"); {
	case condition && (kind == "" || kind == "solid"):
		if color := s.color(p.child("bgColor")); color != "" {
			return color
		}
		return s.color(p.child("fgColor"))
	case kind == "" || kind == "none":
		return ""
	}
	return s.color(p.child("fgColor"))
}

func (s *styles) color(n *node) string {
	base := ""
	if i, err := strconv.Atoi(n.attr("theme")); err == nil {
		if i >= 0 && i < len(s.theme) {
			base = s.theme[i]
		}
	} else if i, err := strconv.Atoi(n.attr("indexed")); err == nil {
		if i >= 0 && i < len(excelize.IndexedColorMapping) {
			base = excelize.IndexedColorMapping[i]
		}
	} else {
		base = hex6(n.attr("rgb"))
	}
	tint, err := strconv.ParseFloat(n.attr("tint"), 64)
	if base == "" || err != nil || tint < -1 || tint > 1 {
		return base
	}
	return hex6(excelize.ThemeColor(base, tint))
}

// hex6 returns a colour as RRGGBB, without its opacity, "" if it is none.
func hex6(color string) string {
	if len(color) == 8 {
		color = color[2:]
	}
	if _, err := strconv.ParseUint(color, 16, 32); err != nil || len(color) != 6 {
		return ""
	}
	return strings.ToUpper(color)
}

// dateCode says whether a number format shows a date or a time: whether a letter of one
// stands outside of quotes and of brackets, but for those of elapsed time.
func dateCode(code string) bool {
	code, _, _ = strings.Cut(code, ";")
	for i := 0; i < len(code); i++ {
		switch c := code[i]; c {
		case '"':
			n := strings.IndexByte(code[i+1:], '"')
			if n < 0 {
				return false
			}
			i += n + 1
		case '\\', '_', '*':
			i++
		case '[':
			n := strings.IndexByte(code[i:], ']')
			if n < 0 {
				return false
			}
			if inside := strings.ToLower(code[i+1 : i+n]); inside != "" && strings.Trim(inside, "hms") == "" {
				return true
			}
			i += n
		case 'd', 'm', 'y', 'h', 's', 'D', 'M', 'Y', 'H', 'S':
			return true
		case 'G', 'g': // General
			if len(code) >= i+7 && strings.EqualFold(code[i:i+7], "general") {
				i += 6
			}
		}
	}
	return false
}
