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
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"securebench/internal/attended"
	"securebench/internal/sandbox/owner"
)

// minAPI is the oldest API with everything that is used here: one-shot stats.
const minAPI = "1.41"

// How long calls to the engine may take.
const (
	connectTimeout = 10 * time.Second // the first calls
	callTimeout    = 2 * time.Minute  // a call of the normal path
	cancelGrace    = 3 * time.Second  // a call after its context ended
	cleanupTimeout = 30 * time.Second // removal of one object
)

// errNoAnswer is the cause of a call that was given up.
var errNoAnswer = errors.New("the engine did not answer in time")

// conn is a connection to an engine, safe for concurrent use.
type conn struct {
	API   *client.Client
	Log   *slog.Logger
	owner owner.Owner
}

// newConn configures a connection. It makes no call.
func newConn(cfg Config) (*conn, error) {
	getenv := cfg.Getenv
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	host, err := resolveHost(cfg.Host, getenv, os.ReadFile)
	if err != nil {
		return nil, err
	}
	// A stream may last, but every response has to begin. (With TLS from the
	// environment the client uses its own transport.)
	transport := &http.Transport{MaxIdleConns: 6, IdleConnTimeout: 30 * time.Second, ResponseHeaderTimeout: callTimeout,
		Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(true) // others add a TLS configuration, which the client takes as a request for TLS
	api, err := client.New(client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}),
		client.WithTLSClientConfigFromEnv(), client.WithHost(cmp.Or(host, client.DefaultDockerHost)))
	if err != nil {
		return nil, fmt.Errorf("configuring the Docker client: %w", err)
	}
	c := &conn{API: api, Log: cfg.Log, owner: cfg.Owner}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.owner == (owner.Owner{}) {
		c.owner = owner.Current()
	}
	return c, nil
}

// onThisMachine reports whether the engine is reached through a socket of this machine.
func (c *conn) onThisMachine() bool { return strings.HasPrefix(c.API.DaemonHost(), "unix://") }

// Close releases the connections.
func (c *conn) Close() error {
	if err := c.API.Close(); err != nil {
		return fmt.Errorf("closing the connection to the Docker engine: %w", err)
	}
	return nil
}

// Connect checks that the engine can be used and returns what it says about
// itself. patience bounds the wait for an answer.
func (c *conn) Connect(ctx context.Context, patience time.Duration) (system.Info, error) {
	limit := min(connectTimeout, patience)
	cctx, cancel := attended.WithTimeout(ctx, limit)
	defer cancel()
	info, err := c.identify(cctx)
	if err != nil && ctx.Err() == nil && cctx.Err() != nil {
		err = fmt.Errorf("the Docker engine at %s accepts connections but does not answer within %v: restart it, or set DOCKER_HOST to another one",
			c.API.DaemonHost(), limit)
	}
	return info, err
}

func (c *conn) identify(ctx context.Context) (system.Info, error) {
	ping, err := c.API.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err != nil {
		return system.Info{}, fmt.Errorf("connecting to the Docker engine at %s: %w", c.API.DaemonHost(), err)
	}
	if olderAPI(ping.APIVersion, minAPI) {
		return system.Info{}, fmt.Errorf("the engine at %s has API version %q; use %s (Docker 20.10) or newer",
			c.API.DaemonHost(), ping.APIVersion, minAPI)
	}
	res, err := c.API.Info(ctx, client.InfoOptions{})
	if err != nil {
		return system.Info{}, fmt.Errorf("asking the Docker engine for its properties: %w", err)
	}
	if res.Info.OSType != "linux" {
		return system.Info{}, fmt.Errorf("the engine runs %s containers; sandboxes need linux", res.Info.OSType)
	}
	return res.Info, nil
}

// olderAPI reports whether version a is below b. An unreadable version is.
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

// creating returns a context for a call that makes something on the engine.
// Cutting such a call off saves no time and leaves open whether the object
// exists, so the call outlives ctx by a moment.
func creating(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := attended.WithTimeoutCause(context.WithoutCancel(ctx), callTimeout, errNoAnswer)
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
// after ctx has ended.
func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return attended.WithTimeoutCause(context.WithoutCancel(ctx), cleanupTimeout,
		errors.New("the engine did not clean up in time"))
}

// newName makes the name of an object. It is random, so it never collides.
func newName() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return "securebench-" + hex.EncodeToString(b[:])
}
