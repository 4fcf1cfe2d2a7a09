package reader_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/artifact"
	"securebench/internal/artifact/reader"
	"securebench/internal/memtest"
)

func num(x float64) artifact.Value { return artifact.Value{Kind: artifact.Number, Number: x} }
func txt(s string) artifact.Value  { return artifact.Value{Kind: artifact.String, Text: s} }
func yes(b bool) artifact.Value {
	v := artifact.Value{Kind: artifact.Bool}
	if b {
		v.Number = 1
	}
	return v
}
func bad(s string) artifact.Value { return artifact.Value{Kind: artifact.Failed, Text: s} }

// formulaSheet returns a sheet with data in A1:C6 and formulas in column E, each with a
// stored value.
func formulaSheet(formulas []string, stored string) string {
	var out strings.Builder
	data := [][3]string{{"10", "1.5", "x"}, {"20", "2.5", "y"}, {"30", "3.5", "x"}, {"40", "", "z"}}
	for i := range max(len(formulas), len(data)) {
		fmt.Fprintf(&out, `<row r="%d">`, i+1)
		if i < len(data) {
			fmt.Fprintf(&out, `<c r="A%d"><v>%s</v></c>`, i+1, data[i][0])
			if data[i][1] != "" {
				fmt.Fprintf(&out, `<c r="B%d"><v>%s</v></c>`, i+1, data[i][1])
			}
			fmt.Fprintf(&out, `<c r="C%d" t="inlineStr"><is><t>%s</t></is></c>`, i+1, data[i][2])
		}
		if i < len(formulas) {
			escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(formulas[i])
			fmt.Fprintf(&out, `<c r="E%d"><f>%s</f>%s</c>`, i+1, escaped, stored)
		}
		out.WriteString("</row>")
	}
	return out.String()
}

// formulas returns the cells of column E.
func formulas(t *testing.T, data []byte) map[string]artifact.Cell {
	t.Helper()
	cells := map[string]artifact.Cell{}
	for _, c := range book(t, data).Sheets[0].Cells {
		if c.Formula != "" {
			cells[c.Formula] = c
		}
	}
	return cells
}

