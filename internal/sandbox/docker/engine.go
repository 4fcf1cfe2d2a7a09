// Package docker makes sandboxes with a Docker engine, or with anything else
// that speaks its API from version 1.41 on. It is the only package that
// imports the engine's client.
//
// # Sandbox
//
// A box is one container whose first process is the command. It has no
// network but loopback, no capabilities but those that its specification asks
// for, no way to gain privileges, a read-only root, its own bounded /tmp and /dev/shm, no swap, and no log on
// the engine's disk; the image's entrypoint, health check and volumes have no
// effect. /tmp is not mounted noexec: build tools and agents run what they
// put there, and a box that may run any program gains nothing from it.
//
// Pages of a tmpfs count to the memory of whoever writes them, so the memory
// limit of a container is that of the command plus the disk limit. Only
// [securebench/internal/sandbox.Spec.WritableRoot] gives an unbounded disk:
// most engines have no quota for the root.
//
// # Workspace
//
// A workspace is a tmpfs volume with a size, an inode cap and an owner. Its
// content lives as long as a running container mounts it, which is the
// holder: a from-scratch image of [Config.Helper] that serves the tree over
// its standard streams (package holder).
//
// # Outcomes
//
// Out of memory is what the engine says of the container, children included;
// it ended the command if that was killed (exit code 137). The engine listens from shortly after the start on: a process that the kernel kills
// before, on a busy machine within the first half second, is not always heard
// of, and the command then ends as if it had failed by itself.
//
// The limit on processes is seen by sampling: a command that hits it and ends
// within half a second ends as any failed command, too. A full disk is seen
// for the workspace, not for /tmp.
//
// # Other people
//
// What the engine's events say was done to a box from outside is an error that
// wraps [securebench/internal/sandbox.ErrDisturbed], never an outcome. The
// events are asked for once, when a command has ended or is out of time.
//
// # Clean-up
//
// Names are made here and removal goes by name, so that what the engine made
// after the client gave up is found. Every object carries the identity of the
// process that made it; [Engine.Reap] removes what a provably dead one left.
package docker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
)

// minAPI is the oldest API that has all that is used here: one-shot stats.
const minAPI = "1.41"

// How long calls to the engine may take.
const (
	firstTimeout   = 10 * time.Second // the first calls
	callTimeout    = 2 * time.Minute  // a call of the normal path
	cancelGrace    = 3 * time.Second  // a call after its context ended
	cleanupTimeout = 30 * time.Second // removal of one object
)

// Config configures an [Engine].
type Config struct {
	// Host is the engine's address, unix:// or tcp://. Empty is DOCKER_HOST
	// and then the platform's default socket. TLS is configured by
	// DOCKER_CERT_PATH and DOCKER_TLS_VERIFY.
	Host string
	// Helper is the path of a static binary for the engine's platform that
	// serves a workspace when started with the arguments "sandbox-holder"
	// and the path of the tree. Without it there are no workspaces.
	Helper string
	// Owner marks all objects. The zero value is this process.
	Owner Owner
	// Runtime names the engine's OCI runtime for boxes, such as "runsc".
	// Empty is the engine's default.
	Runtime string
	// Getenv reads the operator's environment: DOCKER_HOST, DOCKER_CONTEXT,
	// DOCKER_CONFIG and HOME. Nil is an empty one.
	Getenv func(string) string
	// Patience is how long the engine may be silent in the middle of a
	// transfer of files, and at most how long when it is first asked. 0 is a
	// minute.
	Patience time.Duration
	// Log gets a line per object that cannot be removed and per object
	// reaped. Nil discards.
	Log *slog.Logger
}

func (c Config) getenv(name string) string {
	if c.Getenv == nil {
		return ""
	}
	return c.Getenv(name)
}

// Engine makes sandboxes on a Docker engine.
type Engine struct {
	api     *client.Client
	owner   Owner
	label   string // the owner's, encoded
	helper  string
	runtime string
	log     *slog.Logger
	info    Info
	cpus    float64       // cores of the engine
	silence time.Duration // that a transfer may last

	seccomp        string // the profile of a box
	seccompTracing string // of one whose processes may debug one another

	mu     sync.Mutex
	images map[string]imageFacts // by id

	helperMu     sync.Mutex
	helperID     string // of the helper's image, once it is there
	helperVolume string // with the helper, once a box has asked for it
}

var _ sandbox.Engine = (*Engine)(nil)

// Info describes the engine for the manifest of a run.
type Info struct {
	Name            string   `json:"name"` // "docker"
	Version         string   `json:"version"`
	APIVersion      string   `json:"api_version"`
	Runtime         string   `json:"runtime"`
	CgroupVersion   string   `json:"cgroup_version"`
	OS              string   `json:"os"`
	Arch            string   `json:"arch"` // as Go names it
	Kernel          string   `json:"kernel"`
	SecurityOptions []string `json:"security_options"`
	Seccomp         string   `json:"seccomp"`         // digest of a box's profile
	SeccompTracing  string   `json:"seccomp_tracing"` // of an agent's
}

