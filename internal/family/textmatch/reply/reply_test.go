package reply_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/family/textmatch/number"
	"securebench/internal/family/textmatch/reply"
)

func TestReply(t *testing.T) {
	tests := []struct{ in, want string }{
		{"B", "B"},
		{"<think>A</think>B", "\nB"},
		{"<THINK>A</THINK>B", "\nB"},
		{"x<think>A</think>y<reasoning>C</reasoning>z", "x\ny\nz"},
		{"<think>a <reasoning> b </think> c", "\n c"},
		{"<seed:think>A</seed:think>B", "\nB"},
		{"<thoughts>A</thoughts><reflection>B</reflection>C", "\n\nC"},
		{"[THINK]A[/THINK]B", "\nB"},
		{"◁think▷A◁/think▷B", "\nB"},
		{"<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>final<|message|>B<|return|>", "\nB"},
		{"<|channel|>final<|message|>B<|return|>", "B"},
		{"<think>A", "\n"},
		{"B<think>A", "B\n"},
		{"A</think>B", "B"},
		{"A<think>x</think>B</think>C", "C"},
		{"a < b, b > c", "a < b, b > c"},
		{"<thinks>A</thinks>", "<thinks>A</thinks>"},
		{"B</s>", "B"},
		{"B <|im_end|>\n<|endoftext|>\n", "B"},
		{"B<｜end▁of▁sentence｜>", "B"},
		{"B<|im_end|> A", "B<|im_end|> A"},
		{"</s>", "</s>"},
		{"Answer: </s>", "Answer: </s>"},
		{"**Answer:** <|pad|>", "**Answer:** <|pad|>"},
		{"<|a b|>", "<|a b|>"},
		{"<answer>B</answer>", "\nAnswer: B\n"},
		{"<Answer>\nA\nB\n</Answer> C", "\nAnswer: A B\n C"},
		{"<final_answer>B</final_answer>", "\nFinal answer: B\n"},
		{"<answer>B", "\nAnswer: B"},
		{"<answer>A<answer>B</answer>", "\nAnswer: A\nAnswer: B\n"},
		{"B</answer>", "B\n"},
		{"\\boxed{\n25\n} x\ny", "\\boxed{ 25 } x\ny"},
		{"\\[\n-\n\\boxed{25}\n\\]\nx", "\\[ - \\boxed{25} \\]\nx"},
		{"$$\na\n$$\nb", "$$ a $$\nb"},
		{"\\boxed{\n25\n", "\\boxed{\n25\n"},
		{"\\[\na\n", "\\[\na\n"},
	}
	for _, tt := range tests {
		if got := reply.Text(tt.in); got != tt.want {
			t.Errorf("Reply(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// TestPassages shows what is read of a reply, and at which rank.
func TestPassages(t *testing.T) {
	type passage struct {
		Rank reply.Rank
		Text string
		Void bool
	}
	tests := []struct {
		in   string
		want []passage
	}{
		{"(B) is not correct. So the answer is (A).", []passage{{0, "(B) is not correct.", false}, {1, "(A).", false}}},
		{"**Final Answer**\n\nB", []passage{{2, "B", false}}},
		{"The answer is\nB", []passage{{1, "B", false}}},
		{"Let me answer the question.\nB", []passage{{0, "Let me answer the question.", true}, {0, "B", false}}},
		{"#### 25", []passage{{3, "25", false}}},
		{"### 25", []passage{{0, "25", false}}},
		{"#### Answer: 25", []passage{{3, "25", false}}},
		{"x = \\boxed{25}. Done.", []passage{{4, "25", false}, {0, "Done.", false}}},
		{"Wrong answer: B", []passage{{0, "Wrong answer: B", true}}},
		{"25 is the answer.", []passage{{1, "25", false}}},
		{"The answer to the question is 25", []passage{{1, "25", false}}},
		{"minus\n\\boxed{25}", []passage{{4, "25", false}}},
		{"25\nmillion", []passage{{0, "25 million", false}}},
		{"Answer: my final answer is 25", []passage{{2, "my final answer is 25", false}}},
		{"1. Paris\n- Rome\n- 25", []passage{{0, "Paris", false}, {0, "Rome", false}, {0, "- 25", false}}},
		{"The U.S. team of J. Smith won. Dr. No lost.", []passage{{0, "The U.S. team of J. Smith won.", false}, {0, "Dr. No lost.", false}}},
	}
	q := number.NewQuestion("", "")
	for _, tt := range tests {
		var got []passage
		for _, p := range reply.Passages(q, reply.Text(tt.in), reply.Options{}) {
			got = append(got, passage{p.Rank, p.Text, p.Void})
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.in, diff)
		}
	}
}
