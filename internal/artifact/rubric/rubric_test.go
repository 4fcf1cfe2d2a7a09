package rubric_test

import (
	"encoding/csv"
	"fmt"
	"strings"
	"testing"

	"securebench/internal/artifact"
	"securebench/internal/artifact/rubric"
	"securebench/internal/verdict"
)

func parse(t testing.TB, raw string) *rubric.Rubric {
	t.Helper()
	r, err := rubric.Parse([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return r
}

// csvFile is the model of a CSV file, as a reader makes it: all rows have as many fields.
func csvFile(t testing.TB, s string) *artifact.File {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(s)).ReadAll()
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return &artifact.File{Type: artifact.CSV, Table: &artifact.Table{Rows: rows}}
}

func textFile(s string) *artifact.File { return &artifact.File{Type: artifact.Text, Text: &s} }

func jsonFile(s string) *artifact.File { return &artifact.File{Type: artifact.JSON, Text: &s} }

// passes compares, and holds a comparison to what is always so.
func passes(t testing.TB, r *rubric.Rubric, got, want *artifact.File) bool {
	t.Helper()
	res, err := r.Compare(got, want)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, res)
	return res.Pass
}

func holds(t testing.TB, res rubric.Result) {
	t.Helper()
	if res.Pass != (res.Reason == "") || res.Pass != (len(res.Differences) == 0) || len(res.Differences) > 25 {
		t.Errorf("a result that contradicts itself: %+v", res)
	}
	for _, line := range res.Differences {
		if len(line) > 1000 || strings.ContainsAny(line, "\n\x1b") {
			t.Errorf("a difference that is no short line: %q", line)
		}
	}
}

func TestParse(t *testing.T) {
	for raw, want := range map[string]string{
		`"is it good?"`:                                        `a rubric must be an object, not a string`,
		`{}`:                                                   `a rubric needs a type: archive, array, cells`,
		`{"type":"tabel"}`:                                     `there is no rubric of type "tabel"`,
		`{"type":["table"]}`:                                   `there is no rubric of type ["table"]`,
		`{"type":"table","type":"json"}`:                       `duplicate`,
		`{"type":"table","colums":{}}`:                         `a rubric of type table contains unsupported field "colums" (did you mean "columns"?)`,
		`{"type":"table","Order":"any"}`:                       `"Order" in the wrong case`,
		`{"type":"table","order":"sorted"}`:                    `order is "sorted" (use as_is or any)`,
		`{"type":"table","order":"any","key":["id"]}`:          `both key and order`,
		`{"type":"table","key":[]}`:                            `key must be a list of strings`,
		`{"type":"table","columns":{"a":{"tolerance":-1}}}`:    `columns.a.tolerance must be a number that is 0 or more, not -1`,
		`{"type":"table","columns":{"a":{"tolerance":1e999}}}`: `too large`,
		`{"type":"table","columns":{"a":{"tolerancee":1}}}`:    `did you mean "tolerance"?`,
		`{"type":"table","columns":{"a":true}}`:                `columns.a must be an object`,
		`{"type":"table","columns":[]}`:                        `columns must be an object of objects`,
		`{"type":"table","extra_columns":"yes"}`:               `extra_columns is "yes" (use refuse or allow)`,
		`{"type":"json","ignore":["id"]}`:                      `is no JSON pointer`,
		`{"type":"json","ignore":[""]}`:                        `is no JSON pointer`,
		`{"type":"json","order":{"/a":"as_is"}}`:               `order./a is "as_is" (use any)`,
		`{"type":"json","order":1}`:                            `order is 1`,
		`{"type":"text","compare":"fuzzy"}`:                    `compare is "fuzzy" (use normal or exact or lines)`,
		`{"type":"text","order":"any"}`:                        `add compare: lines`,
		`{"type":"text","contains":["..."]}`:                   `without a letter or a digit`,
		`{"type":"text","lacks":["x"]}`:                        `an empty text would pass`,
		`{"type":"text","contains":["x"],"compare":"exact"}`:   `combine two rubrics with all`,
		`{"all":[]}`: `all must be a list of 1 to 32 rubrics`,
		`{"all":[{"type":"text"}],"type":"text"}`:             `unsupported field "type"`,
		`{"all":[{"type":"text"},{"all":[{"type":"text"}]}]}`: `all[1]: a rubric needs a type`,
		`{"all":[{"type":"text"},{"type":"json","x":1}]}`:     `all[1]: a rubric of type json contains unsupported field "x"`,
		`{"type":"text"} {}`:                                  `data follows`,
		strings.Repeat(`{"all":[`, 100):                       `nest`,
	} {
		_, err := rubric.Parse([]byte(raw))
		switch {
		case err == nil:
			t.Errorf("%s is a rubric", raw)
		case !strings.Contains(err.Error(), want):
			t.Errorf("%s: %q, want %q", raw, err, want)
		case strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: an error of several lines: %q", raw, err)
		}
	}
}

