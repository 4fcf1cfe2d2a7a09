package viewer

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// shell is the page around the scripts: one that is served, or one file that holds all.
type shell struct {
	Title, Version string
	Home           string // the run that the page is of, "" for a list
	Served         bool
	Policy         string
	Style          template.CSS
	Script, Data   template.JS
	Scripts        []string
}

// scripts are the modules of the page, in the order in which they are loaded.
func scripts() []string {
	return []string{"dom.js", "source.js", "query.js", "list.js", "run.js", "attempts.js", "diff.js", "steps.js", "attempt.js", "compare.js", "app.js"}
}

// writeShell writes the page.
func writeShell(w io.Writer, s shell) error {
	s.Scripts = scripts()
	layout, err := page.ReadFile("page/index.html")
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	t, err := template.New("page").Parse(string(layout))
	if err == nil {
		err = t.Execute(w, s)
	}
	if err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// inlined returns a page that holds its scripts and its style.
func inlined(home, title, version string, data []byte) (shell, error) {
	var script strings.Builder
	for _, name := range scripts() {
		text, err := page.ReadFile("page/" + name)
		if err != nil {
			return shell{}, fmt.Errorf("reading the page: %w", err)
		}
		script.Write(text)
	}
	style, err := page.ReadFile("page/style.css")
	if err != nil {
		return shell{}, fmt.Errorf("reading the page: %w", err)
	}
	own := script.String()
	return shell{
		Home: home, Title: title, Version: version, Style: template.CSS(style), Script: template.JS(own), Data: template.JS(data), //nolint:gosec // own files, and JSON without <, > and &
		Policy: "default-src 'none'; script-src " + sourceOf(own) + "; style-src " + sourceOf(string(style)) + "; img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
	}, nil
}

// sourceOf names a script or style by its digest in a policy on content.
func sourceOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
