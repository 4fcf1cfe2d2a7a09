package run

import (
	"io"
	"securebench/internal/pipeline"
	"securebench/internal/progress"
)

// warn reports something that does not stop the run.
func (r *Run) warn(text string) { r.Progress.Event(progress.Warning{Message: text}) }

func (r *Run) reportStart(disk string) {
	start := progress.RunStart{RunID: r.Config.RunID, OutputDir: r.dir.Path(), Total: r.planned().All}
	if r.scorer.Engine != nil {
		info := r.scorer.Engine.Info()
		start.Engine, start.EngineChoice = info.Name, info.Choice
	}
	r.Progress.Event(start)
	r.Progress.Event(progress.Schedule{Workers: r.plan.Workers, Tasks: r.plan.Line(), Disk: disk})
	if n := len(r.kept); n > 0 {
		sum := pipeline.Summarise(r.Config.RunID, r.planned(), r.kept)
		r.Progress.Event(progress.Resume{Completed: n, Counts: sum.Counts,
			Remaining: r.planned().All - n, OutputPath: r.Records()})
	}
}

func (r *Run) reportEnd(sum pipeline.Summary) {
	r.Progress.Event(progress.RunDone{
		RunID: sum.RunID, Status: sum.Status(), Total: sum.Total, Counts: sum.Counts,
		AgentErrors: sum.AgentErrors, Answers: sum.Answers, Output: r.Records(), Failures: sum.Failures,
	})
}

// show returns what shows the agents' output, nil unless that is asked for.
func (r *Run) show() (func(taskID string, attempt int) func(stream string) io.WriteCloser, error) {
	if !r.ShowAgent {
		return nil, nil
	}
	file, err := r.dir.Trace()
	if err != nil {
		return nil, err
	}
	r.output = progress.NewShown(file, r.agent.Facts().Output, &r.secrets, r.Progress)
	return r.output.Of, nil
}
