package task

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Views are encoded to pass work to another process. Decoding is strict: a
// view never accepts a lane that its holder may not see.

// wireView is the encoded form of every view.
type wireView struct {
	ID          string           `json:"id"`
	Family      string           `json:"family"`
	Resources   []wireResource   `json:"resources"`
	Environment *wireEnvironment `json:"environment,omitzero"`
	Assets      []Asset          `json:"assets,omitzero"`
	Extraction  *Extraction      `json:"extraction,omitzero"`
	Instruction string           `json:"instruction,omitzero"`
	Mark        string           `json:"mark,omitzero"`
}

// wireResource holds a value as text, so that it stays byte for byte as
// written in the row.
type wireResource struct {
	Name  string `json:"name"`
	Lane  string `json:"lane"`
	Value string `json:"value"`
}

type wireEnvironment struct {
	Image              string   `json:"image,omitzero"`
	Workdir            string   `json:"workdir,omitzero"`
	User               string   `json:"user,omitzero"`
	Timeout            int64    `json:"timeout_ns,omitzero"`
	MaterializeWorkdir bool     `json:"materialize_workdir,omitzero"`
	WritableRoot       bool     `json:"writable_root,omitzero"`
	Platform           string   `json:"platform,omitzero"`
	Capabilities       []string `json:"capabilities,omitzero"`
	Env                []string `json:"env,omitzero"`
	Checkout           Checkout `json:"checkout,omitzero"`
	OldLayout          bool     `json:"old_layout,omitzero"`
}

func (v view) wire() wireView {
	w := wireView{ID: v.id, Family: v.family}
	for _, r := range v.resources {
		w.Resources = append(w.Resources, wireResource{r.Name, r.Lane.String(), string(r.Value)})
	}
	return w
}

// view decodes the shared part. Resources outside the given lanes are refused.
func (w wireView) view(lanes ...Lane) (view, error) {
	v := view{id: w.ID, family: w.Family}
	if w.ID == "" || w.Family == "" {
		return view{}, errors.New("a view needs an id and a family")
	}
	seen := map[string]bool{}
	for _, r := range w.Resources {
		lane, known := laneByName(r.Lane)
		switch {
		case !known || !slices.Contains(lanes, lane):
			return view{}, fmt.Errorf("resource %q is in lane %q, which this view may not contain", r.Name, r.Lane)
		case seen[r.Name]:
			return view{}, fmt.Errorf("the view contains resource %q twice", r.Name)
		case !jsontext.Value(r.Value).IsValid():
			return view{}, fmt.Errorf("the value of resource %q is not valid JSON", r.Name)
		}
		seen[r.Name] = true
		v.resources = append(v.resources, Resource{r.Name, lane, jsontext.Value(r.Value)})
	}
	return v, nil
}

func laneByName(name string) (Lane, bool) {
	for _, l := range []Lane{Hidden, EvaluationInputs, Public} {
		if l.String() == name {
			return l, true
		}
	}
	return Hidden, false
}

func (e Environment) wire() *wireEnvironment {
	return &wireEnvironment{e.Image, e.Workdir, e.User, int64(e.Timeout), e.MaterializeWorkdir, e.WritableRoot, e.Platform, e.Capabilities, e.Env, e.Checkout, e.OldLayout}
}

func (w *wireEnvironment) environment() Environment {
	if w == nil {
		return Environment{}
	}
	return Environment{w.Image, w.Workdir, w.User, time.Duration(w.Timeout), w.MaterializeWorkdir, w.WritableRoot, w.Platform, w.Capabilities, w.Env, w.Checkout, w.OldLayout}
}

// decodeView reads the encoded form and refuses parts that the view may not
// contain.
func decodeView(dec *jsontext.Decoder, allowed func(wireView) bool) (wireView, error) {
	var w wireView
	err := json.UnmarshalDecode(dec, &w, json.RejectUnknownMembers(true))
	if err == nil && !allowed(w) {
		err = errors.New("the view has fields that it may not have, or lacks required ones")
	}
	return w, err
}

// MarshalJSONTo encodes the view.
func (v AgentView) MarshalJSONTo(enc *jsontext.Encoder) error {
	w, c := v.wire(), v.agreed()
	w.Environment, w.Assets, w.Extraction, w.Instruction, w.Mark = c.env.wire(), c.assets, &c.extraction, c.instruction, v.mark
	return json.MarshalEncode(enc, w)
}

// UnmarshalJSONFrom decodes a view; one that contains a non-public value is
// refused.
func (v *AgentView) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	w, err := decodeView(dec, func(w wireView) bool { return w.Extraction != nil })
	if err != nil {
		return err
	}
	shared, err := w.view(Public)
	if err != nil {
		return err
	}
	*v = AgentView{shared, &terms{w.Environment.environment(), w.Assets, *w.Extraction, w.Instruction}, w.Mark}
	return nil
}

// MarshalJSONTo encodes the view.
func (v SandboxView) MarshalJSONTo(enc *jsontext.Encoder) error {
	w := v.wire()
	w.Environment, w.Assets = v.env.wire(), v.assets
	return json.MarshalEncode(enc, w)
}

// UnmarshalJSONFrom decodes a view; one that contains a hidden value is
// refused.
func (v *SandboxView) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	w, err := decodeView(dec, func(w wireView) bool {
		return w.Extraction == nil && w.Instruction == "" && w.Mark == ""
	})
	if err != nil {
		return err
	}
	shared, err := w.view(Public, EvaluationInputs)
	if err != nil {
		return err
	}
	*v = SandboxView{shared, w.Environment.environment(), w.Assets}
	return nil
}

// MarshalJSONTo encodes the view.
func (v EvaluatorView) MarshalJSONTo(enc *jsontext.Encoder) error {
	return json.MarshalEncode(enc, v.wire())
}

// UnmarshalJSONFrom decodes a view; one that contains an evaluation input is
// refused.
func (v *EvaluatorView) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	w, err := decodeView(dec, func(w wireView) bool {
		return w.Environment == nil && w.Extraction == nil && w.Assets == nil && w.Instruction == "" && w.Mark == ""
	})
	if err != nil {
		return err
	}
	shared, err := w.view(Public, Hidden)
	if err != nil {
		return err
	}
	*v = EvaluatorView{shared}
	return nil
}
