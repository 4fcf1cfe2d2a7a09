package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

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
	config, err := digest.JSON(x.configuration())
	if err != nil {
		return err
	}
	verifier, err := ownDigest()
	if err != nil {
		return err
	}
	x.binding = pipeline.Binding{
		Salt: salt, Config: config, Verifier: verifier,
		Pack:   salt.Keyed("pack", "", []byte(d.Pack)),
		Assets: salt.Keyed("assets", "", []byte(d.PublicAssets+d.EvalAssets)),
	}
	return nil
}

// configuration is what a score depends on besides the pack. The number of
// workers, progress and output flags are no part of it.
func (x *execution) configuration() map[string]any {
	t := x.tester
	c := map[string]any{
		"agent": x.agentName(), "attempts": t.Attempts, "retries": t.Retries, "limits": x.limits(),
		"sandbox":      map[string]any{"engine": t.Sandbox.Engine, "runtime": t.Sandbox.Runtime, "allow": t.Sandbox.Allow, "deny": t.Sandbox.Deny},
		"verification": map[string]any{"disallow_dangerous_commands": t.Verification.DisallowDangerous, "deny_commands": t.Verification.Deny},
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

func (x *execution) limits() map[string]any {
	l := x.tester.Limits
	verify := map[string]float64{}
	for name, f := range x.in.families {
		if f.NewVerifier == nil {
			continue
		}
		verify[name] = float64(f.VerifySeconds)
		if l.Verify > 0 {
			verify[name] = l.Verify.Seconds()
		}
	}
	out := map[string]any{
		"memory": l.Memory, "cpus": l.CPUs, "pids": l.Pids, "disk": l.Disk, "output": l.Output, "candidate": l.Candidate,
		"verify_seconds": verify, "produce_seconds_default": harness.DefaultTimeout.Seconds(),
	}
	if l.Produce > 0 {
		out["produce_seconds"] = l.Produce.Seconds()
	}
	return out
}

// writeManifest writes run.json before the first task.
func (x *execution) writeManifest(ctx context.Context) error {
	if err := x.bind(); err != nil {
		return err
	}
	var engine any
	if x.docker != nil {
		info, err := x.docker.Info(ctx)
		if err != nil {
			return coded(exitEngine, err)
		}
		engine = info
	}
	images, labels := map[string]string{}, []string{}
	for ref, img := range x.images {
		images[ref] = img.ID
		if l := pipeline.ImageLabel(img); l != "" {
			labels = []string{l}
		}
	}
	d := x.in.Digests
	if err := x.dir.WriteRestricted("pack.json", map[string]string{"pack": d.Pack, "tasks": d.Tasks,
		"public_assets": d.PublicAssets, "eval_assets": d.EvalAssets}); err != nil {
		return err
	}
	m := x.in.Manifest
	b := x.binding
	return x.dir.WriteManifest(record.Manifest{
		Format: record.ManifestFormat, RunID: x.tester.RunID, Started: time.Now().UTC().Format(time.RFC3339),
		Agent: x.agentName(), Pack: record.PackInfo{ID: m.ID, Version: m.Version},
		Planned: record.Planned{Tasks: x.in.count(), Attempts: x.tester.Attempts},
		Digests: record.RunDigests{Manifest: x.in.Digests.Manifest, Public: x.in.Public, Config: b.Config,
			Pack: b.Pack, Assets: b.Assets, Verifier: b.Verifier},
		Limits: x.limits(), Engine: engine, Images: images, Labels: labels,
		Version: buildVersion(), SaltDigest: x.dir.SaltDigest(), ResumedFrom: []string{},
	})
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
