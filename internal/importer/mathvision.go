package importer

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"securebench/internal/picture"
	"securebench/internal/source"
)

//go:embed licences/mathvision.txt
var mathVisionLicence string

func mathVision() dataset {
	return dataset{
		format:  MathVision,
		family:  "multimodal_qa",
		convert: convertMathVision,
		licence: mathVisionLicence,
		about: `# MATH-Vision

Rows of MATH-Vision, from the repository mathllm/MATH-V (data/test.jsonl and images). Ke
Wang and others, "Measuring Multimodal Mathematical Reasoning with MATH-Vision Dataset"
(2024), https://arxiv.org/abs/2402.14804

Licence: MIT (LICENSE).
`,
		changes: "- Options became choices; the answer is the label of one, or what the row has.\n" +
			"- The worked solution of a row is left out. Its level and subject are in the metadata.\n" +
			"- Answers are compared by the rules of multiple_choice and short_answer. The data set's own scorer evaluates what a model writes.\n",
	}
}

// seenInput is the input of a multimodal_qa row.
type seenInput struct {
	Question string   `json:"question"`
	Choices  []string `json:"choices,omitempty"`
}

// pictured is a picture of a row.
type pictured struct {
	Path string `json:"path"`
	Type string `json:"type"`
}

func convertMathVision(o *object, c converter) row {
	o.only("id", "question", "options", "image", "answer", "solution", "level", "subject")
	id, answer := o.text("id"), o.text("answer")
	r := row{ID: "MATH-Vision/" + id, Eval: choiceEval{answer}, Metadata: map[string]any{"dataset": "MATH-Vision", "level": o.number("level"), "subject": o.text("subject")}}
	in := seenInput{Question: o.text("question")}
	if n := o.get("options"); n != nil && len(n.Items) > 0 {
		in.Choices = o.texts("options")
		if i := strings.Index("ABCDEFGHIJKLMNOPQRSTUVWXYZ", answer); len(answer) != 1 || i < 0 || i >= len(in.Choices) {
			o.fail(o.node.Get("answer"), "answer must be the label of one of the options")
		}
	}
	r.Input = in
	name := o.text("image")
	if len(o.problems) > 0 {
		return r
	}
	at, err := c.picture(name)
	if err != nil {
		o.fail(o.node.Get("image"), "image %q: %v", name, err)
		return r
	}
	r.Assets = []pictured{{at, "image"}}
	return r
}

// maxPicture is the most bytes of a picture that is taken over.
const maxPicture = 20 << 20

// pictures finds the pictures that rows name, beside the file with the rows or in the
// folder above, where the repository of a data set has them.
type pictures struct {
	rows string // the name of the file
	put  func(name string, data []byte) error
	done map[string]string
}

// take reads a picture and adds it to the pack's public files. It returns its path there.
func (p *pictures) take(name string) (string, error) {
	if at, ok := p.done[name]; ok {
		return at, nil
	}
	if !fs.ValidPath(name) {
		return "", errors.New("a picture must be named by its path beside the rows")
	}
	data, err := p.read(name)
	if err != nil {
		return "", err
	}
	if _, err := picture.Size(bytes.NewReader(data)); err != nil {
		return "", fmt.Errorf("it %w", err)
	}
	if err := p.put(path.Join("assets", name), data); err != nil {
		return "", err
	}
	if p.done == nil {
		p.done = map[string]string{}
	}
	p.done[name] = name
	return name, nil
}

func (p *pictures) read(name string) ([]byte, error) {
	beside := filepath.Dir(p.rows)
	for _, dir := range []string{beside, filepath.Join(beside, "..")} {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		data, err := source.ReadFileIn(root, name, maxPicture)
		_ = root.Close() // nothing is written
		if !errors.Is(err, fs.ErrNotExist) {
			return data, err
		}
	}
	return nil, errors.New("it is neither beside the rows nor in the folder above them (give the rows by the name of their file)")
}
