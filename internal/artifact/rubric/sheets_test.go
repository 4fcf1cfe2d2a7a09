package rubric_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/artifact"
	"securebench/internal/artifact/rubric"
	"securebench/internal/datatest"
	"securebench/internal/verdict"
)

// sheet makes a sheet of rows of values: nil, a number, a text, a truth, or a cell.
func sheet(name string, rows ...[]any) artifact.Sheet {
	s := artifact.Sheet{Name: name}
	for i, row := range rows {
		for k, v := range row {
			c, ok := v.(artifact.Cell)
			if !ok {
				if v == nil {
					continue
				}
				c.Value = value(v)
			}
			c.Row, c.Column = i+1, k+1
			s.Cells = append(s.Cells, c)
		}
	}
	return s
}

func value(v any) artifact.Value {
	switch v := v.(type) {
	case string:
		return artifact.Value{Kind: artifact.String, Text: v}
	case int:
		return artifact.Value{Kind: artifact.Number, Number: float64(v)}
	case float64:
		return artifact.Value{Kind: artifact.Number, Number: v}
	case bool:
		out := artifact.Value{Kind: artifact.Bool}
		if v {
			out.Number = 1
		}
		return out
	}
	return v.(artifact.Value)
}

func day(n float64) artifact.Value { return artifact.Value{Kind: artifact.Date, Number: n} }

func formula(f string, yields, stores any) artifact.Cell {
	c := artifact.Cell{Formula: f, Value: value(yields)}
	if stores != nil {
		s := value(stores)
		c.Stored = &s
	}
	return c
}

func book(sheets ...artifact.Sheet) *artifact.File {
	return &artifact.File{Type: artifact.XLSX, Workbook: &artifact.Workbook{Sheets: sheets}}
}

