package main

import (
	"context"
	"errors"
	"fmt"

	"securebench/internal/config"
)

// ofShards checks what "run" is to be given for every shard of a run, before many of
// them try, or for a run with a hub at an address, and returns the configuration.
func (a *app) ofShards(ctx context.Context, hub string, args []string) (*config.Tester, error) {
	var f runFlags
	c := a.runCommand(&f)
	c.InitDefaultHelpFlag()
	c.SetContext(ctx)
	if err := c.ParseFlags(args); err != nil {
		return nil, usageError(err)
	}
	for _, name := range []string{"prepare", "shard", "output-dir", "resume", "force", "dry-run", "fail-on", "hub", "help"} {
		if c.Flags().Changed(name) {
			return nil, usageError(fmt.Errorf("leave out --%s: each shard is only given what the run is made of", name))
		}
	}
	f.hub = hub
	rest := c.Flags().Args()
	if len(rest) > 1 {
		return nil, usageError(errors.New("give one PACK"))
	}
	o, err := f.options(c, rest)
	return o.Config, err
}