func TestTable(t *testing.T) {
	const want = "name,price,count\nBread,1.5,3\nMilk,0.3,10\nSalt,,0\n"
	tests := []struct {
		name, rubric, got string
		pass              bool
	}{
		{"the same", `{}`, want, true},
		{"CRLF, quotes, other spellings of numbers", `{}`, "\"name\",price,\"count\"\r\nBread,\"1.50\",3.0\r\nMilk,3e-1,+10\r\nSalt,NaN,-0\r\n", true},
		{"0.1+0.2", `{}`, "name,price,count\nBread,1.5,3\nMilk,0.30000000000000004,10\nSalt,,0\n", true},
		{"other order of columns", `{}`, "count,name,price\n3,Bread,1.5\n10,Milk,0.3\n0,Salt,\n", true},
		{"other case of columns", `{}`, " Name,PRICE,count\nBread,1.5,3\nMilk,0.3,10\nSalt,,0\n", true},
		{"another number", `{}`, "name,price,count\nBread,1.5,3\nMilk,0.31,10\nSalt,,0\n", false},
		{"a number within the tolerance", `{"columns":{"price":{"tolerance":0.01}}}`, "name,price,count\nBread,1.5,3\nMilk,0.31,10\nSalt,,0\n", true},
		{"a tolerance of another column", `{"columns":{"count":{"tolerance":0.01}}}`, "name,price,count\nBread,1.5,3\nMilk,0.31,10\nSalt,,0\n", false},
		{"a tolerance of all columns", `{"columns":{"*":{"tolerance":0.01}}}`, "name,price,count\nBread,1.51,3\nMilk,0.31,10\nSalt,,0\n", true},
		{"a relative tolerance", `{"columns":{"*":{"relative_tolerance":0.1}}}`, "name,price,count\nBread,1.6,3\nMilk,0.31,11\nSalt,,0\n", true},
		{"0 has no relative tolerance", `{"columns":{"*":{"relative_tolerance":0.1}}}`, "name,price,count\nBread,1.6,3\nMilk,0.31,11\nSalt,,0.1\n", false},
		{"a whole number that is nearly another", `{}`, "name,price,count\nBread,1.5,3\nMilk,0.3,10.00001\nSalt,,0\n", false},
		{"another case of a text", `{}`, "name,price,count\nbread,1.5,3\nMilk,0.3,10\nSalt,,0\n", false},
		{"another case, which is ignored", `{"columns":{"name":{"ignore_case":true}}}`, "name,price,count\nbread,1.5,3\nMilk,0.3,10\nSalt,,0\n", true},
		{"blanks", `{}`, "name,price,count\nBread ,1.5,3\nMilk,0.3,10\nSalt,,0\n", false},
		{"blanks, which are ignored", `{"columns":{"name":{"ignore_space":true}}}`, "name,price,count\nBread ,1.5,3\nMilk,0.3,10\nSalt,,0\n", true},
		{"a column is missing", `{}`, "name,price\nBread,1.5\nMilk,0.3\nSalt,\n", false},
		{"an ignored column is missing", `{"columns":{"count":{"ignore":true}}}`, "name,price\nBread,1.5\nMilk,0.3\nSalt,\n", true},
		{"only one column counts", `{"columns":{"*":{"ignore":true},"price":{}}}`, "price\n1.5\n0.3\nNaN\n", true},
		{"a column more", `{}`, "name,price,count,x\nBread,1.5,3,1\nMilk,0.3,10,1\nSalt,,0,1\n", false},
		{"a column more, which is allowed", `{"extra_columns":"allow"}`, "name,price,count,x\nBread,1.5,3,1\nMilk,0.3,10,1\nSalt,,0,1\n", true},
		{"a row less", `{}`, "name,price,count\nBread,1.5,3\nMilk,0.3,10\n", false},
		{"a row more", `{}`, want + "Tea,1,1\n", false},
		{"rows in another order", `{}`, "name,price,count\nMilk,0.3,10\nBread,1.5,3\nSalt,,0\n", false},
		{"rows in any order", `{"order":"any"}`, "name,price,count\nMilk,0.30000000000000004,10.0\nBread,1.5,3\nSalt,,0\n", true},
		{"rows in any order, one twice", `{"order":"any"}`, "name,price,count\nMilk,0.3,10\nMilk,0.3,10\nBread,1.5,3\n", false},
		{"rows by key", `{"key":["name"]}`, "name,price,count\nSalt,,0\nMilk,0.3,10\nBread,1.5,3\n", true},
		{"rows by key, one twice", `{"key":["name"]}`, "name,price,count\nSalt,,0\nMilk,0.3,10\nMilk,0.3,10\n", false},
		{"rows by key, one more", `{"key":["name"]}`, "name,price,count\nSalt,,0\nMilk,0.3,10\nBread,1.5,3\nTea,1,1\n", false},
		{"rows by key, another value", `{"key":["name"]}`, "name,price,count\nSalt,1,0\nMilk,0.3,10\nBread,1.5,3\n", false},
		{"only a header", `{}`, "name,price,count\n", false},
		{"nothing for something", `{}`, "name,price,count\nBread,,3\nMilk,0.3,10\nSalt,,0\n", false},
		{"something for nothing", `{}`, "name,price,count\nBread,1.5,3\nMilk,0.3,10\nSalt,0,0\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := parse(t, `{"type":"table"`+more(tt.rubric))
			if faults := r.Check(csvFile(t, want)); len(faults) > 0 {
				t.Errorf("the reference has faults: %q", faults)
			}
			if !passes(t, r, csvFile(t, want), csvFile(t, want)) {
				t.Error("the reference does not pass")
			}
			if got := passes(t, r, csvFile(t, tt.got), csvFile(t, want)); got != tt.pass {
				t.Errorf("passes: %t, want %t", got, tt.pass)
			}
		})
	}
}

