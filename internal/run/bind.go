package run

import (
	"errors"
	"maps"
	"slices"
	"time"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/setup"
	"securebench/internal/config"
	"securebench/internal/digest"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/record"
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
		"agent": r.agent.Facts().Name, "limits": r.limits(),
		"sandbox":      map[string]any{"engine": r.engineName(), "runtime": t.Sandbox.Runtime, "allow": t.Sandbox.Allow, "deny": t.Sandbox.Deny, "capabilities": t.Sandbox.Capabilities},
		"verification": map[string]any{"disallow_dangerous_commands": t.Verification.DisallowDangerous, "deny_commands": t.Verification.Deny},
	}
	if r.Judge != nil {
		c["judge"] = r.Judge.Facts()
	}
	if t.ScoreTimeouts {
		c["score_timeouts"] = true
	}
	if e := r.work.Examples(); e != nil { // their rows have hidden values
		c["examples"] = r.dir.Salt().Keyed("examples", "", e.Content())
	}
	f := r.facts()
	maps.Copy(c, f.Settings)
	if img, ok := r.scorer.Images[f.Image]; ok {
		c["agent_image"] = img.ID
	}
	if len(f.Programs) > 0 {
		c["programs"] = f.Programs
	}
	if f.Model != "" {
		c["model"] = f.Model
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

// facts are those of the agent, with the programs and the model that the run has.
func (r *Run) facts() setup.Facts {
	f := r.agent.Facts()
	if r.produced != nil {
		f.Programs, f.Model = r.produced.Programs, r.produced.Model
	}
	return f
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
	if r.Judge != nil && r.work.AsksJudge() {
		_, m.Judge = setup.NewPanel(r.Judge, nil, r.facts().Model, digest.Salt{})
	}
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
	f := r.facts()
	m.Started, m.Agent, m.Engine, m.Labels, m.Programs, m.Model = now(), f.Name, engine, labels, f.Programs, f.Model
	m.Planned = record.Planned{Tasks: len(r.work.Rows), Attempts: r.Config.Attempts, LeftOut: r.LeftOut(), Judged: r.work.Judged()}
	m.Selection = r.rows.Record()
	if r.Prepare == 0 {
		m.Schedule = r.scheduled()
	}
	m.Digests.Config, m.Digests.Pack, m.Digests.Assets = b.Config, b.Pack, b.Assets
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
	if ref := r.agent.Facts().Image; ref != "" {
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
	if e := r.scorer.Engine; e != nil && e.Info().SocketsUnbounded {
		out = append(out, commit.SocketsUnbounded)
	}
	return append(out, r.agent.Facts().Labels...)
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
