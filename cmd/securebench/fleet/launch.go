package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"securebench/internal/console"
	"securebench/internal/digest"
	"securebench/internal/fault"
	"securebench/internal/launch"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
)

const launchHelp = `Write what starts the shards of a prepared run, or workers of a run with --hub, on
other machines.

RUN is the folder of a run that securebench run --prepare N has prepared. The words
after -- are what that command was given, without --prepare and -o: each shard gets
them, and refuses to run if they make it another run.

All machines need RUN, the pack and securebench itself at the same paths, as on a
shared file system or in a volume.`

const slurmHelp = launchHelp + `

Two jobs are printed as a shell script, or submitted with --submit: an array with one
task for each shard, and a job that merges the shards when all of them have ended. The
tasks start in the current folder. A task whose node fails is queued again. Five minutes
before its time limit a task gets SIGTERM: what it has done by then is kept.

A job sees the environment of this command. Slurm stores that with the job, so keep a
provider's key in the file of --env-file instead.

With --workers, the array has workers of the run at --hub in its tasks. The words after
-- are more flags of securebench worker.`

const k8sHelp = launchHelp + `

An Indexed Job is printed as JSON, with one index for each shard; securebench merge
joins the shards when it has ended. The volume of --claim holds the folder --mount, the
current one if it is not given, and pods see it at the same path. They start in the
current folder as the owner of RUN, from an image whose entrypoint is securebench.

Pods have no rights with which they could make sandboxes: the rows need none, or
DOCKER_HOST names an engine elsewhere. With --privileged they make sandboxes
themselves, as root, with every right on the kernel that they run on. Give such pods a
kernel of their own (--runtime-class), or nodes of their own.

With --workers, a Job of workers is printed, which ends when the run at --hub has
finished, and a NetworkPolicy that lets them reach nothing else. The Secret of --secret
holds their credential under the key "credential"; the words after -- are more flags of
securebench worker.

With --serve, the run itself is printed as a StatefulSet of one pod, in RUN, with the
service by which workers of the cluster reach it: delete it when the run has finished.
The words after -- may include --lease, --inflight and --metrics.`

func (g group) launchCommand() *cobra.Command {
	c := &cobra.Command{Use: "launch", Short: "Write what starts a run on other machines", Long: launchHelp}
	c.AddCommand(g.slurmCommand(), g.k8sCommand())
	return c
}

func (g group) slurmCommand() *cobra.Command {
	var s launch.Slurm
	var w launch.Workers
	var throttle int
	var credentials string
	var submit bool
	c := &cobra.Command{
		Use:   "slurm {RUN -- ARGUMENT... | --workers N --hub ADDRESS:PORT --credentials FILE [-- FLAG...]}",
		Short: "Print or submit shards or workers as an array job", Long: slurmHelp, Args: runOrWorkers,
		Example: "  securebench run --config tester.yaml --prepare 40 -o runs/big\n" +
			"  securebench launch slurm runs/big --time 4:00:00 --submit -- --config tester.yaml\n" +
			"  securebench launch slurm --workers 40 --hub 10.0.0.5:4222 --credentials agents.json --submit",
		RunE: func(c *cobra.Command, args []string) (err error) {
			if s.Program, err = os.Executable(); err != nil {
				return fmt.Errorf("finding this program: %w", err)
			}
			if c.Flags().Changed("workers") {
				w.Args = args
				return g.slurmWorkers(c.Context(), s, w, credentials, submit)
			}
			of, _, err := g.shards(c.Context(), args, throttle)
			if err != nil {
				return err
			}
			if submit {
				return g.submit(c.Context(), s, of)
			}
			script, err := s.Script(of)
			return g.printed(script, err)
		},
	}
	fl := c.Flags()
	addThrottle(c, &throttle)
	fl.StringVar(&s.Time, "time", "", "time limit `T` of a shard, such as 4:00:00, above 5 minutes (default the partition's)")
	fl.StringArrayVar(&s.Options, "sbatch-arg", nil, "another option `ARG` of sbatch, for both jobs, such as --sbatch-arg=--partition=cpu (repeatable)")
	fl.BoolVar(&submit, "submit", false, "submit the jobs with sbatch, and print their numbers")
	addWorkers(c, &w, "throttle")
	fl.StringVar(&credentials, "credentials", "", "with --workers: `FILE` of securebench hub invite, as the nodes find it")
	c.MarkFlagsRequiredTogether("workers", "hub", "credentials")
	return c
}

