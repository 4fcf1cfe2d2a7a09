// Package remote defines what a run and its workers on other machines say to each
// other: subjects, messages, and the credentials that workers have. The hub of a run
// answers (package hub below), and workers ask (package worker below).
package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/lazyregexp"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
)

// Role says which jobs a worker may have.
type Role string

// The roles.
const (
	Produce Role = record.RoleProduce // runs agents on the public lane
	Verify  Role = record.RoleVerify  // scores candidates
)

// ParseRoles reads a list of roles, such as "produce,verify".
func ParseRoles(text string) ([]Role, error) {
	var out []Role
	for name := range strings.SplitSeq(text, ",") {
		r := Role(name)
		if r != Produce && r != Verify || len(out) > 0 && out[0] == r || len(out) > 1 {
			return nil, errors.New("the roles must be produce, verify or produce,verify")
		}
		out = append(out, r)
	}
	return out, nil
}

// The bounds of what crosses the wire.
const (
	// MaxInline is the largest value that a message has in it. Larger ones are put
	// over HTTPS.
	MaxInline = 512 << 10
	// MaxMessage bounds one message.
	MaxMessage = 1 << 20
)

// Checked in the query of a candidate's content asks the hub to compare what it sends with
// the digest, which the worker found to be another.
const Checked = "checked"

// DefaultLease is how long a worker may be silent before its jobs are given to others.
const DefaultLease = 2 * time.Minute

// ServerName is the name in the hub's certificate, whatever its address is.
const ServerName = "hub.securebench.invalid"

// Token names a run on the wire. It tells nothing about the salt.
func Token(runID, saltDigest string) string {
	sum := sha256.Sum256([]byte(runID + "\x00" + saltDigest))
	return hex.EncodeToString(sum[:8])
}

// Nonce returns what only a worker knows that a job was delivered to. A run that goes
// on makes it again, and another request has another.
func Nonce(salt digest.Salt, job, inputs string, request []byte) string {
	sum := sha256.Sum256(request)
	return strings.TrimPrefix(salt.Keyed("job", job+"\x00"+inputs, sum[:]), "hmac-sha256:")
}

// Stream returns the name of the stream of a role's jobs.
func Stream(token string, r Role) string { return "SB_" + token + "_" + strings.ToUpper(string(r)) }

// MostPools is into how many pools jobs are divided by their images, if there are at least
// so many images. Otherwise there is one pool.
const (
	MostPools  = 16
	ManyImages = 64
)

// Pools is into how many pools the jobs of a run with so many images are divided.
func Pools(images int) int {
	if images < ManyImages {
		return 1
	}
	return MostPools
}

// PoolOf returns the pool of jobs with an image, by its ID.
func PoolOf(id string, pools int) int {
	_, sum, _ := strings.Cut(id, ":")
	b, err := hex.DecodeString(sum[:min(len(sum), 2)])
	if err != nil || len(b) == 0 {
		return 0
	}
	return int(b[0]) % max(pools, 1)
}

// Consumer is the name of a pool's consumer of each stream.
func Consumer(pool int) string { return "pool-" + strconv.Itoa(pool) }

// Work returns the subject of a job.
func Work(token string, r Role, pool int, job string) string {
	return "sb." + token + ".work." + string(r) + "." + strconv.Itoa(pool) + "." + job
}

// HelloSubject is where a worker introduces itself. who is its name and instance.
func HelloSubject(who string) string { return "sb.hello." + who }

// Kind is what a worker asks about.
type Kind string

// The kinds of requests.
const (
	ClaimKind  Kind = "claim"
	BeatKind   Kind = "beat"
	ResultKind Kind = "result"
)

// Subject returns where a worker asks; job is "" for a beat.
func Subject(token string, k Kind, who, job string) string {
	s := "sb." + token + "." + string(k) + "." + who
	if job != "" {
		s += "." + job
	}
	return s
}

// Inbox is the prefix of the subjects on which a worker hears answers.
func Inbox(name string) string { return "_INBOX_" + name }

// Notice is the subject on which a worker hears that it has to ask, by a beat.
func Notice(who string) string {
	name, instance, _ := strings.Cut(who, ".")
	return Inbox(name) + ".notice." + instance
}

