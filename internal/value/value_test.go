package value

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// decodeValue decodes exactly one value. A handle is malformed unless the
// row's tests call for handles.
func decode(data []byte, handles bool) (Value, error) {
	d := NewDecoder(data)
	d.Handles = handles
	v := d.Value()
	return v, d.End()
}

func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	return path
}

// pythonValues pairs Python expressions with their only encoding.
func pythonValues() []struct{ expression, encoding string } {
	return []struct{ expression, encoding string }{
		{"None", "N"},
		{"True", "T"},
		{"False", "F"},
		{"0", "I1:0"},
		{"-255", "I3:-ff"},
		{"1.5", "D\x3f\xf8\x00\x00\x00\x00\x00\x00"},
		{"-0.0", "D\x80\x00\x00\x00\x00\x00\x00\x00"},
		{"float('nan')", "D\x7f\xf8\x00\x00\x00\x00\x00\x00"},
		{"float('-inf')", "D\xff\xf0\x00\x00\x00\x00\x00\x00"},
		{"complex(0, 1.5)", "C\x00\x00\x00\x00\x00\x00\x00\x00\x3f\xf8\x00\x00\x00\x00\x00\x00"},
		{"'é'", "S2:é"},
		{"'\\ud83d\\ude00'", "S6:\xed\xa0\xbd\xed\xb8\x80"},
		{"b'\\x00\\xff'", "B2:\x00\xff"},
		{"bytearray(b'a')", "A1:a"},
		{"[1, [], '']", "L3:I1:1L0:S0:"},
		{"(1,)", "U1:I1:1"},
		{"{3, 1, 2}", "E3:I1:1I1:2I1:3"},
		{"frozenset({'b', 'a'})", "Z2:S1:aS1:b"},
		{"{'b': 1, 'a': (2,)}", "M2:S1:bI1:1S1:aU1:I1:2"},
		{"range(10, 0, -3)", "RI1:aI1:0I2:-3"},
		{"collections.deque([1], 5)", "Q1:I1:5I1:1"},
		{"collections.deque([1, 2])", "Q2:NI1:1I1:2"},
		{"collections.Counter('aab')", "c2:S1:aI1:2S1:bI1:1"},
		{"collections.Counter()", "c0:"},
		{"collections.OrderedDict([('b', 1), ('a', 2)])", "O2:S1:bI1:1S1:aI1:2"},
		{"collections.defaultdict(None, a=1)", "d1:NS1:aI1:1"},
		{"collections.defaultdict(list, {1: [2]})", "d1:S4:listI1:1L1:I1:2"},
		{"collections.defaultdict(tuple)", "d0:S5:tuple"},
		{"{'a': 1}.keys()", "k1:S1:a"},
		{"{'a': 1}.values()", "v1:I1:1"},
		{"{'a': 1}.items()", "m1:S1:aI1:1"},
		{"decimal.Decimal('1.50')", "P4:1.50"},
		{"decimal.Decimal('-1E+10')", "P6:-1E+10"},
		{"fractions.Fraction(-6, 4)", "KI2:-3I1:2"},
		{"10**40", "I34:1d6329f1c35ca4bfabb9f5610000000000"},
		{"[7] * 15", "L15:" + strings.Repeat("I1:7", 15)},
		{"[7] * 16", "L16:#b" + strings.Repeat("\x07", 16)},
		{"(-129,) * 16", "U16:#h" + strings.Repeat("\xff\x7f", 16)},
		{"[0] * 15 + [1 << 15]", "L16:#i" + strings.Repeat("\x00", 60) + "\x00\x00\x80\x00"},
		{"[-1] * 15 + [-1 << 63]", "L16:#q" + strings.Repeat("\xff", 120) + "\x80\x00\x00\x00\x00\x00\x00\x00"},
		{"[0] * 15 + [1 << 63]", "L16:" + strings.Repeat("I1:0", 15) + "I16:8000000000000000"},
		{"[0] * 15 + [True]", "L16:" + strings.Repeat("I1:0", 15) + "T"},
		{"[True, False] * 8", "L16:#?" + strings.Repeat("\x01\x00", 8)},
		{"[1.5] * 16", "L16:#d" + strings.Repeat("\x3f\xf8\x00\x00\x00\x00\x00\x00", 16)},
		{"[float('inf'), float('-inf')] * 8", "L16:#d" + strings.Repeat("\x7f\xf0\x00\x00\x00\x00\x00\x00\xff\xf0\x00\x00\x00\x00\x00\x00", 8)},
		{"[struct.unpack('>d', bytes.fromhex('7ff8000000000001'))[0]] * 16", "L16:#d" + strings.Repeat("\x7f\xf8\x00\x00\x00\x00\x00\x00", 16)},
		{"['a', ''] * 8", "L16:#s23:" + strings.Repeat("a\x00\x00", 7) + "a\x00"},
		{"['\\ud83d'] * 16", "L16:#s63:" + strings.Repeat("\xed\xa0\xbd\x00", 15) + "\xed\xa0\xbd"},
		{"['\\0'] * 16", "L16:" + strings.Repeat("S1:\x00", 16)},
		{"[[1] * 16]", "L1:L16:#b" + strings.Repeat("\x01", 16)},
		{"[None] * 16", "L16:" + strings.Repeat("N", 16)},
		{"slice(None, -1, 2)", "GNI2:-1I1:2"},
		{"memoryview(b'a\\xff')", "w2:a\xff"},
		{"array.array('b', [-128, 127])", "y2:S1:bI3:-80I2:7f"},
		{"array.array('Q', [2**64 - 1])", "y1:S1:QI16:ffffffffffffffff"},
		{"array.array('f', [0.5])", "y1:S1:fD\x3f\xe0\x00\x00\x00\x00\x00\x00"},
		{"array.array('d')", "y0:S1:d"},
	}
}

