package verdict

// The labels that say what a judged verdict should be read with.
const (
	JudgeUnchecked = "judge_unchecked" // no canaries were tried
	SelfJudged     = "self_judged"     // the judge's model is the agent's, or of its vendor's family
	// JudgeRead says that the candidate states no answer by its row's rule, and that a judge
	// was to read one.
	JudgeRead = "judge_read"
)

// Judgement is what a record says of a judge's votes on a candidate.
type Judgement struct {
	Model  string `json:"model"` // as it answered
	API    string `json:"api"`
	Prompt int    `json:"prompt_version"`
	Votes  []Vote `json:"votes"`
	Passed int    `json:"passed_votes"`
	// Cost is in millionths of a USD; nil if no price is known.
	Cost *int64 `json:"cost_microusd,omitzero"`
}

// Vote is one answer of a judge.
type Vote struct {
	Passed bool `json:"passed"`
	// Met says which criteria are met, in the order of the rubric. A record has it for a
	// pass; of other verdicts it would tell how near a candidate came.
	Met    []bool `json:"met,omitzero"`
	Stop   string `json:"stop,omitzero"` // why the model stopped, in its provider's word
	Tokens int64  `json:"tokens"`        // of the question and the answer
	Prompt string `json:"prompt"`        // keyed digest of the question
	Asked  int    `json:"asked"`         // how often, with the answers that are void
}
