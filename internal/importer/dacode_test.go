package importer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/importer"
)

// daCodeFiles is a folder in the form of DA-Code, written for these tests.
func daCodeFiles(t *testing.T) string {
	t.Helper()
	return folder(t, map[string]string{
		"source/dm-csv-001/sales.csv":         "shop,sold\nA,3\nA,4\nB,1\n",
		"source/dm-csv-001/data/notes.md":     "Each line is a sale.\n",
		"source/dm-csv-001/result.csv":        "shop,total\n",
		"source/dm-csv-001/.DS_Store":         "x",
		"gold/dm-csv-001/result.csv":          "shop,total\nA,7\nB,1\n",
		"source/di-text-001/sales.csv":        "shop,sold\nA,3\n",
		"source/ml-competition-001/train.csv": "id,y\n1,0.5\n",
		"gold/ml-competition-001/sub.csv":     "id,y\n2,0.5\n3,0.25\n",
		"source/ml-cluster-001/points.csv":    "x\n1\n",
		"gold/ml-cluster-001/cluster.csv":     "x,cluster\n1,0\n",
		"source/plot-bar-001/points.csv":      "x\n1\n",
		"source/dm-csv-002/sales.csv":         "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
		"gold/dm-csv-002/result.csv":          "a\n1\n",
		"source/dm-csv-003/sales.csv":         "a\n1\n",
	})
}

// daCodeTask and daCodeScoring are the parts of a row.
func daCodeTask(id string) string {
	return `"id": "` + id + `", "type": "Data", "instruction": "Count them. Write {\"Best Shop\": [...]}.", "hardness": "Easy", "post_process": []`
}

func daCodeScoring(id, function, result, config, options string) string {
	return `{"id": "` + id + `", "config": {` + config + `}, "func": ["` + function + `"], "result": [` + result + `], "options": [{` + options + `}]}`
}

// daCodeRows are the rows of the folder: their ids, in order, and how they are scored.
var daCodeRows = [][2]string{
	{"dm-csv-001", daCodeScoring("dm-csv-001", "compare_csv", `{"file": ["result.csv"]}`, "", `"condition_cols": [1], "ignore_order": true`)},
	{"di-text-001", daCodeScoring("di-text-001", "compare_text", `{"number": [{"best shop": ["A"]}]}`, "", "")},
	{"ml-competition-001", daCodeScoring("ml-competition-001", "compare_competition_ml", `{"file": "sub.csv"}`, `"metric": "rmsle", "upper_bound": 0.2, "lower_bound": 0.1`, "")},
	{"ml-cluster-001", daCodeScoring("ml-cluster-001", "compare_ml", `{"file": "cluster.csv"}`, `"metric": "silhouette", "upper_bound": 0.9, "lower_bound": 0`, "")},
	{"plot-bar-001", daCodeScoring("plot-bar-001", "compare_image", `{"multi": true, "file": ["result.png", "dabench/plot.json"]}`, "", "")},
	{"dm-csv-002", daCodeScoring("dm-csv-002", "compare_csv", `{"file": ["result.csv"]}`, "", "")},
	{"dm-csv-003", daCodeScoring("dm-csv-003", "compare_csv", `{"file": ["result.csv"]}`, "", "")},
	{"data-wrangling-001", daCodeScoring("data-wrangling-001", "compare_sqlite", `{"file": ["a.db"]}`, "", "")},
}

