package main

import (
	"os"

	"github.com/spf13/cobra"

	"securebench/internal/sandbox/holder"
	"securebench/internal/sandbox/initproc"
)

// holderCommand serves a workspace from inside its own container. Only the
// engine starts it, from a copy of this binary.
func (a *app) holderCommand() *cobra.Command {
	return &cobra.Command{
		Use: "sandbox-holder ROOT", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return holder.Serve(args[0], os.Stdin, os.Stdout)
		},
	}
}

// initCommand is the first process of a sandbox that runs several commands.
// The engine starts it there from a copy of this binary.
func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{
		Use: "sandbox-init", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return initproc.Serve() },
	}
}
