package multiplechoice

import (
	"testing"

	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
	"securebench/internal/verdict"
)

// TestChainsOfThought reads the usual end of a chain of thought that went
// through the choices.
func TestChainsOfThought(t *testing.T) {
	tests := []struct {
		question     string
		choices      []string
		right, wrong []string // for B
	}{
		{"This SVG path element <path d=\"M 55.57,80.69 L 57.38,65.80\"/> draws a", []string{"circle", "heptagon", "hexagon", "line"}, []string{
			"This path has seven vertices: M 55.57,80.69 is the first. When a path has seven vertices, it draws a heptagon. So the answer is (B).",
			"It has 7 sides, so it is a heptagon and not a hexagon.\nSo the answer is (B).", "The figure is closed with seven lines.\n\n**Answer: (B) heptagon**", "\\boxed{B}", "The path draws a heptagon.\n\nTherefore, the answer is **(B) heptagon**.",
		}, []string{"Not a heptagon (B). So the answer is (C).", "So the answer is (B) hexagon.", "So the answer is (B) or (C).", "It is (B). So the answer is (C).", "So the answer is not (B)."}},
		{"Find a movie similar to Batman, The Mask, The Fugitive, Pretty Woman:", []string{"The Front Page", "Maelstrom", "The Lion King", "Lamerica"}, []string{
			"- Batman (action; 1989)\n- The Mask (comedy; 1994)\nMaelstrom (drama; 2000) fits. The Lion King does not. So the answer is (B).",
			"The movie similar to them should be Maelstrom (2000). So the answer is (B).", "Among the options, only (B) fits. So the answer is (B).", "Answer: B. Maelstrom", "**B) Maelstrom** is the best match.\n\nSo the answer is (B).",
		}, []string{"Maelstrom fits. So the answer is (C).", "(B) The Lion King", "Maelstrom or Lamerica", "So the answer is (B) and (C).", "So the answer is (C). Not (B)."}},
		{"Today, Emily went to the museum. Between what times could they have gone?", []string{"1pm to 2pm", "6pm to 9pm", "5pm to 6pm", "2pm to 5pm"}, []string{
			"Wake-up time: 1pm.\n1pm-2pm: reading.\n6pm-9pm: free.\nThe only time when Emily could have gone to the museum was 6pm to 9pm. So the answer is (B).",
			"The museum closes at 9pm, so not 1pm to 2pm. So the answer is (B).", "6pm to 9pm", "Answer: 6pm to 9pm", "The free slot is from 6pm until 9pm.\n\n**Answer: B. 6pm to 9pm**",
		}, []string{"6pm to 9pm is taken. So the answer is (D).", "5pm to 9pm", "(B) 2pm to 5pm", "6pm to 9pm or 2pm to 5pm", "So the answer is (D). 6pm to 9pm is not free."}},
		{"On a branch, there are five birds. The quail is the rightmost. Which is true?", []string{"The quail is the third from the left", "The crow is the leftmost", "The robin is the second from the left", "The hawk is the rightmost", "The crow is the second from the right"}, []string{
			"(1) The quail is the rightmost: \"? ? ? ? quail\".\n(2) crow robin hawk raven quail.\nAccording to this ordering, the leftmost is the crow.\nThe crow is the leftmost. So the answer is (B).",
			"The crow is the leftmost.", "So (A), (C), (D) and (E) are false. So the answer is (B).", "The answer is (B): The crow is the leftmost.", "**(B) The crow is the leftmost**",
		}, []string{"The crow is the leftmost. So the answer is (E).", "The crow is not the leftmost.", "(B) The hawk is the rightmost", "So the answer is (B), (E).", "The crow is the leftmost. The hawk is the rightmost."}},
	}
	for _, tt := range tests {
		k := newTestKey(t, `"B"`, tt.choices...)
		k.question = answer.Ask(tt.question, "", vocabulary.Every)
		for _, s := range tt.right {
			if v := k.match(s, false); v.Outcome != verdict.Passed {
				t.Errorf("%q failed: %s", s, v.Message)
			}
		}
		for _, s := range tt.wrong {
			if v := k.match(s, false); v.Outcome == verdict.Passed {
				t.Errorf("%q passed", s)
			}
		}
	}
}
