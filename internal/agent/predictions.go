package agent

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent/answers"
	"securebench/internal/source"
	"securebench/internal/task"
)

// The keys that name the task in the two forms of a replay file.
const (
	lineKey       = "task_id"
	predictionKey = "instance_id"
)

// maxPredictions is the size of a document of predictions, in bytes, which is
// read at once.
const maxPredictions = 256 << 20

// isDocument reports whether the first line of a file begins a document: a list
// of predictions, or an object of them by task.
func isDocument(path string, line int, data []byte) bool {
	if bytes.TrimSpace(data)[0] == '[' {
		return true
	}
	_, err := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true)).ReadValue()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	n, err := source.ParseJSON(path, line, data)
	return err == nil && byTask(n)
}

// byTask reports whether an object holds predictions by task: it is no line
// itself, and all of its values are objects.
func byTask(n *source.Node) bool {
	if n.Kind != source.Map || len(n.Fields) == 0 || n.Get(lineKey) != nil || n.Get(predictionKey) != nil {
		return false
	}
	for _, f := range n.Fields {
		if f.Value.Kind != source.Map {
			return false
		}
	}
	return true
}

// document reads the rest of the file as one value and adds the predictions in
// it.
func (r *Replay) document(path string, line int, sc *bufio.Scanner) error {
	data := append(bytes.Clone(sc.Bytes()), '\n')
	at := line
	for sc.Scan() {
		at++
		if len(data)+len(sc.Bytes()) > maxPredictions {
			return source.Problemf(source.Pos{File: path, Line: at}, "the predictions have more than %d bytes: write one per line", maxPredictions)
		}
		data = append(append(data, sc.Bytes()...), '\n')
	}
	if err := scanned(sc, path, at+1); err != nil {
		return err
	}
	n, err := source.ParseJSON(path, line, answers.Finite(data))
	if err != nil {
		return err
	}
	if n.Kind == source.List {
		for _, item := range n.Items {
			if item.Kind != source.Map {
				return source.Problemf(item.Pos, "a list in a replay file holds objects: predictions, replay lines or rows")
			}
			if err := r.add(item); err != nil {
				return err
			}
		}
		return nil
	}
	if n.Kind == source.Map && answers.Knows(n) {
		return r.other(n)
	}
	if !byTask(n) {
		return source.Problemf(n.Pos, "a replay file has one object per line, or one object that holds predictions by %s", predictionKey)
	}
	for _, f := range n.Fields {
		id := &source.Node{Kind: source.String, Text: f.Name, Pos: f.Pos}
		if own := f.Value.Get(predictionKey); own != nil && (own.Kind != source.String || own.Text != f.Name) {
			return source.Problemf(own.Pos, "the prediction for %q has another %s", f.Name, predictionKey)
		}
		if err := r.prediction(f.Value, id); err != nil {
			return err
		}
	}
	return nil
}

// prediction adds a prediction in SWE-bench's form. Keys that it does not need
// are ignored, because tools add their own.
func (r *Replay) prediction(n, id *source.Node) error {
	if err := r.oneForm(n, predictionKey); err != nil {
		return err
	}
	if n.Get(lineKey) != nil {
		return source.Problemf(n.Pos, "write %s for a replay line or %s for a prediction, not both", lineKey, predictionKey)
	}
	if id.Kind != source.String || id.Text == "" {
		return source.Problemf(id.Pos, "%s must be a non-empty string", predictionKey)
	}
	patch := n.Get("model_patch")
	if patch == nil || patch.Kind != source.String && patch.Kind != source.Null {
		return source.Problemf(n.Pos, "model_patch must be a string or null")
	}
	val := replayLine{kind: task.Patch, data: []byte(patch.Text)}
	if strings.TrimSpace(patch.Text) == "" {
		val.none = "the prediction's model_patch is empty"
	}
	return r.keep(n.Pos, replayKey{task: id.Text}, val)
}

// oneForm refuses a file that mixes the two forms.
func (r *Replay) oneForm(n *source.Node, key string) error {
	if r.form == "" {
		r.form = key
	}
	if r.form != key {
		return source.Problemf(n.Pos, "the file has both replay lines (%s) and predictions (%s): use two files", lineKey, predictionKey)
	}
	return nil
}