// more is the rest of an object whose first member stands before it.
func more(object string) string {
	if object == "{}" {
		return "}"
	}
	return "," + object[1:]
}

// Identifiers are no numbers, and long ones are not rounded.
func TestTableIdentifiers(t *testing.T) {
	r := parse(t, `{"type":"table"}`)
	loose := parse(t, `{"type":"table","columns":{"*":{"tolerance":1}}}`)
	for _, tt := range []struct {
		got, want   string
		pass, loose bool
	}{
		{"007", "7", false, false},
		{"12345678901234567891", "12345678901234567890", false, true},
		{"12345678901234567890", "+12345678901234567890", true, true},
		{"1000000000", "1000000001", false, true},
		{"1e5", "100000", true, true},
		{"1e400", "1e401", false, false},
		{"inf", "Infinity", false, false},
		{"1_000", "1000", false, false},
		{"0x10", "16", false, false},
		{"1,5", "1.5", false, false},
		{".5", "0.5", true, true},
		{"5.", "5", true, true},
		{" 5", "5 ", true, true},
		{" 0 5", "5", false, false},
		{"-", "-", true, true},
		{"1e", "1", false, false},
		{"e5", "0", false, false},
		{"é", "e\u0301", true, true},
	} {
		got, want := csvFile(t, "id\n\""+tt.got+"\"\n"), csvFile(t, "id\n\""+tt.want+"\"\n")
		if p := passes(t, r, got, want); p != tt.pass {
			t.Errorf("%s for %s passes: %t", tt.got, tt.want, p)
		}
		if p := passes(t, loose, got, want); p != tt.loose {
			t.Errorf("%s for %s within 1 passes: %t", tt.got, tt.want, p)
		}
	}
}

