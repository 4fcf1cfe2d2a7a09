package run

import (
	"securebench/internal/pipeline"
	"securebench/internal/progress"
)

// warn reports something that does not stop the run.
func (r *Run) warn(text string) { r.Progress.Event(progress.Warning(text)) }

func (r *Run) reportStart() {
	r.Progress.Event(progress.RunStart(r.Config.RunID, r.dir.Path(), r.Planned()))
	if n := len(r.kept); n > 0 {
		r.Progress.Event(progress.Resume(n, r.Planned()-n, r.Records()))
	}
}

func (r *Run) reportEnd(sum pipeline.Summary) {
	r.Progress.Event(progress.RunDone(progress.Summary{
		RunID: sum.RunID, Status: sum.Status(), Total: sum.Total, Verified: sum.Verified, Passed: sum.Passed,
		Failed: sum.Failed, Pending: sum.Pending, Infrastructure: sum.Infrastructure,
		Output: r.Records(), Failures: sum.Failures,
	}))
}

func (r *Run) reportAgent(taskID, stream, line string) {
	r.Progress.Event(progress.AgentOutput(taskID, stream, line))
}
