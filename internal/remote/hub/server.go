package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"securebench/internal/remote"
	"securebench/internal/sandbox/owner"
)

// startTime bounds what the queue's server does for this process.
const startTime = 30 * time.Second

// claimTime is how long a worker has to claim what it has pulled. It is queued for others
// then.
const claimTime = 5 * time.Second

// broker is the queue's server, in this process.
type broker struct {
	server  *server.Server
	options *server.Options
	keys    remote.Keys
	token   string
	pools   int           // into which jobs are divided
	self    nkeys.KeyPair // of this process
	dir     string        // for what the server wants on disk
	conn    *nats.Conn
	js      jetstream.JetStream
	queues  map[remote.Role]jetstream.Stream
	known   []string // public keys of workers
}

// openBroker serves workers at an address.
func openBroker(ctx context.Context, addr string, keys remote.Keys, token string, pools int) (_ *broker, err error) {
	b := &broker{keys: keys, token: token, pools: pools, queues: map[remote.Role]jetstream.Stream{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.self, err = nkeys.CreateUser(); err != nil {
		return b, fmt.Errorf("making a key: %w", err)
	}
	if b.dir, err = owner.MakeFolder("queue"); err != nil {
		return b, fmt.Errorf("making a folder for the queue: %w", err)
	}
	if b.options, err = b.configure(addr); err != nil {
		return b, err
	}
	if b.server, err = server.NewServer(b.options); err != nil {
		return b, fmt.Errorf("opening the hub at %s: %w", addr, err)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr) // the server would end the process if it cannot listen
	if err != nil {
		return b, fmt.Errorf("opening the hub: %w", err)
	}
	if err := ln.Close(); err != nil {
		return b, fmt.Errorf("opening the hub: %w", err)
	}
	b.server.Start()
	if !b.server.ReadyForConnections(startTime) {
		return b, fmt.Errorf("opening the hub at %s: the queue does not start", addr)
	}
	public, err := b.self.PublicKey()
	if err != nil {
		return b, fmt.Errorf("reading a key: %w", err)
	}
	b.conn, err = nats.Connect("", nats.InProcessServer(b.server), nats.Nkey(public, b.self.Sign), nats.MaxReconnects(-1), nats.Name("run"))
	if err != nil {
		return b, fmt.Errorf("connecting to the queue: %w", err)
	}
	if b.js, err = jetstream.New(b.conn); err != nil {
		return b, fmt.Errorf("connecting to the queue: %w", err)
	}
	return b, nil
}

// configure returns what the server does: it queues in memory, and knows this process
// and the invited workers.
func (b *broker) configure(addr string) (*server.Options, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("--hub: %w (write ADDRESS:PORT)", err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("--hub: %q is no port", service)
	}
	tls, err := b.keys.Server()
	if err != nil {
		return nil, err
	}
	workers, err := b.keys.Workers()
	if err != nil {
		return nil, err
	}
	users, err := b.users(workers)
	if err != nil {
		return nil, err
	}
	p := int(port)
	if p == 0 {
		p = server.RANDOM_PORT
	}
	return &server.Options{ServerName: "securebench", Host: host, Port: p, NoSigs: true, NoLog: true, NoSystemAccount: true,
		TLSConfig: tls, TLS: true, TLSTimeout: 10, AuthTimeout: 10, MaxPayload: remote.MaxMessage, Nkeys: users, JetStream: true, StoreDir: b.dir,
		JetStreamMaxMemory: 1 << 30, JetStreamMaxStore: 1 << 20, DisableShortFirstPing: true}, nil
}

// users are this process, which may do everything, and the workers.
func (b *broker) users(workers []remote.Worker) ([]*server.NkeyUser, error) {
	public, err := b.self.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	all := &server.SubjectPermission{Allow: []string{">"}}
	out := []*server.NkeyUser{{Nkey: public, Permissions: &server.Permissions{Publish: all, Subscribe: all}}}
	operator, err := b.keys.Operator()
	if err != nil {
		return nil, err
	}
	if public, err = operator.Public(); err != nil {
		return nil, err
	}
	out = append(out, &server.NkeyUser{Nkey: public, Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{remote.OperatorSubject}}, Subscribe: &server.SubjectPermission{Allow: []string{remote.Inbox(remote.OperatorName) + ".>"}}}})
	for _, w := range workers {
		out = append(out, &server.NkeyUser{Nkey: w.Key, Permissions: permissions(b.token, w)})
	}
	return out, nil
}

// permissions are all that a worker may do.
func permissions(token string, w remote.Worker) *server.Permissions {
	publish := []string{"sb.hello." + w.Name + ".>"}
	for _, r := range w.Roles {
		publish = append(publish, "$JS.API.CONSUMER.MSG.NEXT."+remote.Stream(token, r)+".*", "$JS.ACK."+remote.Stream(token, r)+".>")
	}
	for _, k := range []remote.Kind{remote.ClaimKind, remote.BeatKind, remote.ResultKind} {
		publish = append(publish, "sb."+token+"."+string(k)+"."+w.Name+".>")
	}
	return &server.Permissions{Publish: &server.SubjectPermission{Allow: publish},
		Subscribe: &server.SubjectPermission{Allow: []string{remote.Inbox(w.Name) + ".>"}}}
}

// refresh lets in these workers. Others are disconnected.
func (b *broker) refresh(workers []remote.Worker) error {
	keys := []string{}
	for _, w := range workers {
		keys = append(keys, w.Key)
	}
	if slices.Equal(keys, b.known) {
		return nil
	}
	users, err := b.users(workers)
	if err != nil {
		return err
	}
	o := b.options.Clone()
	o.Nkeys = users
	if err := b.server.ReloadOptions(o); err != nil {
		return fmt.Errorf("reading who is invited: %w", err)
	}
	b.options, b.known = o, keys
	return nil
}

// addr is where workers connect.
func (b *broker) addr() string { return b.server.Addr().String() }

// makeStreams makes the queues of both roles, each with a consumer for each pool.
func (b *broker) makeStreams(ctx context.Context, lease time.Duration) error {
	for _, r := range []remote.Role{remote.Produce, remote.Verify} {
		if err := b.makeStream(ctx, r, lease); err != nil {
			return err
		}
	}
	return nil
}

// makeStream makes the queue of a role. Each subject has at most one message: a job is
// not queued twice.
func (b *broker) makeStream(ctx context.Context, r remote.Role, lease time.Duration) error {
	name := remote.Stream(b.token, r)
	s, err := b.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{"sb." + b.token + ".work." + string(r) + ".*.*"},
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, MaxMsgsPerSubject: 1, Storage: jetstream.MemoryStorage})
	for pool := 0; err == nil && pool < b.pools; pool++ {
		_, err = s.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{Durable: remote.Consumer(pool), FilterSubject: remote.Work(b.token, r, pool, "*"), AckPolicy: jetstream.AckExplicitPolicy, AckWait: min(lease, claimTime),
			MaxDeliver: -1, MaxAckPending: 100_000, MaxWaiting: 4096, MemoryStorage: true})
	}
	if err != nil {
		return fmt.Errorf("making the queue: %w", err)
	}
	if b.queues[r] == nil { // later others read it at the same time; a queue that is made again has its name
		b.queues[r] = s
	}
	return nil
}

// close ends the server.
func (b *broker) close() error {
	if b.conn != nil {
		b.conn.Close()
	}
	if b.server != nil {
		b.server.Shutdown()
		b.server.WaitForShutdown()
	}
	if b.self != nil {
		b.self.Wipe()
	}
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}
