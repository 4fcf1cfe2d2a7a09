package codecompletion

import (
	"errors"
	"slices"
	"testing"

	"securebench/internal/family"
)

// FuzzReply: whatever a worker sends either ends the row or becomes a frame
// that the oracle can expect: one of four forms, canonical, with no exception
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
		d := &decoder{data: payload, nodes: -envelope, handles: handles}
		n := d.tuple()
		req := request{op: "call", mutates: mutates, on: value{kind: kindHandle}}
		if get {
			req = request{op: "get", on: value{kind: kindHandle}}
		}
		v, err := reply{kind: d.str(), parts: n - 1, d: d}.forOracle(req)
		if err != nil {
			var f *failure
			if !errors.As(err, &f) || f.reason == "" || outcomeOf(f.reason) == family.Passed {
				t.Fatalf("%q: error %v ends no row", payload, err)
			}
			return
		}
		checkOracleFrame(t, v, handles)
	})
}

func checkOracleFrame(t *testing.T, v value, handles bool) {
	t.Helper()
	d := &decoder{data: v.appendTo(nil), handles: handles, nodes: -envelope, most: maxArguments}
	if d.value(1); d.end() != nil {
		t.Fatalf("the oracle gets %q: %v", v.appendTo(nil), d.err)
	}
	form := string(v.items[0].atom)
	lengths := map[string]int{"value": 2, "changed": 3, "raise": 4, "callable": 1}
	if lengths[form] != len(v.items) {
		t.Fatalf("the oracle gets the form %q with %d parts", form, len(v.items))
	}
	forbidden := []string{"StopIteration", "AssertionError", "SystemExit", "KeyboardInterrupt", "GeneratorExit"}
	if form == "raise" && slices.Contains(forbidden, string(v.items[1].atom)) {
		t.Fatalf("the oracle gets %s", v.items[1].atom)
	}
}

// FuzzRequest: the tests ask for names of the plan and public names only.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"U5:S4:callNS3:addU2:U1:I1:1M0:F", "U3:S3:getNS3:add", "U4:S3:setH1:0S1:xI1:1",
		"U3:S3:getH1:0S8:__dict__", "U5:S4:callNS5:otherU2:U0:M0:F", "U4:S3:setNS3:addI1:1",
		"U5:S4:callNS3:addU2:U0:M1:I1:1NF",
	} {
		f.Add([]byte(s))
	}
	p := plan{names: []proxied{{"add", "function"}}, handles: true}
	f.Fuzz(func(t *testing.T, payload []byte) {
		d := &decoder{data: payload, nodes: -envelope}
		n := d.tuple()
		r, err := readRequest(d.str(), n-1, d, p)
		if err != nil {
			if !errors.Is(err, errMalformed) {
				t.Fatalf("error %v is not a malformed value", err)
			}
			return
		}
		onModule := r.on.kind == kindNone && r.op != "set" && r.name == "add"
		onObject := r.on.kind == kindHandle && r.name != "" && r.name[0] != '_'
		if !onModule && !onObject {
			t.Fatalf("%q asks for %s of %c", payload, r.name, r.on.kind)
		}
		if r.op == "call" && !isArguments(r.operand) {
			t.Fatalf("%q calls with %q", payload, r.operand.appendTo(nil))
		}
	})
}

func TestRequestSeeds(t *testing.T) {
	p := plan{names: []proxied{{"add", "function"}}, handles: true}
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
	} {
		d := &decoder{data: []byte(in), nodes: -envelope}
		n := d.tuple()
		if _, err := readRequest(d.str(), n-1, d, p); (err == nil) != ok {
			t.Errorf("%q: error %v, want taken %v", in, err, ok)
		}
	}
}

func TestJudge(t *testing.T) {
	tests := map[string]struct {
		trips int
		want  family.Reason
	}{
		"pass": {1, ""}, "pass ": {1, family.TestsFailed}, "fail": {9, family.TestsFailed}, "": {9, family.TestsFailed},
		"sticky": {9, family.TestsFailed}, "malformed": {9, family.ProtocolViolation}, "argument": {9, family.TestsFailed},
		"large": {9, family.TestsFailed}, "interrupted": {9, family.TestsFailed},
	}
	for verdict, tc := range tests {
		err := judge(verdict, tc.trips, plan{})
		var f *failure
		if got := errors.As(err, &f); got != (tc.want != "") || got && f.reason != tc.want {
			t.Errorf("%q: %v, want %q", verdict, err, tc.want)
		}
	}
	if judge("pass", 0, plan{}) == nil {
		t.Error("tests that asked nothing pass")
	}
}
