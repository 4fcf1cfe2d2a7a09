package contests

// AboutAPPS says where the rows of APPS are from, in Markdown.
const AboutAPPS = `# APPS

Rows of APPS, from the repository hendrycks/apps, or in its form. Dan Hendrycks and
others, "Measuring Coding Challenge Competence With APPS" (2021),
https://arxiv.org/abs/2105.09938

Licence: MIT; see LICENSE. Each row's metadata names the place that it is from.
`

// AboutCodeContests says where the rows of CodeContests are from, in Markdown.
const AboutCodeContests = `# CodeContests

Rows of CodeContests, from the repository google-deepmind/code_contests, or in its form.
Yujia Li and others, "Competition-Level Code Generation with AlphaCode" (2022),
https://arxiv.org/abs/2203.07814

Licence: Creative Commons Attribution 4.0 International; see LICENSE.
`
