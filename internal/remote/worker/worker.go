// Package worker makes calls of a run's attempts on its machine: it asks the run's hub
// for jobs, makes each call, and offers what came of it until the hub has answered. It
// holds no key of a run but its own credential, and what it gets of a pack is what its
// roles need.
package worker

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/gateway/relay/distant"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/record"
	"securebench/internal/remote"
	"securebench/internal/sandbox"
	"securebench/internal/workspace"
)

// The times of a worker.
const (
	// askTime bounds the wait for one answer of the hub.
	askTime = 10 * time.Second
	// again is the pause before a worker asks again that has heard nothing.
	again = 500 * time.Millisecond
	// refusals is how often in a row a hub refuses a worker that is not invited.
	refusals = 6
	// idleTime is how long a connection for content is kept that nothing uses: thousands of
	// workers may wait for jobs.
	idleTime = 10 * time.Second
	// closeTime bounds the end of what a run had here.
	closeTime = 30 * time.Second
)

// Site makes calls on this machine for one run.
type Site interface {
	attempt.Worker
	// Complete returns a row's whole reference.
	Complete(ctx context.Context, c family.Case) (remote.Completed, error)
	// Slots is how many calls the machine has room for.
	Slots() int
	// Close releases what the site keeps.
	Close(ctx context.Context) error
}

// Setting is what a site is made of.
type Setting struct {
	Orders map[remote.Role]remote.Order // by role of the worker
	// Public and Eval are folders for the pack's files, of which Bring makes those be there
	// that a call needs. A worker that does not verify has none of Eval.
	Public, Eval string
	Bring        workspace.Bring
	Store        attempt.Store
	// Relay is the way of an attempt's agent to its provider, false if it has none.
	Relay func(key record.AttemptKey) (distant.Way, bool)
	// Pulled is told how long it took to pull an image.
	Pulled func(time.Duration)
	// Tree provides the archive of a tree for the agent of an attempt that has a job here.
	// Reading it to its end checks it.
	Tree func(ctx context.Context, key record.AttemptKey, tree remote.Tree) (io.ReadCloser, error)
}

// Options configure a worker. All fields are required unless noted.
type Options struct {
	Hub        string // its address
	Credential remote.Credential
	Roles      []remote.Role
	Slots      int    // calls at the same time; 0 is what the site has room for
	Build      string // digest of this program
	Engine     sandbox.Info
	Cache      string        // folder for files of packs, and for results until the hub has answered
	Grace      time.Duration // for calls that are under way when the worker is to leave
	// Wait is for how long the worker, if it has nothing to do, waits for an answer of a
	// hub; 0 is without end.
	Wait time.Duration
	Stay bool // wait for the next run when one has finished
	Open func(context.Context, Setting) (Site, error)
	Say  func(string) // gets a line about what happens
	// Dial connects to the hub; nil is the system's.
	Dial func(network, address string) (net.Conn, error)
	// Now is the time of day, with which the dates of the hub's certificate are compared;
	// nil is the system's. Nothing else looks at it.
	Now func() time.Time
}

// ErrDrained is returned by [Run] when the worker was told to leave and a run goes on.
var ErrDrained = errors.New("the worker was told to leave")

// errInputs ends a session whose orders do not hold any more.
var errInputs = errors.New("the run goes on with other inputs")

// ErrRefused is wrapped by the error of [Run] if the hub does not want the worker.
var ErrRefused = errors.New("the hub refuses this worker")

// Run serves runs until one has finished, or ctx ends.
func Run(ctx context.Context, o Options) error {
	w := &worker{Options: o, who: o.Credential.Name + "." + strings.ToLower(rand.Text()[:12])}
	for {
		err := w.serve(ctx)
		switch {
		case errors.Is(err, errInputs):
			w.Say(err.Error() + ": beginning anew")
			continue
		case err != nil:
			return err
		case !o.Stay:
			return nil
		}
		w.Say("the run has finished; waiting for the next")
	}
}

// worker is a process, which serves one run after the other.
type worker struct {
	Options
	who string // its name and instance
}

// serve serves one run until that has finished.
func (w *worker) serve(ctx context.Context) (err error) {
	s := newSession(w)
	if err := s.connect(ctx); err != nil {
		return err
	}
	defer s.conn.Close()
	if err := s.hello(ctx); err != nil {
		return err
	}
	left, err := s.furnish(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return ErrDrained
		}
		return err
	}
	defer func() {
		ctx, stop := attended.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer stop()
		err = errors.Join(err, s.site.Close(ctx), s.assets.close(), s.shelf.store.Close(), s.folder.close(s.ended().done))
	}()
	return s.work(ctx, left)
}

// newSession makes a session that is not connected yet.
func newSession(w *worker) *session {
	s := &session{worker: w, heard: time.Now(), active: map[string]*held{}, calls: map[record.AttemptKey]*call{}, changed: make(chan struct{}, 1)}
	s.disconnected()
	return s
}

