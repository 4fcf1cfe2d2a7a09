package testrunner

// SiteName is the name of the file that [Site] is the content of.
const SiteName = "sitecustomize.py"

// Site returns a start-up module of Python. With PYTHONSAFEPATH set and its folder as
// PYTHONPATH, what a checker starts finds no module in the folder that it starts in,
// but a script finds those beside it. Before Python 3.11 it does nothing.
func Site() []byte { return []byte(source("site.py")) }
