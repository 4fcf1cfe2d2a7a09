package main

import (
	"github.com/spf13/cobra"

	"securebench/internal/fault"
	"securebench/internal/gateway/scripted"
)

// scriptedCommand plays a script in the place of a provider of models, for
// trying things out.
func (a *app) scriptedCommand() *cobra.Command {
	var address, file string
	c := &cobra.Command{
		Use: "scripted-provider", Short: "Play a script in the place of a provider of models", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := scripted.Load(file)
			if err != nil {
				return fault.As(fault.Config, err)
			}
			return scripted.Run(c.Context(), s, address, a.stdout)
		},
	}
	c.Flags().StringVar(&address, "listen", "127.0.0.1:0", "`ADDRESS` to listen at")
	c.Flags().StringVar(&file, "script", "", "`FILE` of the script, in YAML or JSON")
	return c
}
