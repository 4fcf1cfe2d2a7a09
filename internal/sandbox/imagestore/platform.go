package imagestore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"securebench/internal/sandbox/platform"
)

// valid checks the platform that is wanted.
func (a Addition) valid() error {
	if a.Platform == "" {
		return nil
	}
	_, err := platform.Parse(a.Platform)
	return err
}

// wanted is the platform that is taken where there are several.
func (a Addition) wanted() platform.Platform {
	if p, err := platform.Parse(a.Platform); err == nil {
		return p
	}
	return platform.Here()
}

// check refuses an image for another platform.
func (a Addition) check(p platform.Platform) error {
	if a.Platform != "" {
		return platform.Asked(p, a.Platform)
	}
	return platform.ThisMachine().Check(p, "")
}

// accept reads what an image's configuration says it is for, and refuses it if that is
// not wanted.
func (a Addition) accept(config []byte) (platform.Platform, error) {
	parsed, err := v1.ParseConfigFile(bytes.NewReader(config))
	if err != nil {
		return platform.Platform{}, fmt.Errorf("reading its configuration: %w", err)
	}
	p := platformOf(parsed)
	return p, a.check(p)
}

func platformOf(c *v1.ConfigFile) platform.Platform {
	return platform.New(c.OS, c.Architecture, c.Variant)
}

// compare refuses an image whose programs are not for the platform that it says, or,
// if it says none, are not wanted.
func (s *Store) compare(says platform.Platform, ids []string, a Addition) error {
	name, p, known := programOf(s.folders(ids))
	switch {
	case !known:
		return nil
	case says == (platform.Platform{}):
		return a.check(p)
	case !(platform.Machine{Own: says}).Runs(p):
		return fmt.Errorf("its configuration says %s, and its %s is a program for %s: %w", says, name, p, platform.ErrOther)
	}
	return nil
}

// rootArch finds out for which architecture a root file system without a configuration
// is made, by its programs. One without programs is for what is wanted.
func (s *Store) rootArch(diffID string, a Addition) (string, error) {
	if a.Owner != "" { // it is a part of a root
		return platform.Here().Arch, nil
	}
	if _, p, known := programOf(s.folders([]string{diffID})); known {
		return p.Arch, a.check(p)
	}
	return a.wanted().Arch, nil
}

func (s *Store) folders(ids []string) (out []string) {
	for _, id := range ids {
		out = append(out, filepath.Join(s.dir, s.layerDir(id), filesDir))
	}
	return out
}

// Platform is what the image is for: what its configuration says, else what its
// programs are.
func (i *Image) Platform() platform.Platform {
	p := platformOf(&i.Config)
	if p == (platform.Platform{}) {
		_, p, _ = programOf(i.Layers)
	}
	return p
}

// programs are names of programs that most images have.
func programs() []string {
	return []string{"bin/sh", "usr/bin/sh", "bin/bash", "usr/bin/bash", "bin/dash", "usr/bin/dash", "bin/busybox", "usr/bin/env", "usr/bin/coreutils"}
}

// programOf finds a program in layers, lowest first, and what it is
// for.
func programOf(layers []string) (string, platform.Platform, bool) {
	for _, name := range programs() {
		for _, dir := range slices.Backward(layers) {
			p, there, err := programIn(dir, name)
			if err == nil {
				return name, p, true
			}
			if there { // or hidden, or no program
				break
			}
		}
	}
	return "", platform.Platform{}, false
}

// errNoProgram is the error for a file that is none.
var errNoProgram = errors.New("it is not a program")

// programIn reads what a file of a layer is a program for.
func programIn(dir, name string) (p platform.Platform, there bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return p, false, err
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return p, err == nil, cmp.Or(err, errNoProgram)
	}
	f, err := root.Open(name) // a layer does not change
	if err != nil {
		return p, true, err
	}
	defer f.Close()
	p, ok := platform.OfProgram(f)
	if !ok {
		return p, true, errNoProgram
	}
	return p, true, nil
}
