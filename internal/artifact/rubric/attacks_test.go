package rubric_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"securebench/internal/artifact"
	"securebench/internal/verdict"
)

// A weak comparison is what an attack was made for: a mistake that scorers of files make.
type weak func(got, want *artifact.File) bool

// column returns a column of a table, without its header.
func column(f *artifact.File, i int) (out []string) {
	for _, row := range f.Table.Rows[1:] {
		out = append(out, row[i])
	}
	return out
}

// anyColumn looks for each column of the reference among those of the candidate.
func anyColumn(got, want *artifact.File) bool {
	for i := range want.Table.Rows[0] {
		found := false
		for k := range got.Table.Rows[0] {
			found = found || slices.Equal(column(got, k), column(want, i))
		}
		if !found {
			return false
		}
	}
	return true
}

// sortedColumns compares columns of the same name, each sorted by itself.
func sortedColumns(got, want *artifact.File) bool {
	for i, name := range want.Table.Rows[0] {
		k := slices.Index(got.Table.Rows[0], name)
		if k < 0 || !slices.Equal(slices.Sorted(slices.Values(column(got, k))), slices.Sorted(slices.Values(column(want, i)))) {
			return false
		}
	}
	return true
}

// asSets compares rows as a set.
func asSets(got, want *artifact.File) bool {
	set := func(f *artifact.File) map[string]bool {
		out := map[string]bool{}
		for _, row := range f.Table.Rows {
			out[strings.Join(row, ",")] = true
		}
		return out
	}
	return fmt.Sprint(set(got)) == fmt.Sprint(set(want))
}

// shortest compares as many rows as both have.
func shortest(got, want *artifact.File) bool {
	for i := range min(len(got.Table.Rows), len(want.Table.Rows)) {
		if !slices.Equal(got.Table.Rows[i], want.Table.Rows[i]) {
			return false
		}
	}
	return true
}

// lastOfEqual decodes rows to maps, where the last of equal names stays.
func lastOfEqual(got, want *artifact.File) bool {
	for i := 1; i < len(want.Table.Rows); i++ {
		a, b := map[string]string{}, map[string]string{}
		for k, name := range got.Table.Rows[0] {
			a[name] = got.Table.Rows[i][k]
		}
		for k, name := range want.Table.Rows[0] {
			b[name] = want.Table.Rows[i][k]
		}
		for name := range b {
			if a[name] != b[name] {
				return false
			}
		}
	}
	return true
}

// notFurther fails only where a difference is greater than the tolerance, as none to NaN is.
func notFurther(got, want *artifact.File) bool {
	for i, row := range want.Table.Rows[1:] {
		for k := range row {
			a, _ := strconv.ParseFloat(got.Table.Rows[i+1][k], 64)
			b, _ := strconv.ParseFloat(row[k], 64)
			if math.Abs(a-b) > 0.01 {
				return false
			}
		}
	}
	return true
}

// storedOnly takes the stored values of cells, in any sheet.
func storedOnly(got, want *artifact.File) bool {
	values := func(s artifact.Sheet) (out []string) {
		for _, c := range s.Cells {
			v := c.Value
			if c.Stored != nil {
				v = *c.Stored
			}
			out = append(out, v.Text+fmt.Sprint(v.Number))
		}
		return out
	}
	return slices.ContainsFunc(got.Workbook.Sheets, func(s artifact.Sheet) bool {
		return slices.Equal(values(s), values(want.Workbook.Sheets[0]))
	})
}

// asTexts compares how cells look.
func asTexts(got, want *artifact.File) bool {
	look := func(f *artifact.File) (out []string) {
		for _, c := range f.Workbook.Sheets[0].Cells {
			out = append(out, strings.TrimPrefix(c.Value.Text, "0")+strings.TrimSuffix(fmt.Sprint(c.Value.Number), "0"))
		}
		return out
	}
	return slices.Equal(look(got), look(want))
}

