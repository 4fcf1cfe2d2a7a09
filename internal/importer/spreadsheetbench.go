package importer

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"securebench/internal/lazyregexp"
)

func spreadsheetBench() dataset {
	return dataset{
		format:  SpreadsheetBench,
		family:  deliverableFamily,
		convert: convertSpreadsheetBench,
		rows:    spreadsheetBenchRows,
		folder:  func(input string) string { return beside(input, "dataset.json") },
		image:   officeImage,
		array:   true,
		checked: true,
		licence: "These rows and workbooks are licensed under the Creative Commons Attribution-ShareAlike 4.0\nInternational licence (CC BY-SA 4.0): https://creativecommons.org/licenses/by-sa/4.0/\n",
		about: `# SpreadsheetBench

Rows of SpreadsheetBench, from the repository RUCKBReasoning/SpreadsheetBench (data). Zeyao
Ma and others, "SpreadsheetBench: Towards Challenging Real World Spreadsheet Manipulation"
(2024), https://arxiv.org/abs/2406.14991

Licence: CC BY-SA 4.0 (LICENSE).
`,
		changes: "- A row asks for the changed workbook of each of its cases, 1.xlsx, 2.xlsx and so on, which are the inputs too. All must be right, as under the data set's hard restriction. There, one program changes all of them.\n" +
			"- The cells of `answer_position` are compared. The official rule rounds numbers to two digits, takes a text that looks like a number for one, compares dates by day, and takes an empty text for an empty cell. Our own (`--rule own`) compares values as what they are.\n" +
			"- Under the official rule, what is stored beside a formula counts, as in the data set's scorer. Under ours, formulas are calculated, and a stored value that differs fails.\n",
	}
}

var (
	spreadsheetID = lazyregexp.New(`^[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*$`)
	cellRange     = lazyregexp.New(`^\$?[A-Z]{1,3}\$?[1-9][0-9]{0,6}(?::\$?[A-Z]{1,3}\$?[1-9][0-9]{0,6})?$`)
)

// maxCases bounds the cases of a row; the data set has three.
const maxCases = 16

func convertSpreadsheetBench(o *object, c converter) row {
	o.only("id", "instruction", "spreadsheet_path", "instruction_type", "answer_position", "answer_sheet", "data_position")
	id := o.anyID("id")
	r := row{ID: "spreadsheetbench/" + id, Metadata: map[string]any{"dataset": "SpreadsheetBench", "type": o.text("instruction_type")}}
	instruction, position, folder := o.text("instruction"), o.text("answer_position"), o.text("spreadsheet_path")
	if len(o.problems) == 0 && !spreadsheetID.MatchString(id) {
		o.fail(o.node.Get("id"), "id must consist of letters, digits, hyphens and underscores")
	}
	if len(o.problems) > 0 {
		return r
	}
	var outputs []outputSpec
	var assets []mounted
	why := ""
	answer := ""
	for n := 1; n <= maxCases && why == ""; n++ {
		from, want := spreadsheetCase(c.files, folder, id, n)
		if from == "" {
			break
		}
		name := strconv.Itoa(n) + ".xlsx"
		why = cmp.Or(c.files.file(from, path.Join("assets", id, name)), c.files.file(want, evalFile(path.Join("gold", id, name))))
		outputs = append(outputs, outputSpec{Type: "xlsx", Path: name})
		assets = append(assets, mounted{Path: path.Join(id, name), Mount: name, ReadOnly: writable()})
		answer = cmp.Or(answer, want)
	}
	if len(outputs) == 0 {
		c.leave(fmt.Sprintf("%s has no workbook with an answer", folder))
		return r
	}
	parts, lacking := positions(c, answer, position)
	c.leave(cmp.Or(why, lacking))
	brief, save := instruction+"\n\nDo this in 1.xlsx", "Save the result under the same name."
	if len(outputs) > 1 {
		save = "Save each result under the same name."
		brief += fmt.Sprintf(", and in the same way in each other workbook up to %d.xlsx", len(outputs))
	}
	brief += ". " + save + " The answer belongs in " + position + "."
	in, ev := map[string]any{"brief": brief}, deliverableEval{Rubric: combined(parts)}
	if len(outputs) == 1 {
		in["output_spec"], ev.Reference = outputs[0], evalPath{path.Join("gold", id, outputs[0].Path)}
	} else {
		in["output_spec"], ev.Reference = outputs, evalPath{path.Join("gold", id)}
	}
	r.Input, r.Assets, r.Eval = in, assets, ev
	return r
}

// anyID reads an id, which is a text or a number.
func (o *object) anyID(name string) string {
	if n := o.node.Get(name); n != nil && n.Text != "" && spreadsheetID.MatchString(n.Text) {
		return n.Text
	}
	return o.text(name)
}

// spreadsheetCase returns the workbooks of a case, in the names of either edition; "" is
// none.
func spreadsheetCase(files *materials, folder, id string, n int) (from, want string) {
	for _, names := range [][2]string{{"input", "answer"}, {"init", "golden"}} {
		at := func(what string) string { return path.Join(folder, fmt.Sprintf("%d_%s_%s.xlsx", n, id, what)) }
		if _, why := files.stat(at(names[0])); why == "" {
			return at(names[0]), at(names[1])
		}
	}
	return "", ""
}

// positions are the rubrics of the ranges that are compared, or why there are none. A range
// without a sheet is one of the first.
func positions(c converter, answer, position string) (out []map[string]any, why string) {
	want, err := c.files.book(answer)
	if err != nil {
		return []map[string]any{{}}, err.Error()
	}
	for _, at := range strings.Split(position, ",") {
		at = strings.TrimSpace(at)
		sheet, cells, found := cutLast(at, "!")
		if !found {
			sheet, cells = "", at
			if len(want) > 0 {
				sheet = want[0].name
			}
		}
		sheet, cells = strings.Trim(sheet, "'"), strings.Trim(cells, "'")
		if !cellRange.MatchString(cells) {
			return []map[string]any{{}}, fmt.Sprintf("answer_position has %q, which is no range of cells", at)
		}
		if _, there := want.named(sheet); !there {
			return []map[string]any{{}}, fmt.Sprintf("answer_position names the sheet %q, which the answer does not have", sheet)
		}
		part := map[string]any{"type": "cells", "sheet": sheet, "range": strings.ReplaceAll(cells, "$", "")}
		if c.rule == OfficialRule {
			part["match"] = "spreadsheetbench"
		} else {
			part["compare"] = "value"
		}
		out = append(out, part)
	}
	return out, ""
}

// cutLast cuts a text around the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// spreadsheetBenchRows reads a folder with dataset.json.
func spreadsheetBenchRows(dir string, sum io.Writer) (func() (*object, error), error) {
	for _, name := range []string{"dataset.json", "dataset.jsonl", "rows.jsonl"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return oneFile(filepath.Join(dir, name), sum)
		}
	}
	return nil, fmt.Errorf("%s has no dataset.json", dir)
}