// Rows in any order are paired one to one also where several could be the same within
// the tolerance.
func TestTableAnyOrder(t *testing.T) {
	r := parse(t, `{"type":"table","order":"any","columns":{"*":{"tolerance":1}}}`)
	for _, tt := range []struct {
		got, want string
		pass      bool
	}{
		{"a,b\n1,0\n2,0\n3,0\n", "a,b\n2,0\n3,0\n4,0\n", true},
		{"a,b\n0,0\n0,0\n0,0\n", "a,b\n1,0\n1,1\n0,1\n", true},
		{"a,b\n2,5\n1,0\n", "a,b\n1,5\n2,1\n", true},  // sorted by a, both pairs are wrong
		{"a,b\n1,1\n0,0\n", "a,b\n1,2\n1,1\n", true},  // the first fits both: it must take the one that the other cannot
		{"a,b\n0,0\n1,1\n", "a,b\n1,2\n1,2\n", false}, // both need the same
		{"a,b\n1,5\n2,5\n", "a,b\n1,5\n9,5\n", false},
		{"a,b\nx,5\n2,5\n", "a,b\n1,5\n2,5\n", false},
	} {
		if p := passes(t, r, csvFile(t, tt.got), csvFile(t, tt.want)); p != tt.pass {
			t.Errorf("%q for %q passes: %t", tt.got, tt.want, p)
		}
	}
}

func TestTableCheck(t *testing.T) {
	for _, tt := range []struct{ rubric, want, fault string }{
		{`{"columns":{"prize":{}}}`, "price\n1\n", `columns names "prize", which the reference lacks`},
		{`{"key":["id"]}`, "price\n1\n", `key names column "id", which the reference lacks`},
		{`{"key":["id"]}`, "id,id\n1,2\n", `ignored or comes twice`},
		{`{"key":["id"]}`, "id,x\n1,2\n1,3\n", `rows 1 and 2 of the reference have the same key`},
		{`{}`, "price\n", `the reference has no rows`},
		{`{"columns":{"*":{"ignore":true}}}`, "price\n1\n", `all columns of the reference are ignored`},
	} {
		r := parse(t, `{"type":"table"`+more(tt.rubric))
		faults := r.Check(csvFile(t, tt.want))
		if len(faults) == 0 || !strings.Contains(faults[0], tt.fault) {
			t.Errorf("%s has %q, want %q", tt.rubric, faults, tt.fault)
		}
	}
	if faults := parse(t, `{"type":"table"}`).Check(textFile("x")); len(faults) != 1 {
		t.Errorf("a text as a table has %q", faults)
	}
}