// session is the service of one run.
type session struct {
	*worker
	conn   *nats.Conn
	queue  *nats.Subscription // for jobs
	web    *http.Client
	relay  *http.Transport // of agents to their provider
	site   Site
	folder *folder
	shelf  *shelf // in the folder
	assets *assets
	trees  *trees

	retries  int  // of a capture
	draining bool // of the goroutine that beats

	jobs  sync.WaitGroup
	heirs atomic.Int64 // sessions that offer what former processes have left

	mu      sync.Mutex
	heard   time.Time // from the hub
	run     remote.Welcome
	base    string                      // of HTTPS
	inputs  map[remote.Role]string      // of the orders, once they are read
	active  map[string]*held            // by job
	calls   map[record.AttemptKey]*call // whose agents are at work
	pulls   []int64                     // how long they took of which the run has not heard, in milliseconds
	end     ending
	link    context.Context // of the connection
	cut     context.CancelFunc
	changed chan struct{} // has a value when the hub has something new
}

// ending says whether and why a session ends.
type ending struct {
	done, drain bool
	err         error
}

// connect waits for the hub. One that does not know the credential, or that the
// credential does not know, is an error.
func (s *session) connect(ctx context.Context) error {
	tls, err := s.client()
	if err != nil {
		return fault.As(fault.Integrity, err)
	}
	public, err := s.Credential.Public()
	if err != nil {
		return fault.As(fault.Integrity, err)
	}
	o := []nats.Option{nats.Nkey(public, s.Credential.Sign), nats.Secure(tls), nats.CustomInboxPrefix(remote.Inbox(s.Credential.Name)),
		nats.MaxReconnects(-1), nats.ReconnectWait(again), nats.ReconnectBufSize(-1), nats.Name(s.who), nats.Timeout(askTime),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.ReconnectHandler(func(*nats.Conn) { s.poke() }),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { s.disconnected() }),
		nats.ClosedHandler(func(c *nats.Conn) { s.closed(c.LastError()) })}
	if s.Dial != nil {
		o = append(o, nats.SetCustomDialer(dialer(s.Dial)))
	}
	said := false
	for refused := 0; ; {
		s.conn, err = nats.Connect("nats://"+s.Hub, o...)
		switch {
		case err == nil:
			return s.subscribe()
		case final(err):
			if refused++; refused < refusals {
				break // it may not have heard of the invitation yet
			}
			return fault.Errorf(fault.Integrity, "%w: %w (ask for a new credential: securebench hub invite)", ErrRefused, err)
		case !said:
			said = true
			s.Say("waiting for a hub at " + s.Hub)
		}
		if s.alone() {
			return s.nobody()
		}
		if attended.Pause(ctx, again) != nil {
			return ErrDrained
		}
	}
}

// client returns the worker's side of TLS.
func (s *session) client() (*tls.Config, error) {
	c, err := s.Credential.Client()
	if err == nil {
		c.Time = s.Now
	}
	return c, err
}

// subscribe listens to the hub.
func (s *session) subscribe() (err error) {
	if _, err = s.conn.Subscribe(remote.Notice(s.who), func(*nats.Msg) { s.poke() }); err == nil {
		s.queue, err = s.conn.SubscribeSync(s.conn.NewInbox())
	}
	if err != nil {
		return fmt.Errorf("listening to the hub: %w", err)
	}
	return nil
}

// dialer is a function that connects.
type dialer func(network, address string) (net.Conn, error)

// Dial connects.
func (d dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// final reports whether the hub, or this side, does not know the other, or the hub's
// certificate does not hold now.
func final(err error) bool {
	var unknown interface{ Unwrap() error }
	var dates x509.CertificateInvalidError
	text := err.Error()
	return errors.As(err, &dates) || errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthRevoked) || strings.Contains(text, "certificate") && !errors.As(err, &unknown) ||
		strings.Contains(text, "certificate signed by unknown authority")
}

// closed notes that the hub has ended the connection for good.
func (s *session) closed(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	s.end.err = fault.Errorf(fault.Integrity, "%w: %w", ErrRefused, err)
	s.mu.Unlock()
	s.poke()
}

// disconnected ends what waits for an answer on a connection that is lost.
func (s *session) disconnected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut != nil {
		s.cut()
	}
	s.link, s.cut = context.WithCancel(context.Background())
}

// linked returns a context that ends with the connection, and after a time.
func (s *session) linked(ctx context.Context, d time.Duration) (context.Context, func()) {
	ctx, stop := attended.WithTimeout(ctx, d)
	s.mu.Lock()
	link := s.link
	s.mu.Unlock()
	cut := context.AfterFunc(link, stop)
	return ctx, func() { cut(); stop() }
}

// poke says that there is something new.
func (s *session) poke() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// ask sends a message and decodes the answer.
func (s *session) ask(ctx context.Context, subject string, message, answer any) error {
	b, err := attempt.Encode(message)
	if err != nil {
		return err
	}
	ctx, stop := s.linked(ctx, askTime)
	defer stop()
	m, err := s.conn.RequestWithContext(ctx, subject, b)
	if err != nil {
		return fmt.Errorf("asking the hub: %w", err)
	}
	s.hears()
	return attempt.Decode(m.Data, answer)
}

