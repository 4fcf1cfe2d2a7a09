package main

// rows are the rows of the pack.
func rows() []row {
	return append(append(counts(), charts()...), append(texts(), places()...)...)
}

func counts() []row {
	return []row{
		ask("discs", "How many discs are in the picture?\n<image1>", "a number", 7, rule("number"),
			dots(blue, 14, [2]int{30, 30}, [2]int{90, 42}, [2]int{160, 28}, [2]int{210, 70}, [2]int{60, 110}, [2]int{130, 120}, [2]int{190, 140})),
		ask("squares", "How many squares are in <image1>? Count no other shape.", "a number", 4, rule("number"), all(squares([2]int{20, 20}, [2]int{100, 24}, [2]int{180, 100}, [2]int{40, 110}),
			dots(green, 18, [2]int{170, 40}, [2]int{120, 130}), func(c *canvas) { c.triangle(80, 70, 36, blue) })),
		ask("dice", "What is the sum of the pips?\n<image1>", "a number", 9, rule("number"), all(die(25, 50, 4), die(135, 50, 5))),
		ask("cells", "How many cells of the grid are dark?\n<image1>", "a number", 6, rule("number"),
			cells(6, 5, [2]int{0, 0}, [2]int{1, 3}, [2]int{2, 2}, [2]int{4, 1}, [2]int{5, 4}, [2]int{3, 0})),
		ask("crossings", "In how many points do the lines cross each other?\n<image1>", "a number", 3, rule("number"), func(c *canvas) {
			c.line(20, 30, 220, 60, black)
			c.line(40, 160, 120, 20, blue)
			c.line(110, 150, 200, 25, red)
			c.line(30, 110, 90, 130, green)
		}),
		ask("difference", "How many more discs are in <image1> than in <image2>?", "a number", 2, rule("number"),
			dots(green, 12, [2]int{40, 40}, [2]int{120, 60}, [2]int{190, 40}, [2]int{70, 130}, [2]int{180, 130}),
			dots(green, 12, [2]int{60, 60}, [2]int{150, 90}, [2]int{110, 150})),
	}
}

func charts() []row {
	names := []string{"NORTH", "EAST", "SOUTH", "WEST"}
	return []row{
		ask("highest", "What is the value of the highest bar of the chart?\n<image1>", "a number", 118, rule("relaxed"),
			bars(names, []int{62, 118, 90, 45}, []string{"62", "118", "90", "45"})),
		choose("tallest", "Which bar of the chart is the tallest?\n<image1>", "C", []string{"NORTH", "EAST", "SOUTH", "WEST"},
			bars(names, []int{70, 52, 112, 96}, nil)),
		ask("sum", "What is the sum of the values of the first and the last bar?\n<image1>", "a number", 125, rule("relaxed"),
			bars(names, []int{80, 33, 101, 45}, []string{"80", "33", "101", "45"})),
		ask("year", "In which year was the value the lowest?\n<image1>", "a year", 2021, rule("relaxed"),
			bars([]string{"2019", "2020", "2021", "2022"}, []int{84, 66, 31, 58}, []string{"84", "66", "31", "58"})),
		choose("order", "In which order do the bars of the chart grow?\n<image1>", "D",
			[]string{"EAST, NORTH, SOUTH, WEST", "NORTH, EAST, SOUTH, WEST", "SOUTH, NORTH, WEST, EAST", "WEST, SOUTH, EAST, NORTH"},
			bars(names, []int{110, 85, 52, 24}, nil)),
		ask("quarter", "Which part of the square is dark? Write it as a fraction.\n<image1>", "a fraction", "1/4", nil, func(c *canvas) {
			c.box(60, 30, 60, 60, grey)
			c.frame(60, 30, 121, 121, black)
			c.line(120, 30, 120, 150, black)
			c.line(60, 90, 180, 90, black)
		}),
	}
}

func texts() []row {
	people := []any{"BREEZE", "breeze", "breeze", "breeze", "breeze", "breeze", "breeze", "breezy", "drink", "bottle"}
	return []row{
		ask("street", "Which street is on the sign?\n<image1>", "the name as it is written", []string{"MAPLE STREET", "MAPLE STREET 12"}, rule("anls"), words(3, "MAPLE", "STREET", "12")),
		ask("total", "What is the total of the receipt?\n<image1>", "a number", "18.40", rule("number"),
			words(2, "BREAD   3.20", "CHEESE  9.70", "APPLES  5.50", "TOTAL  18.40")),
		ask("brand", "What is the brand of the bottle?\n<image1>", "", people, rule("vqa"), func(c *canvas) {
			c.box(105, 10, 30, 40, green)
			c.box(75, 50, 90, 122, green)
			c.box(75, 80, 90, 40, white)
			c.frame(75, 80, 90, 40, black)
			c.text(83, 93, 2, "BREEZE", black)
		}),
		ask("sender", "Who sent the letter?\n<image1>", "the name", "DORA LINDEN", rule("anls"), words(2, "TO: HUGO ABEL", "", "SEE YOU SOON", "", "DORA LINDEN")),
		choose("door", "Which number is on the door?\n<image1>", "A", []string{"47", "41", "74", "17"}, func(c *canvas) {
			c.box(80, 10, 80, 165, orange)
			c.box(98, 40, 44, 34, white)
			c.text(103, 46, 3, "47", black)
			c.disc(148, 100, 5, black)
		}),
		ask("plate", "Which letters are on the plate?\n<image1>", "the letters without spaces", "KWR", rule("text"), words(5, "", "KWR")),
	}
}

func places() []row {
	return []row{
		choose("clock", "Which time does the clock show?\n<image1>", "B", []string{"3:00", "9:00", "12:45", "6:15"}, clock(9, 0)),
		ask("half", "Which time does the clock show?\n<image1>", "hours and minutes, such as 7:15", "4:30", rule("text"), clock(4, 30)),
		choose("largest", "Which colour has the largest disc?\n<image1>", "D", []string{"blue", "green", "yellow", "red"},
			all(dots(blue, 20, [2]int{50, 50}), dots(green, 26, [2]int{180, 50}), dots(yellow, 16, [2]int{50, 140}), dots(red, 38, [2]int{160, 130}))),
		ask("colours", "Which colours do the discs have? List all of them.\n<image1>", "a list", []string{"red", "blue", "green"}, rule("set"),
			all(dots(red, 24, [2]int{50, 60}), dots(blue, 24, [2]int{120, 120}), dots(green, 24, [2]int{190, 60}))),
		choose("more", "Which picture has more discs, <image1> or <image2>?", "A", []string{"the first", "the second", "both have as many"},
			dots(black, 10, [2]int{30, 30}, [2]int{80, 60}, [2]int{140, 40}, [2]int{200, 80}, [2]int{60, 130}, [2]int{160, 140}),
			dots(black, 10, [2]int{40, 40}, [2]int{110, 70}, [2]int{190, 60}, [2]int{130, 140})),
		choose("arrow", "Where does the arrow point?\n<image1>", "C", []string{"up", "down", "left", "right"}, func(c *canvas) {
			c.box(70, 82, 130, 16, red)
			for j := range 31 {
				c.box(40+j, 90-j, 1, 2*j+1, red)
			}
		}),
	}
}
