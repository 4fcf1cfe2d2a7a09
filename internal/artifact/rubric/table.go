package rubric

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/source"
)

// tableRule compares tables: columns by their names, rows as a whole.
type tableRule struct {
	sheet   string
	order   string
	key     []string
	columns map[string]columnRule // by the form in which names are compared
	names   []string              // of columns, as the rubric writes them
	others  columnRule            // of all other columns
	extra   string
}

// columnRule says how the values of a column are compared.
type columnRule struct {
	leniency
	ignore bool
}

// allColumns is the name for all columns that a rubric does not name.
const allColumns = "*"

func readTable(n *source.Node) (rule, source.Problems) {
	if n.Get("match") != nil {
		return readDacodeTable(n)
	}
	r := &tableRule{order: asIs, extra: "refuse", columns: map[string]columnRule{}}
	var ps source.Problems
	ps.Closed(n, "a rubric of type table", "type", "sheet", "order", "key", "columns", "extra_columns", "match")
	source.Optional(&ps, n, "sheet", &r.sheet, (*source.Node).Str)
	source.Optional(&ps, n, "order", &r.order, one(asIs, anyOrder))
	source.Optional(&ps, n, "key", &r.key, texts)
	source.Optional(&ps, n, "extra_columns", &r.extra, one("refuse", "allow"))
	if n.Get("key") != nil && n.Get("order") != nil {
		ps.Add(n.Pos, "leave one out", "a rubric of type table has both key and order")
	}
	c := n.Given("columns")
	if c == nil {
		return r, ps
	}
	if c.Kind != source.Map {
		ps.Add(c.Pos, "", "columns must be an object of objects by the name of a column")
		return r, ps
	}
	r.others = readColumn(&ps, c.Get(allColumns), allColumns, columnRule{})
	for _, f := range c.Fields {
		if f.Name != allColumns {
			r.columns[named(f.Name)] = readColumn(&ps, f.Value, f.Name, r.others)
			r.names = append(r.names, f.Name)
		}
	}
	return r, ps
}

// readColumn reads how a column is compared. What it does not say is as said for all.
func readColumn(ps *source.Problems, n *source.Node, name string, rule columnRule) columnRule {
	switch {
	case n == nil:
		return rule
	case n.Kind != source.Map:
		ps.Add(n.Pos, "", "columns.%s must be an object", name)
		return rule
	}
	ps.Closed(n, "columns."+name, leniencyKeys("ignore")...)
	if name != allColumns && n.Get("ignore") == nil {
		rule.ignore = false // what is named is compared
	}
	rule.read(ps, n, "columns."+name+".")
	source.Optional(ps, n, "columns."+name+".ignore", &rule.ignore, (*source.Node).Boolean)
	return rule
}

func (r *tableRule) official() string { return "" }

// column says how a column is compared.
func (r *tableRule) column(name string) columnRule {
	if c, ok := r.columns[named(name)]; ok {
		return c
	}
	return r.others
}

// pair is a column of both tables.
type pair struct {
	name      string
	got, want int
	leniency
}

// join is two tables whose columns have been matched.
type join struct {
	got, want grid
	pairs     []pair
	keys      []pair // of the rows' key
}

func (r *tableRule) compare(got, want *artifact.File) (Result, error) {
	w, err := gridOf(want, r.sheet)
	if err != nil {
		return Result{}, fmt.Errorf("the reference is no table to compare with: %w", err)
	}
	g, err := gridOf(got, r.sheet)
	if err != nil {
		return fail("the file is no table to compare: %v", err), nil
	}
	if g.sheet != nil && g.sheet.Hidden && (w.sheet == nil || !w.sheet.Hidden) {
		return fail("sheet %s is hidden", shown(g.sheet.Name)), nil
	}
	j := join{got: g, want: w}
	var d differences
	r.match(&j, &d)
	if len(d.lines) > 0 {
		return d.result(), nil
	}
	if j.keys, err = r.keyOf(&j); err != nil {
		return Result{}, err
	}
	if g.sheet != nil {
		compared := func(_, column int) bool {
			return slices.ContainsFunc(j.pairs, func(p pair) bool { return column == g.left+p.got })
		}
		if res, ok := doubt(g.sheet, w.sheet, compared); ok {
			return res, nil
		}
	}
	if g.rows != w.rows {
		d.add("it has %d rows, not %d", g.rows, w.rows)
	}
	switch {
	case len(j.keys) > 0:
		err = j.byKey(&d)
	case r.order == anyOrder:
		err = j.asMultiset(&d)
	default:
		j.inOrder(&d)
	}
	return d.result(), err
}