// moreFormulas are those that need no thought.
func moreFormulas() map[string]artifact.Value {
	return map[string]artifact.Value{
		"ACOS(1)": num(0), "ASIN(1)": num(1.5707963267949), "ATAN(1)": num(0.785398163397448), "ATAN2(1,2)": num(1.10714871779409), "COS(0)": num(1), "COSH(0)": num(1), "SIN(0)": num(0), "SINH(0)": num(0), "TAN(0)": num(0), "TANH(0)": num(0),
		"DEGREES(PI())": num(180), "RADIANS(180)": num(3.14159265358979), "PI()": num(3.14159265358979), "EXP(1)": num(2.71828182845905), "LN(1)": num(0), "LOG(8,2)": num(3), "LOG10(100)": num(2), "SIGN(-2)": num(-1), "SUMSQ(A1:A2)": num(500), "PRODUCT(A1:A2)": num(200), "QUOTIENT(-7,2)": num(-3),
		"CEILING(2.5,1)": num(3), "FLOOR(2.5,1)": num(2), "EVEN(1.5)": num(2), "ODD(2)": num(3), "MROUND(7,3)": num(6), "ROUNDDOWN(-1.29,1)": num(-1.2),
		`AVERAGEIFS(A1:A4,C1:C4,"x")`: num(20), `MAXIFS(A1:A4,C1:C4,"x")`: num(30), `MINIFS(A1:A4,C1:C4,"x")`: num(10), "COUNTBLANK(B1:B4)": num(1), "SMALL(A1:A4,2)": num(20),
		"STDEV.S(A1:A4)": num(12.9099444873581), "STDEV.P(A1:A4)": num(11.1803398874989), "STDEVP(A1:A4)": num(11.1803398874989), "VAR(A1:A4)": num(166.666666666667), "VAR.S(A1:A4)": num(166.666666666667), "VAR.P(A1:A4)": num(125), "VARP(A1:A4)": num(125),
		"CORREL(A1:A3,B1:B3)": num(1), "SLOPE(B1:B3,A1:A3)": num(0.1), "INTERCEPT(B1:B3,A1:A3)": num(0.5), "RANK.EQ(A2,A1:A4)": num(3), "PERCENTILE(A1:A4,0.3)": num(19), "PERCENTILE.INC(A1:A4,0.3)": num(19), "QUARTILE(A1:A4,1)": num(17.5), "QUARTILE.INC(A1:A4,1)": num(17.5),
		"ISERR(1/0)": yes(true), "ISEVEN(4)": yes(true), "ISODD(4)": yes(false), "ISLOGICAL(TRUE)": yes(true), "ISNA(NA())": yes(true), "ISNONTEXT(A1)": yes(true), "ISNUMBER(A1)": yes(true), "ISTEXT(C1)": yes(true), "TRUE()": yes(true), "FALSE()": yes(false), "XOR(A1>5,A2>5)": yes(false), "AND(A1>5,A2>5)": yes(true),
		"IFNA(NA(),7)": num(7), `IFS(A1>50,"a",A1>5,"b")`: txt("b"), "HLOOKUP(10,A1:C4,2,FALSE)": num(20), "COLUMNS(A1:C1)": num(3),
		"DAYS(45361,45351)": num(10), "HOUR(0.75)": num(18), "MINUTE(0.51)": num(14), "TIME(12,0,0)": num(0.5), "NETWORKDAYS(45351,45361)": num(7),
		"CONCAT(C1:C2)": txt("xy"), "LOWER(\"AB\")": txt("ab"), "PROPER(\"ab cd\")": txt("Ab Cd"), `REPLACE("abcdef",2,3,"z")`: txt("azef"), `RIGHT("abc",2)`: txt("bc"), `SEARCH("B","abc")`: num(2), `TEXTJOIN("-",TRUE,C1:C3)`: txt("x-y-x"),
		"EFFECT(0.05,12)": num(0.0511618978817334), "NOMINAL(0.05,12)": num(0.0488894854037802), "NPER(0.01,-100,1000)": num(10.5886444594232), "IPMT(0.05/12,1,360,100000)": num(-416.666666666667), "PPMT(0.05/12,1,360,100000)": num(-120.154956345471), "RATE(12,-100,1000)": num(0.0292285407691582), "SLN(100,10,5)": num(18), "SYD(100,10,5,1)": num(30),
	}
}

