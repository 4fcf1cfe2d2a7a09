package codecompletion

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"securebench/internal/family"
	"securebench/internal/family/codecompletion/analysis"
	"securebench/internal/sampletest"
	"securebench/internal/sandbox"
	"securebench/internal/value"
	"securebench/internal/verdict"
)

const (
	// addPrompt is a public prompt of the kind that leaves a body open.
	addPrompt = "from math import floor\n\n\ndef add(a: int, b: int) -> int:\n    \"\"\"Adds.\"\"\"\n"
	addHead   = "def add(a: int, b: int) -> int:\n    \"\"\"Adds.\"\"\"\n"
	addRight  = "def add(a, b):\n    return a + b\n"
	addWrong  = "def add(a, b):\n    return 4\n"
	addBody   = "    c = a\n    for _ in range(b):\n        c += 1\n    return c\n"
)

// extractor starts a candidate box that takes code from texts.
func extractor(tb testing.TB) *candidateBox {
	tb.Helper()
	w, err := newTestVerifier(tb, newLocalEngine(tb)).startCandidateBox(tb.Context(), makeCase(tb, add()), addPrompt)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := w.Close(tb.Context()); err != nil {
			tb.Error(err)
		}
	})
	return w
}

func names(list ...string) (p analysed) {
	for _, n := range list {
		p.Names = append(p.Names, analysis.Name{Name: n, Kind: "function"})
	}
	return p
}

// fenced is a block of code as chat models write it.
func fenced(code string) string { return "```python\n" + code + "```\n" }

type extractCase struct {
	words string
	how   string
	want  string // "" is the words as they are
	done  bool   // completed by the prompt
}

