package main

import (
	"fmt"
	"image/color"
)

func rows() []row {
	return append(append(append(csvRows(), textRows()...), workbookRows()...), otherRows()...)
}

func public(files ...string) map[string][]byte {
	out := map[string][]byte{}
	for i := 0; i < len(files); i += 2 {
		out[files[i]] = []byte(files[i+1])
	}
	return out
}

const sales = `date,shop,product,units,price
2026-03-02,North,Lamp,4,19.5
2026-03-02,South,Chair,1,89.0
2026-03-03,North,Chair,2,89.0
2026-03-03,East,Desk,1,240.0
2026-03-04,South,Lamp,6,19.5
2026-03-04,East,Lamp,3,18.0
2026-03-05,North,Desk,1,235.0
2026-03-05,South,Desk,2,240.0
2026-03-06,East,Chair,5,85.5
2026-03-06,North,Lamp,2,19.5
`

func csvRows() []row {
	named := func(columns object) object { return object{"type": "table", "columns": columns} }
	with := func(r object, key string, value any) object { r[key] = value; return r }
	return []row{
		{"totals", "sales.csv lists what three shops sold. Write totals.csv with the columns product, units and revenue: one row for each product, with the units sold and the revenue (units times price) over all shops. The order of the rows does not matter.",
			"csv", "totals.csv", public("sales.csv", sales), []byte("product,units,revenue\nLamp,15,288\nChair,8,694.5\nDesk,4,955\n"),
			with(named(object{"revenue": object{"tolerance": 0.005}}), "key", []string{"product"})},
		{"joined", "Write joined.csv with the columns order, customer, city and amount: each order of orders.csv with the name and the city of its customer from customers.csv, in the order of orders.csv. Leave customer and city empty where the customer is not known.",
			"csv", "joined.csv", public("orders.csv", "order,customer_id,amount\n501,7,12.40\n502,3,99.95\n503,9,5.00\n504,7,31.10\n505,4,64.00\n",
				"customers.csv", "id,name,city\n3,Okafor,Lagos\n4,Lindqvist,Malmö\n7,Ferreira,Porto\n"),
			[]byte("order,customer,city,amount\n501,Ferreira,Porto,12.4\n502,Okafor,Lagos,99.95\n503,,,5\n504,Ferreira,Porto,31.1\n505,Lindqvist,Malmö,64\n"), object{"type": "table"}},
		{"members", "members.csv was typed by hand. Write clean.csv with the columns name, email and joined: names without blanks at their ends, e-mail addresses in lower case, days as YYYY-MM-DD, and each address once, with the earliest day. The order of the rows does not matter.",
			"csv", "clean.csv", public("members.csv", "name,email,joined\n Ada Byron,ADA@example.org,3.2.2024\nLin Wei ,lin@example.org,2024-05-11\nAda Byron,ada@example.org,2023-12-30\nJonas Berg,Jonas@Example.org,11.5.2024\nlin wei,LIN@example.org,1.6.2024\nMaya Rao,maya@example.org,2022-08-01\n"),
			[]byte("name,email,joined\nAda Byron,ada@example.org,2023-12-30\nLin Wei,lin@example.org,2024-05-11\nJonas Berg,jonas@example.org,2024-05-11\nMaya Rao,maya@example.org,2022-08-01\n"),
			object{"type": "table", "order": "any", "columns": object{"name": object{"ignore_case": true}}}},
		{"wide", "readings.csv has a reading a line. Write wide.csv with the column day and a column for each sensor (a, b, c), one row for each day in order; a reading that is missing is an empty field.",
			"csv", "wide.csv", public("readings.csv", "day,sensor,value\n1,a,20.5\n1,b,19.75\n1,c,22\n2,a,21\n2,c,21.5\n3,b,18.25\n3,c,20\n4,a,19\n4,b,18.5\n4,c,19.25\n"),
			[]byte("day,a,b,c\n1,20.5,19.75,22\n2,21,,21.5\n3,,18.25,20\n4,19,18.5,19.25\n"), object{"type": "table"}},
		{"balance", "Write balance.csv with the columns date, amount and balance: the bookings of bookings.csv by date, and for each the balance of the account after it. The account begins with 250.00.",
			"csv", "balance.csv", public("bookings.csv", "date,amount\n2026-01-09,-40.50\n2026-01-03,120\n2026-01-17,-199.99\n2026-01-12,15.25\n2026-01-30,-60\n2026-01-21,310.4\n"),
			[]byte("date,amount,balance\n2026-01-03,120,370\n2026-01-09,-40.5,329.5\n2026-01-12,15.25,344.75\n2026-01-17,-199.99,144.76\n2026-01-21,310.4,455.16\n2026-01-30,-60,395.16\n"),
			named(object{"balance": object{"tolerance": 0.005}})},
		{"ranking", "Write ranking.csv with the columns rank, runner and mean: the three runners of laps.csv with the shortest mean time, the fastest first. Means are in seconds, with two digits after the point.",
			"csv", "ranking.csv", public("laps.csv", "runner,seconds\nAmara,71.2\nBo,69.8\nCleo,70.4\nAmara,70.1\nBo,72.6\nCleo,69.9\nDov,74.0\nDov,73.1\nAmara,69.5\nBo,70.7\nCleo,71.0\nEda,70.6\n"),
			[]byte("rank,runner,mean\n1,Amara,70.27\n2,Cleo,70.43\n3,Eda,70.6\n"), named(object{"mean": object{"tolerance": 0.006}})},
	}
}

