// Package agentcheck tries an agent out: it runs the agent over one small row, as a run
// does, against a provider that plays a script, and says how far it came. Neither a key
// nor a model is needed.
package agentcheck

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed" // the row and the script
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/agent/catalogue"
	"securebench/internal/agent/harness"
	"securebench/internal/agent/kinds"
	"securebench/internal/agent/setup"
	"securebench/internal/attest"
	"securebench/internal/config"
	"securebench/internal/families"
	"securebench/internal/fault"
	"securebench/internal/gateway/scripted"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/run"
	"securebench/internal/scoring"
	"securebench/internal/source"
	"securebench/internal/workload"
)

//go:embed row.json
var row []byte

//go:embed script.yaml
var script []byte

// DefaultImage is the image of the row, unless another is named.
const DefaultImage = "securebench-python:3"

// timeLimit is that of the agent, which asks a provider that answers at once.
const timeLimit = 10 * time.Minute

// Options say what is tried, and where.
type Options struct {
	Agent   catalogue.Agent
	Version string // of its program; "" is latest
	API     string // that it speaks; "" is its first
	ACP     bool   // it is spoken to with the agent client protocol
	Model   string // that it asks for; "" is one of its own, or a name that nobody has
	Image   string // of the row
	Dir     string // where the run is kept; "" keeps nothing

	OpenEngine scoring.EngineOpener
	Getenv     func(string) string
	Notice     func(string)
	Build      string // the version of this build
}

// Check runs the agent. Its error is why there was no run: the program cannot be had, or
// does not start in the image.
func Check(ctx context.Context, o Options) (_ Report, err error) {
	dir, err := os.MkdirTemp("", "securebench-check-")
	if err != nil {
		return Report{}, fmt.Errorf("making a folder for the check: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	provider, address, stop, err := serve(ctx, o.Agent.Work)
	if err != nil {
		return Report{}, err
	}
	defer stop()
	options, err := o.run(dir, address)
	if err != nil {
		return Report{}, err
	}
	manifest, err := drive(ctx, options)
	if err != nil {
		return Report{}, err
	}
	line, err := recorded(options.Config.OutputDir)
	if err != nil {
		return Report{}, err
	}
	return o.report(manifest, line, provider.Requests()), nil
}

// serve starts the provider, whose model works as the agent has it.
func serve(ctx context.Context, work catalogue.Work) (_ *scripted.Server, address string, stop func(), err error) {
	s, err := scripted.Parse("script.yaml", script)
	if err != nil {
		return nil, "", nil, err
	}
	if work.Files {
		s.WriteFiles()
	} else if work.Last != "" {
		s.EndBy(work.Last)
	}
	at, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", nil, fmt.Errorf("starting the scripted provider: %w", err)
	}
	provider := scripted.New(s, nil)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = scripted.Serve(ctx, at, provider) // until it is stopped
	}()
	return provider, "http://" + at.Addr().String(), func() {
		cancel()
		<-done
	}, nil
}

// run returns the options of a run of the row, whose files are below dir.
func (o Options) run(dir, address string) (out run.Options, err error) {
	loc, err := o.pack(dir)
	if err != nil {
		return out, err
	}
	t := config.Default()
	t.RunID, t.OutputDir, t.Getenv, t.MaxWorkers = "agent-check-"+strings.ToLower(rand.Text()[:8]), cmp.Or(o.Dir, filepath.Join(dir, "run")), o.Getenv, 1
	if t.Harness, err = o.harness(address); err != nil {
		return out, err
	}
	ring := attest.OpenKeyring(filepath.Join(dir, "keys"))
	if _, _, err := ring.Signing(); err != nil { // makes one, which ends with the check
		return out, fmt.Errorf("making a key for the check: %w", err)
	}
	agent, problems := kinds.Configured(t.Harness)
	if err := problems.Err(); err != nil {
		return out, fault.As(fault.Config, err)
	}
	return run.Options{Outside: setup.Outside{LookupEnv: o.lookup}, Config: t, Pack: loc, Families: families.All(), Limit: workload.All,
		Agent: agent, KeepGoing: true, Version: o.Build, Keyring: ring,
		OpenEngine: o.OpenEngine, Progress: progress.New(progress.None, nil, progress.Options{}), Notice: o.Notice}, nil
}

// lookup gives an agent nothing of the operator's environment that could be a key.
func (o Options) lookup(name string) (string, bool) {
	for _, by := range o.Agent.Providers {
		for _, key := range by.Keys {
			if key == name {
				return "", false
			}
		}
	}
	v := o.Getenv(name)
	return v, v != ""
}

// pack writes the pack of the row.
func (o Options) pack(dir string) (loc pack.Location, err error) {
	var line map[string]any
	if err := json.Unmarshal(row, &line); err != nil {
		return loc, fmt.Errorf("reading the row of the check: %w", err)
	}
	line["environment"] = map[string]any{"image": cmp.Or(o.Image, DefaultImage), "timeout_seconds": timeLimit.Seconds()}
	text, err := json.Marshal(line)
	if err != nil {
		return loc, fmt.Errorf("writing the row of the check: %w", err)
	}
	loc = pack.Location{Manifest: filepath.Join(dir, "manifest.yaml"), Tasks: filepath.Join(dir, "tasks.jsonl")}
	return loc, errors.Join(os.WriteFile(loc.Manifest, []byte("id: agent-check\nversion: 1\n"), 0o600), os.WriteFile(loc.Tasks, append(text, '\n'), 0o600))
}

// someModel is a model that no provider has.
const someModel = "some-model-1"

// harness is the section of a tester YAML that runs the agent.
func (o Options) harness(address string) (h config.Harness, err error) {
	settings := map[string]any{"model": cmp.Or(o.Model, o.Agent.Models.Default, someModel), "base_url": address}
	if o.API != "" {
		settings["api"] = o.API
	}
	if o.ACP {
		settings["protocol"] = "acp"
	}
	text, err := json.Marshal(settings, json.Deterministic(true))
	if err != nil {
		return h, fmt.Errorf("writing the configuration of the check: %w", err)
	}
	at := source.Pos{File: "agent " + o.Agent.Name}
	h = config.Harness{Type: harness.AgentType, Name: o.Agent.Name, Description: o.Agent.Text(), Pos: at, TypePos: at}
	if o.Version != "" {
		h.Version = &source.Node{Kind: source.String, Text: o.Version, Pos: at}
	}
	h.Config, err = source.ParseYAML(at.File, text)
	return h, err
}

// drive runs the row to its record.
func drive(ctx context.Context, o run.Options) (m record.Manifest, err error) {
	r, err := run.Open(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return m, fault.Errorf(fault.Interrupted, "interrupted")
		}
		return m, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	switch _, err := r.Drive(ctx); {
	case errors.Is(err, pipeline.ErrInterrupted):
		return m, fault.Errorf(fault.Interrupted, "interrupted")
	case err != nil:
		return m, err
	}
	m, _, err = record.ReadManifest(os.DirFS(o.Config.OutputDir))
	return m, err
}

// recorded reads the one record of the run.
func recorded(dir string) (*record.Line, error) {
	f, err := os.Open(filepath.Join(dir, record.LinesName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for raw, err := range record.Lines(f) {
		if err != nil {
			return nil, fmt.Errorf("reading the record of the check: %w", err)
		}
		e, err := record.Decode(raw.Bytes)
		if err != nil {
			return nil, fmt.Errorf("reading the record of the check: %w", err)
		}
		return e.Line, nil
	}
	return nil, errors.New("the check has no record")
}
