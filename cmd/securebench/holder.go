package main

import (
	"os"

	"github.com/spf13/cobra"

	"securebench/internal/artifact/reader"
	"securebench/internal/artifact/readprogram"
	"securebench/internal/artifact/wire"
	"securebench/internal/sandbox/acp"
	"securebench/internal/sandbox/holder"
	"securebench/internal/sandbox/initproc"
)

// helperCommands are what engines start inside sandboxes, from a copy of this
// binary: the server of a workspace, the first process of a sandbox that runs
// several commands, a wait for a service, a look for a command, the client of an agent
// that speaks the agent client protocol, and what reads delivered files.
func helperCommands() []*cobra.Command {
	var owner string
	var grants []string
	serve := &cobra.Command{Use: "sandbox-holder ROOT", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return holder.Start(args[0], owner, os.Stdin, os.Stdout) }}
	serve.Flags().StringVar(&owner, "read-all", "", "`UID:GID` to become, with the right to read everything")
	first := &cobra.Command{Use: "sandbox-init", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return initproc.Serve(grants) }}
	first.Flags().StringSliceVar(&grants, "grant", nil, "`CAPABILITIES` that commands can be given")
	wait := &cobra.Command{Use: "sandbox-probe tcp|http ADDRESS", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return initproc.AwaitService(c.Context(), args[0], args[1])
		}}
	look := &cobra.Command{Use: "sandbox-lookup NAME", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return initproc.AnswerLookup(os.Stdout, args[0], os.Getenv("PATH"))
		}}
	speak := &cobra.Command{Use: "sandbox-acp PROMPT COMMAND…", Hidden: true, Args: cobra.MinimumNArgs(2), DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			return acp.Run(c.Context(), args[0], args[1:], os.Stdout, os.Stderr)
		}}
	read := &cobra.Command{Use: wire.Name, Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return readprogram.Run(os.Stdin, os.Stdout, reader.Read) }}
	return []*cobra.Command{serve, first, wait, look, speak, read}
}
