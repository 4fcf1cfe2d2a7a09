package importer_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/importer"
)

// workbook makes a workbook of sheets: their names, and their rows of cells. It stores texts
// where programs do that, and a formula without a value.
func workbook(t *testing.T, sheets ...[]string) string {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	put := func(name, text string) {
		f, err := z.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	list, relations, shared := "", "", ""
	texts := 0
	for i, s := range sheets {
		list += fmt.Sprintf(`<sheet name="%s" sheetId="%d" r:id="rId%d"/>`, s[0], i+1, i+1)
		relations += fmt.Sprintf(`<Relationship Id="rId%d" Target="worksheets/sheet%d.xml"/>`, i+1, i+1)
		rows := ""
		for r, line := range s[1:] {
			rows += fmt.Sprintf(`<row r="%d">`, r+1)
			for c, cell := range strings.Split(line, ",") {
				at := fmt.Sprintf("%c%d", 'A'+c, r+1)
				switch {
				case cell == "":
				case cell[0] == '=':
					rows += fmt.Sprintf(`<c r="%s"><f>%s</f></c>`, at, cell[1:])
				case cell[0] >= '0' && cell[0] <= '9':
					rows += fmt.Sprintf(`<c r="%s"><v>%s</v></c>`, at, cell)
				default:
					rows += fmt.Sprintf(`<c r="%s" t="s"><v>%d</v></c>`, at, texts)
					shared += `<si><r><t>` + cell[:1] + `</t></r><r><t>` + cell[1:] + `</t></r></si>`
					texts++
				}
			}
			rows += `</row>`
		}
		put(fmt.Sprintf("xl/worksheets/sheet%d.xml", i+1), `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>`+rows+`</sheetData></worksheet>`)
	}
	put("xl/workbook.xml", `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>`+list+`</sheets></workbook>`)
	put("xl/_rels/workbook.xml.rels", `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">`+relations+`</Relationships>`)
	put("xl/sharedStrings.xml", `<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">`+shared+`</sst>`)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// folder writes files into a folder of the test's.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	at := t.TempDir()
	for name, text := range files {
		name = filepath.Join(at, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// sheetCopilotBoard says what of an expected workbook is compared.
func sheetCopilotBoard(sheet, values, formats, charts string) string {
	return fmt.Sprintf(`{"%s": {"cells": {"formatting": %s, "hyperlink": false, "values": %s}, "charts": {"title": %s}, "filters": {"name": true}}}`, sheet, formats, values, charts)
}

// TestSheetCopilot: the rows of a file and of the repository; what is not compared by cells
// is left out, and a new sheet is named.
func TestSheetCopilot(t *testing.T) {
	before := workbook(t, []string{"Sheet1", "a,b", "1,2"})
	changed := workbook(t, []string{"Sheet1", "a,b,sum", "1,2,=A2+B2"})
	wider := workbook(t, []string{"Sheet1", "a,b,,sum", "1,2,,=A2+B2"})
	added := workbook(t, []string{"Sheet2", "sum", "=Sheet1!A2+Sheet1!B2"}, []string{"Sheet1", "a,b", "1,2"})
	boards := map[string]string{
		"1_Sums_gt1": sheetCopilotBoard("1", "true", "true", "false"),
		"1_Sums_gt2": sheetCopilotBoard("1", "true", "true", "false"),
		"2_Sums_gt1": sheetCopilotBoard("1", "true", "false", "false"),
		"3_Sums_gt1": sheetCopilotBoard("1", "true", "true", "false"),
		"4_Sums_gt1": sheetCopilotBoard("1", "true", "false", "true"),
		"5_Sums_gt1": sheetCopilotBoard("1", "false", "false", "false"),
		"6_Sums_gt1": sheetCopilotBoard("7", "true", "false", "false"),
	}
	books := map[string]string{"1_Sums_gt1": changed, "1_Sums_gt2": wider, "2_Sums_gt1": added, "3_Sums_gt1": before, "4_Sums_gt1": changed, "5_Sums_gt1": changed, "6_Sums_gt1": changed}
	files := map[string]string{"public/source/Sums.xlsx": before, "dataset/task_sheets/Sums.xlsx": before}
	table := []string{"Sheet1", "Sheet Name,No.,Context,Instructions,Categories"}
	rows := ""
	for n := 1; n <= 6; n++ {
		id := fmt.Sprintf("%d_Sums", n)
		var golds, board []string
		for gold := 1; gold <= 2; gold++ {
			name := fmt.Sprintf("%s_gt%d", id, gold)
			if boards[name] == "" {
				continue
			}
			files["public/gold/"+id+"/"+name+".xlsx"] = books[name]
			files["dataset/task_sheet_answers_v2/Sums/"+id+"/"+name+".xlsx"] = books[name]
			files["dataset/task_sheet_answers_v2/Sums/"+id+"/"+name+"_check.yaml"] = `{"check_board": ` + boards[name] + "}\n"
			golds, board = append(golds, `"`+name+`.xlsx"`), append(board, `"`+name+`.xlsx": `+boards[name])
		}
		rows += fmt.Sprintf(`{"id": "%s", "source": "source/Sums.xlsx", "context": "Two numbers.", "instructions": "Add them.", "categories": "Formula", "golds": [%s], "check_board": {%s}, "checked": ["cells"]}`+"\n",
			id, strings.Join(golds, ","), strings.Join(board, ","))
		table = append(table, fmt.Sprintf("Sums,%d,Two numbers.,Add them.,Formula", n))
	}
	files["public/rows.jsonl"], files["dataset/dataset.xlsx"] = rows, workbook(t, table)
	at := folder(t, files)
	dir, sum, err := run(t, importer.SheetCopilot, rows, importer.Options{Name: filepath.Join(at, "public", "rows.jsonl")})
	if err != nil {
		t.Fatal(err)
	}
	row := func(id, more, golds, rubric string) string {
		return `{"id":"sheetcopilot/` + id + `","input":{"brief":"Two numbers.\n\nAdd them.\n\nThe workbook is Sums.xlsx. Save the result under the same name.` + more + `","output_spec":{"type":"xlsx","path":"Sums.xlsx"}},` +
			`"assets":[{"path":"Sums.xlsx","mount":"Sums.xlsx","read_only":false}],"eval":{"reference_artifact":[` + golds + `],"rubric":` + rubric + `},"metadata":{"categories":"Formula","dataset":"SheetCopilot"}}` + "\n"
	}
	want := row("1_Sums", "", `{"path":"1_Sums/1_Sums_gt1.xlsx"},{"path":"1_Sums/1_Sums_gt2.xlsx"}`, `{"compare":"value","range":"A1:D2","sheet":"Sheet1","type":"cells"}`) +
		row("2_Sums", ` Call the new sheet \"Sheet2\".`, `{"path":"2_Sums/2_Sums_gt1.xlsx"}`, `{"compare":"value","range":"A1:A2","sheet":"Sheet2","type":"cells"}`) +
		row("3_Sums", "", `{"path":"3_Sums/3_Sums_gt1.xlsx"}`, `{"all":[{"compare":"value","range":"A1:B2","sheet":"Sheet1","type":"cells"},{"compare":"format","range":"A1:B2","sheet":"Sheet1","type":"cells"}]}`) +
		row("4_Sums", "", `{"path":"4_Sums/4_Sums_gt1.xlsx"}`, `{"all":[{"compare":"value","range":"A1:C2","sheet":"Sheet1","type":"cells"},{"charts":["title"],"sheet":"Sheet1","type":"workbook"}]}`)
	if diff := cmp.Diff(want, read(t, dir, "tasks.jsonl")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	left := []string{"sheetcopilot/5_Sums: it compares nothing", "sheetcopilot/6_Sums: check_board names a sheet that is not there"}
	if diff := cmp.Diff(left, sum.LeftOut); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	for _, name := range []string{"public", ""} { // folders
		other, _, err := run(t, importer.SheetCopilot, "", importer.Options{Name: filepath.Join(at, name)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, read(t, other, "tasks.jsonl")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", name, diff)
		}
	}
	if got := read(t, dir, "eval/1_Sums/1_Sums_gt2.xlsx"); got != wider {
		t.Error("the second expected workbook is another one")
	}
}

// TestSheetCopilotPaths: an expected workbook has a name, and no path that leads to another
// place of the data set, and of the pack.
func TestSheetCopilotPaths(t *testing.T) {
	book := workbook(t, []string{"Sheet1", "a,b", "1,2"})
	for gold, bad := range map[string]bool{"1_Sums_gt1.xlsx": false, "../../manifest.yaml": true, "../../../assets/Sums.xlsx": true, "deep/a.xlsx": true, "..": true, ".": true} {
		at := folder(t, map[string]string{"source/Sums.xlsx": book, "gold/1_Sums/1_Sums_gt1.xlsx": book, "gold/1_Sums/deep/a.xlsx": book, "manifest.yaml": book})
		row := fmt.Sprintf(`{"id": "1_Sums", "source": "source/Sums.xlsx", "context": "c", "instructions": "i", "categories": "Formula", "golds": [%q], "check_board": {%q: %s}}`+"\n",
			gold, gold, sheetCopilotBoard("1", "true", "false", "false"))
		dir, _, err := run(t, importer.SheetCopilot, row, importer.Options{Name: filepath.Join(at, "rows.jsonl")})
		if bad != (err != nil && strings.Contains(err.Error(), "golds must be names of workbooks, without folders")) {
			t.Errorf("%s: %v", gold, err)
		}
		if !bad && read(t, dir, "eval/1_Sums/"+gold) != book {
			t.Errorf("%s is another workbook", gold)
		}
	}
}

// TestSpreadsheetBench: each case of a row is a workbook that must be right.
func TestSpreadsheetBench(t *testing.T) {
	row := func(id, position string) string {
		return fmt.Sprintf(`{"id": %s, "instruction": "Add them.", "spreadsheet_path": "spreadsheet/%s", "instruction_type": "Cell-Level Manipulation", "answer_position": "%s"}`, id, strings.Trim(id, `"`), position)
	}
	before, after := workbook(t, []string{"One", "1,2"}, []string{"My Sheet", "x"}), workbook(t, []string{"One", "1,2,3"}, []string{"My Sheet", "x,y"})
	files := map[string]string{"dataset.json": "[" + strings.Join([]string{row("12", "C1"), row(`"7-3"`, "'My Sheet'!A1:B1,One!$C$1"), row("13", "C1"), row("14", "Two!C1"), row("15", "C1,column D")}, ",\n") + "]"}
	for name, ids := range map[string][]string{"%d_%s_input.xlsx %d_%s_answer.xlsx": {"12", "14", "15"}, "%d_%s_init.xlsx %d_%s_golden.xlsx": {"7-3"}} {
		in, out, _ := strings.Cut(name, " ")
		for _, id := range ids {
			for n := 1; n <= 2 && (n == 1 || id != "7-3"); n++ {
				files["spreadsheet/"+id+"/"+fmt.Sprintf(in, n, id)], files["spreadsheet/"+id+"/"+fmt.Sprintf(out, n, id)] = before, after
			}
		}
	}
	at := folder(t, files)
	dir, sum, err := run(t, importer.SpreadsheetBench, "", importer.Options{Name: at})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"spreadsheetbench/12","input":{"brief":"Add them.\n\nDo this in 1.xlsx, and in the same way in each other workbook up to 2.xlsx. Save each result under the same name. The answer belongs in C1.",` +
		`"output_spec":[{"type":"xlsx","path":"1.xlsx"},{"type":"xlsx","path":"2.xlsx"}]},` +
		`"assets":[{"path":"12/1.xlsx","mount":"1.xlsx","read_only":false},{"path":"12/2.xlsx","mount":"2.xlsx","read_only":false}],` +
		`"eval":{"reference_artifact":{"path":"gold/12"},"rubric":{"match":"spreadsheetbench","range":"C1","sheet":"One","type":"cells"}},` +
		`"metadata":{"dataset":"SpreadsheetBench","type":"Cell-Level Manipulation"}}` + "\n" +
		`{"id":"spreadsheetbench/7-3","input":{"brief":"Add them.\n\nDo this in 1.xlsx. Save the result under the same name. The answer belongs in 'My Sheet'!A1:B1,One!$C$1.",` +
		`"output_spec":{"type":"xlsx","path":"1.xlsx"}},"assets":[{"path":"7-3/1.xlsx","mount":"1.xlsx","read_only":false}],` +
		`"eval":{"reference_artifact":{"path":"gold/7-3/1.xlsx"},"rubric":{"all":[{"match":"spreadsheetbench","range":"A1:B1","sheet":"My Sheet","type":"cells"},{"match":"spreadsheetbench","range":"C1","sheet":"One","type":"cells"}]}},` +
		`"metadata":{"dataset":"SpreadsheetBench","type":"Cell-Level Manipulation"}}` + "\n"
	if diff := cmp.Diff(want, read(t, dir, "tasks.jsonl")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	left := []string{
		"spreadsheetbench/13: spreadsheet/13 has no workbook with an answer",
		`spreadsheetbench/14: answer_position names the sheet "Two", which the answer does not have`,
		`spreadsheetbench/15: answer_position has "column D", which is no range of cells`,
	}
	if diff := cmp.Diff(left, sum.LeftOut); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	if read(t, dir, "assets/12/2.xlsx") != before || read(t, dir, "eval/gold/12/2.xlsx") != after {
		t.Error("workbooks were mixed up")
	}
	dir, _, err = run(t, importer.SpreadsheetBench, "", importer.Options{Name: at, Rule: importer.OwnRule})
	if err != nil || !strings.Contains(read(t, dir, "tasks.jsonl"), `"rubric":{"compare":"value","range":"C1","sheet":"One","type":"cells"}`) {
		t.Errorf("our own rule: %v", err)
	}
}