// pythonDowngrades encodes to what decodes to another, plainer value.
func pythonDowngrades() []struct{ expression, encoding string } {
	return []struct{ expression, encoding string }{
		{"type('C', (collections.Counter,), {'__eq__': lambda a, b: True, 'items': None})('aab')", "c2:S1:aI1:2S1:bI1:1"},
		{"type('O', (collections.OrderedDict,), {'__eq__': lambda a, b: True, 'items': None})(a=1)", "O1:S1:aI1:1"},
		{"type('D', (collections.defaultdict,), {'__missing__': lambda s, k: 5, 'items': None})(int, a=1)", "d1:S3:intS1:aI1:1"},
		{"collections.defaultdict(lambda: 5, a=1)", "M1:S1:aI1:1"},
		{"collections.defaultdict(type('L', (list,), {}), a=1)", "M1:S1:aI1:1"},
		{"type('M', (dict,), {'items': None})(a=1)", "M1:S1:aI1:1"},
		{"collections.namedtuple('P', 'x y')(1, 2)", "U2:I1:1I1:2"},
		{"enum.IntEnum('E', 'A').A", "I1:1"},
		{"type('S', (str,), {'__eq__': lambda a, b: True, '__hash__': str.__hash__})('x')", "S1:x"},
		{"(i for i in range(2))", "J2:I1:0I1:1"},
		{"(1 for i in range(16))", "J16:" + strings.Repeat("I1:1", 16)},
		{"type('L', (list,), {'__iter__': None, '__len__': None})([3] * 16)", "L16:#b" + strings.Repeat("\x03", 16)},
		{"[type('I', (), {'__index__': lambda s: 3})()] * 16", "L16:#b" + strings.Repeat("\x03", 16)},
		{"tuple([3, type('N', (int,), {})(3)] * 8)", "U16:#b" + strings.Repeat("\x03", 16)},
		{"[type('S', (str,), {})('x')] * 16", "L16:#s31:x" + strings.Repeat("\x00x", 15)},
		{"[type('S', (str,), {})('\\0')] * 16", "L16:" + strings.Repeat("S1:\x00", 16)},
		{"[0, type('F', (float,), {})(0)] * 8", "L16:" + strings.Repeat("I1:0D\x00\x00\x00\x00\x00\x00\x00\x00", 8)},
		{"map(str, [1])", "J1:S1:1"},
		{"iter({}.keys())", "J0:"},
		{"type('A', (array.array,), {'__iter__': None, 'typecode': 'd'})('b', [1])", "y1:S1:bI1:1"},
		{"memoryview(bytearray(b'abc'))[::2]", "w2:ac"},
		{"type('I', (), {'__index__': lambda s: True})()", "I1:1"},
		{"type('F', (), {'__float__': lambda s: 0.0, '__index__': 1})()", "D\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"type('R', (), {'__iter__': lambda s: iter('ab')})()", "J2:S1:aS1:b"},
	}
}

func TestCodecSpeaksPython(t *testing.T) {
	interpreter := python(t)
	var script strings.Builder
	script.WriteString(Python() + "\nimport array, collections, decimal, enum, fractions, struct\n")
	for _, v := range append(pythonValues(), pythonDowngrades()...) {
		fmt.Fprintf(&script, "e = Encoder(); x = e.value(%s); print(x.hex()); assert e.size == MAX_BYTES - len(x)\n", v.expression)
	}
	for _, v := range pythonValues() { // and back
		fmt.Fprintf(&script, "d = Decoder(Encoder().value(%s)); y = d.value(); d.end(); print(Encoder().value(y).hex())\n", v.expression)
	}
	out, err := exec.Command(interpreter, "-I", "-c", script.String()).CombinedOutput()
	if err != nil {
		t.Fatalf("running Python: %v\n%s", err, out)
	}
	lines := strings.Fields(string(out))
	all := append(append(pythonValues(), pythonDowngrades()...), pythonValues()...)
	for i, want := range all {
		got, err := hex.DecodeString(lines[i])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.encoding, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.expression, diff)
		}
		v, err := decode(got, false)
		if err != nil {
			t.Errorf("%s: decoding: %v", want.expression, err)
		}
		if again := v.Append(nil); !bytes.Equal(again, got) {
			t.Errorf("%s: encodes again to %q", want.expression, again)
		}
	}
}

