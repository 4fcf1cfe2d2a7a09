package mapping

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"securebench/internal/console"
	"securebench/internal/redact"
)

// finish writes what lies beside the rows, and keeps the whole.
func (r *run) finish(tables []Table) (Result, error) {
	r.result.LeftOut, r.result.Doubts = r.leftOut.all(), r.doubts.all()
	if n := r.positions[0]; len(r.positions) == 1 && n >= fewest && r.widest > 1 && r.options.Seed == "" {
		r.result.Notes = append(r.result.Notes, fmt.Sprintf("the first choice is right in all %d rows, so that who always takes it is right: give --seed to order choices", n))
	}
	r.result.Files = []string{"tasks.jsonl", "manifest.yaml", "ATTRIBUTION.md"}
	if n := len(r.pictures); n > 0 {
		r.result.Notes = append(r.result.Notes, console.Plural(n, "picture")+" are below "+r.manifest.PublicRoot)
	}
	for name, text := range map[string]string{
		"manifest.yaml":  r.manifestText(oneLine(r.options.Dataset)),
		"ATTRIBUTION.md": r.attribution(tables),
	} {
		if err := r.out.Write(name, []byte(text)); err != nil {
			return Result{}, err
		}
	}
	return r.result, r.out.Commit()
}

// oneLine is a text that ends no line, for comments.
func oneLine(s string) string { return redact.EscapeShort(s, 200) }

// attribution says where the rows are from, and what was done to them.
func (r *run) attribution(tables []Table) string {
	var b strings.Builder
	o := r.options
	fmt.Fprintf(&b, "# %s\n\nRows of the family %s, made of %s.\n\nLicence: %s\n", oneLine(o.Dataset), o.Family, oneLine(cmp.Or(o.Origin, "a table")),
		oneLine(cmp.Or(o.Licence, "not stated. Whoever passes this pack on has to know it.")))
	fmt.Fprintf(&b, "\n## This copy\n\n- Rows: %d of %d\n", r.result.Rows, r.number)
	for i, f := range r.tables {
		fmt.Fprintf(&b, "- `%s`: %d bytes, `%s`\n", oneLine(filepath.Base(f.Name)), f.Size, f.Digest)
		if tables[i].At != "" {
			fmt.Fprintf(&b, "  from <%s>\n", oneLine(tables[i].At))
		}
	}
	if o.Limit > 0 {
		fmt.Fprintf(&b, "- Only the first %d rows were read.\n", o.Limit)
	}
	for _, c := range o.Where {
		fmt.Fprintf(&b, "- Only rows with `%s`.\n", oneLine(c))
	}
	for _, n := range r.result.Notes {
		fmt.Fprintf(&b, "- %s.\n", n)
	}
	b.WriteString("\n## What was changed\n\n| field | comes from |\n|---|---|\n")
	for _, from := range r.origins {
		fmt.Fprintf(&b, "| %s | `%s` |\n", oneLine(from.field), strings.ReplaceAll(oneLine(from.text), "|", "\\|"))
	}
	b.WriteString("\nAll other columns are left out.\n")
	if slices.ContainsFunc(r.origins, func(f origin) bool { return f.field == "choices" }) {
		b.WriteString("Answers became labels of choices.\n")
	}
	if o.Seed != "" {
		b.WriteString("Choices are sorted by SHA-256(seed NUL id NUL choice); each row's metadata has the seed.\n")
	}
	for _, l := range []struct {
		title string
		lines []string
	}{{"Left out", r.result.LeftOut}, {"In doubt", r.result.Doubts}} {
		if len(l.lines) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n- %s\n", l.title, strings.Join(l.lines, "\n- "))
		}
	}
	return b.String()
}
