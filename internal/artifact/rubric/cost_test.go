package rubric_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"securebench/internal/artifact"
	"securebench/internal/memtest"
)

// big is a table of a size in bytes: an id, a text and numbers.
func big(tb testing.TB, size int) *artifact.File {
	tb.Helper()
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // for a made table
	rows := [][]string{{"id", "name", "x", "y", "n"}}
	for length := 0; length < size; {
		row := []string{strconv.Itoa(len(rows)), fmt.Sprintf("name %d", random.IntN(1000)), strconv.FormatFloat(random.Float64(), 'g', -1, 64), strconv.FormatFloat(random.NormFloat64()*100, 'f', 4, 64), strconv.Itoa(random.IntN(10))}
		length += len(strings.Join(row, ",")) + 1
		rows = append(rows, row)
	}
	return &artifact.File{Type: artifact.CSV, Table: &artifact.Table{Rows: rows}}
}

// shuffled has the rows of a table in another order.
func shuffled(f *artifact.File) *artifact.File {
	random := rand.New(rand.NewPCG(7, 8)) //nolint:gosec // for a made table
	rows := append([][]string{f.Table.Rows[0]}, f.Table.Rows[1:]...)
	random.Shuffle(len(rows)-1, func(i, k int) { rows[i+1], rows[k+1] = rows[k+1], rows[i+1] })
	return &artifact.File{Type: artifact.CSV, Table: &artifact.Table{Rows: rows}}
}

// BenchmarkTable compares a table of 1 MB: in order, by a key, in any order.
func BenchmarkTable(b *testing.B) {
	want := big(b, 1<<20)
	other := shuffled(want)
	for name, c := range map[string]struct {
		rubric string
		got    *artifact.File
	}{
		"in order":  {`{"type":"table","columns":{"*":{"tolerance":0.01}}}`, want},
		"by key":    {`{"type":"table","key":["id"],"columns":{"*":{"tolerance":0.01}}}`, other},
		"any order": {`{"type":"table","order":"any","columns":{"*":{"tolerance":0.01}}}`, other},
		"dacode":    {`{"type":"table","match":"dacode"}`, want},
	} {
		r := parse(b, c.rubric)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if !passes(b, r, c.got, want) {
					b.Fatal("it does not pass")
				}
			}
		})
	}
}

// hostile are tables that cost much where every row could be every other one.
func hostile(rows int) map[string][2]*artifact.File {
	make2 := func(got, want func(i int) []string) [2]*artifact.File {
		var out [2]*artifact.File
		for k, row := range []func(i int) []string{got, want} {
			t := &artifact.Table{Rows: [][]string{{"a", "b"}}}
			for i := range rows {
				t.Rows = append(t.Rows, row(i))
			}
			out[k] = &artifact.File{Type: artifact.CSV, Table: t}
		}
		return out
	}
	same := func(int) []string { return []string{"0.5", "0.5"} }
	return map[string][2]*artifact.File{
		"all equal but one": make2(func(i int) []string {
			if i == 0 {
				return []string{"0.5", "9"}
			}
			return same(i)
		}, same),
		"all near in one column": make2(
			func(i int) []string {
				return []string{strconv.FormatFloat(0.5+float64(i)*1e-9, 'g', -1, 64), strconv.Itoa(2 * i)}
			},
			func(i int) []string {
				return []string{strconv.FormatFloat(0.5-float64(i)*1e-9, 'g', -1, 64), strconv.Itoa(2*i + 1)}
			}),
		"a chain": make2(
			func(i int) []string { return []string{strconv.FormatFloat(float64(i)*0.009, 'g', -1, 64), "0"} },
			func(i int) []string { return []string{strconv.FormatFloat(float64(i)*0.009+0.0095, 'g', -1, 64), "0"} }),
	}
}

// TestCostOfAnyOrder: ten times the rows cost not much more than ten times the memory, and
// what looks at too many pairs of rows fails.
func TestCostOfAnyOrder(t *testing.T) {
	r := parse(t, `{"type":"table","order":"any","columns":{"*":{"tolerance":0.01}}}`)
	const few, many = 1_000, 10_000
	small, large := hostile(few), hostile(many)
	for name := range small {
		cost := func(files [2]*artifact.File) int64 {
			return memtest.Allocated(func() {
				if name != "a chain" && passes(t, r, files[0], files[1]) {
					t.Errorf("%s passes", name)
				}
			})
		}
		if a, b := cost(small[name]), cost(large[name]); b > 15*a {
			t.Errorf("%s: %d rows allocate %d bytes, %d rows %d", name, few, a, many, b)
		}
	}
}

func BenchmarkHostile(b *testing.B) {
	r := parse(b, `{"type":"table","order":"any","columns":{"*":{"tolerance":0.01}}}`)
	for name, files := range hostile(100_000) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Compare(files[0], files[1]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