// malformed is what the decoders do not take.
func malformed() map[string]string {
	return map[string]string{
		"nothing":              "",
		"unknown tag":          "X",
		"trailing data":        "NN",
		"cut off":              "S5:abc",
		"huge length":          "S99999999:a",
		"nine digits":          "S000000001:a",
		"leading zero":         "S01:a",
		"no length":            "S:a",
		"signed length":        "S+1:a",
		"upper-case hex":       "I1:A",
		"hex with underscore":  "I3:1_0",
		"hex with prefix":      "I3:0x1",
		"empty int":            "I0:",
		"minus zero":           "I2:-0",
		"int with zero ahead":  "I2:01",
		"NaN with payload":     "D\x7f\xf8\x00\x00\x00\x00\x00\x01",
		"short float":          "D\x00",
		"invalid UTF-8":        "S1:\xff",
		"overlong UTF-8":       "S2:\xc0\x80",
		"half a surrogate":     "S2:\xed\xa0",
		"set out of order":     "E2:I1:2I1:1",
		"set with a repeat":    "E2:I1:1I1:1",
		"set with a list":      "E1:L0:",
		"set with 1 and True":  "E2:I1:1T",
		"set with 0 and False": "E2:FI1:0",
		"frozenset of sets":    "Z1:E0:",
		"dict with a repeat":   "M2:I1:1NI1:1N",
		"dict with 1 and 1.0":  "M2:I1:1ND\x3f\xf0\x00\x00\x00\x00\x00\x00N",
		"dict with list key":   "M1:L0:N",
		"dict with deep key":   "M1:U1:U1:L0:N",
		"keys with a repeat":   "k2:NN",
		"items with list key":  "m1:L0:N",
		"counter with a list":  "c1:L0:N",
		"counter, repeat":      "c2:S1:aNS1:aN",
		"counter of 1 and 1.0": "c2:I1:1ND\x3f\xf0\x00\x00\x00\x00\x00\x00N",
		"ordered dict, repeat": "O2:S1:aNS1:aN",
		"ordered dict, list":   "O1:L0:N",
		"no factory":           "d0:",
		"factory cut off":      "d0:S3:in",
		"another factory":      "d0:S4:eval",
		"empty factory":        "d0:S0:",
		"factory of bytes":     "d0:B3:int",
		"factory and a list":   "d1:S3:intL0:N",
		"factory, repeat":      "d2:S3:intS1:aNS1:aN",
		"factory, cut off":     "d2:S3:intS1:aN",
		"range with step 0":    "RI1:0I1:1I1:0",
		"range too long":       "RI1:0I5:fffffI1:1",
		"range of huge bounds": "RI1:0I67:" + strings.Repeat("f", 67) + "I1:1",
		"range of floats":      "RD\x00\x00\x00\x00\x00\x00\x00\x00I1:1I1:1",
		"range of true":        "RI1:0TI1:1",
		"deque over its bound": "Q2:I1:1NN",
		"deque bound below 0":  "Q0:I2:-1",
		"decimal long exp":     "P8:1E+99999",
		"decimal underscore":   "P3:1_0",
		"decimal signed NaN":   "P4:sNaN",
		"decimal spaces":       "P2: 1",
		"decimal no digits":    "P3:E+1",
		"decimal open point":   "P2:1.",
		"fraction over 0":      "KI1:1I1:0",
		"fraction below 0":     "KI1:1I2:-1",
		"handle":               "H1:0",
		"run too short":        "L15:#b" + strings.Repeat("\x07", 15),
		"run cut off":          "L16:#b" + strings.Repeat("\x07", 15),
		"run and more":         "L16:#b" + strings.Repeat("\x07", 17),
		"run without a letter": "L16:#",
		"run of another type":  "L16:#f" + strings.Repeat("\x00", 64),
		"run too wide, 2":      "L16:#h" + strings.Repeat("\x00\x7f", 16),
		"run too wide, 4":      "L16:#i" + strings.Repeat("\xff\xff\x80\x00", 16),
		"run too wide, 8":      "L16:#q" + strings.Repeat("\x00\x00\x00\x00\x7f\xff\xff\xff", 16),
		"run of payload NaNs":  "L16:#d" + strings.Repeat("\x7f\xf8\x00\x00\x00\x00\x00\x01", 16),
		"run of two":           "L16:#?" + strings.Repeat("\x02", 16),
		"run of 15 strings":    "L16:#s14:" + strings.Repeat("\x00", 14),
		"run of 17 strings":    "L16:#s16:" + strings.Repeat("\x00", 16),
		"run of no text":       "L16:#s16:\xff" + strings.Repeat("\x00", 15),
		"run in an iterator":   "J16:#b" + strings.Repeat("\x07", 16),
		"run in values":        "v16:#b" + strings.Repeat("\x07", 16),
		"run in a set":         "E16:#b\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f",
		"run not packed":       "L16:" + strings.Repeat("I1:7", 16),
		"floats not packed":    "U16:" + strings.Repeat("D\x3f\xf8\x00\x00\x00\x00\x00\x00", 16),
		"booleans not packed":  "L16:" + strings.Repeat("TF", 8),
		"strings not packed":   "L16:" + strings.Repeat("S1:a", 16),
		"run too deep":         strings.Repeat("L1:", 63) + "L16:#b" + strings.Repeat("\x07", 16),
		"run too long":         "L200100:#b" + strings.Repeat("\x07", 200_100),
		"slice of a float":     "GD\x00\x00\x00\x00\x00\x00\x00\x00NN",
		"slice, cut off":       "GNN",
		"slice of true":        "GTNN",
		"array of no letter":   "y0:S0:",
		"array of two letters": "y0:S2:bb",
		"array of text":        "y1:S1:uS1:a",
		"array without letter": "y0:",
		"array, letter none":   "y0:N",
		"array, byte too big":  "y1:S1:bI2:80",
		"array, unsigned -1":   "y1:S1:BI2:-1",
		"array of 64 bits":     "y1:S1:qI16:8000000000000000",
		"array of true":        "y1:S1:iT",
		"array of int, float":  "y1:S1:iD\x00\x00\x00\x00\x00\x00\x00\x00",
		"array of float, int":  "y1:S1:dI1:0",
		"array, too precise":   "y1:S1:fD\x3f\xb9\x99\x99\x99\x99\x99\x9a",
		"set with an array":    "E1:y0:S1:d",
		"too deep":             strings.Repeat("L1:", 64) + "N",
		"very deep":            strings.Repeat("L1:", 1_000_000) + "N",
		"too many":             "L200100:" + strings.Repeat("N", 200_100),
		"counts that nest":     strings.Repeat("L9999999:", 60) + "N",
	}
}

