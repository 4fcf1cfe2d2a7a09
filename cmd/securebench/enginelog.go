package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"securebench/internal/config"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
)

// addLogFlag adds --log to a command that opens an engine.
func (a *app) addLogFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.logFile, "log", "", "append the engine's log to `FILE`, as JSON lines")
}

// engineName is the value of --engine.
type engineName string

func (n *engineName) String() string { return string(*n) }

// Type is what the help text calls the value.
func (*engineName) Type() string { return "NAME" }

// Set takes the name of an engine.
func (n *engineName) Set(s string) error {
	if known := []string{config.EngineAuto, config.EngineDocker, config.EngineNative}; !slices.Contains(known, s) {
		return fmt.Errorf("want %s", strings.Join(known, ", "))
	}
	*n = engineName(s)
	return nil
}

// addEngineFlag adds --engine to a command that opens the configured engine.
func (a *app) addEngineFlag(c *cobra.Command) {
	c.Flags().Var(&a.engineName, "engine", "auto, docker or native, instead of sandbox.engine")
}

// around is what engines need besides their configuration.
func (a *app) around() scoring.Surroundings {
	return scoring.Surroundings{Getenv: os.Getenv, Say: a.notice,
		Log: func() (*slog.Logger, error) { return scoring.OpenLog(a.logFile) }}
}

// engine returns what opens the engine of --engine, or else the configured one,
// with the log of --log.
func (a *app) engine() scoring.EngineOpener {
	open := scoring.NewEngineOpener(a.around())
	return func(ctx context.Context, cfg config.Sandbox, warn func(string)) (sandbox.Engine, error) {
		if a.engineName != "" {
			cfg.Engine = string(a.engineName)
		}
		return open(ctx, cfg, warn)
	}
}
