package main

import (
	"os"

	"github.com/spf13/cobra"

	"securebench/internal/sandbox/holder"
)

// holderCommand serves a workspace from inside its own container. The engine
// starts it there from a copy of this binary; it is of no other use.
func (a *app) holderCommand() *cobra.Command {
	return &cobra.Command{
		Use: "sandbox-holder ROOT", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return holder.Serve(args[0], os.Stdin, os.Stdout)
		},
	}
}
