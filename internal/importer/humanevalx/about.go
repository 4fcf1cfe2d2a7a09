package humanevalx

// About says where the rows are from, in Markdown.
const About = `# HumanEval-X

Rows of HumanEval-X, Tsinghua University, from the repository THUDM/CodeGeeX
(codegeex/benchmark/humaneval-x). Qinkai Zheng and others, "CodeGeeX: A Pre-Trained
Model for Code Generation with Multilingual Benchmarking on HumanEval-X" (2023),
https://arxiv.org/abs/2303.17568. Derived from HumanEval (MIT).

Licence: Apache-2.0 (LICENSE).
`

// Changes says what the conversion changes, in Markdown.
const Changes = "- The tests are a program around `test` that reports a fresh token after the last test.\n" +
	"- C++: the tests are compiled apart from the candidate, with the declaration as a prototype and an assertion of their own.\n" +
	"- Go: `package main` and the imports precede the prompt; the reference has the imports that it uses. `assert.Equal` takes the place of testify.\n" +
	"- Java: the tests have a class of their own, and import by name what they use.\n" +
	"- JavaScript: a failed `console.assert` fails the row; Node.js only prints it. Rows 112, 155 and 162, whose solutions fail there or need a package, are left out.\n" +
	"- The reference solution is the prompt, in C++ the declaration up to the function's brace, followed by `canonical_solution`.\n"
