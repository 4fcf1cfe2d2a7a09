package main

// A row is a question about pictures that are drawn.
type row struct {
	id       string
	pictures []func(*canvas)
	input    map[string]any
	eval     map[string]any
}

// ask makes a row without choices; match may be empty.
func ask(id, question, format string, answer any, match map[string]any, pictures ...func(*canvas)) row {
	r := row{id, pictures, map[string]any{"question": question}, map[string]any{"answer": answer}}
	if format != "" {
		r.input["answer_format"] = format
	}
	if match != nil {
		r.eval["match"] = match
	}
	return r
}

// choose makes a row with choices.
func choose(id, question, label string, choices []string, pictures ...func(*canvas)) row {
	return row{id, pictures, map[string]any{"question": question, "choices": choices}, map[string]any{"answer": label}}
}

// rule is a match of a type.
func rule(name string) map[string]any { return map[string]any{"type": name} }

// dots draws discs at places.
func dots(ink uint8, r int, at ...[2]int) func(*canvas) {
	return func(c *canvas) {
		for _, p := range at {
			c.disc(p[0], p[1], r, ink)
		}
	}
}

// squares draws squares at places.
func squares(at ...[2]int) func(*canvas) {
	return func(c *canvas) {
		for _, p := range at {
			c.box(p[0], p[1], 34, 34, red)
		}
	}
}

// all draws several things.
func all(draw ...func(*canvas)) func(*canvas) {
	return func(c *canvas) {
		for _, d := range draw {
			d(c)
		}
	}
}

// bars draws a chart with a name below each bar and its value above it.
func bars(names []string, values []int, labels []string) func(*canvas) {
	return func(c *canvas) {
		c.line(20, 150, 225, 150, black)
		step := 200 / len(values)
		for i, v := range values {
			x := 30 + i*step
			c.box(x, 150-v, step-16, v, blue)
			c.text(x-2, 156, 1, names[i], black)
			if labels != nil {
				c.text(x, 150-v-10, 1, labels[i], black)
			}
		}
	}
}

// clock draws the face of a clock at a time.
func clock(hour, minute int) func(*canvas) {
	return func(c *canvas) {
		c.ring(120, 90, 78, black)
		for h := range 12 {
			c.hand(120, 90, 74, float64(h)/12, grey)
		}
		c.disc(120, 90, 66, white)
		c.hand(120, 90, 38, (float64(hour)+float64(minute)/60)/12, black)
		c.hand(120, 90, 62, float64(minute)/60, red)
		c.disc(120, 90, 4, black)
	}
}

// die draws a die with up to six pips.
func die(x, y, pips int) func(*canvas) {
	return func(c *canvas) {
		c.frame(x, y, 80, 80, black)
		spots := [][][2]int{{}, {{1, 1}}, {{0, 0}, {2, 2}}, {{0, 0}, {1, 1}, {2, 2}}, {{0, 0}, {0, 2}, {2, 0}, {2, 2}},
			{{0, 0}, {0, 2}, {1, 1}, {2, 0}, {2, 2}}, {{0, 0}, {0, 1}, {0, 2}, {2, 0}, {2, 1}, {2, 2}}}
		for _, p := range spots[pips] {
			c.disc(x+18+22*p[0], y+18+22*p[1], 7, black)
		}
	}
}

// cells draws a grid of which some cells are dark.
func cells(columns, rows int, dark ...[2]int) func(*canvas) {
	return func(c *canvas) {
		const side = 28
		for _, d := range dark {
			c.box(30+d[0]*side, 12+d[1]*side, side, side, grey)
		}
		for i := range columns {
			for j := range rows {
				c.frame(30+i*side, 12+j*side, side+2, side+2, black)
			}
		}
	}
}

// words writes lines of text.
func words(size int, lines ...string) func(*canvas) {
	return func(c *canvas) {
		c.frame(8, 8, 224, 164, grey)
		for i, l := range lines {
			c.text(20, 24+i*(9*size+6), size, l, black)
		}
	}
}
