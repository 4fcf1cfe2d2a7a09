package transcript

import "strings"

// LabelWords says what a label of a record means, "" for one that this build does
// not know.
func LabelWords(label string) string {
	if capability, ok := strings.CutPrefix(label, "capability_"); ok {
		return "the agent's sandbox was granted this privilege of root: " + strings.ToUpper(capability)
	}
	return labels()[label]
}

func labels() map[string]string {
	return map[string]string{
		"heuristic":           "scored by counting words",
		"judged":              "the row asks for a judge: a model that says whether a candidate meets a rubric",
		"judge_read":          "it states no answer by the row's rule, and a judge was to read one; in the rate it has not passed",
		"judge_unchecked":     "the judge was not tried on the pack",
		"self_judged":         "the judge's model is the agent's, or of its vendor's family",
		"pack_checker":        "a file of the pack judged",
		"ablated":             "the agent had none of the row's files",
		"measured":            "how near the text came to what is accepted decided",
		"exit_code":           "only the test command's exit code decided",
		"text_report":         "results were read from text that the candidate's code could have written",
		"no_canaries":         "the repository runs only test files that it knows, so a patch of the test machinery would not show",
		"mutates":             "arguments were written back",
		"candidate_operators": "the candidate's classes implemented the operators that the tests used",
		"unpinned_image":      "the image is named by a tag, not a digest",
		"custom_limits":       "the run's limits are not the defaults",
		"python_path_open":    "the checker's image has a Python that can load modules from the workspace",
		"writable_files":      "the checker and what it started could change its evaluation files, as the row asks",
		"candidate_modules":   "what the checker started could find modules and settings of the candidate's, as the row asks",
		"shared_workspace":    "a service could change the workspace while the checker looked at it, as the row asks",
		"old_layout":          "task.json and the folder securebench lay in the agent's workspace",
		"scored_timeout":      "the agent ran out of time, and what it left was still scored",
		"sockets_unbounded":   "only the memory of the whole machine bounds the memory of sockets",
		"disk_sampled":        "the size of a sandbox's root was sampled, and may have exceeded its limit for a moment",
		"adapted":             "the row differs from what its data set has",
		"network_enabled":     "the agents may reach domains: what they read there cannot be repeated",
		"private_network":     "the agents may reach hosts of the operator's private networks",
		"loglikelihood":       "the answer is the choice that the model holds to be most likely; no text was asked for",
		"loglikelihood_norm":  "the answer is the choice that the model holds to be most likely for each of its characters; no text was asked for",
		"external_tools":      "the agents' provider may run tools for them, such as a search",
		"candidate_redacted":  "an operator's secret was removed from the candidate before it was stored and scored",
	}
}