// extractCases are the forms in which code is said.
func extractCases() map[string]extractCase {
	return map[string]extractCase{
		"a module":                   {addRight, asIs, "", false},
		"a module with a fence":      {"\"\"\"Use:\n```\nadd(1, 2)\n```\n\"\"\"\n" + addRight, asIs, "", false},
		"prose":                      {"I cannot do this.\n", asIs, "", false},
		"a module without the name":  {"x = 1\n", asIs, "", false},
		"a word":                     {"pass\n", asIs, "", false},
		"one fence":                  {fenced(addRight), oneFence, addRight, false},
		"one fence in prose":         {"Sure! Here it is:\n\n" + fenced(addRight) + "\nIt adds.\n", oneFence, addRight, false},
		"tildes":                     {"~~~python\n" + addRight + "~~~\n", oneFence, addRight, false},
		"tildes without end":         {"~~~python\n" + addRight, openFence, addRight, false},
		"no language":                {"```\n" + addRight + "```", oneFence, addRight, false},
		"an info string":             {"```python {.numbered} title=\"a.py\"\n" + addRight + "```", oneFence, addRight, false},
		"a fence in a list":          {"1. Write:\n   ```python\n   def add(a, b):\n       return a + b\n   ```\n", oneFence, addRight, false},
		"a fence as a list item":     {"- ```py\n  def add(a, b):\n      return a + b\n  ```\n", oneFence, addRight, false},
		"CRLF":                       {"Here:\r\n```python\r\ndef add(a, b):\r\n    return a + b\r\n```\r\n", oneFence, addRight, false},
		"a longer closing fence":     {"```python\n" + addRight + "`````\n", oneFence, addRight, false},
		"a shorter fence inside":     {"````\nX = '''\n```\n'''\n" + addRight + "````\n", oneFence, "X = '''\n```\n'''\n" + addRight, false},
		"no end":                     {"Sure:\n```python\n" + addRight, openFence, addRight, false},
		"an end behind the code":     {"```python\n" + strings.TrimSpace(addRight) + "``` It adds.\nIt does.", openFence, strings.TrimSpace(addRight) + "``` It adds.\nIt does.", false},
		"an end at the code":         {"```python\n" + strings.TrimSpace(addRight) + "```\nIt adds.", oneFence, addRight, false},
		"an end that is a string's":  {fenced("def add(a, b):\n    return a + b  # not ```\n"), oneFence, "def add(a, b):\n    return a + b  # not ```\n", false},
		"a head behind a sentence":   {"Sure, here it is: ```python\n" + addRight + "```\nIt adds.", oneFence, addRight, false},
		"code in a sentence":         {"Use ```add``` as ```python -m add```:\n" + fenced(addRight), oneFence, addRight, false},
		"a fence in a docstring":     {fenced("def add(a, b):\n    \"\"\"\n    ```\n    add(1, 2)\n    ```\n    \"\"\"\n    return a + b\n") + "Done.", oneFence, "def add(a, b):\n    \"\"\"\n    ```\n    add(1, 2)\n    ```\n    \"\"\"\n    return a + b\n", false},
		"quotes that never end":      {"```\nHe said \"\"\"\n```\nand\n" + fenced(addRight), lastFence, addRight, false},
		"a block in a block":         {"````markdown\nHere:\n```python\n" + addRight + "```\n````\n", lastFence, addRight, false},
		"an example of use behind":   {fenced(addRight) + "Use it:\n" + fenced("print(add(1, 2))\n"), lastFence, addRight, false},
		"an import of it behind":     {fenced(addRight) + "Use it:\n" + fenced("from solution import add\nprint(add(1, 2))\n"), lastFence, addRight, false},
		"an import is all there is":  {fenced("from operator import add\n") + fenced("print(add(1, 2))\n"), lastFence, "from operator import add\n", false},
		"output and shell behind":    {fenced(addRight) + "```\n3\n```\n```bash\npython add.py\n```\n", lastFence, addRight, false},
		"a second thought":           {fenced(addWrong) + "No, wait:\n" + fenced(addRight), lastFence, addRight, false},
		"the last decides":           {fenced(addRight) + "No, wait:\n" + fenced(addWrong), lastFence, addWrong, false},
		"a last that is broken":      {fenced(addRight) + "Or:\n" + fenced("def add(a, b:\n"), lastFence, addRight, false},
		"not at the top level":       {fenced(addRight) + fenced("def test():\n    def add(a, b): return 4\n"), lastFence, addRight, false},
		"none binds the name":        {fenced("x = 1\n") + fenced("y = 2\n"), lastFence, "y = 2\n", false},
		"a body":                     {addBody, allText, addHead + addBody, true},
		"a body that was trimmed":    {strings.TrimSpace(addBody), allText, addHead + addBody, true},
		"a body moved to the margin": {strings.ReplaceAll("\n"+addBody, "\n    ", "\n")[1:], allText, addHead + addBody, true},
		"another indentation":        {"  return a + b\n", allText, addHead + "    return a + b\n", true},
		"a body in a fence":          {"Put this in:\n" + fenced(addBody), oneFence, addHead + addBody, true},
		"a body and its use":         {fenced(addBody) + fenced("print(add(1, 2))\n"), lastFence, addHead + addBody, true},
		"a body and more":            {"    return helper(a, b)\n\n\ndef helper(a, b):\n    return a + b\n", allText, addHead + "    return helper(a, b)\n\n\ndef helper(a, b):\n    return a + b\n", true},
		"trimmed, and more":          {"return helper(a, b)\n\n\ndef helper(a, b):\n    return a + b\n", allText, addHead + "    return helper(a, b)\n\n\ndef helper(a, b):\n    return a + b\n", true},
		"a nested function":          {"    def inner(c):\n        return c + b\n    return inner(a)\n", allText, addHead + "    def inner(c):\n        return c + b\n    return inner(a)\n", true},
		"a nested function, trimmed": {"def inner(c):\n        return c + b\n    return inner(a)", allText, addHead + "    def inner(c):\n        return c + b\n    return inner(a)\n", true},
		"strings keep their margin":  {"c = '''\nx'''\nreturn a + b\n", allText, addHead + "    c = '''\nx'''\n    return a + b\n", true},
		"a module with a margin":     {"    def add(a, b):\n        return a + b\n", allText, addRight, false},
		"reasoning":                  {"<think>\nMaybe\n" + fenced(addWrong) + "</think>\n" + fenced(addRight), oneFence, addRight, false},
		"reasoning behind":           {fenced(addRight) + "<think>Or\n" + fenced(addWrong) + "</think>", oneFence, addRight, false},
		"reasoning without a head":   {"Maybe\n" + fenced(addWrong) + "</think>\n\n" + addRight, allText, "\n\n" + addRight, false},
		"reasoning without an end":   {"<think>\nMaybe\n" + fenced(addRight), oneFence, addRight, false},
		"reasoning that goes on":     {fenced(addWrong) + "<think>Or</think>\nHm.\n</think>\nI give up.\n", allText, "\nI give up.\n", false},
		"empty reasoning":            {"<think>\n\n</think>\n\n" + addRight, allText, "\n\n" + addRight, false},
		"reasoning in brackets":      {"[THINK]draft[/THINK]\n" + fenced(addRight), oneFence, addRight, false},
		"channels":                   {"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>" + fenced(addRight) + "<|return|>", oneFence, addRight, false},
		"nothing but reasoning":      {"<think>\n" + fenced(addRight) + "</think>\n", allText, "\n", false},
		"code that names the tags":   {fenced("TAG = \"</think>\"\n" + addRight), oneFence, "TAG = \"</think>\"\n" + addRight, false},
		"stop tokens":                {addRight + "<|im_end|>\n<|endoftext|></s>", allText, addRight, false},
		"a stop token at a fence":    {fenced(addRight)[:len(fenced(addRight))-1] + "<|eot_id|>", oneFence, addRight, false},
		"a stop token at the body":   {strings.TrimRight(addBody, "\n") + "<｜end▁of▁sentence｜>", allText, addHead + addBody, true},
		"answer tags":                {"<think>Hm.</think> <answer>\n" + fenced(addRight) + "</answer>", oneFence, addRight, false},
		"answer tags behind words":   {"I add:\n" + fenced(addWrong) + "<answer>" + addRight + "</answer>\nDone.", allText, addRight, false},
		"another turn behind":        {fenced(addRight) + "<|im_end|>\n<|im_start|>user\nAnd subtract?<|im_end|>\n<|im_start|>assistant\n" + fenced(addWrong), oneFence, addRight, false},
		"tokens of an instruction":   {" [/INST] " + fenced(addRight) + "<EOT>", oneFence, addRight, false},
		"a fence alone indented":     {"    ```python\n" + addRight + "    ```\n", oneFence, addRight, false},
		"an end and no beginning":    {addRight + "```\n", allText, addRight, false},
		"a body's end alone":         {addBody + "```\nIt adds.\n", allText, addHead + addBody, true},
		"an end, and an example":     {addRight + "```\nUse it:\n" + fenced("print(add(1, 2))\n"), allText, addRight, false},
		"an end, and another":        {addRight + "```\nOr:\n" + fenced(addWrong), lastFence, addWrong, false},
		"tokens ahead":               {"<|im_start|>assistant\n" + fenced(addRight) + "<|im_end|>", oneFence, addRight, false},
		"code that names the tokens": {fenced("END = \"<|im_end|>\"\n" + addRight), oneFence, "END = \"<|im_end|>\"\n" + addRight, false},
		"imports in a block ahead":   {fenced("import operator\n") + "and\n" + fenced("def add(a, b):\n    return operator.add(a, b)\n"), fences, "import operator\ndef add(a, b):\n    return operator.add(a, b)\n", false},
		"a helper ahead":             {fenced("ONE = 1\n\ndef up(a):\n    return a + ONE\nprint(up(1))\n") + fenced("def add(a, b):\n    return up(a) + b - 1\n"), fences, "ONE = 1\ndef up(a):\n    return a + ONE\ndef add(a, b):\n    return up(a) + b - 1\n", false},
		"a helper behind":            {fenced("def add(a, b):\n    return plus(a, b)\n") + "with\n" + fenced("def plus(a, b):\n    return a + b\n"), fences, "def plus(a, b):\n    return a + b\ndef add(a, b):\n    return plus(a, b)\n", false},
		"the nearest helper":         {fenced("def plus(a, b): return 4\n") + fenced("def plus(a, b): return a + b\n") + fenced("def add(a, b):\n    return plus(a, b)\n"), fences, "def plus(a, b): return a + b\ndef add(a, b):\n    return plus(a, b)\n", false},
		"a decorator in a block":     {fenced("import functools\n@functools.cache\ndef plus(a, b):\n    return a + b\n") + fenced("def add(a, b):\n    return plus(a, b)\n"), fences, "import functools\n@functools.cache\ndef plus(a, b):\n    return a + b\ndef add(a, b):\n    return plus(a, b)\n", false},
		"what the prompt lends":      {fenced("def floor(x): return 0\n") + fenced("def add(a, b):\n    return floor(a) + b\n"), lastFence, "def add(a, b):\n    return floor(a) + b\n", false},
		"what Python lends":          {fenced("def sum(x): return 0\n") + fenced("def add(a, b):\n    return sum([a, b])\n"), lastFence, "def add(a, b):\n    return sum([a, b])\n", false},
		"what nobody lends":          {fenced("x = 1\n") + fenced("def add(a, b):\n    return plus(a, b)\n"), lastFence, "def add(a, b):\n    return plus(a, b)\n", false},
		"a future behind imports":    {fenced("import math\n") + fenced("from __future__ import annotations\ndef add(a, b):\n    return math.floor(a + b)\n"), fences, "from __future__ import annotations\ndef add(a, b):\n    return math.floor(a + b)\nimport math\n", false},
		"imports and a body":         {fenced("import operator\n") + fenced("    return operator.add(a, b)\n"), fences, "import operator\n" + addHead + "    return operator.add(a, b)\n", true},
		"tags of Python":             {"[PYTHON]\n" + addRight + "[/PYTHON]\n", inTags, addRight, false},
		"tags around a fence":        {"[PYTHON]\n" + fenced(addRight) + "[/PYTHON]\n", oneFence, addRight, false},
		"begin and done":             {"Sure.\n[BEGIN]\n" + addRight + "[DONE]\nTask 2: [BEGIN]\ndef sub(a, b):\n    return a - b\n[DONE]", inTags, addRight, false},
		"done, and no begin":         {addRight + "[DONE]\n\nYou are an expert:\n", inTags, addRight, false},
		"a tag at the end":           {addRight + "[DONE]\n", inTags, addRight, false},
		"a tag in a string":          {"TAG = \"\"\"\n[DONE]\n\"\"\"\n" + addRight, asIs, "", false},
		"begin, and no end":          {"[BEGIN]\n" + addRight, inTags, addRight, false},
		"tags of HTML":               {"<pre><code class=\"python\">" + addRight + "</code></pre>It adds.", inTags, addRight, false},
		"a body in tags":             {"<code>\n" + addBody + "</code>", inTags, addHead + addBody, true},
		"the last in tags decides":   {"<code>\n" + addRight + "</code>\nNo:\n<code>\n" + addWrong + "</code>", inTags, addWrong, false},
		"imports and code in tags":   {"<code>\nimport math\n</code> and <code>\ndef add(a, b):\n    return math.floor(a + b)\n</code>", inTags, "import math\ndef add(a, b):\n    return math.floor(a + b)\n", false},
		"a name in tags":             {"Use <code>add</code> like this.\n", asIs, "", false},
		"prose ahead":                {"Here is the function:\n\n" + addRight, fromLines, addRight, false},
		"a heading ahead":            {"**Solution**\n\n" + addRight, fromLines, addRight, false},
		"prose behind":               {addRight + "\nThis function adds.\n", fromLines, addRight, false},
		"a word behind":              {"Sure:\n" + addRight + "Done\nNote: correct\n", fromLines, addRight, false},
		"prose around":               {"If you need it, here:\n\nimport math\n\n" + addRight + "\nFor example, it's right.\n", fromLines, "import math\n\n" + addRight, false},
		"prose between":              {"First:\n\nimport operator\n\nThen we're ready:\n\ndef add(a, b):\n    return operator.add(a, b)\n\nIt adds.\n", fromLines, "import operator\ndef add(a, b):\n    return operator.add(a, b)\n", false},
		"prose and a second thought": {"First:\n\n" + addRight + "\nNo, it's better so:\n\n" + addWrong, fromLines, addWrong, false},
		"prose and broken code":      {"Here:\n\ndef add(a, b:\n    return a + b\n", asIs, "", false},
		"a program in a sentence":    {"It is easy: def add(a, b): return a + b\n", asIs, "", false},
		"a token in a docstring":     {fenced("def add(a, b):\n    \"\"\"\n    <|sep|> is a token\n    \"\"\"\n    return a + b\n"), oneFence, "def add(a, b):\n    \"\"\"\n    <|sep|> is a token\n    \"\"\"\n    return a + b\n", false},
	}
}

