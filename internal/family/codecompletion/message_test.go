package codecompletion

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"securebench/internal/family"
	"securebench/internal/family/codecompletion/analysis"
	"securebench/internal/family/familytest"
	"securebench/internal/value"
	"securebench/internal/verdict"
)

// FuzzReply: whatever a candidate box sends either ends the row or becomes a frame
// that the test box can expect: one of four forms, canonical, with no exception
// but those on the list, and handles only where the row has them.
func FuzzReply(f *testing.F) {
	for _, s := range []string{
		"U1:S8:callable", "U2:S5:valueI1:5", "U3:S5:valueI1:5L0:", "U4:S5:raiseS10:ValueErrorU1:S1:xN",
		"U4:S5:raiseS13:StopIterationU0:S1:x", "U1:S5:large", "U1:S6:escape", "U2:S5:valueH1:0", "U2:S7:verdictS4:pass",
		"U2:S5:valuec1:S1:aI1:2", "U2:S5:valueO1:S1:aI1:2", "U2:S5:valued1:S3:intS1:aI1:2", "U2:S5:valued0:N", "U2:S5:valued0:S4:eval",
	} {
		f.Add([]byte(s), true, false, true)
		f.Add([]byte(s), false, true, false)
	}
	f.Fuzz(func(t *testing.T, payload []byte, handles, mutates, get bool) {
		d := value.NewDecoder(payload)
		d.Handles = handles
		n := d.Tuple()
		req := request{op: "call", mutates: mutates, on: value.Value{Kind: value.KindHandle}}
		if get {
			req = request{op: "get", on: value.Value{Kind: value.KindHandle}}
		}
		v, err := reply{kind: d.Text(), parts: n - 1, d: d}.forTests(req)
		if err != nil {
			var f *family.Failure
			if !errors.As(err, &f) || f.Reason == "" || f.Outcome() == verdict.Passed {
				t.Fatalf("%q: error %v ends no row", payload, err)
			}
			return
		}
		checkTestFrame(t, v, handles)
	})
}

func checkTestFrame(t *testing.T, v value.Value, handles bool) {
	t.Helper()
	d := value.NewDecoder(v.Append(nil))
	d.Handles, d.Limit = handles, value.MaxArguments
	if d.Value(); d.End() != nil {
		t.Fatalf("the test box gets %q: %v", v.Append(nil), d.Err())
	}
	form := string(v.Items[0].Atom)
	lengths := map[string]int{"value": 2, "changed": 3, "raise": 4, "callable": 1}
	if lengths[form] != len(v.Items) {
		t.Fatalf("the test box gets the form %q with %d parts", form, len(v.Items))
	}
	forbidden := []string{"StopIteration", "AssertionError", "SystemExit", "KeyboardInterrupt", "GeneratorExit"}
	if form == "raise" && slices.Contains(forbidden, string(v.Items[1].Atom)) {
		t.Fatalf("the test box gets %s", v.Items[1].Atom)
	}
}

// FuzzRequest: the tests ask for names of the analysis and public names only.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"U5:S4:callNS3:addU2:U1:I1:1M0:F", "U3:S3:getNS3:add", "U4:S3:setH1:0S1:xI1:1",
		"U3:S3:getH1:0S8:__dict__", "U5:S4:callNS5:otherU2:U0:M0:F", "U4:S3:setNS3:addI1:1",
		"U5:S4:callNS3:addU2:U0:M1:I1:1NF", "U5:S4:callH1:0S6:__eq__U2:U1:H1:1M0:F", "U5:S4:callH1:0S7:__add__U2:U1:GNNNM0:F",
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	p := analysed{Analysis: analysis.Analysis{Names: []analysis.Name{{Name: "add", Kind: "function"}}, Handles: true}}
	f.Fuzz(func(t *testing.T, payload []byte, operators bool) {
		p.operators = operators
		d := value.NewDecoder(payload)
		n := d.Tuple()
		r, err := readRequest(d.Text(), n-1, d, p)
		if err != nil {
			if !errors.Is(err, value.ErrMalformed) {
				t.Fatalf("error %v is not a malformed value", err)
			}
			return
		}
		onModule := r.on.Kind == value.KindNone && r.op != "set" && r.name == "add"
		onObject := r.on.Kind == value.KindHandle && r.name != "" && (r.name[0] != '_' || p.operators && r.op == "call" && r.allowsOperator())
		if !onModule && !onObject {
			t.Fatalf("%q asks for %s of %c", payload, r.name, r.on.Kind)
		}
		if r.op == "call" && !isArguments(r.operand) {
			t.Fatalf("%q calls with %q", payload, r.operand.Append(nil))
		}
	})
}

