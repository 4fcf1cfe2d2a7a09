package rubric_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"securebench/internal/artifact"
	"securebench/internal/artifact/rubric"
	"securebench/internal/verdict"
)

// TestMetrics: the values are those of scikit-learn 1.9.1, and of Kaggle's definition for
// map_at_k.
func TestMetrics(t *testing.T) {
	numbers := [2]string{"id,y\na,3\nb,-0.5\nc,2\nd,7\n", "id,y\na,2.5\nb,0\nc,2\nd,8\n"}
	positive := [2]string{"id,y\na,3\nb,0.5\nc,2\nd,7\n", "id,y\na,2.5\nb,0\nc,2\nd,8\n"}
	labels := [2]string{"id,y\n1,cat\n2,dog\n3,cat\n4,cow\n5,dog\n6,cow\n", "id,y\n1,cat\n2,cat\n3,cat\n4,dog\n5,dog\n6,bee\n"}
	scores := [2]string{"id,y\n1,0\n2,0\n3,1\n4,1\n5,1\n", "id,y\n1,0.1\n2,0.4\n3,0.35\n4,0.8\n5,0.4\n"}
	classes := [2]string{"id,a,b,c\n1,1,0,0\n2,0,1,0\n3,0,0,1\n", "id,a,b,c\n1,0.7,0.2,0.1\n2,0.3,0.4,0.3\n3,0.2,0.2,0.4\n"}
	ratings := [2]string{"id,y\n1,1\n2,2\n3,3\n4,4\n5,2\n", "id,y\n1,1\n2,3\n3,3\n4,2\n5,2\n"}
	two := [2]string{"id,a,b\n1,0.5,1\n2,-1,1\n3,7,-6\n", "id,a,b\n1,0,2\n2,-1,2\n3,8,-5\n"}
	lists := [2]string{"id,y\n1,a b c\n2,x\n3,p q\n", "id,y\n1,a z c b\n2,w x\n3,p p q\n"}
	for _, tt := range []struct {
		rubric string
		files  [2]string
		value  float64
	}{
		{`"metric":"rmse","at_most":1`, numbers, 0.6123724356957945},
		{`"metric":"mae","at_most":1`, numbers, 0.5},
		{`"metric":"r2","at_least":0.9`, numbers, 0.9486081370449679},
		{`"metric":"rmsle","at_most":0.6`, positive, 0.2214189638433454},
		{`"metric":"rmse","at_most":1,"target":["a","b"]`, two, 0.8227486121839513},
		{`"metric":"r2","at_least":0.9,"target":["a","b"]`, two, 0.9368005266622779},
		{`"metric":"accuracy","at_least":0.5`, labels, 0.5},
		{`"metric":"accuracy","at_least":0.4,"target":["a","b"]`, two, 0},
		{`"metric":"f1_macro","at_least":0.3`, labels, 0.325},
		{`"metric":"f1_micro","at_least":0.5`, labels, 0.5},
		{`"metric":"f1_weighted","at_least":0.4`, labels, 0.43333333333333335},
		{`"metric":"f1","positive":"cat","at_least":0.8`, labels, 0.8},
		{`"metric":"auc","at_least":0.6`, scores, 0.75},
		{`"metric":"log_loss","at_most":0.6`, scores, 0.5610885094221719},
		{`"metric":"log_loss","at_most":1,"target":["a","b","c"]`, classes, 0.6553709521242775},
		{`"metric":"quadratic_kappa","at_least":0.35`, ratings, 0.3902439024390245},
		{`"metric":"map_at_k","k":3,"at_least":0.5`, lists, (5.0/9 + 0.5 + 5.0/6) / 3},
		{`"metric":"map_at_k","k":1,"at_least":0.5`, lists, 2.0 / 3},
	} {
		if !strings.Contains(tt.rubric, `"target"`) {
			tt.rubric += `,"target":"y"`
		}
		r := parse(t, `{"type":"metric","id":"id",`+tt.rubric+`}`)
		truth, guess := csvFile(t, tt.files[0]), csvFile(t, tt.files[1])
		res, err := r.Compare(guess, truth)
		if err != nil || res.Measure == nil || math.Abs(res.Measure.Value-tt.value) > 1e-12 {
			t.Errorf("%s: %+v, %v, want %v", tt.rubric, res.Measure, err, tt.value)
			continue
		}
		holds(t, res)
		if want := tt.value > 0; res.Pass != want {
			t.Errorf("%s: %+v", tt.rubric, res)
		}
		if faults := r.Check(truth); len(faults) > 0 {
			t.Errorf("%s has %q", tt.rubric, faults)
		}
	}
}

// table writes a column y beside ids.
func predictions(t *testing.T, values ...string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("id,y\n")
	for i, v := range values {
		fmt.Fprintf(&b, "%d,%s\n", i+1, v)
	}
	return b.String()
}