// match finds each column of the reference in the candidate. A name that comes twice must
// come as often there: the first is compared with the first.
func (r *tableRule) match(j *join, d *differences) {
	got, want := j.got.places(), j.want.places()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		at, rule := got[name], r.column(name)
		title := j.want.columns[want[name][0]]
		switch {
		case rule.ignore:
		case len(at) == 0:
			d.add("column %s is missing", shown(title))
		case len(at) != len(want[name]):
			d.add("column %s comes %d times, not %d", shown(title), len(at), len(want[name]))
		default:
			for i, place := range want[name] {
				j.pairs = append(j.pairs, pair{title, at[i], place, rule.leniency})
			}
		}
	}
	slices.SortFunc(j.pairs, func(a, b pair) int { return a.want - b.want })
	if r.extra == "allow" {
		return
	}
	for i, c := range j.got.columns {
		if _, ok := want[named(c)]; !ok {
			if !d.add("column %d, %s, is not wanted", i+1, shown(c)) {
				return
			}
		}
	}
}

// keyOf finds the columns of the key among those that are compared.
func (r *tableRule) keyOf(j *join) ([]pair, error) {
	var out []pair
	for _, k := range r.key {
		i := slices.IndexFunc(j.pairs, func(p pair) bool { return named(p.name) == named(k) })
		if i < 0 {
			return nil, fmt.Errorf("the key's column %s is not one of the reference's that are compared", shown(k))
		}
		out = append(out, j.pairs[i])
	}
	return out, nil
}

// inOrder compares row with row.
func (j *join) inOrder(d *differences) {
	for row := range min(j.got.rows, j.want.rows) {
		if !j.row(row, row, d) {
			return
		}
	}
}

// row compares two rows, and reports whether more differences are of any use.
func (j *join) row(got, want int, d *differences) bool {
	for _, p := range j.pairs {
		a, b := j.got.at(got, p.got), j.want.at(want, p.want)
		if !p.equal(a, b) && !d.add("row %d, column %s: %s is not %s", got+1, shown(p.name), a, b) {
			return false
		}
	}
	return true
}

// byKey joins rows by their key, which no two of a table have.
func (j *join) byKey(d *differences) error {
	if j.want.rows > maxKeyed {
		return fmt.Errorf("the reference has more than %d rows to join by a key", maxKeyed)
	}
	rows := make(map[[16]byte]int, j.want.rows)
	var b []byte
	for row := range j.want.rows {
		b = j.key(b[:0], j.want, row, func(p pair) int { return p.want })
		key := keyOf(b)
		if before, ok := rows[key]; ok {
			return fmt.Errorf("rows %d and %d of the reference have the same key", before+1, row+1)
		}
		rows[key] = row
	}
	for row := range j.got.rows {
		b = j.key(b[:0], j.got, row, func(p pair) int { return p.got })
		key := keyOf(b)
		want, ok := rows[key]
		switch {
		case !ok:
			if !d.add("row %d has a key that is not wanted or comes twice: %s", row+1, j.keyText(row)) {
				return nil
			}
		case !j.row(row, want, d):
			return nil
		}
		delete(rows, key)
	}
	for _, row := range slices.Sorted(maps.Values(rows)) {
		if !d.add("row %d of the reference is missing", row+1) {
			break
		}
	}
	return nil
}

func (j *join) key(b []byte, g grid, row int, at func(pair) int) []byte {
	for _, p := range j.keys {
		b = p.appendKey(b, g.at(row, at(p)), false)
	}
	return b
}

func (j *join) keyText(row int) string {
	var parts []string
	for _, p := range j.keys {
		parts = append(parts, j.got.at(row, p.got).String())
	}
	return strings.Join(parts, ", ")
}

func (r *tableRule) check(want *artifact.File) (faults []string) {
	w, err := gridOf(want, r.sheet)
	if err != nil {
		return []string{"the reference is no table to compare with: " + err.Error()}
	}
	have := w.places()
	for _, name := range r.names {
		if len(have[named(name)]) == 0 {
			faults = append(faults, fmt.Sprintf("columns names %s, which the reference lacks", shown(name)))
		}
	}
	for _, name := range r.key {
		switch at := have[named(name)]; {
		case len(at) == 0:
			faults = append(faults, fmt.Sprintf("key names column %s, which the reference lacks", shown(name)))
		case len(at) > 1 || r.column(name).ignore:
			faults = append(faults, fmt.Sprintf("key names column %s, which is ignored or comes twice", shown(name)))
		}
	}
	if len(faults) > 0 {
		return faults
	}
	if w.rows == 0 {
		faults = append(faults, "the reference has no rows: an empty table would pass")
	}
	if !slices.ContainsFunc(w.columns, func(c string) bool { return !r.column(c).ignore }) {
		faults = append(faults, "all columns of the reference are ignored: any table would pass")
	}
	return faults
}
