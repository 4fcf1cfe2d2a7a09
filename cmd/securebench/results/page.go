package results

import (
	"errors"
	"io"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/evidence"
	"securebench/internal/families"
	"securebench/internal/report"
	"securebench/internal/viewer"
)

// written is a report that is written to files.
type written struct {
	run     *evidence.Run
	res     *evidence.Result
	report  *report.Report
	lines   viewer.Lines
	version string
}

// files writes those that the flags name.
func (p *written) files(f reportFlags) error {
	var errs []error
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{{f.html, p.page}, {f.junit, p.report.WriteJUnit}} {
		if file.name != "" {
			errs = append(errs, subcommand.WriteWhole(file.name, file.write))
		}
	}
	return errors.Join(errs...)
}

// page writes the report with every attempt as one page.
func (p *written) page(w io.Writer) error {
	return viewer.NewRun(p.report, p.res, p.lines, families.All()).WriteFile(w, p.run, p.version)
}