// New connects to an engine and checks that it can do what is needed. The
// caller closes the engine, after every box and workspace.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	host, err := resolveHost(cfg.Host, cfg.getenv, os.ReadFile)
	if err != nil {
		return nil, err
	}
	// Streams last as long as they like, but every answer has to begin. (With
	// TLS from the environment the client brings a transport of its own.)
	transport := &http.Transport{MaxIdleConns: 6, IdleConnTimeout: 30 * time.Second, ResponseHeaderTimeout: callTimeout,
		Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(true) // with others it gets a TLS configuration, which the client takes for a wish
	api, err := client.New(client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}),
		client.WithTLSClientConfigFromEnv(), client.WithHost(cmp.Or(host, client.DefaultDockerHost)))
	if err != nil {
		return nil, fmt.Errorf("configuring the client for the Docker engine: %w", err)
	}
	e := &Engine{api: api, owner: cfg.Owner, helper: cfg.Helper, runtime: cfg.Runtime,
		log: cfg.Log, silence: cmp.Or(cfg.Patience, time.Minute), images: make(map[string]imageFacts)}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.owner == (Owner{}) {
		e.owner = CurrentOwner()
	}
	e.label = e.owner.String()
	if err := e.connect(ctx); err != nil {
		return nil, errors.Join(err, api.Close())
	}
	return e, nil
}

// connect asks the engine what it is, and gives it a moment to answer.
func (e *Engine) connect(ctx context.Context) error {
	limit := min(firstTimeout, e.silence)
	cctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := e.introduce(cctx)
	if err != nil && ctx.Err() == nil && cctx.Err() != nil {
		return fmt.Errorf("the Docker engine at %s takes connections but does not answer within %v: start it again, or set DOCKER_HOST to another one",
			e.api.DaemonHost(), limit)
	}
	return err
}

func (e *Engine) introduce(ctx context.Context) error {
	ping, err := e.api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err != nil {
		return fmt.Errorf("connecting to the Docker engine at %s: %w", e.api.DaemonHost(), err)
	}
	if olderAPI(ping.APIVersion, minAPI) {
		return fmt.Errorf("the engine at %s speaks API %q; %s (Docker 20.10) is the oldest that works",
			e.api.DaemonHost(), ping.APIVersion, minAPI)
	}
	res, err := e.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return fmt.Errorf("asking the Docker engine about itself: %w", err)
	}
	in := res.Info
	e.cpus = float64(in.NCPU)
	e.info = Info{Name: "docker", Version: in.ServerVersion, APIVersion: e.api.ClientVersion(),
		Runtime: in.DefaultRuntime, CgroupVersion: in.CgroupVersion, OS: in.OSType,
		Arch: goArch(in.Architecture), Kernel: in.KernelVersion, SecurityOptions: in.SecurityOptions}
	if in.OSType != "linux" {
		return fmt.Errorf("the engine runs %s containers; sandboxes need linux", in.OSType)
	}
	if e.runtime != "" {
		if _, ok := in.Runtimes[e.runtime]; !ok {
			return fmt.Errorf("the engine has no runtime %q", e.runtime)
		}
		e.info.Runtime = e.runtime
	}
	if e.seccomp, e.info.Seccomp, err = seccompProfile(false); err != nil {
		return err
	}
	if e.seccompTracing, e.info.SeccompTracing, err = seccompProfile(true); err != nil {
		return err
	}
	if e.helper == "" {
		return nil
	}
	return checkHelper(e.helper, e.info.Arch)
}

// Info describes the engine. The error is always nil for an engine that
// [New] returned: the answer was given then.
func (e *Engine) Info(context.Context) (Info, error) {
	info := e.info
	info.SecurityOptions = slices.Clone(info.SecurityOptions)
	return info, nil
}

// Close removes the helper's volume and releases the connections. Boxes and
// workspaces are closed before, by whoever opened them.
func (e *Engine) Close() error {
	errs := []error{e.dropHelperVolume(context.Background())}
	if err := e.api.Close(); err != nil {
		errs = append(errs, fmt.Errorf("closing the connection to the Docker engine: %w", err))
	}
	return errors.Join(errs...)
}

// resolveHost decides which engine is meant, as the docker command would, and
// refuses what it cannot reach. An empty result is the platform's default.
func resolveHost(host string, getenv func(string) string, readFile func(string) ([]byte, error)) (string, error) {
	if host == "" {
		host = getenv("DOCKER_HOST")
	}
	if host == "" {
		if c := dockerContext(getenv, readFile); c != "" && c != "default" {
			return "", fmt.Errorf("the Docker context %q is not supported: set DOCKER_HOST to a unix:// or tcp:// address", c)
		}
		return "", nil
	}
	scheme, _, ok := strings.Cut(host, "://")
	if !ok || scheme != "unix" && scheme != "tcp" {
		return "", fmt.Errorf("the engine address %q is not supported: use a unix:// or tcp:// address", host)
	}
	return host, nil
}

// errMute is the cause of a call that was given up.
var errMute = errors.New("the engine did not answer in time")

// cancelAfter returns a context for a call that makes something on the
// engine. Cutting such a call off saves no time and leaves open whether the
// thing exists, so it outlives ctx by a moment.
func cancelAfter(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), callTimeout, errMute)
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(cancelGrace)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-out.Done():
		}
	})
	return out, func() { stop(); cancel() }
}

// cleanup returns a context for removing something, which must be tried even
// though ctx has ended.
func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), cleanupTimeout,
		errors.New("the engine did not clean up in time"))
}

// newName makes the name of an object: 128 random bits never collide.
func newName() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return "securebench-" + hex.EncodeToString(b[:])
}

// goArch translates what a kernel calls its machine.
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return machine
}

// olderAPI reports whether version a is below b; what cannot be read is.
func olderAPI(a, b string) bool {
	amajor, aminor, aok := apiVersion(a)
	bmajor, bminor, bok := apiVersion(b)
	if !aok || !bok {
		return true
	}
	return amajor < bmajor || amajor == bmajor && aminor < bminor
}

func apiVersion(s string) (major, minor int, ok bool) {
	a, b, _ := strings.Cut(s, ".")
	major, err1 := strconv.Atoi(a)
	minor, err2 := strconv.Atoi(b)
	return major, minor, err1 == nil && err2 == nil
}