func textRows() []row {
	return []row{
		{"summary", "Write summary.json with the keys count, mean, median, longest and shortest about the column minutes of calls.csv: numbers, with means to two digits after the point; longest and shortest are the names of the callers.",
			"json", "summary.json", public("calls.csv", "caller,minutes\nIda,4.5\nPaul,12\nRosa,3.25\nTom,7\nUma,31.5\nVera,6\nWill,0.75\n"),
			[]byte(`{"count": 7, "mean": 9.29, "median": 6, "longest": "Uma", "shortest": "Will"}` + "\n"), object{"type": "json", "tolerance": 0.006}},
		{"outline", "outline.txt is indented by two blanks for each level. Write outline.json: a list of objects, each with title and children, which is such a list again, empty where there are none.",
			"json", "outline.json", public("outline.txt", "Garden\n  Beds\n    Beans\n    Kale\n  Shed\nHouse\n  Roof\n"),
			[]byte(`[{"title": "Garden", "children": [{"title": "Beds", "children": [{"title": "Beans", "children": []}, {"title": "Kale", "children": []}]}, {"title": "Shed", "children": []}]}, {"title": "House", "children": [{"title": "Roof", "children": []}]}]` + "\n"),
			object{"type": "json"}},
		{"settings", "Turn settings.ini into settings.json: an object with an object for each section. Whole numbers become numbers, yes and no become true and false, values with commas become lists of texts, everything else stays a text. The order in a list does not matter.",
			"json", "settings.json", public("settings.ini", "[server]\nport = 8080\nname = east-2\nsecure = yes\n\n[limits]\nhosts = alpha, beta,gamma\nidle = 90\n; retries = 4\nverbose = no\n"),
			[]byte(`{"server": {"port": 8080, "name": "east-2", "secure": true}, "limits": {"hosts": ["alpha", "beta", "gamma"], "idle": 90, "verbose": false}}` + "\n"),
			object{"type": "json", "order": object{"/limits/hosts": "any"}}},
		{"overdue", "tasks.csv lists tasks. Write overdue.txt: the titles of the tasks that are not done and were due before 2026-06-01, one a line, the longest overdue first.",
			"text", "overdue.txt", public("tasks.csv", "title,due,done\nRepair the gate,2026-05-20,no\nOrder seeds,2026-03-01,yes\nCall the plumber,2026-04-11,no\nPaint the fence,2026-06-01,no\nSharpen tools,2026-02-14,no\nClean the gutters,2026-05-31,yes\n"),
			[]byte("Sharpen tools\nCall the plumber\nRepair the gate\n"), object{"type": "text", "compare": "lines"}},
		{"changes", "old.csv and new.csv list the prices of a shop. Write changes.json: an object with the lists added, removed (names of articles) and changed (objects with name, from and to). The order in the lists does not matter.",
			"json", "changes.json", public("old.csv", "name,price\nTea,3.2\nCocoa,4.1\nSugar,1.15\nRice,2.4\n", "new.csv", "name,price\nTea,3.2\nSugar,1.25\nRice,2.39\nBeans,1.9\nOats,0.99\n"),
			[]byte(`{"added": ["Beans", "Oats"], "removed": ["Cocoa"], "changed": [{"name": "Sugar", "from": 1.15, "to": 1.25}, {"name": "Rice", "from": 2.4, "to": 2.39}]}` + "\n"),
			object{"type": "json", "order": "any"}},
		{"reminder", "Write reminder.txt, a short letter to the customer of invoice.json: it names the customer, the invoice's number, the sum of its items in euros with two digits after the point, as in EUR 12.30, and the day on which it was due, as in the file.",
			"text", "reminder.txt", public("invoice.json", `{"number": "R-2043", "customer": "Marta Nowak", "due": "2026-04-30", "items": [{"what": "Bicycle tyres", "price": 48.5, "count": 2}, {"what": "Fitting", "price": 20.9, "count": 1}]}`+"\n"),
			[]byte("Dear Marta Nowak,\n\ninvoice R-2043 over EUR 117.90 was due on 2026-04-30. Please pay it soon.\n"),
			object{"type": "text", "contains": []string{"Marta Nowak", "R-2043", "EUR 117.90", "2026-04-30"}}},
	}
}