func TestJSON(t *testing.T) {
	const want = `{"name":"x","rows":[{"id":1,"v":0.3},{"id":2,"v":0.5}],"ok":true,"none":null,"at":"now"}`
	for _, tt := range []struct {
		rubric, got string
		pass        bool
	}{
		{`{}`, want, true},
		{`{}`, `{"at":"now","none":null,"ok":true,"rows":[{"v":0.30000000000000004,"id":1.0},{"id":2,"v":5e-1}],"name":"x"}` + "\r\n", true},
		{`{}`, strings.Replace(want, `"now"`, `"then"`, 1), false},
		{`{"ignore":["/at"]}`, strings.Replace(want, `"now"`, `"then"`, 1), true},
		{`{"ignore":["/at"]}`, strings.Replace(want, `,"at":"now"`, ``, 1), true},
		{`{"ignore":["/rows/*/v"]}`, strings.Replace(want, `0.3`, `"?"`, 1), true},
		{`{"ignore":["/rows/1/v"]}`, strings.Replace(want, `0.3`, `"?"`, 1), false},
		{`{}`, strings.Replace(want, `"id":1`, `"id":"1"`, 1), false},
		{`{}`, strings.Replace(want, `true`, `1`, 1), false},
		{`{}`, strings.Replace(want, `null`, `0`, 1), false},
		{`{}`, strings.Replace(want, `"none":null,`, ``, 1), false},
		{`{}`, strings.Replace(want, `"ok"`, `"more":1,"ok"`, 1), false},
		{`{}`, strings.Replace(want, `"ok":true`, `"ok":false,"ok":true`, 1), false},
		{`{}`, strings.Replace(want, `0.3`, `0.31`, 1), false},
		{`{"tolerance":0.01}`, strings.Replace(want, `0.3`, `0.31`, 1), true},
		{`{"ignore_case":true}`, strings.Replace(want, `"x"`, `"X"`, 1), true},
		{`{}`, strings.Replace(want, `0.3`, `1e400`, 1), false},
		{`{}`, strings.Replace(want, `0.3`, `NaN`, 1), false},
		{`{}`, want + want, false},
		{`{}`, ``, false},
		{`{}`, `[`, false},
		{`{}`, strings.Repeat("[", 100000), false},
		{`{}`, `{"name":"x","rows":[{"id":2,"v":0.5},{"id":1,"v":0.3}],"ok":true,"none":null,"at":"now"}`, false},
		{`{"order":"any"}`, `{"name":"x","rows":[{"id":2,"v":0.5},{"id":1,"v":0.30000000000000004}],"ok":true,"none":null,"at":"now"}`, true},
		{`{"order":{"/rows":"any"}}`, `{"name":"x","rows":[{"id":2,"v":0.5},{"id":1,"v":0.3}],"ok":true,"none":null,"at":"now"}`, true},
		{`{"order":{"/rows":"any"}}`, `{"name":"x","rows":[{"id":2,"v":0.3},{"id":1,"v":0.5}],"ok":true,"none":null,"at":"now"}`, false},
		{`{"order":"any"}`, `{"name":"x","rows":[{"id":1,"v":0.3},{"id":1,"v":0.3}],"ok":true,"none":null,"at":"now"}`, false},
		{`{"order":"any"}`, `{"name":"x","rows":[{"id":1,"v":0.3}],"ok":true,"none":null,"at":"now"}`, false},
		{`{"order":{"/rows":"any"},"ignore":["/rows/*/id"]}`, `{"name":"x","rows":[{"id":9,"v":0.5},{"v":0.3}],"ok":true,"none":null,"at":"now"}`, true},
	} {
		r := parse(t, `{"type":"json"`+more(tt.rubric))
		if faults := r.Check(jsonFile(want)); len(faults) > 0 {
			t.Errorf("%s: the reference has faults: %q", tt.rubric, faults)
		}
		if got := passes(t, r, jsonFile(tt.got), jsonFile(want)); got != tt.pass {
			t.Errorf("%s: %.200s passes: %t", tt.rubric, tt.got, got)
		}
	}
	for raw, fault := range map[string]string{
		`{"type":"json","ignore":["/rows/*/w"]}`:  `"/rows/*/w" names what the reference lacks`,
		`{"type":"json","order":{"/name":"any"}}`: `is no list`,
	} {
		if faults := parse(t, raw).Check(jsonFile(want)); len(faults) != 1 || !strings.Contains(faults[0], fault) {
			t.Errorf("%s has %q", raw, faults)
		}
	}
}