// validName is a name of a credential: one token of a subject.
var validName = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}$`)

// ValidName reports whether a worker may have a name.
func ValidName(name string) bool { return validName.MatchString(name) && name != OperatorName }

// OperatorName is the name of whoever the hub is of.
const OperatorName = "operator"

// OperatorSubject is where the operator asks a run.
const OperatorSubject = "sb.operator"

// Hello is how a worker introduces itself.
type Hello struct {
	Build  string       `json:"build"` // digest of its program
	Engine sandbox.Info `json:"engine"`
	Roles  []Role       `json:"roles"`
	Slots  int          `json:"slots"`
	// Inputs are those of the orders that it has, none before it has read any.
	Inputs map[Role]string `json:"inputs,omitzero"`
}

// Welcome is the answer to a [Hello].
type Welcome struct {
	Refused string `json:"refused,omitzero"` // why the worker has to leave, or ""
	RunID   string `json:"run_id,omitzero"`
	Token   string `json:"token,omitzero"`
	// Lease is how long the worker may be silent.
	Lease time.Duration `json:"lease_ns,omitzero"`
	Port  int           `json:"port,omitzero"` // of HTTPS
	// Tickets allow a worker to read the [Order] of each of its roles, and the files
	// that this names.
	Tickets map[Role]string `json:"tickets,omitzero"`
	// Inputs are those of the orders.
	Inputs map[Role]string `json:"inputs,omitzero"`
	Roles  []Role          `json:"roles,omitzero"` // that the run has for it
	// Pools is into how many pools jobs are divided, and Home are those that the worker
	// asks.
	Pools int          `json:"pools,omitzero"`
	Home  map[Role]int `json:"home,omitzero"`
}

// Job is what is queued of a job: no part of the request.
type Job struct {
	ID    string `json:"id"`
	Nonce string `json:"nonce"`
}

// State is the hub's answer about a job.
type State string

// The states.
const (
	OK         State = "ok"         // go on
	Later      State = "later"      // another worker has the job: return it for now
	Done       State = "done"       // there is nothing left to do
	Cancelled  State = "cancelled"  // nobody waits for the job
	Fenced     State = "fenced"     // another worker has the job now
	Committed  State = "committed"  // the result is taken
	Superseded State = "superseded" // the result comes too late
	Refused    State = "refused"    // the result cannot be taken
)

// Claim asks for a job. Grant is that of an earlier claim whose ticket is gone with an
// earlier part of the run, or 0.
type Claim struct {
	Nonce string `json:"nonce"`
	Grant int64  `json:"grant,omitzero"`
}

// Grant is the answer to a [Claim].
type Grant struct {
	State State `json:"state"`
	// Grant numbers the claims that were granted for the job: a higher one ends this.
	Grant  int64  `json:"grant,omitzero"`
	Ticket string `json:"ticket,omitzero"` // for the job's request, candidate and value
	// Relay is the ticket of the agent's way to its provider, "" if it has none.
	Relay string `json:"relay,omitzero"`
	// Request is an encoded [Request], and Candidate the content of the one that it names.
	// If they are not here, the ticket reads them.
	Request   jsontext.Value `json:"request,omitzero"`
	Candidate []byte         `json:"candidate,omitzero"`
}

// Held is a job that a worker has.
type Held struct {
	ID    string `json:"id"`
	Nonce string `json:"nonce"`
	Grant int64  `json:"grant"`
}

// Beat says what a worker has.
type Beat struct {
	Jobs     []Held `json:"jobs"`
	Draining bool   `json:"draining,omitzero"` // it takes no more
	Leaving  bool   `json:"leaving,omitzero"`  // it has no more
	// Lost says, of a worker that leaves, that its process has ended, and that what it does
	// not have any more is lost. Otherwise it returns that.
	Lost bool `json:"lost,omitzero"`
	// Dry are roles of which the worker's pool has no job. Jobs is empty then.
	Dry []Role `json:"dry,omitzero"`
	// Pulls is how long it took to pull images, since the last beat that was answered.
	Pulls []int64 `json:"pulls_ms,omitzero"`
}

// MostPulls bounds [Beat.Pulls].
const MostPulls = 64

// Pulse is the answer to a [Beat].
type Pulse struct {
	Jobs  map[string]State `json:"jobs,omitzero"`
	Done  bool             `json:"done,omitzero"`  // the run has finished
	Ended bool             `json:"ended,omitzero"` // this part of the run has, and may be resumed
	Drain bool             `json:"drain,omitzero"` // finish what you have and leave
	// Home are other pools for the worker, by role, that have jobs.
	Home map[Role]int `json:"home,omitzero"`
	// Hello says that this part of the run does not know the worker, which has to
	// introduce itself again.
	Hello bool `json:"hello,omitzero"`
}

// Result is what came of a job. A large value is put over HTTPS before, and its digest
// is here.
type Result struct {
	Nonce string         `json:"nonce"`
	Grant int64          `json:"grant"`
	Value jsontext.Value `json:"value,omitzero"` // an encoded [Outcome]
	Put   string         `json:"put,omitzero"`
}

// Answer is the answer to a [Result].
type Answer struct {
	State State  `json:"state"`
	Why   string `json:"why,omitzero"`
}

// Request is a call that a worker makes; one of the fields is set.
type Request struct {
	Produce  *agent.Request        `json:"produce,omitzero"`
	Verify   *attempt.Verification `json:"verify,omitzero"`
	Complete *family.Case          `json:"complete,omitzero"` // of a row whose reference is only a part
}

// Outcome is what a call returned; one of the fields is set.
type Outcome struct {
	Produced  *attempt.Produced `json:"produced,omitzero"`
	Verdict   *family.Verdict   `json:"verdict,omitzero"`
	Completed *Completed        `json:"completed,omitzero"`
	Failed    *attempt.Error    `json:"failed,omitzero"`
}

// Completed is a row's whole reference, if the row has one.
type Completed struct {
	Found     bool                `json:"found"`
	Candidate candidate.Candidate `json:"candidate"`
	Data      []byte              `json:"data,omitzero"`
}