func workbookRows() []row {
	budget := func(last []any, totals ...any) sheet {
		s := sheet{"Budget", [][]any{{"Item", "Planned", "Spent", "Left"}, {"Rent", 1200, 1200}, {"Food", 450, 512.3}, {"Trips", 300, 86.75}, {"Books", 60, 74.2}, last}}
		for i, t := range totals {
			s.rows[i+1] = append(s.rows[i+1], t)
		}
		return s
	}
	hours := sheet{"Hours", [][]any{{"Name", "Day", "Hours"}, {"Ana", day(46020), 7.5}, {"Ben", day(46020), 8}, {"Ana", day(46021), 6}, {"Cem", day(46021), 4.25}, {"Ben", day(46022), 7}, {"Ana", day(46022), 8.5}}}
	stock := [][]any{{"Part", "Count", "Minimum"}, {"Bolt", 140, 200}, {"Nut", 620, 300}, {"Washer", 75, 150}, {"Spring", 30, 30}, {"Hinge", 12, 40}}
	loans := func(more bool) sheet {
		s := sheet{"Loans", [][]any{{"Book", "Lent", "Due"}, {"Atlas", day(46054), nil}, {"Novel", day(46060), nil}, {"Poems", day(46081), nil}}}
		for i := 1; more && i < len(s.rows); i++ {
			s.rows[i][2] = day(int(s.rows[i][1].(day)) + 28)
		}
		return s
	}
	inPlace := " Save the result as "
	return []row{
		{"budget", "In budget.xlsx, fill column D of the sheet Budget with what is left of each item (planned minus spent), and row 6 with the label Total and the sums of the columns B, C and D." + inPlace + "budget.xlsx, in its place.",
			"xlsx", "budget.xlsx", map[string][]byte{"budget.xlsx": workbook(budget(nil))},
			workbook(budget([]any{"Total", formula{"SUM(B2:B5)", 2010}, formula{"SUM(C2:C5)", 1873.25}, formula{"SUM(D2:D5)", 136.75}},
				formula{"B2-C2", 0}, formula{"B3-C3", -62.3}, formula{"B4-C4", 213.25}, formula{"B5-C5", -14.2})),
			object{"type": "cells", "sheet": "Budget", "range": "A1:D6"}},
		{"hours", "hours.xlsx has the hours that people worked. Add a sheet Sum with the header Name, Hours in row 1 and below it each person with the sum of their hours, by name." + inPlace + "hours.xlsx, in its place, with the sheet Hours as it is.",
			"xlsx", "hours.xlsx", map[string][]byte{"hours.xlsx": workbook(hours)},
			workbook(hours, sheet{"Sum", [][]any{{"Name", "Hours"}, {"Ana", 22}, {"Ben", 15}, {"Cem", 4.25}}}),
			object{"all": []object{{"type": "cells", "sheet": "Sum", "range": "A1:B4"}, {"type": "cells", "sheet": "Hours", "range": "A1:C7"}}}},
		{"reorder", "Write reorder.xlsx: a workbook with one sheet whose first row is Part, Missing, with a row for each part of stock.xlsx of which there are fewer than the minimum, and how many are missing. The order of the rows does not matter.",
			"xlsx", "reorder.xlsx", map[string][]byte{"stock.xlsx": workbook(sheet{"Stock", stock})},
			workbook(sheet{"Reorder", [][]any{{"Part", "Missing"}, {"Bolt", 60}, {"Washer", 75}, {"Hinge", 28}}}), object{"type": "table", "key": []string{"Part"}}},
		{"loans", "In loans.xlsx, fill column C of the sheet Loans: a book is due 28 days after the day on which it was lent, as a date." + inPlace + "loans.xlsx, in its place.",
			"xlsx", "loans.xlsx", map[string][]byte{"loans.xlsx": workbook(loans(false))}, workbook(loans(true)), object{"type": "cells", "sheet": "Loans", "range": "A1:C4"}},
	}
}