// contained looks for the members of the reference in the text.
func contained(got, want *artifact.File) bool {
	for _, part := range strings.FieldsFunc(*want.Text, func(r rune) bool { return strings.ContainsRune("{}[],", r) }) {
		if !strings.Contains(*got.Text, part) {
			return false
		}
	}
	return true
}

// TestAttacks: each passes a weak comparison and fails here, and an honest twin passes.
func TestAttacks(t *testing.T) {
	table := csvFile(t, "name,sum\nBread,3\nMilk,10\nSalt,0.3\n")
	cells := book(sheet("S", []any{"Sum", 42}))
	hidden := sheet("T", []any{"Sum", 42})
	hidden.Hidden = true
	const inOrder, anyOrder = `{"type":"table"}`, `{"type":"table","order":"any"}`
	const within = `{"type":"table","columns":{"*":{"tolerance":0.01}}}`
	for _, tt := range []struct {
		id, rubric     string
		want           *artifact.File
		weak           weak
		attack, honest *artifact.File
		reason         verdict.Reason
	}{
		{"A2", `{"type":"cells","range":"A1:B1"}`, cells, storedOnly, book(sheet("S", []any{"Sum", formula("1", 1, 42)})), book(sheet("S", []any{"Sum", formula("40+2", 42, 42)})), verdict.StoredValueDiffers},
		{"A2", `{"type":"cells","range":"A1:B1"}`, cells, storedOnly, book(sheet("S", []any{"Sum", artifact.Cell{Formula: `WEBSERVICE("x")`, Uncomputed: true, Value: value(42), Stored: &artifact.Value{Kind: artifact.Number, Number: 42}}})), book(sheet("S", []any{"Sum", formula("40+2", 42.0, nil)})), verdict.StoredValueDiffers},
		{"A3", inOrder, table, anyColumn, csvFile(t, "name,sum,or\nBread,3,1\nMilk,10,2\nSalt,0.3,3\n"), csvFile(t, "sum,name\n3,Bread\n10,Milk\n0.3,Salt\n"), verdict.WrongAnswer},
		{"A3", inOrder, table, lastOfEqual, csvFile(t, "name,sum,sum\nBread,1,3\nMilk,2,10\nSalt,3,0.3\n"), csvFile(t, "name,sum\nBread,3.0\nMilk,10\nSalt,0.3\n"), verdict.WrongAnswer},
		{"A3", `{"type":"table","extra_columns":"allow"}`, table, lastOfEqual, csvFile(t, "name,sum,Sum ,sum\nBread,1,2,3\nMilk,2,3,10\nSalt,3,4,0.3\n"), csvFile(t, "name,sum,note\nBread,3,x\nMilk,10,y\nSalt,0.3,z\n"), verdict.WrongAnswer},
		{"A3", `{"type":"json"}`, jsonFile(`{"a":[1],"b":"x"}`), contained, jsonFile(`{"a":[1],"b":"x","c":"y"}`), jsonFile(`{"b":"x","a":[1.0]}`), verdict.WrongAnswer},
		{"A4", anyOrder, table, sortedColumns, csvFile(t, "name,sum\nBread,10\nMilk,3\nSalt,0.3\n"), csvFile(t, "name,sum\nSalt,0.3\nMilk,10\nBread,3\n"), verdict.WrongAnswer},
		{"A4", `{"type":"table","key":["name"]}`, table, sortedColumns, csvFile(t, "name,sum\nBread,10\nMilk,3\nSalt,0.3\n"), csvFile(t, "name,sum\nSalt,0.3\nMilk,10\nBread,3\n"), verdict.WrongAnswer},
		{"A4", anyOrder, table, asSets, csvFile(t, "name,sum\nBread,3\nMilk,10\nSalt,0.3\nSalt,0.3\n"), csvFile(t, "name,sum\nSalt,0.30000000000000004\nMilk,10\nBread,3\n"), verdict.WrongAnswer},
		{"A6", inOrder, table, shortest, csvFile(t, "name,sum\n"), csvFile(t, "\"name\",\"sum\"\r\n\"Bread\",\"3\"\r\n\"Milk\",\"10\"\r\n\"Salt\",\"0.3\"\r\n"), verdict.WrongAnswer},
		{"A6", inOrder, table, shortest, csvFile(t, "name,sum\nBread,3\nMilk,10\nSalt,0.3\nname,sum\nBread,9\n"), csvFile(t, "name,sum\n\nBread,3\nMilk,10\nSalt,0.3\n"), verdict.WrongAnswer},
		{"A6", within, csvFile(t, "sum\n3\n"), notFurther, csvFile(t, "sum\nNaN\n"), csvFile(t, "sum\n3.004\n"), verdict.WrongAnswer},
		{"A6", `{"type":"table","columns":{"*":{"relative_tolerance":0.01}}}`, csvFile(t, "sum\n1e308\n"), func(got, want *artifact.File) bool {
			a, _ := strconv.ParseFloat(got.Table.Rows[1][0], 64)
			b, _ := strconv.ParseFloat(want.Table.Rows[1][0], 64)
			return math.Abs(a-b) <= 0.01*max(a, b) // Inf <= Inf
		}, csvFile(t, "sum\n1e400\n"), csvFile(t, "sum\n1.001e308\n"), verdict.WrongAnswer},
		{"A7", `{"type":"cells","range":"A1:B1"}`, cells, storedOnly, book(sheet("S", []any{"Sum", 41}), hidden), book(sheet("S", []any{"Sum", 42})), verdict.WrongAnswer},
		{"A7", `{"type":"cells"}`, cells, storedOnly, book(sheet("S", []any{"Sum", 41, "or 42"}), sheet("U", []any{"Sum", 42})), book(sheet("S", []any{"Sum", 42})), verdict.WrongAnswer},
		{"A7", `{"type":"cells","sheet":"T"}`, book(sheet("T", []any{"Sum", 42})), storedOnly, book(sheet("S", []any{"Sum", 41}), hidden), book(sheet("S", []any{"Sum", 41}), sheet("T", []any{"Sum", 42})), verdict.WrongAnswer},
		{"A15", `{"type":"cells"}`, cells, asTexts, book(sheet("S", []any{"Sum", "42"})), book(sheet("S", []any{"Sum", 42.001})), verdict.WrongAnswer},
		{"A15", `{"type":"table"}`, book(sheet("S", []any{"Sum"}, []any{42})), asTexts, book(sheet("S", []any{"Sum"}, []any{"42"})), book(sheet("Result", []any{"sum"}, []any{42})), verdict.WrongAnswer},
		{"A15", `{"type":"json"}`, jsonFile(`[42]`), contained, jsonFile(`["42"]`), jsonFile(` [4.2e1] `), verdict.WrongAnswer},
		{"A15", `{"type":"cells"}`, book(sheet("S", []any{day(45000)})), func(got, want *artifact.File) bool { return true }, book(sheet("S", []any{"2023-03-15"})), book(sheet("S", []any{day(45000.5)})), verdict.WrongAnswer},
	} {
		t.Run(tt.id, func(t *testing.T) {
			if !tt.weak(tt.attack, tt.want) {
				t.Error("the attack does not even pass the weak comparison")
			}
			r := parse(t, tt.rubric)
			res, err := r.Compare(tt.attack, tt.want)
			if err != nil || res.Pass || res.Reason != tt.reason {
				t.Errorf("%s: the attack is %+v, %v", tt.rubric, res, err)
			}
			holds(t, res)
			if !passes(t, r, tt.honest, tt.want) {
				t.Errorf("%s: the honest twin fails", tt.rubric)
			}
			if faults := r.Check(tt.want); len(faults) > 0 {
				t.Errorf("%s: the reference has %q", tt.rubric, faults)
			}
		})
	}
}
