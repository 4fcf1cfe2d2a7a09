package evidence

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/config"
	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
)

// The labels that follow from what else a run says, as docs/evidence.md lists them.
// Those that need the pack are for a review.
const (
	customLimits     = "custom_limits"
	scoredTimeout    = "scored_timeout"
	networkEnabled   = "network_enabled"
	privateNetwork   = "private_network"
	externalTools    = "external_tools"
	unpinnedImage    = "unpinned_image"
	socketsUnbounded = "sockets_unbounded"
	likely           = "loglikelihood"
	likelyEach       = "loglikelihood_norm"
	capability       = "capability_"
)

// ofRun are the labels that either all records of a run have or none.
func ofRun() []string {
	return []string{customLimits, networkEnabled, privateNetwork, externalTools, socketsUnbounded, likely, likelyEach}
}

// labels compares a record's labels with what they follow from.
func (r *lineCheck) labels(e record.Entry, fail failer) {
	has := func(label string) bool { return slices.Contains(e.Labels, label) }
	for _, label := range ofRun() {
		if whole := slices.Contains(r.Manifest.Labels, label); whole != has(label) {
			fail("its label %s is wrong: %s %s", label, record.ManifestName, map[bool]string{true: "has it", false: "has not"}[whole])
		}
	}
	if timedOut := string(e.ProducerMetadata["timed_out"]) == "true" && e.Digests.Candidate != ""; timedOut != has(scoredTimeout) {
		fail("its label %s is wrong: by its producer_metadata the agent's time was %s", scoredTimeout, map[bool]string{true: "up", false: "not up"}[timedOut])
	}
	if domains := e.ProducerMetadata["allowed_domains"]; len(domains) > 2 && domains.Kind() == '[' && !has(networkEnabled) {
		fail("it lacks the label %s: by its producer_metadata the agent could reach hosts", networkEnabled)
	}
	if r.unpinned(e.Digests.Image) && !has(unpinnedImage) {
		fail("it lacks the label %s: %s names its image by a tag", unpinnedImage, record.ManifestName)
	}
	if r.settings == nil {
		return
	}
	if has(scoredTimeout) && !r.settings.ScoreTimeouts {
		fail("its label %s is wrong: by %s no such attempt was to be scored", scoredTimeout, record.ConfigName)
	}
	for _, label := range e.Labels {
		if name, ok := strings.CutPrefix(label, capability); ok && !slices.Contains(r.settings.Sandbox.Capabilities, strings.ToUpper(name)) {
			fail("its label %s is wrong: by %s that was not granted", label, record.ConfigName)
		}
	}
}

// unpinned reports whether the run names an image only by tags, as far as the names
// are known.
func (r *lineCheck) unpinned(image string) bool {
	known := false
	for name, id := range r.Manifest.Images {
		switch {
		case id != image:
		case strings.Contains(name, "@sha256:"), strings.HasPrefix(name, "hmac-sha256:"):
			return false
		default:
			known = true
		}
	}
	return known && image != ""
}

// EngineSamples reports whether the engine of a run did not bound but sample the size
// of roots that can be written.
func EngineSamples(m record.Manifest) bool { return engineSays(m, "disk_sampled") }

func engineSays(m record.Manifest, field string) bool {
	engine, _ := m.Engine.(map[string]any)
	is, _ := engine[field].(bool)
	return is
}

// settings are what a run's stored configuration says of what its labels and run.json
// say, too.
type settings struct {
	Agent         string            `json:"agent"`
	Limits        *record.RunLimits `json:"limits"`
	Model         string            `json:"model"`
	Programs      []record.Program  `json:"programs"`
	ScoreTimeouts bool              `json:"score_timeouts"`
	Sandbox       *struct {
		Engine       string   `json:"engine"`
		Capabilities []string `json:"capabilities"`
	} `json:"sandbox"`
	Harness *struct {
		Config struct {
			Domains  []any `json:"allowed_domains"`
			Private  []any `json:"allow_private"`
			External bool  `json:"allow_external_tools"`
		} `json:"config"`
	} `json:"harness"`
}

// agrees compares run.json with the configuration.
func (c *check) agrees(raw []byte) {
	var s settings
	if json.Unmarshal(raw, &s) != nil || s.Sandbox == nil || s.Limits == nil {
		return // of another build
	}
	c.settings = &s
	m := c.Manifest
	engine, _ := m.EngineName()
	if engine == "" || s.Sandbox.Engine == config.EngineAuto { // earlier builds stored what was asked for
		s.Sandbox.Engine = engine
	}
	for _, f := range []struct {
		name        string
		here, there any
	}{
		{"agent", m.Agent, s.Agent}, {"limits", m.Limits, *s.Limits}, {"model", m.Model, s.Model},
		{"programs", append([]record.Program{}, m.Programs...), append([]record.Program{}, s.Programs...)}, {"engine", engine, s.Sandbox.Engine},
	} {
		here, err := digest.JSON(f.here)
		there, other := digest.JSON(f.there)
		if err != nil || other != nil || here != there {
			c.problem(record.ManifestName, 0, "its %s is not what %s says", f.name, record.ConfigName)
		}
	}
	if h := s.Harness; h != nil {
		c.labelled(networkEnabled, len(h.Config.Domains) > 0, record.ConfigName+" says")
		c.labelled(privateNetwork, len(h.Config.Private) > 0, record.ConfigName+" says")
		c.labelled(externalTools, h.Config.External, record.ConfigName+" says")
	}
}

// labelled compares a label of the run with what it follows from.
func (c *check) labelled(label string, want bool, by string) {
	if slices.Contains(c.Manifest.Labels, label) != want {
		c.problem(record.ManifestName, 0, "its label %s is not what %s", label, by)
	}
}

// limits reports limits that are not the defaults and are not labelled. Another build
// can have other defaults.
func (c *check) limits() {
	remarks := limitRemarks(c.Manifest.Limits, config.Default().Limits)
	if !c.known || len(remarks) == 0 || slices.Contains(c.Manifest.Labels, customLimits) {
		return
	}
	if build, err := record.ThisBuild(); err == nil && build == c.Manifest.Digests.Verifier {
		c.problem(record.ManifestName, 0, "it lacks the label %s: %s", customLimits, remarks[0])
	}
}