// hears notes that the hub has answered.
func (s *session) hears() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
}

// alone reports whether the hub has not answered for longer than the worker waits.
func (s *session) alone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Wait > 0 && time.Since(s.heard) >= s.Wait
}

// nobody is the error of a worker that has waited for its hub and had nothing to do.
func (s *session) nobody() error {
	return fault.Errorf(fault.Refused, "no run has answered at %s for %s: start one with securebench run --hub, or let the worker wait longer with --wait", s.Hub, s.Wait)
}

// hello introduces the worker, until the hub answers.
func (s *session) hello(ctx context.Context) error {
	s.mu.Lock()
	hello := remote.Hello{Build: s.Build, Engine: s.Engine, Roles: s.Roles, Slots: s.Slots, Inputs: maps.Clone(s.inputs)}
	s.mu.Unlock()
	for {
		var run remote.Welcome
		err := s.ask(ctx, remote.HelloSubject(s.who), hello, &run)
		switch {
		case err == nil && run.Refused != "":
			return fault.Errorf(fault.Integrity, "%w: %s", ErrRefused, run.Refused)
		case err == nil:
			return s.welcomed(run)
		case s.ended().err != nil:
			return s.ended().err
		case s.alone() && !s.busy(): // one that greets anew may have a result
			return s.nobody()
		}
		if attended.Pause(ctx, again) != nil {
			return ErrDrained
		}
	}
}

// welcome is what the hub has said of its run. Its pools are those of [session.home].
func (s *session) welcome() remote.Welcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

// origin is that of the hub's HTTPS.
func (s *session) origin() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.base
}

// subject is that of requests about a job, or about none, in the run.
func (s *session) subject(kind remote.Kind, job string) string {
	return remote.Subject(s.welcome().Token, kind, s.who, job)
}

// welcomed takes what the hub says of its run.
func (s *session) welcomed(run remote.Welcome) error {
	host, _, err := net.SplitHostPort(s.Hub)
	if err != nil {
		return fault.Errorf(fault.Usage, "--hub: %w (write ADDRESS:PORT)", err)
	}
	secure, err := s.client()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run.Token != "" && s.run.Token != run.Token {
		return fault.Errorf(fault.Refused, "the hub serves another run now")
	}
	for role, was := range s.inputs {
		if is := run.Inputs[role]; is != was {
			return errInputs
		}
	}
	s.run, s.base = run, "https://"+net.JoinHostPort(host, fmt.Sprint(run.Port))
	if s.web == nil {
		web := s.transport(secure)
		web.ResponseHeaderTimeout = 2 * time.Minute // not the relay: a model may think longer
		s.web, s.relay = &http.Client{Transport: web}, s.transport(secure)
	}
	return nil
}

// transport returns a transport to the hub. It is of HTTP/1.1, which takes large content
// for less processor time than the frames of HTTP/2.
func (s *session) transport(secure *tls.Config) *http.Transport {
	t := &http.Transport{TLSClientConfig: secure.Clone(), DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: idleTime}
	if s.Dial != nil {
		t.DialContext = func(_ context.Context, network, address string) (net.Conn, error) { return s.Dial(network, address) }
	}
	return t
}

// ended returns whether the session ends.
func (s *session) ended() ending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// furnish reads the orders and what they name, and makes the site. It returns what former
// processes of the worker have left.
func (s *session) furnish(ctx context.Context) (left []*folder, err error) {
	if s.folder, left, err = newFolder(ctx, s.Cache, owner{s.who, s.welcome().Token}); err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			return
		}
		for _, f := range append(left, s.folder) {
			err = errors.Join(err, f.close(false))
		}
		left = nil
	}()
	set := Setting{Orders: map[remote.Role]remote.Order{}}
	if err = s.load(ctx, set.Orders); err != nil {
		return left, err
	}
	if s.assets, err = openAssets(s.folder.dir, set.Orders, &assets{most: MostAssets, get: s.asset}); err != nil {
		return left, err
	}
	set.Public, set.Eval, set.Bring = filepath.Join(s.folder.dir, publicDir), filepath.Join(s.folder.dir, evalDir), s.assets.bring
	s.mu.Lock()
	s.inputs = map[remote.Role]string{}
	for role, o := range set.Orders {
		s.retries, s.inputs[role] = o.Retries, o.Inputs
	}
	s.mu.Unlock()
	store := filepath.Join(s.folder.dir, candidatesDir)
	inner, err := candidate.OpenStore(store)
	if err != nil {
		return left, errors.Join(err, s.assets.close())
	}
	s.shelf, s.trees = newShelf(inner, store), &trees{dir: filepath.Join(s.Cache, treesName), most: MostTrees}
	set.Store, set.Relay, set.Tree, set.Pulled = s.shelf, s.way, s.tree, s.pulled
	if s.site, err = s.Open(ctx, set); err != nil {
		return left, errors.Join(err, inner.Close(), s.assets.close())
	}
	s.Say(fmt.Sprintf("serving the run %s", s.welcome().RunID))
	return left, nil
}