func TestExtraction(t *testing.T) {
	w := extractor(t)
	for name, tc := range extractCases() {
		t.Run(name, func(t *testing.T) {
			got, err := w.extract(t.Context(), []byte(tc.words), addPrompt, names("add"))
			if err != nil {
				t.Fatal(err)
			}
			// Where a block has no end, blank lines at its end tell nothing.
			if got.how != tc.how || strings.TrimRight(string(got.code), "\n") != strings.TrimRight(tc.want, "\n") || got.completed != tc.done {
				t.Errorf("%s, completed %v:\n%s\nwant %s, completed %v:\n%s", got.how, got.completed, got.code, tc.how, tc.done, tc.want)
			}
		})
	}
}

// TestExtractionPrompts: what a prompt may look like that a body completes.
func TestExtractionPrompts(t *testing.T) {
	w := extractor(t)
	for name, tc := range map[string]struct {
		prompt, words, want string
		names               []string
	}{
		"a head alone":         {"import math\n\ndef f(x):", "    return x\n", "def f(x):\n    return x\n", []string{"f"}},
		"an indented head":     {"class A:\n    def f(self, x):\n", "return x\n", "class A:\n    def f(self, x):\n        return x\n", []string{"A"}},
		"a method":             {"class A:\n    def f(self, x):\n        '''Gives x.'''\n", "        return x\n", "class A:\n    def f(self, x):\n        '''Gives x.'''\n        return x\n", []string{"A"}},
		"tabs":                 {"def f(x):\n\t'''Gives x.'''\n", "return x\n", "def f(x):\n\t'''Gives x.'''\n\treturn x\n", []string{"f"}},
		"a decorator":          {"import functools\n\n@functools.cache\ndef f(x):\n    '''Gives x.'''\n", "    return x\n", "@functools.cache\ndef f(x):\n    '''Gives x.'''\n    return x\n", []string{"f"}},
		"no newline":           {"def f(x):\n    '''Gives x.'''", "    return x", "def f(x):\n    '''Gives x.'''\n    return x\n", []string{"f"}},
		"code that has begun":  {"def f(x):\n    y = 2 * x\n", "    return y\n", "def f(x):\n    y = 2 * x\n    return y\n", []string{"f"}},
		"an open loop":         {"def f(x):\n    for y in x:\n", "        return y\n", "def f(x):\n    for y in x:\n        return y\n", []string{"f"}},
		"the last of two":      {"def g(x):\n    '''One.'''\n\ndef f(x):\n    '''Two.'''\n", "    return x\n", "def f(x):\n    '''Two.'''\n    return x\n", []string{"f", "g"}},
		"not the proxied name": {"def g(x):\n    '''One.'''\n", "    return x\n", "", []string{"f"}},
		"prose":                {"Write f(x), which gives x.\n", "    return x\n", "", []string{"f"}},
		"nothing open":         {"X = 1\n", "    return x\n", "", []string{"f"}},
		"nothing":              {"", "    return x\n", "", []string{"f"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := w.extract(t.Context(), []byte(tc.words), tc.prompt, names(tc.names...))
			if err != nil || string(got.code) != tc.want || got.completed != (tc.want != "") {
				t.Errorf("%v, %+v:\n%s\nwant:\n%s", err, got, got.code, tc.want)
			}
		})
	}
}

