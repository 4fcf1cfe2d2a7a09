package programs

import (
	"strings"
	"testing"
)

func TestTake(t *testing.T) {
	const program = "int main() { return 0; }\n"
	fence := func(word, code string) string { return "```" + word + "\n" + code + "```\n" }
	for _, tt := range []struct{ name, text, how, code string }{
		{"the program alone", program, AsIs, ""},
		{"with a stop token", program + "<|im_end|>\n", AllText, program},
		{"one block", "Sure:\n\n" + fence("cpp", program) + "It ends.", OneFence, program},
		{"a block that calls the language otherwise", fence("C++", program), OneFence, program},
		{"a block without an end", "Sure:\n```cpp\n" + program, OpenFence, program},
		{"a longer fence", "````\n```\n" + program + "````\n", OneFence, "```\n" + program},
		{"tildes", "~~~ cpp\n" + program + "~~~\n", OneFence, program},
		{"a shell command afterwards", fence("cpp", program) + fence("sh", "g++ x.cpp\n"), LastFence, program},
		{"input and output afterwards", fence("cpp", program) + fence("", "5\n"), LastFence, program},
		{"the last of the language", fence("cpp", "old\n") + fence("cpp", program) + fence("text", "x\n"), LastFence, program},
		{"none of the language", fence("text", "x\n") + fence("", program), LastFence, program},
		{"blank blocks", fence("cpp", " \n") + fence("cpp", program), OneFence, program},
		{"reasoning", "<think>" + fence("cpp", "no\n") + "</think>\n" + fence("cpp", program), OneFence, program},
		{"the end of reasoning alone", fence("cpp", "no\n") + "</THINK>\n" + fence("cpp", program), OneFence, program},
		{"the beginning of reasoning alone", "<think>\n" + fence("cpp", program), OneFence, program},
		{"a generic type is no reasoning", "List<Thought> x;\nList<thought> y;\n", AsIs, ""},
		{"an inline mark", "Use ```cpp``` here", AsIs, ""},
		{"nothing", "", AsIs, ""},
	} {
		how, code := Take("cpp", tt.text)
		if how != tt.how || string(code) != tt.code {
			t.Errorf("%s: %q %q, want %q %q", tt.name, how, code, tt.how, tt.code)
		}
	}
}

// FuzzTake: what is taken is a part of the text, or a program of lines of it.
func FuzzTake(f *testing.F) {
	f.Add("```cpp\nx\n```\n```\ny")
	f.Add("<think>a</think>b<|end|>")
	f.Fuzz(func(t *testing.T, text string) {
		how, code := Take("cpp", text)
		if (how == AsIs) != (code == nil) {
			t.Errorf("%q: %q", how, code)
		}
		for line := range strings.Lines(string(code)) {
			if !strings.Contains(text, line) {
				t.Errorf("%q is not in the text", line)
			}
		}
	})
}