// TestDACode: files of rows and the repository give the same pack; what cannot be scored
// is named.
func TestDACode(t *testing.T) {
	at := daCodeFiles(t)
	var rows, tasks, scoring strings.Builder
	for _, r := range daCodeRows {
		rows.WriteString("{" + daCodeTask(r[0]) + `, "eval": ` + r[1] + "}\n")
		tasks.WriteString("{" + daCodeTask(r[0]) + "}\n")
		scoring.WriteString(r[1] + "\n")
	}
	for name, text := range map[string]string{"configs/task/all.jsonl": tasks.String(), "configs/eval/eval_all.jsonl": scoring.String()} {
		if err := os.MkdirAll(filepath.Join(at, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	repository, sum, err := run(t, importer.DACode, "", importer.Options{Name: at})
	if err != nil {
		t.Fatal(err)
	}
	dir, _, err := run(t, importer.DACode, rows.String(), importer.Options{Name: filepath.Join(at, "rows.jsonl")})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read(t, repository, "tasks.jsonl"), read(t, dir, "tasks.jsonl")); diff != "" {
		t.Errorf("(-repository +rows):\n%s", diff)
	}
	brief := `"input":{"brief":"Count them. Write {\"Best Shop\": [...]}.",`
	metadata := `"metadata":{"dataset":"DA-Code","hardness":"Easy","type":"Data"}}`
	want := `{"id":"dacode/dm-csv-001",` + brief + `"output_spec":{"type":"csv","path":"result.csv"}},` +
		`"assets":[{"path":"dm-csv-001/data","mount":"data"},{"path":"dm-csv-001/result.csv","mount":"result.csv","read_only":false},{"path":"dm-csv-001/sales.csv","mount":"sales.csv"}],` +
		`"eval":{"reference_artifact":{"path":"gold/dm-csv-001/result.csv"},"rubric":{"columns":["total"],"match":"dacode","order":"any","type":"table"}},` + metadata + "\n" +
		`{"id":"dacode/di-text-001",` + brief + `"output_spec":{"type":"json","path":"result.json"}},"assets":[{"path":"di-text-001/sales.csv","mount":"sales.csv"}],` +
		`"eval":{"reference_artifact":{"path":"gold/di-text-001/result.json"},"rubric":{"match":"dacode","type":"json"}},` + metadata + "\n" +
		`{"id":"dacode/ml-competition-001",` + brief + `"output_spec":{"type":"csv","path":"sub.csv"}},"assets":[{"path":"ml-competition-001/train.csv","mount":"train.csv"}],` +
		`"eval":{"reference_artifact":{"path":"gold/ml-competition-001/sub.csv"},"rubric":{"at_most":0.1,"id":"id","metric":"rmsle","target":"y","type":"metric"}},` + metadata + "\n"
	if diff := cmp.Diff(want, read(t, dir, "tasks.jsonl")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	for name, text := range map[string]string{
		"eval/gold/di-text-001/result.json":    `{"Best Shop":["A"]}` + "\n",
		"eval/gold/dm-csv-001/result.csv":      "shop,total\nA,7\nB,1\n",
		"assets/dm-csv-001/data/notes.md":      "Each line is a sale.\n",
		"eval/gold/ml-competition-001/sub.csv": "id,y\n2,0.5\n3,0.25\n",
		"assets/di-text-001/sales.csv":         "shop,sold\nA,3\n",
		"assets/ml-competition-001/train.csv":  "id,y\n1,0.5\n",
	} {
		if got := read(t, dir, name); got != text {
			t.Errorf("%s is %q", name, got)
		}
	}
	for _, name := range []string{"eval/gold/ml-cluster-001", "assets/plot-bar-001", "assets/dm-csv-001/.DS_Store"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("the pack has %s", name)
		}
	}
	left := []string{
		"dacode/ml-cluster-001: clusters are scored by coordinates that the agent states, without anything that is right",
		"dacode/plot-bar-001: a picture that is not the same is scored by numbers that the agent's own program states",
		"dacode/dm-csv-002: source/dm-csv-002/sales.csv is a pointer of Git LFS, without its file",
		"dacode/dm-csv-003: gold/dm-csv-003/result.csv is not there",
		"dacode/data-wrangling-001: it is scored by compare_sqlite",
	}
	if diff := cmp.Diff(left, sum.LeftOut); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}

// TestDACodeOwnRule: columns by name, whole rows.
func TestDACodeOwnRule(t *testing.T) {
	at := daCodeFiles(t)
	rows := ""
	for _, r := range daCodeRows[:2] {
		rows += "{" + daCodeTask(r[0]) + `, "eval": ` + r[1] + "}\n"
	}
	dir, sum, err := run(t, importer.DACode, rows, importer.Options{Name: filepath.Join(at, "rows.jsonl"), Rule: importer.OwnRule})
	if err != nil || sum.Notes != nil {
		t.Fatal(sum.Notes, err)
	}
	got := read(t, dir, "tasks.jsonl")
	for _, want := range []string{
		`"rubric":{"columns":{"*":{"ignore":true},"total":{"ignore_case":true,"tolerance":0.01}},"extra_columns":"allow","order":"any","type":"table"}`,
		`"rubric":{"ignore_case":true,"tolerance":0.01,"type":"json"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if _, _, err := run(t, importer.DACode, rows, importer.Options{Rule: "strict"}); err == nil || !strings.Contains(err.Error(), "official or own") {
		t.Errorf("an unknown rule: %v", err)
	}
}