func TestTableOfSheet(t *testing.T) {
	r := parse(t, `{"type":"table"}`)
	want := book(sheet("Sales", []any{"name", "sum", "day"}, []any{"Bread", 3, day(45000)}, []any{"Milk", 0.3, day(45001)}))
	uncomputed := formula("WEBSERVICE(A1)", 3, nil)
	uncomputed.Uncomputed = true
	hidden := sheet("Sales", []any{"name", "sum", "day"}, []any{"Bread", 3, day(45000)}, []any{"Milk", 0.3, day(45001)})
	hidden.Hidden = true
	for name, tt := range map[string]struct {
		got    *artifact.File
		reason verdict.Reason
	}{
		"the same":                       {want, ""},
		"another name, other columns":    {book(sheet("Sheet1", []any{"day", "name", "sum"}, []any{day(45000), "Bread", 3}, []any{day(45001), "Milk", 0.1 + 0.2})), ""},
		"further down and right":         {book(sheet("S", nil, []any{nil, "name", "sum", "day"}, []any{nil, "Bread", 3, day(45000)}, []any{nil, "Milk", 0.3, day(45001)})), ""},
		"an empty sheet beside":          {book(sheet("Other"), want.Workbook.Sheets[0]), ""},
		"a formula":                      {book(sheet("S", []any{"name", "sum", "day"}, []any{"Bread", formula("1+2", 3, nil), day(45000)}, []any{"Milk", formula("0.1+0.2", 0.1+0.2, 0.3), day(45001)})), ""},
		"a stored value":                 {book(sheet("S", []any{"name", "sum", "day"}, []any{"Bread", formula("1", 1, 3), day(45000)}, []any{"Milk", 0.3, day(45001)})), verdict.StoredValueDiffers},
		"a stored value for a right one": {book(sheet("S", []any{"name", "sum", "day"}, []any{"Bread", formula("3", 3, 1), day(45000)}, []any{"Milk", 0.3, day(45001)})), verdict.StoredValueDiffers},
		"a formula that only stores":     {book(sheet("S", []any{"name", "sum", "day"}, []any{"Bread", uncomputed, day(45000)}, []any{"Milk", 0.3, day(45001)})), verdict.StoredValueDiffers},
		"numbers as texts":               {book(sheet("S", []any{"name", "sum", "day"}, []any{"Bread", "3", day(45000)}, []any{"Milk", "0.3", day(45001)})), verdict.WrongAnswer},
		"days as texts":                  {book(sheet("S", []any{"name", "sum", "day"}, []any{"Bread", 3, "2023-03-15"}, []any{"Milk", 0.3, "2023-03-16"})), verdict.WrongAnswer},
		"days as numbers":                {book(sheet("S", []any{"name", "sum", "day"}, []any{"Bread", 3, 45000}, []any{"Milk", 0.3, 45001})), verdict.WrongAnswer},
		"hidden":                         {book(hidden), verdict.WrongAnswer},
		"hidden beside a wrong one":      {book(sheet("S", []any{"name", "sum", "day"}, []any{"Bread", 3, day(1)}), hidden), verdict.WrongAnswer},
		"two sheets":                     {book(want.Workbook.Sheets[0], sheet("Guess", []any{"name", "sum", "day"}, []any{"x", 3, day(1)})), verdict.WrongAnswer},
		"something beside the table":     {book(sheet("S", []any{"name", "sum", "day"}, []any{"Bread", 3, day(45000), 4}, []any{"Milk", 0.3, day(45001)})), verdict.WrongAnswer},
		"nothing":                        {book(), verdict.WrongAnswer},
		"a CSV file":                     {csvFile(t, "name,sum\n"), verdict.WrongAnswer},
	} {
		res, err := r.Compare(tt.got, want)
		if err != nil || res.Reason != tt.reason {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
		holds(t, res)
	}
	if faults := r.Check(book(sheet("A", []any{"x"}), sheet("B", []any{"x"}))); len(faults) != 1 {
		t.Errorf("two sheets have %q", faults)
	}
	named := parse(t, `{"type":"table","sheet":"sales"}`)
	if !passes(t, named, book(sheet("A", []any{"x"}), want.Workbook.Sheets[0]), want) {
		t.Error("a sheet by its name does not pass beside another")
	}
	if passes(t, named, book(hidden), want) {
		t.Error("a hidden sheet passes")
	}
	if faults := parse(t, `{"type":"table","sheet":"Seals"}`).Check(want); !slices.Equal(faults, []string{`the reference is no table to compare with: it has no sheet "Seals"`}) {
		t.Errorf("a sheet that is not there: %q", faults)
	}
}

func TestCells(t *testing.T) {
	bold := artifact.Cell{Value: value("x"), Format: artifact.Format{Bold: true, Number: "0.00", Color: "ff0000"}}
	plain := artifact.Cell{Value: value("x"), Format: artifact.Format{Color: "000000"}}
	unknown := artifact.Cell{Formula: "WEBSERVICE(A1)", Uncomputed: true}
	claimed := formula("WEBSERVICE(A1)", 42, 42)
	claimed.Uncomputed = true
	for name, tt := range map[string]struct {
		rubric    string
		got, want []any
		reason    verdict.Reason
	}{
		"within 0.005":                     {`{}`, []any{1.004}, []any{1}, ""},
		"beyond it":                        {`{}`, []any{1.006}, []any{1}, verdict.WrongAnswer},
		"within a tolerance":               {`{"tolerance":0.1}`, []any{1.1}, []any{1}, ""},
		"no tolerance":                     {`{"tolerance":0}`, []any{0.1 + 0.2}, []any{0.3}, ""},
		"no tolerance, another":            {`{"tolerance":0}`, []any{0.3001}, []any{0.3}, verdict.WrongAnswer},
		"a number as a text (A15)":         {`{}`, []any{"1"}, []any{1}, verdict.WrongAnswer},
		"a text as a number":               {`{}`, []any{1}, []any{"1"}, verdict.WrongAnswer},
		"a truth as a number":              {`{}`, []any{1}, []any{true}, verdict.WrongAnswer},
		"the same day":                     {`{}`, []any{day(45000.25)}, []any{day(45000)}, ""},
		"another day":                      {`{}`, []any{day(45001)}, []any{day(45000)}, verdict.WrongAnswer},
		"a day as a number":                {`{}`, []any{45000}, []any{day(45000)}, verdict.WrongAnswer},
		"the same time":                    {`{}`, []any{day(0.5)}, []any{day(0.500001)}, ""},
		"another time":                     {`{}`, []any{day(0.75)}, []any{day(0.5)}, verdict.WrongAnswer},
		"texts":                            {`{}`, []any{"Rome"}, []any{"rome"}, verdict.WrongAnswer},
		"texts, case aside":                {`{"ignore_case":true}`, []any{"Rome"}, []any{"rome"}, ""},
		"empty and nothing":                {`{}`, []any{"", 1}, []any{nil, 1}, ""},
		"a cell more":                      {`{}`, []any{1, 2}, []any{1}, verdict.WrongAnswer},
		"a cell more, out of the range":    {`{"range":"A1:A9"}`, []any{1, 2}, []any{1}, ""},
		"a cell less":                      {`{}`, []any{1}, []any{1, 2}, verdict.WrongAnswer},
		"a cell less in a column":          {`{"range":"$B:$B"}`, []any{1}, []any{3, 2}, verdict.WrongAnswer},
		"only a column":                    {`{"range":"B:B"}`, []any{1, 2}, []any{3, 2}, ""},
		"only rows":                        {`{"range":"1:2"}`, []any{1, 2}, []any{1, 2}, ""},
		"two ranges":                       {`{"range":"A1, C1"}`, []any{1, 9, 3}, []any{1, 2, 3}, ""},
		"two ranges, one wrong":            {`{"range":"A1, C1"}`, []any{1, 2, 9}, []any{1, 2, 3}, verdict.WrongAnswer},
		"a formula that yields it":         {`{}`, []any{formula("20+22", 42, 42)}, []any{42}, ""},
		"a formula without a stored value": {`{}`, []any{formula("20+22", 42, nil)}, []any{42}, ""},
		"a stored value (A2)":              {`{}`, []any{formula("1", 1, 42)}, []any{42}, verdict.StoredValueDiffers},
		"a stored date":                    {`{}`, []any{formula("TODAY()*0+45000", day(45000), 45000)}, []any{day(45000)}, ""},
		"what only stores":                 {`{}`, []any{claimed}, []any{42}, verdict.StoredValueDiffers},
		"what only stores, as there":       {`{}`, []any{claimed}, []any{claimed}, ""},
		"unknown, the same formula":        {`{}`, []any{unknown}, []any{unknown}, ""},
		"unknown, a guess":                 {`{}`, []any{42}, []any{unknown}, verdict.WrongAnswer},
		"the same formula":                 {`{"compare":"formula"}`, []any{formula("sum( a1:a2 )", 5, 5)}, []any{formula("SUM(A1:A2)", 7, 7)}, ""},
		"blanks in quotes":                 {`{"compare":"formula"}`, []any{formula(`A1&" x"`, "x", nil)}, []any{formula(`A1&"x"`, "x", nil)}, verdict.WrongAnswer},
		"another formula":                  {`{"compare":"formula"}`, []any{formula("SUM(A1:A3)", 7, 7)}, []any{formula("SUM(A1:A2)", 7, 7)}, verdict.WrongAnswer},
		"no formula":                       {`{"compare":"formula"}`, []any{7}, []any{formula("SUM(A1:A2)", 7, 7)}, verdict.WrongAnswer},
		"both":                             {`{"compare":"both"}`, []any{formula("SUM(A1:A2)", 7, 7)}, []any{formula("SUM(A1:A2)", 7, 7)}, ""},
		"both, another value":              {`{"compare":"both"}`, []any{formula("SUM(A1:A2)", 8, 8)}, []any{formula("SUM(A1:A2)", 7, 7)}, verdict.WrongAnswer},
		"the same format":                  {`{"compare":"format"}`, []any{bold}, []any{bold}, ""},
		"black is no color":                {`{"compare":"format"}`, []any{"y"}, []any{plain}, ""},
		"another format":                   {`{"compare":"format"}`, []any{plain}, []any{bold}, verdict.WrongAnswer},
		"another format that counts not":   {`{"compare":"format","formats":["fill","italic"]}`, []any{plain}, []any{bold}, ""},
	} {
		r := parse(t, `{"type":"cells"`+more(tt.rubric))
		res, err := r.Compare(book(sheet("S", tt.got)), book(sheet("S", tt.want)))
		if err != nil || res.Reason != tt.reason {
			t.Errorf("%s: %+v, %v", name, res, err)
			continue
		}
		holds(t, res)
	}
}

func TestCellsParse(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"cells","range":"A"}`:                                           `no range (such as A1:C10, B:B or 2:5)`,
		`{"type":"cells","range":"A1:B"}`:                                        `no range`,
		`{"type":"cells","range":"B2:A1"}`:                                       `no range`,
		`{"type":"cells","range":"A0"}`:                                          `no range`,
		`{"type":"cells","range":"A1048577"}`:                                    `no range`,
		`{"type":"cells","range":"XFE1"}`:                                        `no range`,
		`{"type":"cells","range":"AAAAAAAAAAAAAAAAAAAAAAAAA1"}`:                  `no range`,
		`{"type":"cells","range":"A+1"}`:                                         `no range`,
		`{"type":"cells","range":"A1,,B1"}`:                                      `no range`,
		`{"type":"cells","range":"` + strings.Repeat("A1,", 300) + `A1"}`:        `more than 256 ranges`,
		`{"type":"cells","compare":"look"}`:                                      `compare is "look"`,
		`{"type":"cells","formats":["bold"]}`:                                    `add compare: format`,
		`{"type":"cells","compare":"format","formats":["blink"]}`:                `known: number, bold`,
		`{"type":"cells","match":"spreadsheetbench"}`:                            `needs a range`,
		`{"type":"cells","match":"dacode","range":"A1"}`:                         `use spreadsheetbench`,
		`{"type":"cells","match":"spreadsheetbench","range":"A1","tolerance":1}`: `unsupported field "tolerance"`,
	} {
		if _, err := rubric.Parse([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %s", raw, err, want)
		}
	}
	want := book(sheet("S", []any{1, nil, 3}))
	for raw, fault := range map[string]string{
		`{"type":"cells","sheet":"T"}`:                                            `it has no sheet "T"`,
		`{"type":"cells","sheet":"S","range":"A1,B1"}`:                            `range names "B1", where the reference has nothing`,
		`{"type":"cells","sheet":"S","match":"spreadsheetbench","range":"A1,B1"}`: `range names "B1", where the reference has nothing`,
		`{"type":"cells","sheet":"s","match":"spreadsheetbench","range":"A1"}`:    `has no sheet "s"`,
	} {
		if faults := parse(t, raw).Check(want); len(faults) != 1 || !strings.Contains(faults[0], fault) {
			t.Errorf("%s has %q", raw, faults)
		}
	}
	if faults := parse(t, `{"type":"cells","range":"A1:C3"}`).Check(want); len(faults) > 0 {
		t.Errorf("an honest range has %q", faults)
	}
}

// TestSpreadsheetBenchRecorded holds the official rule to what the scorer of
// SpreadsheetBench itself says of pairs of values, as openpyxl reads them.
func TestSpreadsheetBenchRecorded(t *testing.T) {
	r := parse(t, `{"type":"cells","match":"spreadsheetbench","range":"A1"}`)
	for _, line := range datatest.Lines(t, filepath.Join("testdata", "spreadsheetbench.jsonl")) {
		var c struct {
			Reference, Candidate [2]any
			Equal                bool
		}
		if err := json.Unmarshal(line, &c, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		res, err := r.Compare(book(sheet("S", []any{loaded(c.Candidate)})), book(sheet("S", []any{loaded(c.Reference)})))
		if err != nil || res.Pass != c.Equal {
			t.Errorf("%v for %v: %+v, %v, and the scorer says %t", c.Candidate, c.Reference, res, err, c.Equal)
		}
	}
	stored, bare, other := formula("1", 1, 42), formula("42", 42, nil), formula("1", 1, 41)
	for _, tt := range []struct {
		got, want any
		pass      bool
	}{{stored, 42, true}, {bare, 42, false}, {other, 42, false}, {bare, "", true}} {
		if got := passes(t, r, book(sheet("S", []any{tt.got})), book(sheet("S", []any{tt.want}))); got != tt.pass {
			t.Errorf("%+v for %v passes: %t", tt.got, tt.want, got)
		}
	}
	if passes(t, r, book(sheet("s", []any{42})), book(sheet("S", []any{42}))) {
		t.Error("a sheet of another name passes")
	}
	// Without a name, it is the first sheet, whatever the others have.
	two := book(sheet("S", []any{42}), sheet("T", []any{41}))
	if faults := r.Check(two); len(faults) > 0 || !passes(t, r, two, two) {
		t.Errorf("a workbook of two sheets: %q", faults)
	}
	if faults := r.Check(book(sheet("S", []any{}), sheet("T", []any{41}))); len(faults) != 1 {
		t.Errorf("a first sheet without cells: %q", faults)
	}
}

// loaded is a recorded value: its kind and what it is.
func loaded(v [2]any) any {
	switch v[0] {
	case "date":
		return day(v[1].(float64))
	case "error":
		return artifact.Value{Kind: artifact.Failed, Text: v[1].(string)}
	}
	return v[1]
}

func TestWorkbook(t *testing.T) {
	base := func() artifact.Sheet {
		s := sheet("Pivot", []any{"x", 1})
		s.Charts = []artifact.Chart{{Type: "bar", Title: "Sales", Series: []artifact.Series{{Name: "Pivot!$B$1", Categories: "'Pivot'!$A$2:$A$5", Values: "Pivot!$B$2:$B$5"}}}}
		s.Pivots = []artifact.Pivot{{Name: "PivotTable1", Source: "Sheet1!A1:F20", Rows: []string{"Website"}, Values: []artifact.PivotValue{{Field: "Revenue", Summary: "sum"}}}}
		s.Conditions = []artifact.Condition{{Range: "B2:B5", Type: "cellIs", Operator: "greaterThan", Formulas: []string{"100"}, Format: artifact.Format{Fill: "FF0000"}}}
		s.Filter, s.Freeze = "A1:F20", "A2"
		return s
	}
	const all = `{"charts":true,"pivot_tables":true,"conditional_formats":true,"filters":true,"frozen":true}`
	for name, tt := range map[string]struct {
		rubric string
		change func(s *artifact.Sheet)
		pass   bool
	}{
		"the same": {all, func(*artifact.Sheet) {}, true},
		"ranges written otherwise": {all, func(s *artifact.Sheet) {
			s.Charts[0].Series[0] = artifact.Series{Name: "Pivot!B1", Categories: "Pivot!A2:A5", Values: "'pivot'!$B$2:$B$5"}
			s.Filter = "$A$1:$F$20"
		}, true},
		"another type":         {all, func(s *artifact.Sheet) { s.Charts[0].Type = "line" }, false},
		"another title":        {all, func(s *artifact.Sheet) { s.Charts[0].Title = "sales" }, false},
		"a title counts not":   {`{"charts":["type","series"]}`, func(s *artifact.Sheet) { s.Charts[0].Title = "sales" }, true},
		"a legend":             {all, func(s *artifact.Sheet) { s.Charts[0].Legend = true }, false},
		"another series":       {all, func(s *artifact.Sheet) { s.Charts[0].Series[0].Values = "Pivot!B2:B4" }, false},
		"two charts":           {all, func(s *artifact.Sheet) { s.Charts = append(s.Charts, artifact.Chart{Type: "line"}) }, false},
		"the same chart twice": {all, func(s *artifact.Sheet) { s.Charts = append(s.Charts, s.Charts[0]) }, false},
		"no chart":             {all, func(s *artifact.Sheet) { s.Charts = nil }, false},
		"another summary":      {all, func(s *artifact.Sheet) { s.Pivots[0].Values[0].Summary = "count" }, false},
		"other rows":           {all, func(s *artifact.Sheet) { s.Pivots[0].Rows = []string{"Product"} }, false},
		"a pivot's name":       {`{"pivot_tables":["source","rows","values"]}`, func(s *artifact.Sheet) { s.Pivots[0].Name = "P" }, true},
		"another color":        {all, func(s *artifact.Sheet) { s.Conditions[0].Format.Fill = "00FF00" }, false},
		"another bound":        {all, func(s *artifact.Sheet) { s.Conditions[0].Formulas[0] = "99" }, false},
		"no filter":            {all, func(s *artifact.Sheet) { s.Filter = "" }, false},
		"not frozen":           {all, func(s *artifact.Sheet) { s.Freeze = "" }, false},
		"hidden (A7)":          {all, func(s *artifact.Sheet) { s.Hidden = true }, false},
		"another name":         {all, func(s *artifact.Sheet) { s.Name = "Other" }, false},
		"another name, if so":  {`{"sheets":true}`, func(s *artifact.Sheet) { s.Name = "Other" }, false},
		"cells count not":      {all, func(s *artifact.Sheet) { s.Cells = nil }, true},
	} {
		got := base()
		tt.change(&got)
		r := parse(t, `{"type":"workbook"`+more(tt.rubric))
		if faults := r.Check(book(base())); len(faults) > 0 {
			t.Errorf("%s: the reference has %q", name, faults)
		}
		if pass := passes(t, r, book(got), book(base())); pass != tt.pass {
			t.Errorf("%s passes: %t", name, pass)
		}
	}
	if faults := parse(t, `{"type":"workbook","charts":true}`).Check(book(sheet("S", []any{1}))); len(faults) != 1 {
		t.Errorf("nothing to compare has %q", faults)
	}
	for raw, want := range map[string]string{
		`{"type":"workbook"}`:                          "compares nothing",
		`{"type":"workbook","charts":false}`:           "compares nothing",
		`{"type":"workbook","charts":["colour"]}`:      "known: type, title, series, legend",
		`{"type":"workbook","charts":["type","type"]}`: "twice",
	} {
		if _, err := rubric.Parse([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}
