package importer

import (
	"securebench/internal/importer/contests"
	"securebench/internal/source"
)

func apps() dataset {
	return dataset{
		format:  APPS,
		family:  "code_completion",
		convert: convertContest(contests.APPS),
		licence: "The data set is published under the MIT licence by its authors. " + contests.LicenceOfSites,
		about:   contests.AboutAPPS,
		changes: contests.Changes +
			"- Rows whose tests call a function (`fn_name`) are left out.\n" +
			"- The reference is the first of the solutions; not every one that the data set has passes its own tests.\n" +
			"- A case has 10 seconds, all of a row 300.\n",
	}
}

func codeContests() dataset {
	return dataset{
		format:  CodeContests,
		family:  "code_completion",
		convert: convertContest(contests.CodeContests),
		licence: "The data set is published under the licence CC BY 4.0 by its authors,\nhttps://creativecommons.org/licenses/by/4.0/legalcode. " + contests.LicenceOfSites,
		about:   contests.AboutCodeContests,
		changes: contests.Changes +
			"- The cases are the public, private and generated tests.\n" +
			"- The reference is the first solution in Python 3, if there is one.\n" +
			"- A case has five times the problem's time limit, which is made for compiled languages, or 10 seconds if it has none; all of a row 300 seconds.\n" +
			"- Where a problem names files for input and output, they take the place of the standard streams.\n",
	}
}

// convertContest makes a row of what a reader of a contest's problems returns.
func convertContest(read func(*source.Node) (contests.Problem, source.Problems)) func(*object, converter) row {
	return func(o *object, c converter) row {
		p, problems := read(o.node)
		o.problems = append(o.problems, problems...)
		c.leave(p.Left)
		return row{ID: p.ID, Input: codeInput{p.Text, "python"}, Eval: p.Eval, Metadata: p.Metadata}
	}
}
