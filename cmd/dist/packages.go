package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/dist"
)

const summary = "runs benchmarks of AI agents so that a score can be believed"

// pythonVersions are those that the modules are written for. The program needs none.
const pythonVersions = ">=3.9"

// wheel returns the package for Python's installers.
func wheel(program, materials []byte, arch, version string, made time.Time) (dist.File, error) {
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
	w := dist.Wheel{Name: "securebench", Version: pythonVersion(version), Summary: summary, Python: pythonVersions, Materials: materials,
		Scripts: []dist.File{{Name: "securebench", Body: program}}}
	for _, libc := range []string{"manylinux2014", "manylinux_2_17", "musllinux_1_1"} { // it is linked with none
		w.Tags = append(w.Tags, "py3-none-"+libc+"_"+machine)
	}
	var err error
	if w.Readme, err = os.ReadFile("python/README.md"); err != nil {
		return dist.File{}, fmt.Errorf("%w (run this in the repository)", err)
	}
	if w.Modules, err = modules(); err != nil {
		return dist.File{}, err
	}
	var b bytes.Buffer
	err = w.Write(&b, made)
	return dist.File{Name: w.FileName(), Body: b.Bytes()}, err
}

// modules are those of Python that come with the program.
func modules() ([]dist.File, error) {
	paths, err := filepath.Glob("python/securebench/*.py")
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("there are no modules in python/securebench (run this in the repository): %w", err)
	}
	var files []dist.File
	for _, p := range paths {
		body, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		files = append(files, dist.File{Name: "securebench/" + filepath.Base(p), Body: body})
	}
	return files, nil
}

// pythonVersion spells a version as Python's installers do.
func pythonVersion(version string) string {
	return strings.NewReplacer("-alpha.", "a", "-beta.", "b", "-rc.", "rc", "-dev", ".dev0").Replace(version)
}

// packager makes the packages of distributions, with the nfpm that tools/nfpm pins.
type packager struct{ nfpm, dir string }

// newPackager builds nfpm into dir.
func newPackager(ctx context.Context, dir string) (*packager, error) {
	p := &packager{filepath.Join(dir, "nfpm"), dir}
	cmd := exec.CommandContext(ctx, "go", "-C", "tools/nfpm", "build", "-trimpath", "-buildvcs=false", "-o", p.nfpm, "github.com/goreleaser/nfpm/v2/cmd/nfpm")
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="), os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("building nfpm, which makes the packages: %w", err)
	}
	return p, nil
}

// content is a file of a package, as nfpm is told of it.
type content struct {
	Src      string `json:"src"`
	Dst      string `json:"dst"`
	Packager string `json:"packager,omitzero"`
	Info     struct {
		Mode int64 `json:"mode"`
	} `json:"file_info"`
}

// packages returns the deb and the rpm for an architecture.
func (p *packager) packages(ctx context.Context, files []dist.File, arch, version string, made time.Time) (out []dist.File, err error) {
	stage := filepath.Join(p.dir, "stage-"+arch)
	contents, err := staged(stage, files)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"name": "securebench", "arch": arch, "platform": "linux", "version": version, "section": "utils", "priority": "optional",
		"maintainer": "The securebench authors <securebench@localhost>", "description": summary, "mtime": made.UTC().Format(time.RFC3339),
		"rpm": map[string]any{"buildhost": "securebench", "group": "Applications/Engineering"}, "contents": contents,
	}, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	name := filepath.Join(stage, "nfpm.json") // which is YAML, too
	if err := os.WriteFile(name, config, 0o644); err != nil {
		return nil, err
	}
	for _, kind := range []string{"deb", "rpm"} {
		target := filepath.Join(p.dir, "securebench-"+version+"-linux-"+arch+"."+kind)
		cmd := exec.CommandContext(ctx, p.nfpm, "package", "-f", name, "-p", kind, "-t", target)
		cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(made.Unix(), 10))
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("making the %s: %w: %s", kind, err, text)
		}
		body, err := os.ReadFile(target)
		if err != nil {
			return nil, err
		}
		out = append(out, dist.File{Name: filepath.Base(target), Body: body})
	}
	return out, nil
}

// staged lays the files of a package below a folder, and says where they belong.
func staged(stage string, files []dist.File) (contents []content, err error) {
	for _, f := range files {
		body := f.Body
		places := placesOf(f.Name)
		for _, at := range places {
			if strings.HasPrefix(at.Dst, "/usr/share/man/") {
				if body, err = zipped(f.Body); err != nil {
					return nil, err
				}
			}
			at.Src, at.Info.Mode = filepath.Join(stage, filepath.FromSlash(f.Name)), 0o644
			if f.Exec {
				at.Info.Mode = 0o755
			}
			contents = append(contents, at)
		}
		if len(places) == 0 {
			continue
		}
		to := filepath.Join(stage, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(to, body, 0o644); err != nil {
			return nil, err
		}
	}
	return contents, nil
}

// placesOf says where a file of a release belongs on a system.
func placesOf(name string) []content {
	base := path.Base(name)
	switch folder := path.Dir(name); {
	case name == "securebench":
		return []content{{Dst: "/usr/bin/securebench"}}
	case folder == "man/man1":
		return []content{{Dst: "/usr/share/man/man1/" + base + ".gz"}}
	case folder == "completions/bash":
		return []content{{Dst: "/usr/share/bash-completion/completions/" + base}}
	case folder == "completions/fish":
		return []content{{Dst: "/usr/share/fish/vendor_completions.d/" + base}}
	case folder == "completions/zsh":
		return []content{{Dst: "/usr/share/zsh/vendor-completions/" + base, Packager: "deb"}, {Dst: "/usr/share/zsh/site-functions/" + base, Packager: "rpm"}}
	}
	return []content{{Dst: "/usr/share/doc/securebench/" + name}}
}

// zipped compresses a manual page, without a name and a time.
func zipped(text []byte) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	err := z.Close()
	return b.Bytes(), err
}