// TestFormulas: formulas have the values that spreadsheets give them, whatever is stored.
func TestFormulas(t *testing.T) {
	want := map[string]artifact.Value{
		"1": num(1), "1+2*3": num(7), "-A1+5": num(-5), "2^3": num(8), "10%*A1": num(1), "(A1+A2)/4": num(7.5), "1/3": num(0.333333333333333),
		"SUM(A1:A4)": num(100), "SUM(A:A)": num(100), "SUM($A$1:$B$4)": num(107.5), "SUM(A1,B2,5)": num(17.5), "AVERAGE(B1:B4)": num(2.5), "COUNT(A1:C4)": num(7), "COUNTA(C1:C4)": num(4),
		"MIN(A1:A4)": num(10), "MAX(A1:A4)": num(40), "MEDIAN(A1:A4)": num(25), "LARGE(A1:A4,2)": num(30), "RANK(A2,A1:A4)": num(3), "STDEV(A1:A4)": num(12.9099444873581),
		`COUNTIF(A1:A4,">15")`: num(3), `COUNTIF(C1:C4,"x")`: num(2), `SUMIF(C1:C4,"x",A1:A4)`: num(40), `SUMIFS(A1:A4,C1:C4,"x",A1:A4,">15")`: num(30), `AVERAGEIF(C1:C4,"x",A1:A4)`: num(20), `COUNTIFS(C1:C4,"x",A1:A4,"<20")`: num(1),
		"SUMPRODUCT(A1:A3,B1:B3)": num(170), "ROUND(2.5,0)": num(3), "ROUND(-2.5,0)": num(-3), "ROUND(1234.5,-2)": num(1200), "ROUNDUP(1.01,1)": num(1.1), "INT(-2.5)": num(-3), "TRUNC(-2.5)": num(-2), "MOD(-3,2)": num(1), "ABS(-2)": num(2), "SQRT(16)": num(4), "POWER(2,10)": num(1024),
		`IF(A1>5,"big","small")`: txt("big"), `IF(AND(A1>5,C1="y"),1,2)`: num(2), "A1>5": yes(true), "A1=A2": yes(false), "NOT(A1>5)": yes(false), "OR(A1>100,A2>15)": yes(true), `C1="X"`: yes(true), `EXACT(C1,"X")`: yes(false),
		`C1&" and "&A1`: txt("x and 10"), `CONCATENATE(C1,C2)`: txt("xy"), `LEFT("5x",1)`: txt("5"), `UPPER(C1)`: txt("X"), `LEN("abc")`: num(3), `MID("abcd",2,2)`: txt("bc"), `SUBSTITUTE("a-b","-","+")`: txt("a+b"), `TRIM("  a  b ")`: txt("a b"), `FIND("b","abc")`: num(2),
		`IFERROR(VLOOKUP("X",C1:C4,1,FALSE),"no")`: txt("x"), `IFERROR(VLOOKUP("q",C1:C4,1,FALSE),"no")`: txt("no"), `VLOOKUP("q",C1:C4,1,FALSE)`: bad("#N/A"),
		"VLOOKUP(20,A1:B4,2,FALSE)": num(2.5), `MATCH("y",C1:C4,0)`: num(2), "INDEX(A1:A4,3)": num(30), "INDEX(A1:B4,2,2)": num(2.5), "INDEX(A2:C2,2)": num(2.5), "INDEX($A$2:$C$2,MATCH(2.5,A2:C2,0))": num(2.5), `CHOOSE(2,"a","b")`: txt("b"), "ROW(A3)": num(3), "COLUMN(C1)": num(3), "ROWS(A1:A4)": num(4),
		"DATE(2024,2,29)": num(45351), "YEAR(45351)": num(2024), "MONTH(45351)": num(2), "DAY(45351)": num(29), "EDATE(45351,12)": num(45716), "EOMONTH(45323,0)": num(45351), "WEEKDAY(45351)": num(5),
		"PMT(0.05/12,360,100000)": num(-536.821623012138), "FV(0.05,10,-100)": num(1257.78925355488), "PV(0.05,10,-100)": num(772.173492918481),
		"1/0": bad("#DIV/0!"), "SQRT(-1)": bad("#NUM!"), "NA()": bad("#N/A"), `"x"+1`: bad("#VALUE!"), `IFERROR(1/0,"none")`: txt("none"), "ISERROR(1/0)": yes(true), "B4": num(0), "ISBLANK(B4)": yes(true), `One!A1+'One'!A2`: num(30), "MyName*2": num(40), "SUM(MyRange)": num(100), "PY+1": num(21), "Call*2": num(40),
	}
	for f, v := range moreFormulas() {
		want[f] = v
	}
	var list []string
	for f := range want {
		list = append(list, f)
	}
	for name := range reader.Known() {
		if !slices.ContainsFunc(list, func(f string) bool { return strings.HasPrefix(f, name+"(") }) {
			t.Errorf("%s is calculated, and no formula here begins with it", name)
		}
	}
	data := sheetFile{sheet: formulaSheet(list, "<v>42</v>"), book: `<workbook xmlns:r="r"><sheets><sheet name="One" r:id="s1"/></sheets><definedNames><definedName name="MyName">One!$A$2</definedName><definedName name="PY">One!$A$2</definedName><definedName name="Call">One!$A$2</definedName><definedName name="MyRange">One!$A$1:$A$4</definedName></definedNames></workbook>`}.bytes(t)
	got := formulas(t, data)
	for f, v := range want {
		c := got[f]
		if c.Uncomputed || !near(c.Value, v) || c.Stored == nil || *c.Stored != num(42) {
			t.Errorf("=%s: %+v, want %+v", f, c, v)
		}
	}
}

