package classeval

import _ "embed" // the licence

// About says where the rows are from, in Markdown.
const About = `# ClassEval

Rows of ClassEval, Fudan University and Nanyang Technological University, from the
repository FudanSELab/ClassEval (data/ClassEval_data.json). Xueying Du and others,
"ClassEval: A Manually-Crafted Benchmark for Evaluating LLMs on Class-level Code
Generation" (2023), https://arxiv.org/abs/2308.01861

Licence: MIT (LICENSE).
`

// Changes says what the conversion changes, in Markdown.
const Changes = "- `prompt` is `skeleton`, and the tests are `test` after `import_statement`.\n" +
	"- Rows that need packages outside of Python's standard library are left out, and those whose solution does not pass their own tests, or not always.\n" +
	"- Tests that need to be in one process with the candidate are marked `shared`.\n" +
	"- The reference solution is `import_statement` followed by `solution_code`.\n"

// Licence is the text of the licence.
//
//go:embed licence.txt
var Licence string
