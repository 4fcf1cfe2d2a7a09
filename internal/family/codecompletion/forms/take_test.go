package forms

import (
	"strings"
	"testing"
)

func TestTake(t *testing.T) {
	const program = "int main() { return 0; }\n"
	fence := func(word, code string) string { return "```" + word + "\n" + code + "```\n" }
	for _, tt := range []struct{ name, text, how, code string }{
		{"the program alone", program, asIs, ""},
		{"with a stop token", program + "<|im_end|>\n", allText, program},
		{"one block", "Sure:\n\n" + fence("cpp", program) + "It ends.", oneFence, program},
		{"a block that calls the language otherwise", fence("C++", program), oneFence, program},
		{"a block without an end", "Sure:\n```cpp\n" + program, openFence, program},
		{"a longer fence", "````\n```\n" + program + "````\n", oneFence, "```\n" + program},
		{"tildes", "~~~ cpp\n" + program + "~~~\n", oneFence, program},
		{"a shell command afterwards", fence("cpp", program) + fence("sh", "g++ x.cpp\n"), lastFence, program},
		{"input and output afterwards", fence("cpp", program) + fence("", "5\n"), lastFence, program},
		{"the last of the language", fence("cpp", "old\n") + fence("cpp", program) + fence("text", "x\n"), lastFence, program},
		{"none of the language", fence("text", "x\n") + fence("", program), lastFence, program},
		{"blank blocks", fence("cpp", " \n") + fence("cpp", program), oneFence, program},
		{"reasoning", "<think>" + fence("cpp", "no\n") + "</think>\n" + fence("cpp", program), oneFence, program},
		{"the end of reasoning alone", fence("cpp", "no\n") + "</THINK>\n" + fence("cpp", program), oneFence, program},
		{"the beginning of reasoning alone", "<think>\n" + fence("cpp", program), oneFence, program},
		{"a generic type is no reasoning", "List<Thought> x;\nList<thought> y;\n", asIs, ""},
		{"an inline mark", "Use ```cpp``` here", asIs, ""},
		{"tags", "Sure:\n[BEGIN]\n" + program + "[DONE]\nTask:\n", inTags, program[:len(program)-1]},
		{"tags of HTML", "<code class=\"cpp\">" + program + "</code>", inTags, program[:len(program)-1]},
		{"the last tags", "<code>old</code>\n<code>" + program + "</code>", inTags, program[:len(program)-1]},
		{"a tag without an end", "[PYTHON]\n" + program, inTags, program[:len(program)-1]},
		{"a tag without a beginning", program + "[DONE]\nTask:\n", inTags, program},
		{"tags around a block", "[PYTHON]\n" + fence("cpp", program) + "[/PYTHON]\n", oneFence, program},
		{"a tag in a line", "x = \"<code>y</code>\"\n", asIs, ""},
		{"prose in front", "Here is the program:\n\n" + program, fromLines, program},
		{"a heading and prose around", "**Solution**\n\nWe return 0 at once.\n\n" + program + "\nThis is right, isn't it?\nIt's O(1) in time.\n", fromLines, program},
		{"prose alone", "I cannot do that.\n\nIt is too hard.\n", asIs, ""},
		{"prose that touches the program", "Here is the program:\n" + program, asIs, ""},
		{"a string of sentences", "\"\"\"\nIt adds two numbers.\n\nThat is all.\n\"\"\"\n" + program, asIs, ""},
		{"nothing", "", asIs, ""},
	} {
		how, code := take("cpp", tt.text)
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
		how, code := take("cpp", text)
		if (how == asIs) != (code == nil) {
			t.Errorf("%q: %q", how, code)
		}
		for line := range strings.Lines(string(code)) {
			if !strings.Contains(text, line) {
				t.Errorf("%q is not in the text", line)
			}
		}
	})
}
