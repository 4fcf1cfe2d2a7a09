package launch

import (
	"fmt"
	"slices"
	"strings"

	"securebench/internal/console"
)

// Slurm says how Slurm runs the shards of a run.
type Slurm struct {
	Program string   // securebench, as the nodes find it
	Time    string   // the time limit of a shard as sbatch reads it; "" is the partition's
	Options []string // more options of sbatch, for both jobs
}

// Job is a call of sbatch: its options, and the script that it reads.
type Job struct {
	Options []string
	Script  string
}

// warning is the signal that a shard gets some minutes before its time limit, so that it
// can remove its sandboxes. It goes to the script's process, which is the shard's.
const warning = "B:TERM@300"

// Array returns the array job in which each task runs a shard. A task whose node fails
// is queued again, and appends to its log.
func (s Slurm) Array(of Shards) (Job, error) {
	if err := s.check(of); err != nil {
		return Job{}, err
	}
	tasks := fmt.Sprintf("0-%d", of.Count-1)
	if of.AtOnce > 0 {
		tasks += fmt.Sprintf("%%%d", of.AtOnce)
	}
	options := s.options(of, "", "--array="+tasks, "--requeue", "--open-mode=append", "--signal="+warning)
	if s.Time != "" {
		options = append(options, "--time="+s.Time)
	}
	return s.job(options, of.arguments(`"$SLURM_ARRAY_TASK_ID"`, console.ShellQuote)), nil
}

// Merge returns the job that merges the shards once every task of the array has ended,
// in whatever way.
func (s Slurm) Merge(of Shards, array string) (Job, error) {
	if err := s.check(of); err != nil {
		return Job{}, err
	}
	return s.job(s.options(of, "-merge", "--dependency=afterany:"+array), []string{"merge", console.ShellQuote(of.Run)}), nil
}

// Script returns a shell script that submits both jobs.
func (s Slurm) Script(of Shards) (string, error) {
	array, err := s.Array(of)
	if err != nil {
		return "", err
	}
	const variable = `"${array%%;*}"` // a cluster's name may follow the number
	merge, err := s.Merge(of, variable)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#!/bin/sh\n# Submits the run %s as an array of %s, and the job that merges them.\nset -eu\n",
		of.ID, console.Plural(of.Count, "shard"))
	fmt.Fprintf(&b, "array=$(sbatch%s <<'SHARD'\n%sSHARD\n)\n", words(array.Options, ""), array.Script)
	fmt.Fprintf(&b, "sbatch%s <<'MERGE'\n%sMERGE\n", words(merge.Options, variable), merge.Script)
	return b.String(), nil
}

func (s Slurm) check(of Shards) error {
	if err := of.check(); err != nil {
		return err
	}
	return printable(slices.Concat([]string{s.Program, s.Time, of.ID}, s.Options)...)
}

// options are those of every job, with the operator's last, which win.
func (s Slurm) options(of Shards, suffix string, more ...string) []string {
	own := []string{"--parsable", "--job-name=securebench-" + of.ID + suffix, "--chdir=" + of.Work}
	return slices.Concat(own, more, s.Options)
}

// job returns a job whose script becomes securebench: Slurm's signals reach it, and its
// exit code is the job's.
func (s Slurm) job(options, arguments []string) Job {
	return Job{options, "#!/bin/sh\nexec " + console.ShellQuote(s.Program) + " " + strings.Join(arguments, " ") + "\n"}
}

// words writes options for a shell, in which variable stays as it is.
func words(options []string, variable string) string {
	var b strings.Builder
	for _, option := range options {
		b.WriteByte(' ')
		before, isLast := strings.CutSuffix(option, variable)
		if variable == "" || !isLast {
			b.WriteString(console.ShellQuote(option))
			continue
		}
		b.WriteString(console.ShellQuote(before) + variable)
	}
	return b.String()
}
