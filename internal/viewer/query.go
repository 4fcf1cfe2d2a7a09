package viewer

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// PerPage is how many attempts a page of the list has.
const PerPage = 100

// Found is a page of the attempts that a query finds.
type Found struct {
	Total  int                `json:"total"`
	Found  int                `json:"found"`
	Page   int                `json:"page"` // from 1
	Pages  int                `json:"pages"`
	Rows   []Row              `json:"rows"`
	Facets map[string][]Facet `json:"facets"`
	// Cut says that of long texts a part was searched.
	Cut bool `json:"cut,omitzero"`
}

// Facet is a value of a column, and how many attempts of the run have it.
type Facet struct {
	Value    string `json:"value"`
	Attempts int    `json:"attempts"`
}

// maxFacets bounds the values of a column that a filter offers.
const maxFacets = 500

// column is what rows are filtered by.
type column struct {
	name   string
	values func(*Row) []string
}

// columns are those with filters.
func columns() []column {
	one := func(f func(*Row) string) func(*Row) []string {
		return func(r *Row) []string { return []string{f(r)} }
	}
	return []column{
		{"outcome", one(func(r *Row) string { return r.Outcome })},
		{"reason", one(func(r *Row) string { return r.Reason })},
		{"family", one(func(r *Row) string { return r.Family })},
		{"basis", one(func(r *Row) string { return r.Basis })},
		{"containment", one(func(r *Row) string { return r.Containment })},
		{"tag", func(r *Row) []string { return r.Tags }},
	}
}

// Query finds attempts of the run.
func (r *Run) Query(by url.Values) Found {
	var lines []line
	if by.Get("in") == inTexts {
		lines = r.lines
	}
	out := query(r.Rows, lines, by)
	out.Facets, out.Cut = r.facets, lines != nil && r.cut && by.Get("q") != ""
	return out
}

// inTexts as the parameter "in" also searches what was asked and what was answered.
const inTexts = "texts"

// query returns the page of attempts that the parameters of an address ask for: words
// that must all occur (q), a value for a column, an order (sort, with a minus before it
// for the other way) and a page. The lines of the rows, if they are given, have texts in
// which the words may occur as well.
func query(rows []Row, lines []line, by url.Values) Found {
	words := wordsOf(by)
	out := Found{Total: len(rows), Rows: []Row{}}
	var found []Row
	for i := range rows {
		var more texts
		if lines != nil {
			more = lines[i].texts
		}
		if rows[i].is(by) && rows[i].has(words, more) {
			found = append(found, rows[i])
		}
	}
	order(found, by.Get("sort"))
	out.Found = len(found)
	found, out.Page, out.Pages = paged(found, by)
	out.Rows = append(out.Rows, found...)
	return out
}

// wordsOf are the words that an address asks for, in lower case.
func wordsOf(by url.Values) []string { return strings.Fields(strings.ToLower(by.Get("q"))) }

// paged returns the rows of the page that an address asks for, which page that is, and
// how many there are.
func paged[T any](rows []T, by url.Values) (shown []T, page, pages int) {
	pages = max(1, (len(rows)+PerPage-1)/PerPage)
	page, _ = strconv.Atoi(by.Get("page"))
	page = min(max(page, 1), pages)
	first := (page - 1) * PerPage
	return rows[first:min(first+PerPage, len(rows))], page, pages
}

// has reports whether all words occur in the row or in more texts of it.
func (r *Row) has(words []string, more texts) bool {
	if len(words) == 0 {
		return true
	}
	text := strings.ToLower(strings.Join(slices.Concat([]string{r.Task, r.Family, r.Outcome, r.Reason, r.Containment}, r.Tags), "\n"))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) && !more.have(w) })
}

// is reports whether the row has the values that are asked for.
func (r *Row) is(by url.Values) bool {
	for _, c := range columns() {
		if want := by.Get(c.name); want != "" && !slices.Contains(c.values(r), want) {
			return false
		}
	}
	return true
}

// order sorts rows; those that are equal stay in the order of the pack.
func order(rows []Row, by string) {
	name, down := strings.CutPrefix(by, "-")
	compare := map[string]func(a, b Row) int{
		"task":    func(a, b Row) int { return strings.Compare(a.Task, b.Task) },
		"family":  func(a, b Row) int { return strings.Compare(a.Family, b.Family) },
		"outcome": func(a, b Row) int { return strings.Compare(a.Outcome, b.Outcome) },
		"reason":  func(a, b Row) int { return strings.Compare(a.Reason, b.Reason) },
		"time":    func(a, b Row) int { return cmp.Compare(a.MS, b.MS) },
	}[name]
	if compare == nil {
		return
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		if down {
			return compare(b, a)
		}
		return compare(a, b)
	})
}

// facets counts the values of the columns.
func facets(rows []Row) map[string][]Facet {
	out := map[string][]Facet{}
	for _, c := range columns() {
		counts := map[string]int{}
		for i := range rows {
			for _, v := range c.values(&rows[i]) {
				if v != "" {
					counts[v]++
				}
			}
		}
		all := []Facet{}
		for v, n := range counts {
			all = append(all, Facet{v, n})
		}
		slices.SortFunc(all, func(a, b Facet) int { return strings.Compare(a.Value, b.Value) })
		out[c.name] = all[:min(len(all), maxFacets)]
	}
	return out
}
