package terminal

// AboutTerminalBench says where the tasks of Terminal-Bench are from, in Markdown.
const AboutTerminalBench = `# Terminal-Bench

Tasks of Terminal-Bench, from the repository laude-institute/terminal-bench.
https://www.tbench.ai

Licence: Apache-2.0 (LICENSE). Keep the lines that say that these tasks must not
be in training data.
`

// AboutEvoEval says where the rows of EvoEval are from, in Markdown.
const AboutEvoEval = `# EvoEval, as tasks of a terminal

Rows of EvoEval (Chunqiu Steven Xia and others, "Top Leaderboard Ranking = Top
Coding Proficiency, Always? EvoEval: Evolving Coding Benchmarks via LLM", 2024), in
the form that the repository laude-institute/terminal-bench-datasets gives them.

Licence: Apache-2.0 (LICENSE).
`