func (g group) k8sCommand() *cobra.Command {
	var k launch.Kubernetes
	var w launch.Workers
	var of launch.Hub
	var throttle int
	c := &cobra.Command{
		Use:   "k8s {RUN [--serve PORT --config-home DIR] -- ARGUMENT... | --workers N --hub ADDRESS:PORT [-- FLAG...]}",
		Short: "Print shards, a run or its workers for Kubernetes", Long: k8sHelp, Args: runOrWorkers,
		Example: "  securebench run --config tester.yaml --prepare 40 -o runs/big\n" +
			"  securebench launch k8s runs/big --image IMAGE@sha256:DIGEST --namespace bench \\\n" +
			"    --claim runs -- --config tester.yaml | kubectl apply -f -",
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("workers") {
				w.Args, w.Version = args, strings.ToLower(rand.Text())
				if err := g.checkWorker(args); err != nil {
					return err
				}
				manifests, err := k.Workers(w)
				return g.printed(string(manifests), err)
			}
			if c.Flags().Changed("serve") {
				return g.k8sHub(c.Context(), k, of, args)
			}
			of, owner, err := g.shards(c.Context(), args, throttle)
			if err != nil {
				return err
			}
			k.User, k.Group = int64(owner.Uid), int64(owner.Gid)
			if k.Mount, err = filepath.Abs(k.Mount); err != nil {
				return fmt.Errorf("resolving --mount: %w", err)
			}
			manifest, err := k.Manifest(of)
			return g.printed(string(manifest), err)
		},
	}
	fl := c.Flags()
	addThrottle(c, &throttle)
	fl.StringVar(&k.Image, "image", "", "container image `REF@DIGEST` whose entrypoint is securebench")
	fl.StringVar(&k.Namespace, "namespace", "", "`NAMESPACE` of the job")
	fl.StringVar(&k.Claim, "claim", "", "`CLAIM` of the volume with the run and its inputs")
	fl.StringVar(&k.Mount, "mount", "", "folder `DIR` that the volume holds (default the current one)")
	fl.StringVar(&k.Secret, "secret", "", "`SECRET` whose keys become variables of the environment, such as a provider's key, or that holds the credential of workers")
	fl.StringVar(&k.RuntimeClass, "runtime-class", "", "runtime `CLASS` of the pods")
	fl.BoolVar(&k.Privileged, "privileged", false, "let pods make sandboxes: as root, with every right on their kernel")
	addWorkers(c, &w, "throttle", "claim", "mount")
	c.MarkFlagsRequiredTogether("workers", "hub")
	addServe(c, &of)
	return c
}

func addThrottle(c *cobra.Command, throttle *int) {
	c.Flags().IntVar(throttle, "throttle", 0, "run at most `K` shards at the same time (default all)")
}

// runOrWorkers wants RUN, and the run's arguments after --, or nothing if workers are
// started.
func runOrWorkers(c *cobra.Command, args []string) error {
	switch before := c.ArgsLenAtDash(); {
	case c.Flags().Changed("workers") && (before > 0 || before < 0 && len(args) > 0):
		return errors.New("give RUN and its arguments for shards, or --workers, not both")
	case c.Flags().Changed("workers"):
		return nil
	case before < 0 || before == len(args):
		return fmt.Errorf("give after -- what securebench run was given besides --prepare and -o: see %s --help", c.CommandPath())
	case before != 1:
		return fmt.Errorf("want one RUN before --, got %s: see %s --help", console.Plural(before, "argument"), c.CommandPath())
	}
	return nil
}

// shards reads the run that the first argument names, and checks the others. It also
// returns the owner of the run.
func (g group) shards(ctx context.Context, args []string, throttle int) (of launch.Shards, owner syscall.Stat_t, err error) {
	if of.Run, err = filepath.Abs(args[0]); err != nil {
		return of, owner, fmt.Errorf("resolving %s: %w", redact.Quote(args[0]), err)
	}
	if of.Work, err = os.Getwd(); err != nil {
		return of, owner, fmt.Errorf("finding the current folder: %w", err)
	}
	m, raw, err := record.ReadManifest(os.DirFS(of.Run))
	if err != nil {
		return of, owner, fault.Errorf(fault.Refused, "%s has no run: %w", redact.Quote(args[0]), err)
	}
	if m.Shards == nil {
		return of, owner, fault.Errorf(fault.Refused, "%s is not divided into shards: prepare it with securebench run --prepare N", redact.Quote(args[0]))
	}
	if err := syscall.Stat(of.Run, &owner); err != nil {
		return of, owner, fmt.Errorf("looking at %s: %w", redact.Quote(args[0]), err)
	}
	of.ID, of.Count, of.AtOnce, of.Args = m.RunID, m.Shards.Count, throttle, args[1:]
	of.Version = strings.TrimPrefix(digest.Bytes(raw), "sha256:")
	return of, owner, g.checkArguments(ctx, of.Args, m)
}

// checkArguments refuses arguments that no shard could run with.
func (g group) checkArguments(ctx context.Context, args []string, m record.Manifest) error {
	t, err := g.check(ctx, "", args)
	if err != nil {
		return fmt.Errorf("after --: %w", err)
	}
	if t.RunID != m.RunID || t.Attempts != m.Planned.Attempts {
		return fault.Errorf(fault.Refused, "after --: these arguments are of run %s with %s at each task, and prepared was run %s with %d",
			redact.Quote(t.RunID), console.Plural(t.Attempts, "attempt"), redact.Quote(m.RunID), m.Planned.Attempts)
	}
	return nil
}

// printed prints a script or a manifest on standard output.
func (g group) printed(text string, err error) error {
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(g.Stdout, text); err != nil {
		return fmt.Errorf("printing the result: %w", err)
	}
	return nil
}
