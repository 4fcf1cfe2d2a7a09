package mapping_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"securebench/internal/families"
	"securebench/internal/importer/mapping"
	"securebench/internal/importer/table"
	"securebench/internal/source"
)

// pixel is a picture of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="

// imported imports a file of a test.
func imported(t *testing.T, name, text string, o mapping.Options) (dir string, sum mapping.Result, err error) {
	t.Helper()
	in := t.TempDir()
	at := filepath.Join(in, name)
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := base64.StdEncoding.DecodeString(pixel)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(in, "a.png"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if o.ID == "" {
		o.ID = "p"
	}
	o.Dataset, o.Image = "d", "image:1"
	dir = filepath.Join(t.TempDir(), "out")
	sum, err = mapping.Import(context.Background(), []mapping.Table{{Path: at, Name: at}}, families.All(), dir, o)
	return dir, sum, err
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// row is a line of a pack, from what of it differs.
func row(input, eval string, more ...string) string {
	metadata := `"metadata":{"dataset":"d","row":1` + strings.Join(more, "") + `}}`
	return `{"id":"p/1","input":{` + input + `},"eval":{` + eval + `},` + metadata
}

// TestRows: what each way of mapping makes of a row.
func TestRows(t *testing.T) {
	t.Parallel()
	picture := `"assets":[{"path":"pictures/`
	tests := []struct {
		family, name, text string
		maps               []string
		o                  mapping.Options
		want               string
	}{
		{"short_answer", "t.csv", "q,a,s\nWho?, me ,x\n", []string{"question=q", "answer=a", "tags=s", "metadata.cluster=s"}, mapping.Options{},
			row(`"question":"Who?"`, `"accepted_answers":["me"]`, `,"tags":["x"],"cluster":"x"`)},
		{"short_answer", "t.jsonl", `{"q":"Sum?","c":"1+1","a":[2,"two","2"]}`, []string{"question=c+q", "answer=a", "tolerance=0.5", `answer_format="a number"`}, mapping.Options{},
			row(`"question":"1+1\n\nSum?","answer_format":"a number"`, `"accepted_answers":[2,"two"],"tolerance":0.5`)},
		{"short_answer", "t.jsonl", `{"question":"Sum?","answer":"1+1 is 2\n#### 2"}`, []string{"question=question", "answer=answer~#### (.+)$"}, mapping.Options{},
			row(`"question":"Sum?"`, `"accepted_answers":["2"]`)},
		{"short_answer", "t.csv", "q,a\nWho?,me|I\n", []string{"question=Say who: {q} {{x}}", "answer=a"}, mapping.Options{Separator: "|"},
			row(`"question":"Say who: Who? {x}"`, `"accepted_answers":["me","I"]`)},
		{"short_answer", "t.jsonl", `{"q":"Who?","answers":{"text":["me","I"],"start":[1,2]}}`, []string{"question=q", "answer=answers.text"}, mapping.Options{},
			row(`"question":"Who?"`, `"accepted_answers":["me","I"]`)},
		{"multiple_choice", "t.csv", "q,A,B,C,r\nWho?,x,y,,b\n", []string{"question=q", "choices=A+B+C", "answer=r"}, mapping.Options{},
			row(`"question":"Who?","choices":["x","y"]`, `"answer":"B"`)},
		{"multiple_choice", "t.jsonl", `{"q":"Who?","c":["A) x","B) y"],"r":1}`, []string{"question=q", "choices=c", "answer=r"}, mapping.Options{},
			row(`"question":"Who?","choices":["x","y"]`, `"answer":"B"`)},
		{"multiple_choice", "t.jsonl", `{"q":"Who?","c":["x","y"],"r":1}`, []string{"question=q", "choices=c", "answer=r"}, mapping.Options{Answers: mapping.ByCount},
			row(`"question":"Who?","choices":["x","y"]`, `"answer":"A"`)},
		{"multiple_choice", "t.jsonl", `{"q":"Who?","c":{"text":["x","y"],"label":["1","2"]},"r":"1"}`, []string{"question=q", "choices=c.text", "labels=c.label", "answer=r"}, mapping.Options{},
			row(`"question":"Who?","choices":["x","y"]`, `"answer":"A"`)},
		{"multiple_choice", "t.jsonl", `{"q":"Who?","c":[{"t":"x"},{"t":"y"}],"r":["x","y"]}`, []string{"question=q", "choices=c.t", "answer=r"}, mapping.Options{},
			row(`"question":"Who?","choices":["x","y"]`, `"answer":["A","B"]`)},
		{"multiple_choice", "t.jsonl", `{"q":"Who?","m":{"choices":["x","y","z"],"labels":[0,1,0]}}`, []string{"question=q", "choices=m.choices", "answer=m.labels"}, mapping.Options{},
			row(`"question":"Who?","choices":["x","y","z"]`, `"answer":"B"`)},
		{"multiple_choice", "t.jsonl", `{"q":"Who?","c":["x","y"],"r":[1,0]}`, []string{"question=q", "choices=c", "answer=r"}, mapping.Options{Answers: mapping.ByMarks},
			row(`"question":"Who?","choices":["x","y"]`, `"answer":"A"`)},
		{"multiple_choice", "t.csv", "q,c,r\nHow many?,\"a ) 38 , b ) 27.6 , c ) 30\",b\n", []string{"question=q", "choices=c", "answer=r"}, mapping.Options{},
			row(`"question":"How many?","choices":["38","27.6","30"]`, `"answer":"B"`)},
		{"multiple_choice", "t.csv", "q,c,r\nWho?,\"['it'\n 'is', \"\"y\"\"]\",0\n", []string{"question=q", "choices=c", "answer=r"}, mapping.Options{},
			row(`"question":"Who?","choices":["it","is","y"]`, `"answer":"A"`)},
		{"multiple_choice", "t.csv", "q,c,r\nWho?,x|y,y\n", []string{"question=q", "choices=c", "answer=r"}, mapping.Options{Separator: "|"},
			row(`"question":"Who?","choices":["x","y"]`, `"answer":"B"`)},
		{"multiple_choice", "t.csv", "text,label\nGood film,1\n", []string{"question=Is it good?\n\n{text}", `choices=["no","yes"]`, "answer=label"}, mapping.Options{},
			row(`"question":"Is it good?\n\nGood film","choices":["no","yes"]`, `"answer":"B"`)},
		{"multiple_choice", "t.csv", "q,right,wrong,other\nWho?,x,y,z\n", []string{"question=q", "choices=right+wrong+other", "answer=right"}, mapping.Options{Seed: "3"},
			row(`"question":"Who?","choices":["z","y","x"]`, `"answer":"C"`, `,"choice_seed":"3"`)},
		{"multimodal_qa", "t.jsonl", `{"q":"Colour?","a":"black","i":[{"bytes":null,"path":"a.png"},{"bytes":"` + pixel + `","path":null}]}`, []string{"question=q", "answer=a", "image=i"}, mapping.Options{},
			strings.Replace(row(`"question":"Colour?"`, `"answer":["black"]`), `"eval"`, picture+`eaa4a94ea300e0d2c775968cbe42f0b5.png","type":"image"},{"path":"pictures/eaa4a94ea300e0d2c775968cbe42f0b5.png","type":"image","mount":"pictures/2-eaa4a94ea300e0d2c775968cbe42f0b5.png"}],"eval"`, 1)},
		{"code_completion", "t.jsonl", `{"p":"def f(): pass","t":["assert f() == 1","assert f()"],"s":"def f(): return 1"}`, []string{"prompt=p", "tests=t", "solution=s", `entry_point="f"`}, mapping.Options{},
			row(`"prompt":"def f(): pass"`, `"reference_solution":"def f(): return 1","tests":{"source":"inline","code":"assert f() == 1\nassert f()","entry_point":"f"}`)},
		{"free_response", "t.csv", "q,a\nWhy?,because\n", []string{"prompt=q", "answer=a"}, mapping.Options{},
			row(`"prompt":"Why?"`, `"rubric":{"type":"contains_any","accepted_answers":["because"]}`)},
		{"preference_pair", "t.csv", "q,chosen,rejected\nWhy?,good,bad\n", []string{"prompt=q", "chosen=chosen", "rejected=rejected"}, mapping.Options{},
			row(`"prompt":"Why?","candidate_a":"good","candidate_b":"bad"`, `"preference":"A"`)},
		{"preference_pair", "t.jsonl", `{"q":"Why?","a":"good","b":"bad","r":2}`, []string{"prompt=q", "candidate_a=a", "candidate_b=b", "preference=r"}, mapping.Options{Answers: mapping.ByCount},
			row(`"prompt":"Why?","candidate_a":"good","candidate_b":"bad"`, `"preference":"B"`)},
		{"preference_pair", "t.csv", "q,a,b,r\nWhy?,good,bad,Tie\n", []string{"prompt=q", "candidate_a=a", "candidate_b=b", "preference=r", "input.allow_tie=true"}, mapping.Options{},
			row(`"prompt":"Why?","candidate_a":"good","candidate_b":"bad","allow_tie":true`, `"preference":"tie"`)},
		{"tool_call", "t.csv", "q,t,e\nHi,\"[{\"\"name\"\":\"\"f\"\",\"\"parameters\"\":{\"\"type\"\":\"\"object\"\"}}]\",\"[{\"\"name\"\":\"\"f\"\",\"\"arguments\"\":{}}]\"\n", []string{"input.prompt=q", "input.tools=t", "eval.expected_calls=e"}, mapping.Options{},
			row(`"prompt":"Hi","tools":[{"name":"f","parameters":{"type":"object"}}]`, `"expected_calls":[{"name":"f","arguments":{}}]`)},
	}
	for _, tt := range tests {
		tt.o.Family, tt.o.Map = tt.family, tt.maps
		dir, sum, err := imported(t, tt.name, tt.text, tt.o)
		if err != nil {
			t.Errorf("%s %q: %v", tt.family, tt.maps, err)
			continue
		}
		if diff := cmp.Diff(tt.want+"\n", read(t, dir, "tasks.jsonl")); diff != "" || sum.Rows != 1 {
			t.Errorf("%s %q (-want +got):\n%s", tt.family, tt.maps, diff)
		}
	}
}

// TestWhere: which rows conditions leave, and that rows keep their numbers.
func TestWhere(t *testing.T) {
	t.Parallel()
	const text = "q,a,level,kind\nQ1?,x,1,law\nQ2?,y,2,math\nQ3?,z,10,law\nQ4?,w,,\n"
	for where, want := range map[string]string{
		"kind=law": "1 3", "kind!=law": "2 4", "level>=2": "2 3", "level<2": "1", "kind~^m": "2", "kind!~a": "4", "kind=": "4", "level>1 kind=law": "3",
	} {
		dir, _, err := imported(t, "t.csv", text, mapping.Options{Family: "short_answer", Map: []string{"question=q", "answer=a"}, Where: strings.Fields(where)})
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		var got []string
		for line := range strings.Lines(read(t, dir, "tasks.jsonl")) {
			got = append(got, line[strings.Index(line, "/")+1:strings.Index(line, `","input`)])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: rows %q, want %s", where, got, want)
		}
	}
}

// TestLeftOut: rows that cannot be tasks are listed with their places, in the pack too, and
// so are those that are in doubt.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	const text = "q,A,B,r\nQ1?,x,y,A\n,x,y,A\nQ3?,x,y,C\nQ4?,x,X,A\nQ1?,x,y,B\n"
	o := mapping.Options{Family: "multiple_choice", Map: []string{"question=q", "choices=A+B", "answer=r"}}
	if dir, _, err := imported(t, "t.csv", text, o); err == nil || !strings.Contains(err.Error(), "2 rows of 5 cannot be tasks, and nothing was written") {
		t.Fatalf("got %v in %s", err, dir)
	} else if _, err := os.Stat(dir); err == nil {
		t.Error("a refused import left its folder")
	}
	o.LeaveOut = true
	dir, sum, err := imported(t, "t.csv", text, o)
	if err != nil {
		t.Fatal(err)
	}
	about := read(t, dir, "ATTRIBUTION.md")
	for _, want := range []string{
		"t.csv:3:1: the row has no question: q is empty", `t.csv:4:9: the answer "C" is neither a label, a position nor the text of a choice`,
		"t.csv:5:7: task 'p/4' (multiple_choice).input.choices[1] is the same answer as choices[0]", "t.csv:6: an agent sees the same as in row 1",
	} {
		if !strings.Contains(about, want) {
			t.Errorf("ATTRIBUTION.md does not say %q:\n%s", want, about)
		}
	}
	if strings.Contains(about, "/t.csv") {
		t.Errorf("ATTRIBUTION.md has the folder of the table:\n%s", about)
	}
	if sum.Rows != 3 || len(sum.LeftOut) != 2 || len(sum.Doubts) != 2 {
		t.Errorf("summary %+v", sum)
	}
}

// TestClasses: where the answer's column has names of classes, they are the choices.
func TestClasses(t *testing.T) {
	t.Parallel()
	type review struct {
		Text  string `parquet:"text"`
		Label int64  `parquet:"label"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[review](&b, parquet.KeyValueMetadata("huggingface", `{"info": {"features": {"text": {"dtype": "string", "_type": "Value"}, "label": {"names": ["neg", "pos"], "_type": "ClassLabel"}}}}`))
	if _, err := w.Write(slices.Repeat([]review{{"Good.", 1}}, 9)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir, _, err := imported(t, "t.parquet", b.String(), mapping.Options{Family: "multiple_choice", Map: []string{"question=text", "answer=label"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, dir, "tasks.jsonl"), row(`"question":"Good.","choices":["neg","pos"]`, `"answer":"B"`); !strings.HasPrefix(got, want+"\n") {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestFamilies: whatever a family is called here, its rows have its fields.
func TestFamilies(t *testing.T) {
	t.Parallel()
	for name := range families.All() {
		if len(mapping.Fields(name)) == 0 {
			t.Errorf("nothing is said of %s", name)
		}
	}
	_, _, err := imported(t, "t.csv", "a\nb\n", mapping.Options{Family: "short_answer", Map: []string{"question=a"}, Read: table.Options{}})
	if err == nil || !strings.Contains(err.Error(), "needs answer") {
		t.Errorf("got %v", err)
	}
}

// FuzzImport: whatever a table says, it is refused and leaves nothing, or makes rows that
// read strictly.
func FuzzImport(f *testing.F) {
	for _, cell := range []string{"['a', 'b']", "A) x B) y", "x|y", `["x", 1]`, "(a) 1\n(b) 2", "\\", "[", "['\\"} {
		f.Add(cell, "a", "")
		f.Add(cell, "1", "|")
	}
	f.Fuzz(func(t *testing.T, choices, answer, separator string) {
		text, err := json.Marshal(map[string]string{"q": "Which?", "c": choices, "r": answer})
		if err != nil {
			t.Skip("no text")
		}
		for family, maps := range map[string][]string{"multiple_choice": {"question=q", "choices=c", "answer=r"}, "short_answer": {"question=c", "answer=r"}} {
			dir, _, err := imported(t, "t.jsonl", string(text), mapping.Options{Family: family, Map: maps, Separator: separator})
			if err != nil {
				if _, there := os.Stat(dir); there == nil {
					t.Errorf("refused with %v, and left a pack", err)
				}
				continue
			}
			if _, err := source.ParseJSON("tasks.jsonl", 1, []byte(strings.TrimSpace(read(t, dir, "tasks.jsonl")))); err != nil {
				t.Errorf("the row is no JSON: %v", err)
			}
		}
	})
}