// species are the flowers of a made-up meadow: an id, two measures, and what they are.
func species(from, to int) (train, test, answer string) {
	train, test, answer = "id,petal,stem,species\n", "id,petal,stem\n", "id,species\n"
	for i := from; i < to; i++ {
		petal, stem, kind := 1+float64(i*37%50)/10, 10+float64(i*53%300)/10, "star"
		if petal > 3.4 {
			kind = "bell"
		}
		train += fmt.Sprintf("%d,%.1f,%.1f,%s\n", i, petal, stem, kind)
		test += fmt.Sprintf("%d,%.1f,%.1f\n", i, petal, stem)
		answer += fmt.Sprintf("%d,%s\n", i, kind)
	}
	return train, test, answer
}

// trips are taxi rides whose price depends on their length and their minutes.
func trips(from, to int) (train, test, answer string) {
	train, test, answer = "id,km,minutes,price\n", "id,km,minutes\n", "id,price\n"
	for i := from; i < to; i++ {
		km, minutes := 1+float64(i*29%170)/10, 4+i*17%40
		price := 3.5 + 1.9*km + 0.4*float64(minutes) + float64(i*13%7-3)/10
		train += fmt.Sprintf("%d,%.1f,%d,%.2f\n", i, km, minutes, price)
		test += fmt.Sprintf("%d,%.1f,%d\n", i, km, minutes)
		answer += fmt.Sprintf("%d,%.2f\n", i, price)
	}
	return train, test, answer
}

func otherRows() []row {
	flowers, _, _ := species(1, 61)
	_, meadow, kinds := species(61, 101)
	rides, _, _ := trips(1, 81)
	_, more, prices := trips(81, 121)
	return []row{
		{"species", "train.csv has flowers with their species. Write species.csv with the columns id and species for each flower of test.csv. At least 95 of 100 must be right.",
			"csv", "species.csv", public("train.csv", flowers, "test.csv", meadow), []byte(kinds),
			object{"type": "metric", "metric": "accuracy", "id": "id", "target": "species", "at_least": 0.95}},
		{"fares", "train.csv has rides with their prices. Write fares.csv with the columns id and price for each ride of test.csv. The root mean squared error must be at most 0.5.",
			"csv", "fares.csv", public("train.csv", rides, "test.csv", more), []byte(prices),
			object{"type": "metric", "metric": "rmse", "id": "id", "target": "price", "at_most": 0.5}},
		{"minutes", "Make minutes.docx of minutes.txt: its first line is a heading (style Heading 1), each other line up to the blank one a paragraph, and the lines after that, with fields between bars, are the rows of one table at the end.",
			"docx", "minutes.docx", public("minutes.txt", "Meeting of the garden club\nPresent were Ida, Tom and Uma.\nThe pump will be repaired in May.\n\nWho|What\nTom|calls the plumber\nUma|buys seeds\n"),
			letter([]string{"# Meeting of the garden club", "Present were Ida, Tom and Uma.", "The pump will be repaired in May."}, [][]string{{"Who", "What"}, {"Tom", "calls the plumber"}, {"Uma", "buys seeds"}}),
			object{"type": "document", "styles": []string{"heading 1"}}},
		{"flag", "Draw flag.png by flag.txt.", "png", "flag.png",
			public("flag.txt", "90 pixels wide and 60 high; three vertical stripes of the same width, from the left: #1b7f3a, #ffffff, #c8102e. Nothing else, and no transparency.\n"),
			stripes(90, 60, color.NRGBA{0x1b, 0x7f, 0x3a, 255}, color.NRGBA{255, 255, 255, 255}, color.NRGBA{0xc8, 0x10, 0x2e, 255}), object{"type": "image", "compare": "pixels"}},
	}
}