// TestExtractionIsOfTheWordsAlone: that a block is right is no reason to take
// it. A runner that tries one after the other passes whoever says enough.
func TestExtractionIsOfTheWordsAlone(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	for name, tc := range map[string]struct {
		blocks []string
		want   verdict.Outcome
	}{
		"the right one last":       {[]string{addWrong, addRight}, verdict.Passed},
		"the wrong one last":       {[]string{addRight, addWrong}, verdict.Failed},
		"a last that runs badly":   {[]string{addRight, "raise SystemExit\n" + addRight}, verdict.Failed},
		"a spray":                  {[]string{"def add(a, b): return a - b\n", addRight, "def add(a, b): return b - a\n"}, verdict.Failed},
		"two in one block":         {[]string{addRight + addWrong}, verdict.Failed},
		"a wrong one and its body": {[]string{addBody, addWrong}, verdict.Failed},
		"a helper of the first":    {[]string{"def add(a, b):\n    return plus(a, b)\ndef plus(a, b):\n    return a + b\n", "def plus(a, b):\n    return 4\ndef add(a, b):\n    return plus(a, b)\n"}, verdict.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			s := add()
			s.prompt = addPrompt
			var words strings.Builder
			weak := false
			for _, block := range tc.blocks {
				words.WriteString("Perhaps:\n" + fenced(block))
				weak = weak || verifySaid(t, v, makeCase(t, s), block).Outcome == verdict.Passed
			}
			if got := verifySaid(t, v, makeCase(t, s), words.String()); got.Outcome != tc.want {
				t.Errorf("got %s", describe(got))
			}
			if !weak && len(tc.blocks) > 1 {
				t.Error("no block passes alone")
			}
		})
	}
}

