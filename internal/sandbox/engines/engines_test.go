package engines

import (
	"context"
	"errors"
	"strings"
	"testing"

	"securebench/internal/sandbox"
)

// fake is an engine that only knows its name.
type fake struct {
	sandbox.Engine
	info sandbox.Info
}

func (f *fake) Info() sandbox.Info { return f.info }

// machine is a fake machine: what native lacks there, and why an engine cannot
// be opened.
type machine struct {
	lacks  []sandbox.Requirement
	native error
	docker error
}

func (m machine) kinds() kinds {
	kindOf := func(name, hint string, err error) kind {
		return kind{name, func(error) string { return hint },
			func(context.Context, Config) []sandbox.Requirement {
				if name == Native {
					return m.lacks
				}
				return []sandbox.Requirement{{Name: "an engine that answers", Holds: err == nil}}
			},
			func(_ context.Context, _ Config, choice string) (sandbox.Engine, error) {
				if err != nil {
					return nil, err
				}
				return &fake{info: sandbox.Info{Name: name, Choice: choice}}, nil
			}}
	}
	return kinds{kindOf(Native, "see doctor", m.native), kindOf(Docker, "start it", m.docker)}
}

func requirements() []sandbox.Requirement {
	return []sandbox.Requirement{
		{Name: "a kernel", Holds: true, Found: "Linux"},
		{Name: "an OCI runtime", Found: "none\nat all", Fix: "apt-get install runc"},
		{Name: "more speed", Optional: true, Found: "little"},
		{Name: "control groups", Found: "none", Fix: "mount them"},
	}
}

// TestChoice: which engine is opened, and the reason that is recorded.
func TestChoice(t *testing.T) {
	t.Parallel()
	optional := []sandbox.Requirement{requirements()[0], requirements()[2]}
	for name, c := range map[string]struct {
		machine machine
		cfg     Config
		want    string
	}{
		"native runs":               {machine{}, Config{}, "native: auto: all that it needs is here"},
		"native without an option":  {machine{lacks: optional}, Config{Name: Auto}, "native: auto: all that it needs is here"},
		"native lacks something":    {machine{lacks: requirements()}, Config{}, "docker: auto: native lacks an OCI runtime"},
		"native fails":              {machine{native: errors.New("a\nfailure")}, Config{}, "docker: auto: native cannot be opened: a failure"},
		"Docker is named":           {machine{}, Config{Name: Docker}, "docker: as configured"},
		"native is named":           {machine{docker: errors.New("x")}, Config{Name: Native}, "native: as configured"},
		"a resume on Docker":        {machine{}, Config{Former: Docker}, "docker: auto: the run began on it"},
		"a resume on native":        {machine{}, Config{Name: Auto, Former: Native}, "native: auto: the run began on it"},
		"a resume that names it":    {machine{}, Config{Name: Docker, Former: Docker}, "docker: as configured"},
		"the requirements are over": {machine{lacks: requirements()}, Config{Name: Native}, "native: as configured"},
	} {
		e, err := c.machine.kinds().open(t.Context(), c.cfg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if info := e.Info(); info.Name+": "+info.Choice != c.want {
			t.Errorf("%s: got %s: %s, want %s", name, info.Name, info.Choice, c.want)
		}
	}
}

// TestNoEngine: each refusal is one line, and says what to do.
func TestNoEngine(t *testing.T) {
	t.Parallel()
	down := errors.New("nobody answers")
	for want, c := range map[string]struct {
		machine machine
		cfg     Config
		is      error
	}{
		"no sandbox engine can run here: native lacks an OCI runtime: none at all (to fix: apt-get install runc), and 1 more; docker: nobody answers (start it); see securebench doctor": {
			machine{lacks: requirements(), docker: down}, Config{}, down},
		"no sandbox engine can run here: native: nobody answers (see doctor); docker: nobody answers (start it); see securebench doctor": {
			machine{native: down, docker: down}, Config{}, down},
		"nobody answers (start it)":                                     {machine{docker: down}, Config{Name: Docker}, down},
		"nobody answers (see doctor)":                                   {machine{native: down}, Config{Name: Native}, down},
		"the run began on the docker engine: nobody answers (start it)": {machine{docker: down}, Config{Former: Docker}, down},
		"the run began on the native engine and cannot continue with docker: a resume keeps the engine":   {machine{}, Config{Name: Docker, Former: Native}, ErrOther},
		"the run began on the engine podman, which this version does not have: a resume keeps the engine": {machine{}, Config{Former: "podman"}, ErrOther},
		`sandbox.engine "podman" is not known: write auto, docker or native`:                              {machine{}, Config{Name: "podman"}, ErrUnknown},
	} {
		e, err := c.machine.kinds().open(t.Context(), c.cfg)
		if e != nil || !errors.Is(err, c.is) || err.Error() != want {
			t.Errorf("got %v, %v\nwant %s", e, err, want)
		}
	}
}

// TestNoChoiceAfterInterruption: an engine that had no time to answer is no reason
// to take another one.
func TestNoChoiceAfterInterruption(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if e, err := (machine{native: context.Canceled}).kinds().open(ctx, Config{}); e != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", e, err)
	}
}

// TestOpenSelects checks that the names of the Docker engine reach it: an
// address that it refuses is refused.
func TestOpenSelects(t *testing.T) {
	t.Parallel()
	getenv := func(name string) string {
		return map[string]string{"DOCKER_HOST": "ssh://user@host", "SECUREBENCH_IMAGES": t.TempDir()}[name]
	}
	e, err := Open(t.Context(), Config{Name: Docker, Getenv: getenv})
	if e != nil || err == nil || !strings.Contains(err.Error(), "ssh://user@host") {
		t.Errorf("got %v and %v", e, err)
	}
}

// TestDockerHint: what is advised is what the error is about.
func TestDockerHint(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"connecting to the Docker engine at unix:///var/run/docker.sock: permission denied while trying to connect": "usermod -aG docker",
		"connecting to the Docker engine at unix:///nowhere: no such file or directory":                             "start Docker",
	} {
		if got := dockerHint(errors.New(text)); !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}