// TestMetricAttacks (A10): each of these is no prediction, and an honest one passes.
func TestMetricAttacks(t *testing.T) {
	auc := parse(t, `{"type":"metric","metric":"auc","id":"id","target":"y","at_least":0.8}`)
	rmse := parse(t, `{"type":"metric","metric":"rmse","id":"id","target":"y","at_most":0.4}`)
	loss := parse(t, `{"type":"metric","metric":"log_loss","id":"id","target":"y","at_most":0.5}`)
	kappa := parse(t, `{"type":"metric","metric":"quadratic_kappa","id":"id","target":"y","at_least":0.8}`)
	rmsle := parse(t, `{"type":"metric","metric":"rmsle","id":"id","target":"y","at_most":0.3}`)
	lists := parse(t, `{"type":"metric","metric":"map_at_k","k":2,"id":"id","target":"y","at_least":0.8}`)
	truth := predictions(t, "0", "1", "1", "0")
	for name, tt := range map[string]struct {
		r              *rubric.Rubric
		truth          string
		honest, attack string
	}{
		"constant":              {auc, truth, "y,id\n0.1,1\n0.9,2\n0.7,3\n0.2,4\n", predictions(t, "0.5", "0.5", "0.5", "0.5")},
		"NaN":                   {auc, truth, predictions(t, "1", "2", "2", "1"), predictions(t, "NaN", "0.9", "0.9", "NaN")},
		"infinite":              {auc, truth, predictions(t, "-5", "1e300", "1e300", "-5"), predictions(t, "-inf", "inf", "inf", "-inf")},
		"too large":             {auc, truth, predictions(t, "0", "1e3", "1e3", "0"), predictions(t, "0", "1e400", "1e400", "0")},
		"missing":               {rmse, truth, predictions(t, "0.0", "1.0", "1.0", "0"), predictions(t, "0", "1", "1", "")},
		"a row less":            {rmse, truth, "id,y\n4,0\n3,1\n2,1\n1,0\n", predictions(t, "0", "1", "1")},
		"a row more":            {rmse, truth, predictions(t, "0", "1", "1", "0.1"), predictions(t, "0", "1", "1", "0", "0")},
		"an id twice":           {rmse, truth, "id,y\n1.0,0\n2,1\n3,1\n4,0\n", "id,y\n1,0\n1,0\n2,1\n3,1\n"},
		"the same id twice":     {rmse, truth, "id,y\n01,0\n2,1\n3,1\n4,0\n", "id,y\n1,0\n1,0\n1,0\n1,0\n"},
		"another id":            {rmse, truth, predictions(t, "0", "1", "1", "0"), "id,y\n1,0\n2,1\n3,1\n5,0\n"},
		"both guesses":          {rmse, truth, "id,y,z\n1,0,5\n2,1,5\n3,1,5\n4,0,5\n", "id,y,y\n1,0,1\n2,0,1\n3,0,1\n4,0,1\n"},
		"overflow":              {rmse, truth, predictions(t, "0", "1", "1", "0"), predictions(t, "1e300", "-1e300", "1", "0")},
		"certain of everything": {loss, truth, predictions(t, "0.1", "0.9", "0.9", "0.1"), predictions(t, "-1", "2", "2", "-1")},
		"half a rating":         {kappa, predictions(t, "1", "2", "3", "4"), predictions(t, "1", "2", "3", "4.0"), predictions(t, "1", "2", "3", "4.1")},
		"no logarithm":          {rmsle, truth, predictions(t, "0", "1.2", "1", "0"), predictions(t, "-1e-9", "1", "1", "0")},
		"a list of everything":  {lists, predictions(t, "a", "b", "c", "d"), predictions(t, "a b", "b", "c c", "d a"), predictions(t, "b a", "a b", "a b", "a b")},
		"one item many times":   {lists, predictions(t, "a b", "a b", "c d", "c d"), predictions(t, "a b", "a b", "d c", "c d"), predictions(t, "a a", "a a", "c c", "c c")},
		"a comma for a point":   {rmse, truth, predictions(t, "0.0", "1.0", "1.0", "0.0"), predictions(t, `"0,0"`, `"1,0"`, "1", "0")},
	} {
		if name == "the same id twice" {
			tt.honest = predictions(t, "0", "1", "1", "0")
		}
		want := csvFile(t, tt.truth)
		if faults := tt.r.Check(want); len(faults) > 0 {
			t.Errorf("%s: the reference has %q", name, faults)
		}
		if !passes(t, tt.r, csvFile(t, tt.honest), want) {
			t.Errorf("%s: the honest twin fails", name)
		}
		if passes(t, tt.r, csvFile(t, tt.attack), want) {
			t.Errorf("%s: the attack passes", name)
		}
	}
}