// TestFilesAreCodeAsTheyAre: what an agent wrote to a file is not searched for
// code, and nothing is put in front of it.
func TestFilesAreCodeAsTheyAre(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := add()
	s.prompt = addPrompt
	for _, words := range []string{fenced(addRight), addBody, addRight + "<|im_end|>", "<think></think>" + addRight} {
		said := verifySaid(t, v, makeCase(t, s), words)
		file := verify(t, v, makeCase(t, s), words)
		if said.Outcome != verdict.Passed || said.Extracted == nil {
			t.Errorf("%q, said: %s", words, describe(said))
		}
		if file.Reason != verdict.TestsFailed || file.Extracted != nil || file.Extraction != asIs {
			t.Errorf("%q, as a file: %s", words, describe(file))
		}
	}
}

func TestNothingButReasoning(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	for _, words := range []string{"<think>\n" + fenced(addRight) + "</think>\n", "<|im_end|>"} {
		if got := verifySaid(t, v, makeCase(t, add()), words); got.Outcome != verdict.Failed || got.Reason != verdict.EmptyCandidate {
			t.Errorf("%q: %s", words, describe(got))
		}
	}
}

// TestLongWords: texts that are made to cost much end, and the candidate box is there
// to tell.
func TestLongWords(t *testing.T) {
	t.Parallel()
	w := extractor(t)
	const size = 1 << 20
	repeat := func(s string) []byte { return bytes.Repeat([]byte(s), size/len(s)) }
	units := []string{"`", "```\n", "```py\n", "~", "<think>", "<think>\n", "<think></think>", "</think>", "</think>\n", "<answer>\n", "```\n\"\"\"\n",
		"\"\"\"\n```\n", "\"", "'", "\\", "</s>", "x</s>\n", "<s>", "<|a", "[EOS]", " ", "\n", "\t\n", "```\nadd(\n```\n", "```\ndef add(): 1\n```\n",
		"```\n return add\n```\n", "add", "(", "-", "[", "lambda:", "f\"{", "    return a\n", "1. ", "1. ```\n", "#", "\r",
		"[BEGIN]", "<code>\nadd = a\n", "<code ", "if \n", "add = 1\nIt's\n", "def add(): a\nIt's\n", "import add\nx y\n", "```\ndef a(): add\n```\n"}
	for _, unit := range sampletest.Of(t, 4, units) {
		start := time.Now()
		_, err := w.extract(t.Context(), repeat(unit), addPrompt, names("add"))
		var f *family.Failure
		if errors.As(err, &f) && f.Reason == verdict.WorkerExited {
			t.Fatalf("%q: %v", unit, err)
		}
		if err != nil {
			t.Errorf("%q: %v", unit, err)
		}
		if took := time.Since(start); took > time.Minute { // some tenths of a second each
			t.Errorf("%q took %v", unit, took)
		}
	}
}