func TestText(t *testing.T) {
	for _, tt := range []struct {
		rubric, want, got string
		pass              bool
	}{
		{`{}`, "The  end.\n", "The end.\r\n", true},
		{`{}`, "The end.", "The end", false},
		{`{}`, "The end.", "the end.", false},
		{`{"ignore_case":true}`, "The end.", "the end.", true},
		{`{"compare":"exact"}`, "The  end.\n", "The end.\n", false},
		{`{"compare":"lines"}`, "a\nb\n", "a  \r\nb", true},
		{`{"compare":"lines"}`, "a\nb\n", "b\na\n", false},
		{`{"compare":"lines"}`, "a\nb\n", "a\n\nb\n", false},
		{`{"compare":"lines","order":"any"}`, "a\nb\nb\n", "b\nb\na\n", true},
		{`{"compare":"lines","order":"any"}`, "a\nb\nb\n", "b\na\na\n", false},
		{`{"compare":"lines","order":"any"}`, "a\nb\n", "b\na\na\n", false},
		{`{"contains":["net loss","2.5"]}`, "A net loss of 2.5 million.", "There is a net\nloss: 2.5.", true},
		{`{"contains":["net loss"]}`, "net loss", "net losses", false},
		{`{"contains":["2.5"]}`, "2.5", "12.5", false},
		{`{"contains":["loss"],"lacks":["profit"]}`, "a loss", "a loss or a profit", false},
	} {
		r := parse(t, `{"type":"text"`+more(tt.rubric))
		if faults := r.Check(textFile(tt.want)); len(faults) > 0 {
			t.Errorf("%s: the reference has faults: %q", tt.rubric, faults)
		}
		if got := passes(t, r, textFile(tt.got), textFile(tt.want)); got != tt.pass {
			t.Errorf("%s: %q for %q passes: %t", tt.rubric, tt.got, tt.want, got)
		}
	}
	for raw, fault := range map[string]string{
		`{"type":"text"}`:                                "the reference is blank",
		`{"type":"text","contains":["x"]}`:               `contains has "x", which the reference lacks`,
		`{"type":"text","contains":["x"],"lacks":["x"]}`: `lacks`,
	} {
		if faults := parse(t, raw).Check(textFile(" ")); len(faults) == 0 || !strings.Contains(strings.Join(faults, "\n"), fault) {
			t.Errorf("%s has %q", raw, faults)
		}
	}
}

func TestAll(t *testing.T) {
	r := parse(t, `{"all":[{"type":"text","contains":["a"]},{"type":"text","contains":["b"]}]}`)
	for s, want := range map[string]int{"a b": 0, "a": 1, "b": 1, "c": 2} {
		res, err := r.Compare(textFile(s), textFile("a b"))
		if err != nil || len(res.Differences) != want {
			t.Errorf("%q: %+v, %v", s, res, err)
		}
		holds(t, res)
	}
	if faults := r.Check(textFile("a")); len(faults) != 1 || !strings.HasPrefix(faults[0], "all[1]: ") {
		t.Errorf("the reference has %q", faults)
	}
}

// What the reference is not, is a fault of the row; what the candidate is not, is its own.
func TestOtherTypes(t *testing.T) {
	files := map[string]*artifact.File{"table": csvFile(t, "a\n1\n"), "json": jsonFile("{}"), "text": textFile("x")}
	for kind, file := range files {
		r := parse(t, fmt.Sprintf(`{"type":%q}`, kind))
		res, err := r.Compare(&artifact.File{Type: artifact.Any}, file)
		if err != nil || res.Pass || res.Reason != verdict.WrongAnswer {
			t.Errorf("%s: no file is %+v, %v", kind, res, err)
		}
		if _, err := r.Compare(file, &artifact.File{Type: artifact.Any}); err == nil {
			t.Errorf("%s: there is no reference, and no error", kind)
		}
		if faults := r.Check(&artifact.File{Type: artifact.Any}); len(faults) != 1 {
			t.Errorf("%s: no reference has %q", kind, faults)
		}
	}
}
