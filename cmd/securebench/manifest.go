package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"securebench/internal/config"
	"securebench/internal/digest"
	"securebench/internal/harness"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/source"
)

// bind makes the digests of the run's inputs.
func (x *execution) bind() error {
	salt := x.dir.Salt()
	d := x.in.Digests
	var err error
	if x.config, err = digest.Canonical(x.configuration()); err != nil {
		return err
	}
	verifier, err := ownDigest()
	if err != nil {
		return err
	}
	x.binding = pipeline.Binding{
		Salt: salt, Config: digest.Bytes(x.config), Verifier: verifier,
		Pack:   salt.Keyed("pack", "", []byte(d.Pack)),
		Assets: salt.Keyed("assets", "", []byte(d.PublicAssets+d.EvalAssets)),
	}
	return nil
}

// configuration is what the score of an attempt depends on besides the pack.
// The numbers of workers, attempts and retries, progress and output flags are
// no part of it.
func (x *execution) configuration() map[string]any {
	t := x.tester
	c := map[string]any{
		"agent": x.agentName(), "limits": x.limits(),
		"sandbox":      map[string]any{"engine": t.Sandbox.Engine, "runtime": t.Sandbox.Runtime, "allow": t.Sandbox.Allow, "deny": t.Sandbox.Deny},
		"verification": map[string]any{"disallow_dangerous_commands": t.Verification.DisallowDangerous, "deny_commands": t.Verification.Deny},
	}
	if replay, ok := x.agent.(*pipeline.Replay); ok {
		c["replay"] = replay.Digest()
	}
	if x.flags.agent == "" {
		c["harness"] = map[string]any{"type": t.Harness.Type, "env": t.Harness.Env, "config": plain(t.Harness.Config)}
	}
	return c
}

// plain is a configuration tree as JSON would hold it.
func plain(n *source.Node) any {
	if n == nil {
		return nil
	}
	return n.Any()
}

func (x *execution) agentName() string {
	if x.flags.agent == "" {
		return x.harn.Name()
	}
	name, _, _ := strings.Cut(x.flags.agent, ":")
	return name
}

func (x *execution) limits() record.Limits {
	l := x.tester.Limits
	out := record.Limits{
		Memory: l.Memory, CPUs: l.CPUs, Pids: l.Pids, Disk: l.Disk, Files: l.Files, Output: l.Output, Candidate: l.Candidate,
		ProduceSeconds: l.Produce.Seconds(), ProduceSecondsDefault: harness.DefaultTimeout.Seconds(),
		VerifySeconds: map[string]float64{},
	}
	for name, f := range x.in.families {
		if f.NewVerifier == nil {
			continue
		}
		out.VerifySeconds[name] = float64(f.VerifySeconds)
		if l.Verify > 0 {
			out.VerifySeconds[name] = l.Verify.Seconds()
		}
	}
	return out
}

// newManifest says what a run that begins now is made of.
func (x *execution) newManifest(ctx context.Context) (m record.Manifest, err error) {
	if err := x.bind(); err != nil {
		return m, err
	}
	var engine any
	if x.engine != nil {
		engine = x.engine.Info()
	}
	images, labels := map[string]string{}, x.labels()
	for ref, img := range x.images {
		images[ref] = img.ID
		if l := pipeline.ImageLabel(img); l != "" && !slices.Contains(labels, l) {
			labels = append(labels, l)
		}
	}
	slices.Sort(labels)
	former, err := x.dir.FormerRuns()
	if err != nil {
		return m, err
	}
	p, b := x.in.Manifest, x.binding
	return record.Manifest{
		Format: record.ManifestFormat, RunID: x.tester.RunID, Started: now(),
		Agent: x.agentName(), Pack: record.PackInfo{ID: p.ID, Version: p.Version},
		Planned: record.Planned{Tasks: x.in.count(), Attempts: x.tester.Attempts, LeftOut: x.in.leftOut()},
		Digests: record.RunDigests{Manifest: x.in.Digests.Manifest, Public: x.in.Public, Config: b.Config,
			Pack: b.Pack, Assets: b.Assets, Verifier: b.Verifier},
		Limits: x.limits(), Engine: engine, Images: images, Labels: labels,
		Version: buildVersion(), SaltDigest: x.dir.SaltDigest(), FormerRuns: former, ResumedFrom: []record.Resumption{},
	}, nil
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// labels are those of all records of the run.
func (x *execution) labels() []string {
	if x.tester.Limits != config.Default().Limits {
		return []string{pipeline.CustomLimits}
	}
	return []string{}
}

// writeInputs stores what the digests of run.json are of, for the operator.
func (x *execution) writeInputs() error {
	return errors.Join(x.dir.WritePack(x.packDigests()), x.dir.WriteConfig(x.config))
}

func (x *execution) packDigests() record.PackDigests {
	d := x.in.Digests
	return record.PackDigests{Pack: d.Pack, Tasks: d.Tasks, PublicAssets: d.PublicAssets, EvalAssets: d.EvalAssets}
}

// ownDigest identifies the code that decides: the running binary's bytes.
func ownDigest() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding the securebench binary: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("opening the securebench binary: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading the securebench binary: %w", err)
	}
	return digest.Format(h.Sum(nil)), nil
}
