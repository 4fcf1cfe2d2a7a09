// Package setup defines what a run asks of its agent before the agent exists:
// what the agent demands of rows and images, how it is prepared, and what the run
// records of it. The kinds of agents implement it, and the run knows none of
// them. It also opens the run's judge, which shares the journal and the accounts.
package setup

import (
	"context"
	"io"
	"net/http"

	"securebench/internal/agent"
	"securebench/internal/agent/events"
	"securebench/internal/agent/harness"
	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/gateway/egress"
	"securebench/internal/gateway/pace"
	"securebench/internal/gateway/relay"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/workload"
)

// Opener begins the setup of an agent: it reads what the operator has for the agent,
// before the pack is loaded. The caller closes the agent.
type Opener func(Around) (Agent, error)

// Agent is the agent of a run, as it is set up. Demands, Loaded, Prepare and Agent are
// called once each and in this order, as far as the run comes.
type Agent interface { //nolint:interfacebloat // the steps of one life
	// Demands returns what the agent asks of rows.
	Demands() workload.Demands
	// Loaded refuses what the agent cannot have with the pack that was loaded.
	Loaded(ctx context.Context, w *workload.Workload) error
	// Prepare prepares what the agent needs beyond its sandbox, such as programs and
	// the way to a provider, and sees that it can run.
	Prepare(ctx context.Context, on Ground) error
	// Agent returns what makes the candidates, nil if no row can be attempted.
	Agent(on Ground) (agent.Agent, error)
	// Facts may be asked for at any time.
	Facts() Facts
	// Close releases what the agent has. It is idempotent.
	Close() error
}

// Outside is what a run and its agents reach outside of the engine.
type Outside struct {
	// Transport makes the requests to providers; nil is the default.
	Transport http.RoundTripper
	// Paces are those of the providers, which agents, questions and the judge share; nil
	// lets each have its own.
	Paces *pace.Set
	// Proxy resolves and connects for the agents' proxy; its zero value asks the
	// system. The domains are the harness's.
	Proxy     egress.Config
	LookupEnv func(string) (string, bool)
	// Provider leads agents in sandboxes to their provider, whose key another process has;
	// nil if this one does.
	Provider func(task string, attempt int, o relay.Options) (produce.Provider, error)
	// Tree returns a file tree that another process has brought for agents in an image, by
	// its program; nil if this one brings them.
	Tree func(program string, image sandbox.Image) (sandbox.Overlay, error)
	// Model is what another process has found the alias of a model to mean, and Release
	// which version of the agent's program it has brought.
	Model, Release string
}

// Around is what a run has for an agent from the beginning.
type Around struct {
	Outside
	Config   *config.Tester
	Families family.Registry
	Shards   int              // into which the run is divided, and what it may use; 0 is not
	Resumes  bool             // the run goes on with an earlier part, if there is one
	Secrets  *redact.Registry // of the run, which an agent adds its own to
	// Warn reports what does not stop the run, and Notice what no progress mode
	// suppresses.
	Warn, Notice func(string)
}

// Getenv returns a variable of the environment or the env file, "" if there is none.
func (a Around) Getenv(name string) string {
	v, _ := a.LookupEnv(name)
	return v
}

// Ground is what a run has when its agent is prepared.
type Ground struct {
	*scoring.Scorer
	Work    *workload.Workload
	Workers int
	Dir     *record.Dir
	Answers *Answers
	Former  []record.Program // of the run that is resumed
	// Used is what agents used of their provider by the records of an earlier part.
	Used map[string]int64
}

// Asking is what is known of an agent's requests to its provider before the first one.
type Asking struct {
	// First returns how long the first request for a task is, and how many files it has.
	First func(task.AgentView) (bytes, files int)
	Once  bool // no other follows
	// MaxTokens is how long an answer may be, 0 if nobody says.
	MaxTokens int64
	Price     *harness.Price // nil if it is not known
	Most      harness.Budget // of an attempt
}

// Facts are what a run records of its agent, and how it treats it.
type Facts struct {
	Name     string         // the record's agent field
	Settings map[string]any // on which scores depend
	Labels   []string       // of all records
	Programs []record.Program
	Env      []string // variables of the operator's environment that it gets
	Model    string   // that its provider is asked for
	Cost     float64  // the most that an attempt may cost, in USD; 0 if nothing bounds it
	Total    harness.Budget
	// Connections is how many requests may be under way at its provider, 0 if nothing bounds
	// it. No more attempts take place at the same time, so that each can have one.
	Connections int
	Asking      *Asking // nil without a provider
	// Image is the image that the agent runs in instead of the rows', "" for none, and
	// ImageAt where it is named.
	Image   string
	ImageAt source.Pos
	Output  *events.Format // of its standard output
	// Workers is how many attempts take place at the same time, unless the operator
	// says so, and WorkersWhy the reason; 0 leaves it to the machine.
	Workers    int
	WorkersWhy string
	// BuiltIn says that candidates exist already: that many are missing says nothing
	// about the next.
	BuiltIn   bool
	Sandboxed bool // every attempt has a sandbox
	// Trees are what agents find in their sandboxes beside that, once they are prepared.
	Trees []Tree
	Users bool // the users that rows name have to be known
	// Spared says that it is not prepared where no attempt needs it any more.
	Spared bool
}

// Tree is a file tree that is mounted for agents, read-only.
type Tree struct {
	sandbox.OverlaySpec
	Program string   // whose it is; "" for the operator's own files
	Images  []string // IDs of those that it is for; nil is all
	// Write writes the tree as a tar archive, always with the same bytes.
	Write func(io.Writer) error
}