// TestUncomputed: what the library would calculate otherwise, what depends on the day or on
// chance, and what rests on such a formula is left uncomputed, with the stored value; what
// asks others is an error.
func TestUncomputed(t *testing.T) {
	left := []string{"IF(A1,1,2)", `B4=""`, `IF(B4="",1,2)`, `COUNTIF(B1:B4,"")`, "SUM(A1:A4*2)", "A1:A4*2", "TODAY()", "NOW()", "RAND()", `INDIRECT("A1")`, "OFFSET(A1,1,0)", "Table1[Sum]", "NoName+1", "NPV(0.1,A1:A4)",
		"Missing!A1", `SWITCH(C1,"X",1,2)`, "1/3&\"\"", "E1+1", "E19+E20", "E19", "LAMBDA(x,x)(1)", "SUM(A1:XFD1048576)", "A1 A2", "SUM((", "REPT(\"x\",999999999)", "MUNIT(99999)"}
	asked := []string{`WEBSERVICE("http://example.org")`, "[1]Sheet1!A1", "'[Other.xlsx]Sheet 1'!A1+1", `'C:\x\[b.xlsx]S'!A1`, "cmd|'/C calc'!A0", `_xlfn.WEBSERVICE("x")`, `WEBSERVICE ("x")`, `RTD ("a",,"b")`, `RTD("a",,"b")`, `1+DDE("a","b","c")`}
	got := formulas(t, sheetFile{sheet: formulaSheet(append(left, asked...), "<v>42</v>")}.bytes(t))
	for _, f := range left {
		if c := got[f]; !c.Uncomputed || c.Value != num(42) {
			t.Errorf("=%s: %+v", f, c)
		}
	}
	for _, f := range asked {
		if c := got[f]; c.Uncomputed || c.Value != bad("#BLOCKED!") || *c.Stored != num(42) {
			t.Errorf("=%s: %+v", f, c)
		}
	}
}

// TestChains: formulas that need each other are calculated however long their chain is and
// in whatever order they stand; a circle is not.
func TestChains(t *testing.T) {
	const n = 5_000
	var rows strings.Builder
	for i := 1; i <= n; i++ {
		f := fmt.Sprintf("A%d+A%d", i+1, i+1) // doubles, so that each would ask twice as often as the next
		if i > n-1_000 {
			f = fmt.Sprintf("A%d+1", i+1)
		}
		if i == n {
			f = "1"
		}
		fmt.Fprintf(&rows, `<row r="%d"><c r="A%d"><f>%s</f></c></row>`, i, i, f)
	}
	cells := book(t, sheetFile{sheet: rows.String()}.bytes(t)).Sheets[0].Cells
	if c := cells[n-900]; c.Uncomputed || c.Value != num(900) {
		t.Errorf("%+v", c)
	}
	circle := book(t, sheetFile{sheet: `<row r="1"><c r="A1"><f>B1+1</f><v>7</v></c><c r="B1"><f>A1+1</f></c><c r="C1"><f>A1*2</f></c><c r="D1"><f>D1</f></c><c r="E1"><f>1+1</f></c></row>`}.bytes(t)).Sheets[0].Cells
	for i, c := range circle {
		if c.Uncomputed != (i < 4) {
			t.Errorf("%+v", c)
		}
	}
}

// TestErrorsOfCells: what refers to an error is not calculated with an empty cell.
func TestErrorsOfCells(t *testing.T) {
	cells := book(t, sheetFile{sheet: `<row r="1"><c r="A1" t="e"><v>#REF!</v></c><c r="B1"><f>1/0</f></c><c r="C1"><f>A1+1</f></c><c r="D1"><f>SUM(A1:B1)</f></c><c r="E1"><f>B1+1</f></c><c r="F1"><f>C1</f></c><c r="G1"><f>IFERROR(1/0,5)</f></c></row>`}.bytes(t)).Sheets[0].Cells
	if cells[0].Value != bad("#REF!") || cells[1].Value != bad("#DIV/0!") || cells[1].Uncomputed || cells[6].Value != num(5) {
		t.Errorf("%+v", cells)
	}
	for _, c := range cells[2:6] {
		if !c.Uncomputed {
			t.Errorf("%+v", c)
		}
	}
}