func TestRequestSeeds(t *testing.T) {
	p := analysed{Analysis: analysis.Analysis{Names: []analysis.Name{{Name: "add", Kind: "function"}}, Handles: true}}
	for in, ok := range map[string]bool{
		"U5:S4:callNS3:addU2:U1:I1:1M0:F":    true,
		"U3:S3:getNS3:add":                   true,
		"U4:S3:setH1:0S1:xI1:1":              true,
		"U3:S3:getH1:0S8:__dict__":           false,
		"U3:S3:getH1:0S0:":                   false,
		"U5:S4:callNS5:otherU2:U0:M0:F":      false,
		"U4:S3:setNS3:addI1:1":               false,
		"U5:S4:callNS3:addU2:U0:M1:I1:1NF":   false,
		"U5:S4:callNS3:addU2:L0:M0:F":        false,
		"U5:S4:callNS3:addU2:U0:M0:N":        false,
		"U4:S4:callNS3:addU2:U0:M0:":         false,
		"U2:S3:eval":                         false,
		"U5:S4:callNS3:addU2:U1:I1:1M0:FFFF": false,
		"U5:S4:callH1:0S7:__len__U2:U0:M0:F": false,
	} {
		d := value.NewDecoder([]byte(in))
		n := d.Tuple()
		if _, err := readRequest(d.Text(), n-1, d, p); (err == nil) != ok {
			t.Errorf("%q: error %v, want taken %v", in, err, ok)
		}
	}
}

func TestJudge(t *testing.T) {
	tests := map[string]struct {
		trips int
		want  verdict.Reason
	}{
		"pass": {1, ""}, "pass ": {1, verdict.TestsFailed}, "fail": {9, verdict.TestsFailed}, "": {9, verdict.TestsFailed},
		"sticky": {9, verdict.TestsFailed}, "malformed": {9, verdict.ProtocolViolation}, "argument": {9, verdict.TestsFailed},
		"large": {9, verdict.TestsFailed}, "interrupted": {9, verdict.TestsFailed},
	}
	for verdict, tc := range tests {
		err := judge(verdict, tc.trips, analysed{})
		var f *family.Failure
		if got := errors.As(err, &f); got != (tc.want != "") || got && f.Reason != tc.want {
			t.Errorf("%q: %v, want %q", verdict, err, tc.want)
		}
	}
	if judge("pass", 0, analysed{}) == nil {
		t.Error("tests that asked nothing pass")
	}
}

// TestOperatorRequests: where a row has operators, the tests ask for those on
// the list alone, of objects alone, and never for a comparison with plain data.
func TestOperatorRequests(t *testing.T) {
	p := analysed{analysis.Analysis{Names: []analysis.Name{{Name: "B", Kind: "class"}}, Handles: true}, true}
	for in, ok := range map[string]bool{
		"U5:S4:callH1:0S7:__len__U2:U0:M0:F":                   true,
		"U5:S4:callH1:0S7:__len__U2:U0:M0:T":                   false,
		"U5:S4:callH1:0S7:__len__U2:U1:NM0:F":                  false,
		"U5:S4:callNS7:__len__U2:U0:M0:F":                      false,
		"U3:S3:getH1:0S7:__len__":                              false,
		"U4:S3:setH1:0S7:__len__N":                             false,
		"U5:S4:callH1:0S6:__eq__U2:U1:H1:1M0:F":                true,
		"U5:S4:callH1:0S6:__eq__U2:U1:I1:5M0:F":                false,
		"U5:S4:callH1:0S6:__eq__U2:U1:L1:H1:0M0:F":             false,
		"U5:S4:callH1:0S6:__ge__U2:U1:I1:5M0:F":                false,
		"U5:S4:callH1:0S7:__add__U2:U1:I1:5M0:F":               true,
		"U5:S4:callH1:0S8:__radd__U2:U1:I1:5M0:F":              true,
		"U5:S4:callH1:0S9:__rradd__U2:U1:I1:5M0:F":             false,
		"U5:S4:callH1:0S8:__call__U2:U2:NNM1:S1:kI1:1F":        true,
		"U5:S4:callH1:0S7:__add__U2:U1:I1:5M1:S1:kNF":          false,
		"U5:S4:callH1:0S8:__exit__U2:U2:S10:ValueErrorU0:M0:F": true,
		"U5:S4:callH1:0S12:__getitem__U2:U1:GNNNM0:F":          false,
		"U5:S4:callH1:0S11:__getitem__U2:U1:GNNNM0:F":          true,
		"U5:S4:callH1:0S10:__reduce__U2:U0:M0:F":               false,
		"U5:S4:callH1:0S9:__class__U2:U0:M0:F":                 false,
		"U5:S4:callH1:0S2:__U2:U0:M0:F":                        false,
		"U5:S4:callH1:0S4:____U2:U1:NM0:F":                     false,
		"U5:S4:callNS1:BU2:U1:E1:H1:0M0:F":                     true,
		"U5:S4:callNS1:BU2:U1:M1:H1:0NM0:F":                    true,
	} {
		d := value.NewDecoder([]byte(in))
		n := d.Tuple()
		if _, err := readRequest(d.Text(), n-1, d, p); (err == nil) != ok {
			t.Errorf("%q: error %v, want taken %v", in, err, ok)
		}
	}
}

