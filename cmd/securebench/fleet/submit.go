package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"securebench/internal/fault"
	"securebench/internal/launch"
	"securebench/internal/redact"
)

// submit submits the array and the merge, and prints their numbers.
func (g group) submit(ctx context.Context, s launch.Slurm, of launch.Shards) error {
	job, err := s.Array(of)
	if err != nil {
		return err
	}
	array, err := sbatch(ctx, job)
	if err != nil {
		return err
	}
	if job, err = s.Merge(of, array); err != nil {
		return err
	}
	merge, err := sbatch(ctx, job)
	if err != nil {
		return fmt.Errorf("%w (array job %s is queued: end it with scancel %s, or merge the run when it has ended)", err, array, array)
	}
	return g.printed(fmt.Sprintf("array %s\nmerge %s\n", array, merge), nil)
}

// longestNumber bounds what sbatch may print as the number of a job.
const longestNumber = 20

// sbatch submits a job and returns its number.
func sbatch(ctx context.Context, job launch.Job) (string, error) {
	c := exec.CommandContext(ctx, "sbatch", job.Options...)
	var out, said bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr, c.Env = strings.NewReader(job.Script), &out, &said, os.Environ()
	err := c.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fault.As(fault.Refused, errors.New("sbatch was not found: run this where Slurm's commands are, or leave --submit out and run what is printed there"))
	}
	if err != nil {
		return "", fault.As(fault.Refused, fmt.Errorf("sbatch: %w: %s", err, redact.EscapeShort(strings.TrimSpace(said.String()), 1000)))
	}
	number, _, _ := strings.Cut(strings.TrimSpace(out.String()), ";") // a cluster's name may follow
	if number == "" || len(number) > longestNumber || strings.Trim(number, "0123456789") != "" {
		return "", fault.As(fault.Refused, fmt.Errorf("sbatch printed no number of a job: %s", redact.EscapeShort(out.String(), 200)))
	}
	return number, nil
}
