package run

import (
	"errors"
	"slices"
	"time"

	"securebench/internal/config"
	"securebench/internal/digest"
	"securebench/internal/harness"
	"securebench/internal/pipeline/agent"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/source"
)

// bind computes the digests of the run's inputs.
func (r *Run) bind() error {
	salt, d := r.dir.Salt(), r.work.Digests
	var err error
	if r.config, err = digest.Canonical(r.configuration()); err != nil {
		return err
	}
	verifier, err := r.verifier()
	if err != nil {
		return err
	}
	r.binding = commit.Binding{
		Salt: salt, Config: digest.Bytes(r.config), Verifier: verifier,
		Pack:   salt.Keyed("pack", "", []byte(d.Pack)),
		Assets: salt.Keyed("assets", "", []byte(d.PublicAssets+d.EvalAssets)),
	}
	return nil
}

// configuration returns the settings on which an attempt's score depends,
// besides the pack. Workers, attempts, retries, progress and output flags are
// not part of it.
func (r *Run) configuration() map[string]any {
	t := r.Config
	c := map[string]any{
		"agent": r.agentName(), "limits": r.limits(),
		"sandbox":      map[string]any{"engine": r.engineName(), "runtime": t.Sandbox.Runtime, "allow": t.Sandbox.Allow, "deny": t.Sandbox.Deny, "capabilities": t.Sandbox.Capabilities},
		"verification": map[string]any{"disallow_dangerous_commands": t.Verification.DisallowDangerous, "deny_commands": t.Verification.Deny},
	}
	if t.ScoreTimeouts {
		c["score_timeouts"] = true
	}
	if replay, ok := r.agent.(*agent.Replay); ok {
		c["replay"] = replay.Digest()
	}
	if r.Agent == "" {
		c["harness"] = map[string]any{"type": t.Harness.Type, "env": t.Harness.Env, "config": plain(t.Harness.Config)}
		if sum := r.own.Digest(); sum != "" {
			c["agent_files"] = sum
		}
		if img, ok := r.scorer.Images[r.needs().Image]; ok {
			c["agent_image"] = img.ID
		}
	}
	programs, model := r.pinned()
	if len(programs) > 0 {
		c["programs"] = programs
	}
	if model != "" {
		c["model"] = model
	}
	return c
}

// engineName returns the name of the engine, whichever way it was chosen, or ""
// if the run needs none.
func (r *Run) engineName() string {
	if r.scorer.Engine == nil {
		return ""
	}
	return r.scorer.Engine.Info().Name
}

// pinned returns the agents' programs and the model that the provider is asked
// for.
func (r *Run) pinned() ([]record.Program, string) {
	if r.produced != nil {
		return r.produced.Programs, r.produced.Model
	}
	if rel := r.needs().Provider(); rel != nil {
		return r.programs.List(), rel.Model
	}
	return r.programs.List(), ""
}

// plain converts a configuration tree to the values that JSON uses.
func plain(n *source.Node) any {
	if n == nil {
		return nil
	}
	return n.Any()
}

func (r *Run) agentName() string {
	if r.Agent == "" {
		return r.Harness.Name()
	}
	return r.Agent
}

func (r *Run) limits() record.RunLimits {
	l := r.Config.Limits
	out := record.RunLimits{
		Memory: l.Memory, CPUs: l.CPUs, Pids: l.Pids, Disk: l.Disk, Files: l.Files, Output: l.Output, Candidate: l.Candidate,
		ProduceSeconds: l.Produce.Seconds(), ProduceSecondsDefault: harness.DefaultTimeout.Seconds(),
		VerifySeconds: map[string]float64{},
	}
	for name, f := range r.work.Families {
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

// acceptGiven lets Given refuse the run.
func (r *Run) acceptGiven() error {
	if r.Given == nil {
		return nil
	}
	verifier, err := r.verifier()
	if err != nil {
		return err
	}
	m := r.given(verifier, r.imagesNamed(func(string) string { return "" }))
	delete(m.Images, "") // those with a name that only this run's salt makes
	return r.Given(m)
}

// given describes what the attempts are given. names are those of the images in
// run.json, by reference.
func (r *Run) given(verifier string, names map[string]string) record.Manifest {
	p, images := r.work.Manifest, map[string]string{}
	for ref, img := range r.scorer.Images {
		images[names[ref]] = img.ID
	}
	return record.Manifest{
		Format: record.ManifestFormat, RunID: r.Config.RunID, Pack: record.PackInfo{ID: p.ID, Version: p.Version},
		Digests: record.RunDigests{Manifest: r.work.Digests.Manifest, Public: r.work.Public, Verifier: verifier},
		Limits:  r.limits(), Images: images, Version: r.Version,
	}
}

// newManifest describes a run that starts now.
func (r *Run) newManifest() (m record.Manifest, err error) {
	if err := r.bind(); err != nil {
		return m, err
	}
	var engine any
	if r.scorer.Engine != nil {
		engine = r.scorer.Engine.Info()
	}
	labels := r.labels()
	for _, img := range r.scorer.Images {
		if l := commit.ImageLabel(img); l != "" && !slices.Contains(labels, l) {
			labels = append(labels, l)
		}
	}
	slices.Sort(labels)
	former, err := r.dir.FormerRuns()
	if err != nil {
		return m, err
	}
	b := r.binding
	m = r.given(b.Verifier, r.imageNames())
	m.Started, m.Agent, m.Engine, m.Labels = now(), r.agentName(), engine, labels
	m.Planned = record.Planned{Tasks: len(r.work.Rows), Attempts: r.Config.Attempts, LeftOut: r.LeftOut()}
	m.Selection, m.Schedule = r.selected(), r.scheduled()
	m.Digests.Config, m.Digests.Pack, m.Digests.Assets = b.Config, b.Pack, b.Assets
	m.Programs, m.Model = r.pinned()
	m.SaltDigest, m.FormerRuns, m.ResumedFrom = r.dir.SaltDigest(), former, []record.Resumption{}
	return m, nil
}

// imageNames returns the names of images in run.json, by reference.
func (r *Run) imageNames() map[string]string {
	salt := r.dir.Salt()
	return r.imagesNamed(func(ref string) string { return record.HiddenImage(salt, ref) })
}

// imagesNamed names those that are evaluation inputs by hidden.
func (r *Run) imagesNamed(hidden func(ref string) string) map[string]string {
	names := r.work.ImageNames(hidden)
	if ref := r.needs().Image; ref != "" {
		names[ref] = ref
	}
	return names
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// labels returns the labels of all records of the run.
func (r *Run) labels() []string {
	out := []string{}
	if r.Config.Limits != config.Default().Limits {
		out = append(out, commit.CustomLimits)
	}
	needs := r.needs()
	if needs.Relay != nil && needs.Relay.AllowExternalTools {
		out = append(out, produce.ExternalTools)
	}
	if len(needs.Domains) > 0 {
		out = append(out, produce.NetworkEnabled)
	}
	if e := r.scorer.Engine; e != nil && e.Info().SocketsUnbounded {
		out = append(out, commit.SocketsUnbounded)
	}
	return out
}

// writeInputs stores, for the operator, the inputs whose digests run.json
// contains.
func (r *Run) writeInputs() error {
	return errors.Join(r.dir.WritePack(r.packDigests()), r.dir.WriteConfig(r.config))
}

func (r *Run) packDigests() record.PackDigests {
	d := r.work.Digests
	return record.PackDigests{Pack: d.Pack, Tasks: d.Tasks, PublicAssets: d.PublicAssets, EvalAssets: d.EvalAssets}
}
