package compare

import (
	"testing"

	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
)

// TestFoldedLength finds an answer in sentences that lower case makes longer.
func TestFoldedLength(t *testing.T) {
	q := answer.Ask("What is the largest city of Türkiye?", "", vocabulary.Every)
	c := &Texts{}
	gold, err := c.NewText("İstanbul", q)
	if err != nil {
		t.Fatal(err)
	}
	c.Accepted = []Text{gold}
	for text, want := range map[string]bool{
		"The answer is İstanbul.": true, "It is İstanbul, because many people live there.": true,
		"İstanbul, the largest city is large.": true, "İstanbul, the largest city is Ankara.": false, "İstanbul, the largest city is İzmir.": false,
		"It is not İstanbul.": false, "İstanbul or İzmir": false,
	} {
		if got, reason, _ := answer.Decide(answer.Read(text, q, answer.Options{}), c, false); (reason == "") != want {
			t.Errorf("%q is %+v", text, got)
		}
	}
}
