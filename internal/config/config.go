// Package config reads what the operator writes: the tester YAML, schema
// version 0.2, and the env file.
//
// The tester YAML is closed at every level: an unknown key, a wrong type or a
// value out of range is an error with file, line and column, and all errors
// are reported together. Only harness.config and judge stay raw trees, because
// each harness checks its own, and so does the judge.
package config

import (
	"cmp"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/source"
)

// The engines that sandbox.engine may name.
const (
	EngineAuto   = "auto" // the best one that can run here
	EngineDocker = "docker"
	EngineNative = "native"
)

// Tester is a run's configuration with every default filled in.
type Tester struct {
	Path      string // the file it was read from; "" for none
	RunID     string
	OutputDir string // relative to the file's directory, like the next two
	Manifest  string
	Tasks     string
	// ManifestPos and TasksPos are where the file names them.
	ManifestPos, TasksPos source.Pos

	Harness      Harness
	Judge        Judge
	Verification Verification

	MaxWorkers int // tasks that run at the same time; 0 is what the machine holds
	Attempts   int // independent samples of each task
	Retries    int // repetitions of an attempt after an infrastructure error
	// ScoreTimeouts scores the tree that an agent left when its time was up.
	ScoreTimeouts bool
	Limits        Limits
	Sandbox       Sandbox
	// Getenv returns a variable of the environment, for what is fetched; no part of the
	// tester YAML. Nil has none.
	Getenv func(string) string
}

// Harness configures how candidates are produced.
type Harness struct {
	Type    string
	TypePos source.Pos
	// Name is that of an agent of the catalogue, for the type agent alone, Version its
	// version as it is written, and Description its description if that is not one of this
	// program's.
	Name        string
	Version     *source.Node
	Description []byte
	Env         []string     // names of variables that are forwarded
	EnvPos      []source.Pos // of each name
	// Required are those of the names that a run needs to be set.
	Required []string
	Config   *source.Node // an object, never nil after [LoadTester]
	Pos      source.Pos   // of the harness section
}

// Title names the harness to people: by the agent's name, if it has one.
func (h Harness) Title() string { return cmp.Or(h.Name, h.Type) }

// At returns the position of a key of Config, or the section if the key is left out.
func (h Harness) At(key string) source.Pos {
	if n := h.Config.Get(key); n != nil {
		return n.Pos
	}
	return h.Pos
}

// EnvAt returns the position of the i-th name of Env, or the section if that is not
// known.
func (h Harness) EnvAt(i int) source.Pos {
	if i < len(h.EnvPos) {
		return h.EnvPos[i]
	}
	return h.Pos
}

// Judge configures the model that decides rubrics in words.
type Judge struct {
	Config *source.Node // an object; nil is no judge
	Pos    source.Pos   // of the section
}

// Verification is the operator's policy for verification.
type Verification struct {
	DisallowDangerous bool
	Deny              []string // names of dangerous commands
}

// Limits bound every sandbox of the run. Sizes are in bytes.
type Limits struct {
	Memory    int64
	Disk      int64 // of a workspace
	Files     int64 // and folders of a workspace
	Output    int64 // stdout and stderr of one command together
	Candidate int64
	CPUs      float64 // cores
	Pids      int64
	// Produce and Verify are the operator's time limits; 0 leaves them to the
	// row, the harness and the family.
	Produce, Verify time.Duration
}

// Sandbox configures the engine, the command audit and the capabilities.
type Sandbox struct {
	Engine  string // one of the Engine constants
	Former  string // the engine of the run that is resumed; no part of the tester YAML
	Runtime string // runtime class of the engine; "" is its default
	// Allow and Deny are executable names for the command audit, which is not
	// a security boundary. An empty Allow allows everything.
	Allow, Deny []string
	// Capabilities are the root privileges granted to rows that ask for them;
	// empty grants none.
	Capabilities []sandbox.Capability
}

// Default returns the configuration of a run without a tester YAML. Fields
// that cannot have a default (id, directories, pack, harness) are empty.
func Default() *Tester {
	return &Tester{
		Verification: Verification{DisallowDangerous: true},
		Attempts:     1,
		Retries:      2,
		Limits: Limits{
			Memory:    1 << 30,
			Disk:      256 << 20,
			Files:     65536,
			Output:    8 << 20,
			Candidate: 1 << 20,
			CPUs:      1,
			Pids:      256,
		},
		Sandbox: Sandbox{Engine: EngineAuto},
	}
}
