package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/agent/harness"
	"securebench/internal/agent/kinds"
	"securebench/internal/agent/setup"
	"securebench/internal/config"
	"securebench/internal/console"
	"securebench/internal/evidence"
	"securebench/internal/families"
	"securebench/internal/fault"
	"securebench/internal/judge/provider"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/redact"
	"securebench/internal/remote"
	"securebench/internal/remote/service"
	"securebench/internal/run"
	"securebench/internal/source"
	"securebench/internal/workspace"
)

// options turns flags and arguments into the options of a run, and checks
// everything that does not need the pack.
func (f *runFlags) options(c *cobra.Command, args []string) (o run.Options, err error) {
	if err := f.check(c); err != nil {
		return o, err
	}
	o = run.Options{Families: families.All(), Limit: f.limit, Strict: f.strict, ShowAgent: f.showAgent, Steer: steered, KeepGoing: f.keepGoing,
		Version: buildVersion(), Mode: run.Mode(f.resume)}
	o.Prepare = f.prepare
	if c.Flags().Changed("shard") {
		o.Shard = &f.shard
	}
	if f.force {
		o.Mode = run.Replace
	}
	if err := f.resolve(c, args, &o); err != nil {
		return o, err
	}
	if o.Choice, err = f.choice.of(c.Context(), o.Config.OutputDir); err != nil {
		return o, err
	}
	if err := f.conditions.Load(c.Context(), evidence.Trust{Getenv: os.Getenv}); err != nil {
		return o, err
	}
	o.Accept = f.conditions.Accept
	if len(f.failOn) > 0 {
		o.Given = func(m record.Manifest) error { return f.conditions.Given(o.Config.OutputDir, m) }
	}
	if o.LookupEnv, err = loadEnv(f.envFile); err != nil {
		return o, fault.As(fault.Config, err)
	}
	if f.agent != "" || f.replayMap != "" {
		if o.Agent, err = kinds.BuiltIn(f.agent, f.replayMap); err != nil {
			return o, usageError(err)
		}
	}
	if o.Agent == nil {
		return o, usageError(errors.New("no agent given: give --harness NAME, --model NAME, --agent oracle|null|replay:FILE, or a tester YAML that names a harness"))
	}
	if f.blind {
		o.Agent = setup.Blind(o.Agent)
	}
	if f.hub != "" {
		keys, err := remote.DefaultKeys()
		if err != nil {
			return o, fault.As(fault.Config, err)
		}
		o.Hub = &service.Hub{Addr: f.hub, Keys: keys, Inflight: f.inflight, Lease: f.lease, Metrics: f.metrics}
	}
	return o, f.openKeyring(&o)
}

func (*runFlags) openKeyring(o *run.Options) (err error) {
	o.Keyring, err = evidence.OpenKeyring(os.Getenv)
	return err
}

// resolve finds the configuration and the pack that the arguments name.
func (f *runFlags) resolve(c *cobra.Command, args []string, o *run.Options) (err error) {
	// The kind of the agent checks its section, and the judge its own.
	check := func(t *config.Tester) (ps source.Problems) {
		if problem := harness.Describe(&t.Harness, os.Getenv); problem != nil {
			return source.Problems{problem}
		}
		o.Agent, ps = kinds.Configured(t.Harness)
		var more source.Problems
		o.Judge, more = provider.Parse(t.Judge)
		return append(ps, more...)
	}
	switch {
	case len(args) == 1 && f.config != "":
		return usageError(errors.New("give PACK or --config, not both"))
	case len(args) == 1:
		o.Pack, o.Config, err = subcommand.Locate(args[0], check)
	case f.config != "":
		o.Config, err = config.LoadTester(f.config, check)
		if err == nil {
			o.Pack, err = subcommand.PackOf(o.Config)
		}
		err = fault.As(fault.Config, err)
	default:
		return usageError(errors.New("give a PACK or --config TESTER.yaml"))
	}
	if err != nil {
		return err
	}
	if o.Config == nil {
		o.Config = config.Default()
		o.Config.RunID = runID(o.Pack.Manifest)
		o.Config.OutputDir = filepath.Join("runs", o.Config.RunID)
	}
	f.override(o.Config)
	if err := f.overrideJudge(o); err != nil {
		return err
	}
	return f.overrideModel(o, check, c.Flags().Changed)
}

// overrideJudge makes the judge ask the model that the flag names.
func (f *runFlags) overrideJudge(o *run.Options) error {
	if f.judge == "" {
		return nil
	}
	o.Config.Judge = provider.WithModel(o.Config.Judge, f.judge)
	var ps source.Problems
	o.Judge, ps = provider.Parse(o.Config.Judge)
	return fault.As(fault.Config, ps.Err())
}

// maxSystemPrompt bounds the file of a system prompt.
const maxSystemPrompt = 1 << 20