// TestOperationsHaveOneName: what the test box may say is what a message says.
func TestOperationsHaveOneName(t *testing.T) {
	script := value.Python() + proxiesSource + `
for name, label in {**OPERATORS, **COMPARISONS}.items():
    print("ask", name, label, sep="\t")
for label in [*NEVER.values(), *[l + " with plain data" for l in COMPARISONS.values()]]:
    print("never", "", label, sep="\t")
import re
for label in re.findall(r'unsupported\("([^"]+)"\)', SOURCE):
    print("never", "", label, sep="\t")
for name in ("_x", "__class__", "__dict__", "__mro_entries__", "__bases__"):
    print("never", "", private(name), sep="\t")
`
	source := "SOURCE = " + string(familytest.JSON(t, proxiesSource)) + "\n"
	cmd := exec.Command(newLocalEngine(t).python, "-I", "-")
	cmd.Stdin = strings.NewReader(source + script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	asked := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		name, label, _ := strings.Cut(rest, "\t")
		message := unsupportedOperation(label, false).Message
		what, _, _ := strings.Cut(label, " of a ")
		if !strings.Contains(message, " use "+what+" on a") || (kind == "ask") != strings.Contains(message, "tests.operators") {
			t.Errorf("%s %s is reported as %q", kind, label, message)
		}
		if kind == "ask" {
			asked[label] = true
			if _, _, ok := operatorArguments(name); !ok {
				t.Errorf("the parent does not know %s", name)
			}
		}
	}
	for _, label := range askable() {
		if !asked[label] {
			t.Errorf("%s is not used", label)
		}
	}
	for label, want := range map[string]string{
		"bool of a class": "use bool on a class of", "isinstance of a class": "use isinstance on a class of",
		"attributes of a function": "use attributes on a function of", "dir of a object": "use dir on an object of",
		"canary of a canary": "use an operation on an object of", "canary": "use an operation on an object of",
	} {
		if got := unsupportedOperation(label, false).Message; !strings.Contains(got, want) || strings.Contains(got, "tests.operators") || strings.Contains(got, "canary") {
			t.Errorf("%s: %q", label, got)
		}
	}
}

// TestAnswersOfOneType: what a candidate box answers to len, hash, str, repr or bool is
// of that type. A hash that is a set of objects would ask for their hash again.
func TestAnswersOfOneType(t *testing.T) {
	for in, names := range map[string][]string{
		"I1:5": {"__len__", "__hash__", "__int__", "__index__"}, "S1:x": {"__str__", "__repr__", "__format__"},
		"T": {"__bool__", "__contains__", "__exit__"}, "J1:N": {"__iter__"}, "E1:H1:0": nil, "N": nil,
	} {
		for _, name := range []string{"__len__", "__hash__", "__int__", "__index__", "__str__", "__repr__", "__format__",
			"__bool__", "__contains__", "__exit__", "__iter__", "__float__", "__complex__"} {
			d := value.NewDecoder([]byte("U2:S5:value" + in))
			d.Handles, d.HashHandles = true, true
			n := d.Tuple()
			_, err := reply{kind: d.Text(), parts: n - 1, d: d}.forTests(request{op: "call", on: value.Value{Kind: value.KindHandle}, name: name})
			if (err == nil) != slices.Contains(names, name) {
				t.Errorf("%s answered by %q: error %v", name, in, err)
			}
		}
	}
}
