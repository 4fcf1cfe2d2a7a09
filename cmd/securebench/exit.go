package main

import (
	"securebench/cmd/securebench/subcommand"
	"securebench/internal/fault"
)

// The exit codes. They are part of the command's contract and documented in
// its help.
const (
	exitDone        = 0
	exitInternal    = 1
	exitUsage       = 2
	exitConfig      = 10
	exitPack        = 11
	exitEngine      = 12
	exitIntegrity   = 13
	exitProblems    = 14
	exitRefused     = 15
	exitFailOn      = 20
	exitInfra       = 21
	exitInterrupted = 130
	exitDrained     = 143
)

// codes maps every kind of error to its exit code.
func codes() map[fault.Kind]int {
	return map[fault.Kind]int{
		fault.Internal:       exitInternal,
		fault.Usage:          exitUsage,
		fault.Config:         exitConfig,
		fault.Pack:           exitPack,
		fault.Engine:         exitEngine,
		fault.Integrity:      exitIntegrity,
		fault.Problems:       exitProblems,
		fault.Refused:        exitRefused,
		fault.Threshold:      exitFailOn,
		fault.Infrastructure: exitInfra,
		fault.Interrupted:    exitInterrupted,
		fault.Drained:        exitDrained,
	}
}

const exitCodesHelp = `
Exit codes:
  0    done (tasks may have failed)
  1    internal error, or the output could not be printed
  2    usage error
  10   the configuration is invalid
  11   the pack is invalid, or made attempts impossible
  12   no sandbox engine, or an image is missing
  13   an integrity check failed, a bundle is damaged, or a hub refuses a worker
  14   a check found problems
  15   refused: locked, already exists, not writable, or inputs changed
  20   the condition of --fail-on is met
  21   infrastructure errors remain
  130  interrupted, or no agent works; --resume continues the run
  143  a worker was told to leave before the run had finished`

func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	return codes()[fault.KindOf(err)]
}

// usageError is an error of the command line.
func usageError(err error) error { return subcommand.UsageError(err) }