// TestMetricStored (A2): what is stored beside a formula is no prediction, as it is no value.
func TestMetricStored(t *testing.T) {
	r := parse(t, `{"type":"metric","metric":"mae","id":"id","target":"y","at_most":0.1}`)
	truth := csvFile(t, predictions(t, "1", "2"))
	for _, tt := range []struct {
		cell artifact.Cell
		want verdict.Reason
	}{
		{formula("1", 1, 1), ""},
		{formula("5", 5, 1), verdict.StoredValueDiffers},
		{formula("5", 5, nil), verdict.WrongAnswer},
		{artifact.Cell{Formula: "NOW()", Uncomputed: true, Value: value(1)}, verdict.StoredValueDiffers},
	} {
		res, err := r.Compare(book(sheet("S", []any{"id", "y"}, []any{1, tt.cell}, []any{2, 2})), truth)
		if err != nil || res.Reason != tt.want || res.Pass != (tt.want == "") {
			t.Errorf("%+v: %+v, %v", tt.cell, res, err)
		}
	}
	if _, err := r.Compare(truth, book(sheet("S", []any{"id", "y"}, []any{1, formula("5", 5, 1)}))); err == nil {
		t.Error("a reference in doubt is compared with")
	}
}

func TestMetricChecks(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"metric","metric":"rmse","id":"id","target":"y","at_least":1}`:            `needs at_most for rmse`,
		`{"type":"metric","metric":"auc","id":"id","target":"y","at_least":1,"at_most":1}`: `needs at_least for auc, and no at_most`,
		`{"type":"metric","metric":"auc","target":"y","at_least":1}`:                       `needs metric, id and target`,
		`{"type":"metric","id":"id","target":"y","at_least":1}`:                            `needs metric, id and target`,
		`{"type":"metric","metric":"ndcg","id":"id","target":"y","at_least":1}`:            `metric is "ndcg" (use accuracy or auc`,
		`{"type":"metric","metric":"f1","id":"id","target":"y","at_least":1}`:              `needs positive`,
		`{"type":"metric","metric":"map_at_k","id":"id","target":"y","at_least":1}`:        `needs k`,
		`{"type":"metric","metric":"f1_macro","id":"id","target":["y","z"],"at_least":1}`:  `has several targets`,
		`{"type":"metric","metric":"auc","id":"y","target":"y","at_least":1}`:              `as id and as target`,
		`{"type":"metric","metric":"auc","id":"id","target":["y","y"],"at_least":1}`:       `each once`,
		`{"type":"metric","metric":"auc","id":"id","target":"y","at_least":"1"}`:           `at_least must be a number`,
	} {
		if _, err := rubric.Parse([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
	for _, tt := range []struct{ rubric, truth, fault string }{
		{`"metric":"auc","at_least":0.8`, "id,y\n1,0\n2,0\n", "only one of 0 and 1"},
		{`"metric":"auc","at_least":0.8`, "id,y\n1,0\n2,2\n", "other than 0 and 1"},
		{`"metric":"auc","at_least":0.5`, "id,y\n1,0\n2,1\n", "the same prediction in every row would pass: auc is 0.5"},
		{`"metric":"accuracy","at_least":0.6`, "id,y\n1,a\n2,a\n3,b\n", "the same prediction in every row would pass"},
		{`"metric":"rmse","at_most":5`, "id,y\n1,1\n2,2\n", "the same prediction in every row would pass"},
		{`"metric":"rmse","at_most":-1`, "id,y\n1,1\n2,2\n", "does not pass itself"},
		{`"metric":"r2","at_least":0.5`, "id,y\n1,1\n2,1\n", "the same number in every row"},
		{`"metric":"rmse","at_most":0.1`, "id,y\n1,1\n1,2\n", "has the id 1 twice"},
		{`"metric":"rmse","at_most":0.1`, "id,z\n1,1\n", `column "y" comes 0 times`},
		{`"metric":"rmse","at_most":0.1`, "id,y\n1,x\n", `which is no number`},
		{`"metric":"rmse","at_most":0.1`, "id,y\n", `has no rows`},
		{`"metric":"quadratic_kappa","at_least":0.1`, "id,y\n1,3\n2,3\n", `the same rating`},
		{`"metric":"map_at_k","k":3,"at_least":0.9`, "id,y\n1,\n", `has nothing in row 1`},
		{`"metric":"f1","positive":"x","at_least":0.9`, "id,y\n1,y\n", `no row with the positive label`},
		{`"metric":"log_loss","at_most":0.1,"target":["y","z"]`, "id,y,z\n1,1,1\n", `has not one 1 in row 1`},
	} {
		if !strings.Contains(tt.rubric, `"target"`) {
			tt.rubric += `,"target":"y"`
		}
		faults := parse(t, `{"type":"metric","id":"id",`+tt.rubric+`}`).Check(csvFile(t, tt.truth))
		if len(faults) != 1 || !strings.Contains(faults[0], tt.fault) {
			t.Errorf("%s has %q, want %q", tt.rubric, faults, tt.fault)
		}
	}
}
