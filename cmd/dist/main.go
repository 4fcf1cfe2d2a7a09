// Command dist builds a release of securebench: for each platform a static program in an
// archive with completions, manual pages and a bill of materials, in a wheel for Python's
// installers, in packages for Debian's and Red Hat's families, and in an image; and the
// checksums of all. Run it in the repository: "make dist".
package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"securebench/internal/dist"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	out := flag.String("o", "dist", "folder to write, which must not exist or be empty")
	archs := flag.String("arch", "amd64,arm64", "architectures, separated by commas")
	vcs := flag.Bool("vcs", true, "name the revision in the programs")
	flag.Parse()
	if err := release(ctx, *out, strings.Split(*archs, ","), *vcs); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1) //nolint:gocritic // only this process has the context
	}
}

// release builds everything into out.
func release(ctx context.Context, out string, archs []string, vcs bool) error {
	if left, err := os.ReadDir(out); err == nil && len(left) > 0 {
		return fmt.Errorf("%s is not empty: remove it, or name another folder with -o", out)
	}
	dir, err := os.MkdirTemp("", "securebench-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	native := filepath.Join(dir, "native")
	if err := build(ctx, native, runtime.GOARCH, vcs); err != nil {
		return err
	}
	shared, err := documents(ctx, native, dir)
	if err != nil {
		return err
	}
	version, err := versionOf(ctx, native)
	if err != nil {
		return err
	}
	packages, err := newPackager(ctx, dir)
	if err != nil {
		return err
	}
	var made []dist.File
	for _, arch := range archs {
		program := filepath.Join(dir, arch)
		if err := build(ctx, program, arch, vcs); err != nil {
			return err
		}
		files, err := pack(ctx, program, arch, version, shared, packages)
		if err != nil {
			return fmt.Errorf("packing for %s: %w", arch, err)
		}
		made = append(made, files...)
	}
	return write(out, append(made, dist.File{Name: "SHA256SUMS", Body: dist.Sums(made)}))
}

// build builds the program for an architecture, as "make build" does.
func build(ctx context.Context, to, arch string, vcs bool) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", fmt.Sprintf("-buildvcs=%v", vcs), "-ldflags", "-s -w", "-o", to, "./cmd/securebench")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building for linux/%s: %w", arch, err)
	}
	return nil
}

// documents returns the files that are the same on every platform: what the program
// itself writes, and the repository's own.
func documents(ctx context.Context, program, dir string) ([]dist.File, error) {
	var files []dist.File
	for shell, name := range map[string]string{"bash": "securebench", "zsh": "_securebench", "fish": "securebench.fish"} {
		text, err := output(ctx, program, "completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, dist.File{Name: "completions/" + shell + "/" + name, Body: text})
	}
	man := filepath.Join(dir, "man1")
	if _, err := output(ctx, program, "man", "-o", man); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(man, "*.1"))
	if err != nil || len(pages) == 0 {
		return nil, errors.Join(errors.New("there are no manual pages"), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		files = append(files, dist.File{Name: "man/man1/" + filepath.Base(page), Body: text})
	}
	for _, name := range []string{"README.md", "CHANGELOG.md", "SECURITY.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("%w (run this in the repository)", err)
		}
		files = append(files, dist.File{Name: name, Body: text})
	}
	second, err := modules()
	for _, f := range second {
		f.Name = "python/" + f.Name
		files = append(files, f)
	}
	return files, err
}

// versionOf returns the program's version, without what was built from which revision.
func versionOf(ctx context.Context, program string) (string, error) {
	text, err := output(ctx, program, "version")
	if err != nil {
		return "", err
	}
	words := strings.Fields(string(text))
	if len(words) < 2 {
		return "", fmt.Errorf("the program calls its version %q", text)
	}
	version, _, _ := strings.Cut(words[1], "+")
	return version, nil
}

// pack returns the files of a release for one architecture.
func pack(ctx context.Context, program, arch, version string, shared []dist.File, packages *packager) ([]dist.File, error) {
	body, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	made, err := madeAt(program)
	if err != nil {
		return nil, err
	}
	materials, err := dist.Materials(body, version)
	if err != nil {
		return nil, err
	}
	name := "securebench-" + version + "-linux-" + arch
	var archive, image bytes.Buffer
	files := append([]dist.File{{Name: "securebench", Body: body, Exec: true}, {Name: "sbom.cdx.json", Body: materials}}, shared...)
	if err := dist.Archive(&archive, name+"/", files, made); err != nil {
		return nil, err
	}
	if err := dist.Image(&image, body, "securebench:"+version, version, v1.Platform{OS: "linux", Architecture: arch}, made); err != nil {
		return nil, err
	}
	whl, err := wheel(body, materials, arch, version, made)
	if err != nil {
		return nil, err
	}
	others, err := packages.packages(ctx, files, arch, version, made)
	return append(others, whl, dist.File{Name: name + ".tar.gz", Body: archive.Bytes()}, dist.File{Name: name + ".oci.tar", Body: image.Bytes()},
		dist.File{Name: name + ".cdx.json", Body: materials}), err
}

// madeAt is the time of everything in the archives: that of the program's revision.
func madeAt(program string) (time.Time, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return time.Time{}, err
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			return time.Parse(time.RFC3339, s.Value)
		}
	}
	return time.Unix(0, 0), nil
}

// output runs the program and returns what it prints.
func output(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running securebench %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

func write(dir string, files []dist.File) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Body, 0o644); err != nil {
			return err
		}
		fmt.Println(filepath.Join(dir, f.Name))
	}
	return nil
}