// pythonAlone is what only the Python decoder sees: equality of unequal types, and
// lowest terms.
func pythonAlone() map[string]bool {
	return map[string]bool{"set with 1 and True": true, "set with 0 and False": true, "dict with 1 and 1.0": true, "counter of 1 and 1.0": true}
}

// goAlone is what only the Go decoder refuses: a second form of one value.
func goAlone(name string) bool { return strings.HasSuffix(name, "not packed") }

func TestDecodersRefuse(t *testing.T) {
	cases := malformed()
	for name, in := range cases {
		if _, err := decode([]byte(in), false); !pythonAlone()[name] && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v, want a malformed value", name, err)
		}
	}
	var script strings.Builder
	script.WriteString(Python() + `
names = {}
def check(name, data):
    d = Decoder(data)
    try:
        d.value()
        d.end()
    except Exception:
        return
    print(name)
`)
	for name, in := range cases {
		if len(in) < 300_000 && !goAlone(name) && name != "decimal signed NaN" {
			fmt.Fprintf(&script, "check(%q, bytes.fromhex(%q))\n", name, hex.EncodeToString([]byte(in)))
		}
	}
	fmt.Fprintf(&script, "check('2/4', b'KI1:2I1:4')\n")
	cmd := exec.Command(python(t), "-I", "-")
	cmd.Stdin = strings.NewReader(script.String())
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("Python's decoder takes: %s (error %v)", out, err)
	}
}