// modelSettings returns what the flags say of the model to ask.
func (f *runFlags) modelSettings(changed func(string) bool) (out []harness.Setting, err error) {
	system := ""
	if f.systemPrompt != "" {
		text, err := source.ReadFile(f.systemPrompt, maxSystemPrompt)
		if err != nil {
			return nil, fmt.Errorf("--system-prompt: %w", err)
		}
		if system = strings.TrimRight(string(text), "\n"); !utf8.ValidString(system) || strings.TrimSpace(system) == "" {
			return nil, fmt.Errorf("--system-prompt: %s has no text in UTF-8", f.systemPrompt)
		}
	}
	for _, s := range []harness.Setting{
		{Flag: "--model", Key: "model", Value: f.model},
		{Flag: "--base-url", Key: "base_url", Value: f.baseURL},
		{Flag: "--api", Key: "api", Value: f.api},
		{Flag: "--max-tokens", Key: "max_tokens", Kind: source.Number, Value: strconv.Itoa(f.maxTokens)},
		{Flag: "--temperature", Key: "temperature", Kind: source.Number, Value: strconv.FormatFloat(f.temperature, 'f', -1, 64)},
		{Flag: "--reasoning-effort", Key: "reasoning_effort", Value: f.effort},
		{Flag: "--system-prompt", Key: "system", Value: system},
		{Flag: "--answer-by", Key: "answer_by", Value: f.answerBy},
		{Flag: "--few-shot", Key: "few_shot", Kind: source.Number, Value: strconv.Itoa(f.fewShot)},
	} {
		if s.Kind != source.Number {
			s.Kind = source.String
		}
		if changed(strings.TrimPrefix(s.Flag, "--")) {
			out = append(out, s)
		}
	}
	return out, nil
}

// overrideModel makes the harness run the agent, or ask the model, that the flags name,
// as they say.
func (f *runFlags) overrideModel(o *run.Options, check config.Check, changed func(string) bool) error {
	settings, err := f.modelSettings(changed)
	if err != nil {
		return usageError(err)
	}
	if f.harness != "" {
		settings = append([]harness.Setting{{Flag: "--harness", Value: f.harness}}, settings...)
	}
	if len(settings) == 0 {
		return nil
	}
	if f.agent != "" {
		return usageError(fmt.Errorf("give --agent or %s, not both", settings[0].Flag))
	}
	h, err := harness.WithFlags(o.Config.Harness, settings)
	if err != nil {
		return usageError(err)
	}
	o.Config.Harness = h
	return fault.As(fault.Config, check(o.Config).Err())
}

// runID derives the id of a run without a tester YAML from its pack's folder.
func runID(manifest string) string {
	abs, err := filepath.Abs(manifest)
	if err != nil {
		return "run"
	}
	return workspace.DirName(filepath.Base(filepath.Dir(abs)))
}

// override applies the flags, which win over the tester YAML.
func (f *runFlags) override(t *config.Tester) {
	if f.outputDir != "" {
		t.OutputDir = f.outputDir
	}
	if f.workers > 0 {
		t.MaxWorkers = f.workers
	}
	if f.attempts > 0 {
		t.Attempts = f.attempts
	}
	if f.retries >= 0 {
		t.Retries = f.retries
	}
}

// loadEnv loads the env file, and returns what looks variables up; those that are
// already set keep their values. Secrets do not enter this process's environment.
func loadEnv(file string) (func(string) (string, bool), error) {
	vars, err := config.LoadEnv(file)
	secrets := map[string]string{}
	for _, v := range vars {
		if _, set := os.LookupEnv(v.Name); set {
			continue
		}
		if redact.NamesSecret(v.Name) {
			secrets[v.Name] = v.Value
		} else if err := os.Setenv(v.Name, v.Value); err != nil {
			return nil, fmt.Errorf("setting %s from %s: %w", v.Name, file, err)
		}
	}
	return func(name string) (string, bool) {
		if v, set := os.LookupEnv(name); set {
			return v, true
		}
		v, set := secrets[name]
		return v, set
	}, err
}

// renderer returns the progress renderer that --progress selects.
func (f *runFlags) renderer(stderr *console.Stream) *progress.Renderer {
	mode := progress.Mode(f.progress)
	if f.quiet {
		mode = progress.None
	}
	return newRenderer(mode, stderr, progress.Options{ShowCommandOutput: f.showCommands, ShowAgentOutput: f.showAgent})
}

// newRenderer returns a renderer for what standard error is.
func newRenderer(mode progress.Mode, stderr *console.Stream, opts progress.Options) *progress.Renderer {
	if stderr.Size != nil && os.Getenv("TERM") != "dumb" {
		opts.TTY, opts.Size = true, stderr.Size
		opts.Color = os.Getenv("NO_COLOR") == ""
	}
	return progress.New(mode, stderr, opts)
}

// terminalSize returns what measures the terminal behind w, nil if there is none.
func terminalSize(w io.Writer) func() (columns, rows int) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return func() (columns, rows int) {
		columns, rows, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 0, 0
		}
		return columns, rows
	}
}
