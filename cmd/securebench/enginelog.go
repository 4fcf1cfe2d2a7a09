package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"securebench/internal/scoring"
)

// addLogFlag adds --log to a command that opens an engine.
func (a *app) addLogFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.logFile, "log", "", "append the engine's log to `FILE`, as JSON lines")
}

// engine returns what opens the configured engine, with the log of --log.
func (a *app) engine() scoring.EngineOpener {
	return scoring.NewEngineOpener(os.Getenv, func() (*slog.Logger, error) { return scoring.OpenLog(a.logFile) })
}
