package enginetest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"securebench/internal/piped"
	"securebench/internal/sandbox"
)

// changed is what a script changes in an image, as a layer.
func changed(t testing.TB, e sandbox.Engine, from sandbox.Image, script string) []byte {
	t.Helper()
	box, err := e.Open(t.Context(), sandbox.Spec{Image: from, Command: []string{"sh", "-ec", script}, Env: []string{"HOME=/root"},
		User: &sandbox.User{}, Workdir: "/", WritableRoot: true, Capabilities: sandbox.Grantable(),
		Labels: sandbox.Labels{Run: "test", Role: "derive"}, Limits: sandbox.Limits{Memory: 2 << 30, CPUs: 2, Disk: 2 << 30, Files: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := box.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	var log bytes.Buffer
	out, err := box.Run(t.Context(), sandbox.Streams{Stdout: &log, Stderr: &log})
	if err != nil || out.End != sandbox.Exited || out.ExitCode != 0 {
		t.Fatalf("the script ended with %+v, %v:\n%s", out, err, log.String())
	}
	root, ok := box.(sandbox.RootReader)
	if !ok {
		t.Fatal("the engine does not read roots")
	}
	b, err := layerOf(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// whiteout begins the names of what a layer removes (OCI image specification,
// "Whiteouts").
const whiteout = ".wh."

func layerOf(ctx context.Context, root sandbox.RootReader) ([]byte, error) {
	changes, err := root.Changes(ctx, 1<<20)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	var files []string
	for _, c := range changes {
		switch {
		case c.Kind == sandbox.Deleted:
			dir, name := path.Split(c.Path)
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(dir, "/") + whiteout + name})
		case c.Type == sandbox.Directory:
			err = copyArchive(ctx, root, []string{c.Path}, w, 1)
		default:
			files = append(files, c.Path)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := copyArchive(ctx, root, files, w, 1<<30); err != nil {
		return nil, err
	}
	return b.Bytes(), w.Close()
}

// copyArchive copies the first entries of an archive of a root.
func copyArchive(ctx context.Context, root sandbox.RootReader, paths []string, w *tar.Writer, entries int) error {
	return piped.Run(func(to io.Writer) error { return root.Archive(ctx, paths, 1<<40, to) },
		func(r io.Reader) error { return copyEntries(tar.NewReader(r), w, entries) })
}

func copyEntries(r *tar.Reader, w *tar.Writer, entries int) error {
	for range entries {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(w, r); err != nil {
			return err
		}
	}
	return nil
}

// applying returns what applies changes to a configuration.
func applying(t testing.TB, changes []string) func(*v1.Config) {
	return func(c *v1.Config) {
		if err := apply(c, changes); err != nil {
			t.Fatal(err)
		}
	}
}

// apply changes a configuration.
func apply(c *v1.Config, changes []string) error {
	for _, change := range changes {
		word, value, _ := strings.Cut(change, " ")
		var err error
		switch word {
		case "USER":
			c.User = value
		case "WORKDIR":
			c.WorkingDir = value
		case "ENV":
			c.Env = append(c.Env, value)
		case "ENTRYPOINT":
			err = json.Unmarshal([]byte(value), &c.Entrypoint)
		case "CMD":
			err = json.Unmarshal([]byte(value), &c.Cmd)
		case "VOLUME":
			c.Volumes = map[string]struct{}{value: {}}
		default:
			err = errors.New("it is not known here")
		}
		if err != nil {
			return fmt.Errorf("the change %q: %w", change, err)
		}
	}
	return nil
}