// TestSharedFormulas: a formula that is written once is moved to the others.
func TestSharedFormulas(t *testing.T) {
	cells := book(t, sheetFile{sheet: `<row r="1"><c r="A1"><v>1</v></c><c r="B1"><f t="shared" ref="B1:B3" si="0">A1*2+$A$1+SUM(A$1:A1)+LOG10(1)+LEN("A1")+One!A1</f></c></row>
<row r="2"><c r="A2"><v>10</v></c><c r="B2"><f t="shared" si="0"/></c></row><row r="3"><c r="A3"><v>100</v></c><c r="B3"><f t="shared" si="0"/></c></row>`}.bytes(t)).Sheets[0].Cells
	var got []string
	for _, c := range cells {
		if c.Column == 2 {
			got = append(got, fmt.Sprint(c.Formula, " is ", c.Value.Number, c.Uncomputed))
		}
	}
	want := []string{
		`A1*2+$A$1+SUM(A$1:A1)+LOG10(1)+LEN("A1")+One!A1 is 7 false`,
		`A2*2+$A$1+SUM(A$1:A2)+LOG10(1)+LEN("A1")+One!A2 is 44 false`,
		`A3*2+$A$1+SUM(A$1:A3)+LOG10(1)+LEN("A1")+One!A3 is 414 false`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestRecalculated: what is stored counts as a claim of the writer, unless it says itself
// that all is to be calculated.
func TestRecalculated(t *testing.T) {
	for setting, claims := range map[string]bool{"": true, `<calcPr calcId="1"/>`: true, `<calcPr fullCalcOnLoad="0"/>`: true, `<calcPr calcId="124519" fullCalcOnLoad="1"/>`: false} {
		cells := book(t, sheetFile{
			sheet: `<row r="1"><c r="A1"><f>1</f><v>42</v></c><c r="B1"><f>NOW()</f><v>0</v></c></row>`,
			book:  `<workbook xmlns:r="r"><sheets><sheet name="One" r:id="s1"/></sheets>` + setting + `</workbook>`,
		}.bytes(t)).Sheets[0].Cells
		if c := cells[0]; c.Value != num(1) || (c.Stored != nil) != claims {
			t.Errorf("%s: %+v", setting, c)
		}
		if c := cells[1]; !c.Uncomputed || c.Value != num(0) || c.Stored == nil {
			t.Errorf("%s: %+v", setting, c)
		}
	}
}

// TestCostlyFormulas: ranges of millions of cells, sheets of a million rows and thousands
// of formulas over all others end, within memory.
func TestCostlyFormulas(t *testing.T) {
	var rows strings.Builder
	for i := 1; i <= 1_500; i++ {
		fmt.Fprintf(&rows, `<row r="%d"><c r="A%d"><v>1</v></c><c r="B%d"><f>SUM(A1:A1500)+COUNTIF(A:A,1)+%d</f></c></row>`, i, i, i, i)
	}
	for name, sheet := range map[string]string{
		"ranges":    rows.String(),
		"far":       `<row r="1"><c r="A1"><f>SUM(A2:A1048576)</f></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>`,
		"dimension": `<worksheet><dimension ref="A1:XFD1048576"/><sheetData><row r="1" spans="1:16384"><c r="A1"><f>1+1</f></c></row></sheetData></worksheet>`,
	} {
		data := sheetFile{sheet: sheet}.bytes(t)
		if used := memtest.Allocated(func() { book(t, data) }); used > 2<<30 {
			t.Errorf("%s: %d MiB were allocated", name, used>>20)
		}
	}
}