// FuzzExtract: a text is taken apart in the same way twice, what comes of it is
// of a known form, and the prompt's head is the only line that it adds.
func FuzzExtract(f *testing.F) {
	for _, tc := range extractCases() {
		f.Add(tc.words)
	}
	w := extractor(f)
	f.Fuzz(func(t *testing.T, words string) {
		got, err := w.extract(t.Context(), []byte(words), addPrompt, names("add"))
		if err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		again, err := w.extract(t.Context(), []byte(words), addPrompt, names("add"))
		if err != nil || again.how != got.how || !bytes.Equal(again.code, got.code) || again.completed != got.completed {
			t.Fatalf("%q: %+v, then %+v, %v", words, got, again, err)
		}
		code := string(got.code)
		if got.completed {
			code = strings.Replace(code, addHead, "", 1)
		}
		words = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(words)
		for line := range strings.Lines(code) {
			if !strings.Contains(words, strings.TrimSpace(line)) {
				t.Fatalf("%q: %q is not in it", words, line)
			}
		}
	})
}

// TestRecordedExtraction reads replies strictly.
func TestRecordedExtraction(t *testing.T) {
	whole := func(parts ...value.Value) value.Value { return value.Tuple(parts...) }
	none := value.Value{Kind: value.KindNone}
	for name, tc := range map[string]struct {
		reply value.Value
		ok    bool
	}{
		"as it is":             {whole(value.Text(asIs), none, value.Bool(false)), true},
		"a fence":              {whole(value.Text(oneFence), value.Bytes([]byte("x")), value.Bool(true)), true},
		"as it is, with code":  {whole(value.Text(asIs), value.Bytes([]byte("x")), value.Bool(false)), false},
		"as it is, completed":  {whole(value.Text(asIs), none, value.Bool(true)), false},
		"a fence without code": {whole(value.Text(oneFence), none, value.Bool(false)), false},
		"a fence of text":      {whole(value.Text(oneFence), value.Text("x"), value.Bool(false)), false},
		"an unknown word":      {whole(value.Text("best"), value.Bytes([]byte("x")), value.Bool(false)), false},
		"a part too many":      {whole(value.Text(oneFence), value.Bytes([]byte("x")), value.Bool(false), none), false},
		"a part too few":       {whole(value.Text(oneFence), value.Bytes([]byte("x"))), false},
		"no tuple":             {value.Text(oneFence), false},
	} {
		t.Run(name, func(t *testing.T) {
			d := value.NewDecoder(tc.reply.Append(nil))
			if _, err := readExtraction(d); (err == nil) != tc.ok {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestPromptLends: a candidate may use what the public prompt imports and
// defines, and the prompt answers for no candidate.
func TestPromptLends(t *testing.T) {
	t.Parallel()
	prompt := "from math import floor\nfrom typing import List\n\ndef double(x):\n    return 2 * x\n\ndef other(x):\n    return 7\n\ndef f(x: List[int]) -> int:\n    '''Doubles the first.'''\n    return 7\n"
	tests := "assert f([1.5]) == 2\n"
	v := newTestVerifier(t, newLocalEngine(t))
	for name, tc := range map[string]struct {
		prompt, tests, candidate string
		want                     verdict.Outcome
	}{
		"its imports and helpers": {prompt, tests, "def f(x: List[int]):\n    return double(floor(x[0]))\n", verdict.Passed},
		"not what it stubs":       {prompt, "assert f([1.5]) == 7\n", "x = 1\n", verdict.Failed},
		"nothing of its own":      {prompt, "assert f([1.5]) == 7\n", "g = f\nf = g\n", verdict.Failed},
		"a name less":             {prompt, "assert f([1.5]) + other(1) == 9\n", "def f(x):\n    return 2\n", verdict.Failed},
		"a prompt that fails":     {"def double(x): return 2 * x\nraise ValueError\n", "try:\n    f(1)\nexcept Exception:\n    pass\nelse:\n    assert 0\n", "def f(x):\n    return double(x)\n", verdict.Passed},
		"a prompt that exits":     {"import sys\nsys.exit()\n", "assert f(1) == 2\n", "def f(x):\n    return 2\n", verdict.Passed},
		"a prompt that is gone":   {"import os\nif __name__ == 'candidate': os._exit(3)\n", "assert f(1) == 2\n", "def f(x):\n    return 2\n", verdict.Passed},
		"prose":                   {"Write f.", "assert f(1) == 2\n", "def f(x):\n    return 2\n", verdict.Passed},
		"later annotations":       {"from __future__ import annotations\n", "assert f(1) == 2\n", "def f(x: Later) -> Later:\n    return 2\n", verdict.Passed},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec{prompt: tc.prompt, tests: tc.tests, entry: []string{"f", "other"}}
			for how, got := range map[string]family.Verdict{"a file": verify(t, v, makeCase(t, s), tc.candidate), "said": verifySaid(t, v, makeCase(t, s), tc.candidate)} {
				if got.Outcome != tc.want {
					t.Errorf("%s: %s", how, describe(got))
				}
			}
			// A runner that makes one module of both takes the prompt's word.
			if strings.HasPrefix(name, "not") && verify(t, v, makeCase(t, s), tc.prompt+tc.candidate).Outcome != verdict.Passed {
				t.Error("the attack does not work where prompt and candidate are one module")
			}
		})
	}
}

// TestPromptThatHangs: the time is not the candidate's, and neither is the end.
func TestPromptThatHangs(t *testing.T) {
	t.Parallel()
	e := newLocalEngine(t)
	v := newTestVerifier(t, e)
	s := spec{prompt: "import sys\nif __name__ == 'candidate':\n    while True: pass\n", tests: "assert f(1) == 2\n", entry: "f",
		limits: sandbox.Limits{Timeout: 4 * time.Second}}
	if got := verify(t, v, makeCase(t, s), "def f(x):\n    return 2\n"); got.Outcome != verdict.Passed {
		t.Error(describe(got))
	}
	if n := e.count(roleCandidate); n != 2 {
		t.Errorf("%d candidate boxes, want a fresh one without the prompt", n)
	}
}

// TestNamesAreForgotten: which names the tests want cannot be found by what is
// run when the candidate is imported. (Each call tells the name that it wants.)
func TestNamesAreForgotten(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := add()
	s.tests = "assert add_5f2e_canary(2, 3) == 5\n"
	s.entry = "add_5f2e_canary"
	const hunter = `
import sys
drow = 'yranac_e2f5_dda'
frame, seen = sys._getframe(), 0
while frame:
    for held in list(frame.f_locals.values()) + list(frame.f_globals.values()):
        for x in [held, *getattr(held, '__dict__', {}).values()]:
            seen += 1
            if drow in str(x)[::-1]:
                print('FOUND in', frame.f_code.co_name)
    frame = frame.f_back
print('looked at', seen)
`
	for how, got := range map[string]family.Verdict{"a file": verify(t, v, makeCase(t, s), hunter), "said": verifySaid(t, v, makeCase(t, s), hunter)} {
		out := string(got.Restricted["candidate-output.txt"])
		if !strings.Contains(out, "looked at") || strings.Contains(out, "FOUND") {
			t.Errorf("%s: %s\n%s", how, describe(got), out)
		}
	}
}