func TestHandlesOnlyWhereTheRowHasThem(t *testing.T) {
	v, err := decode([]byte("H1:a"), true)
	if err != nil || v.Kind != KindHandle {
		t.Errorf("got %v, %v; want a handle", v, err)
	}
	for _, in := range []string{"H2:-1", "H9:123456789", "E1:H1:1", "M1:H1:1N", "E1:GNNN"} {
		if _, err := decode([]byte(in), true); err == nil {
			t.Errorf("%q is taken", in)
		}
	}
}

// FuzzDecodeValue: whatever decodes has one encoding, its own, within the caps.
func FuzzDecodeValue(f *testing.F) {
	for _, v := range append(pythonValues(), pythonDowngrades()...) {
		f.Add([]byte(v.encoding))
	}
	for _, in := range malformed() {
		if len(in) < 1000 {
			f.Add([]byte(in))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := decode(data, true)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v is not a malformed value", err)
			}
			return
		}
		if got := v.Append(nil); !bytes.Equal(got, data) {
			t.Fatalf("%q encodes again to %q", data, got)
		}
		if nodes, depth := measure(v); nodes > MaxNodes+envelope || depth > MaxDepth {
			t.Fatalf("%d values, depth %d", nodes, depth)
		}
	})
}

// measure counts the nodes of a value and how deep they lie.
func measure(v Value) (nodes, depth int) {
	nodes = 1
	switch {
	case v.Kind == KindRange || v.Kind == KindFraction || v.Kind == KindSlice:
		return nodes, 1
	case v.packed > 0:
		return nodes + v.packed, 2
	}
	for _, it := range v.Items {
		n, d := measure(it)
		nodes, depth = nodes+n, max(depth, d)
	}
	if v.Kind == KindDeque || v.Kind == KindDefault || v.Kind == KindArray {
		nodes-- // its bound; what makes its values; its letter
	}
	return nodes, depth + 1
}

// TestValueRoundTrip: every value that can be built decodes to itself.
func TestValueRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawValue(t, 4)
		got, err := decode(v.Append(nil), false)
		if err != nil {
			t.Fatalf("%q: %v", v.Append(nil), err)
		}
		if diff := cmp.Diff(v, got, cmp.AllowUnexported(Value{}), cmp.Transformer("bytes", func(b []byte) string { return string(b) })); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func drawValue(t *rapid.T, depth int) Value {
	atoms := []Kind{KindNone, KindTrue, KindFalse, KindInt, KindFloat, KindString, KindBytes}
	kinds := atoms
	if depth > 0 {
		kinds = append(kinds, KindList, KindTuple, KindIterator, KindDict, KindValues,
			KindCounter, KindOrdered, KindDefault)
	}
	v := Value{Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	switch v.Kind {
	case KindInt:
		v = Int(rapid.Int64().Draw(t, "int"))
	case KindFloat:
		bits := math.Float64bits(rapid.Float64().Draw(t, "float"))
		v.Atom = binaryBits(bits)
	case KindString:
		v = Text(rapid.String().Draw(t, "string"))
	case KindBytes:
		v.Atom = rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
	case KindList, KindTuple, KindIterator, KindValues:
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			v.Items = append(v.Items, drawValue(t, depth-1))
		}
	case KindDict, KindCounter, KindOrdered, KindDefault:
		if v.Kind == KindDefault {
			v.Items = append(v.Items, rapid.SampledFrom([]Value{{Kind: KindNone}, Text("int"), Text("dict")}).Draw(t, "factory"))
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "entries") {
			v.Items = append(v.Items, Int(int64(i)), drawValue(t, depth-1))
		}
	}
	return v
}

func binaryBits(bits uint64) []byte {
	var out [8]byte
	for i := range out {
		out[i] = byte(bits >> (56 - 8*i))
	}
	return out[:]
}
