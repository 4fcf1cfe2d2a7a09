package progress

import "securebench/internal/verdict"

// Event is something that happened during a run: one of the structs of this
// package. Its fields are what --progress json prints.
type Event interface {
	// Name is the event's name in JSON.
	Name() string
}

// RunStart is the beginning of a run.
type RunStart struct {
	RunID     string `json:"run_id"`
	OutputDir string `json:"output_dir"`
	Total     int    `json:"total"` // attempts, including those of an earlier session
	// Engine runs the sandboxes, and EngineChoice says why it was taken; "" if
	// none is needed.
	Engine       string `json:"engine,omitzero"`
	EngineChoice string `json:"engine_choice,omitzero"`
}

// Schedule is how many tasks run at the same time, and what they may write.
type Schedule struct {
	Workers int    `json:"workers"`
	Tasks   string `json:"tasks"`
	Disk    string `json:"disk"`
}

// Resume counts the attempts that an earlier session completed, and how they ended.
type Resume struct {
	Completed  int
	Counts     verdict.ByBasis[verdict.Counts]
	Remaining  int
	OutputPath string // the file of records
}

// TaskStart is the beginning of an attempt.
type TaskStart struct {
	Index   int    `json:"index"` // of the attempt in the run, from 1
	Total   int    `json:"total"` // attempts of the run
	TaskID  string `json:"task_id"`
	Attempt int    `json:"attempt"` // of the task, from 1
	Family  string `json:"family"`
}

// WorkerJoined is a worker on another machine that begins to serve the run, or answers
// again.
type WorkerJoined struct {
	Worker string `json:"worker"`
	Roles  string `json:"roles"`
}

// WorkerLeft is a worker that serves the run no longer. Lost is set if it was not told
// to leave, and Why says more.
type WorkerLeft struct {
	Worker string `json:"worker"`
	Lost   bool   `json:"lost"`
	Why    string `json:"why"`
}

// ProviderPace is how many requests may be under way at a provider from now on; 0 is no
// bound.
type ProviderPace struct {
	Provider   string `json:"provider"`
	Requests   int    `json:"max_requests"`
	Overloaded bool   `json:"overloaded"` // they are fewer, because it has too much to do
	Lowest     bool   `json:"-"`          // they were never so few
}

// ProducerStart is the start of an agent. Worker is "" in this process.
type ProducerStart struct {
	TaskID  string `json:"task_id"`
	Attempt int    `json:"attempt"`
	Worker  string `json:"worker,omitzero"`
}

// ProducerDone is the end of an agent. Without a candidate the kind is "none",
// and status and reason are set.
type ProducerDone struct {
	TaskID        string         `json:"task_id"`
	Attempt       int            `json:"attempt"`
	CandidateKind string         `json:"candidate_kind"`
	Status        verdict.Status `json:"status,omitzero"`
	Reason        verdict.Reason `json:"failure_reason,omitzero"`
	Worker        string         `json:"worker,omitzero"`
}

// VerifierStart is the start of a verification. Worker is "" in this process.
type VerifierStart struct {
	TaskID  string `json:"task_id"`
	Attempt int    `json:"attempt"`
	Worker  string `json:"worker,omitzero"`
}

// VerifierDone is a verdict. The phase is "" if the family has none.
type VerifierDone struct {
	TaskID  string
	Attempt int
	Status  verdict.Status
	Score   float64
	Phase   verdict.Phase
	Worker  string
}

// TaskDone is the end of an attempt, as its record says it. The score of a
// pending attempt is not shown.
type TaskDone struct {
	TaskID  string
	Attempt int
	Status  verdict.Status
	Score   float64
	Outcome verdict.Outcome
	Reason  verdict.Reason
	Basis   verdict.Basis
	Read    bool // a judge was to read the answer, which the row's rule does not find
	// Word is shown in place of the status and the score, for a verdict that is only
	// compared with another one; "" is for all others.
	Word string
	// Worker made the attempt's last call, "" if that was made in this process.
	Worker string
}

// SandboxCreate is the creation of a sandbox.
type SandboxCreate struct {
	TaskID   string `json:"task_id"`
	Attempt  int    `json:"attempt"`
	Kind     string `json:"kind"`
	Image    string `json:"image"`
	Network  string `json:"network"`
	ReadOnly bool   `json:"read_only"`
}

// SandboxCommand is the start of a command in a sandbox.
type SandboxCommand struct {
	TaskID  string   `json:"task_id"`
	Attempt int      `json:"attempt"`
	Kind    string   `json:"kind"`
	Image   string   `json:"image"`
	Workdir string   `json:"workdir"`
	Argv    []string `json:"command"`
}

// SandboxResult is the end of a command on the agent's side. Renderers show
// its output only if asked to.
type SandboxResult struct {
	TaskID         string
	Attempt        int
	Kind           string
	ExitCode       int
	Argv           []string
	Stdout, Stderr string
}

// AgentOutput is one line that an agent printed. Renderers show it only if
// asked to.
type AgentOutput struct {
	TaskID  string `json:"task_id"`
	Attempt int    `json:"attempt"`
	Stream  string `json:"stream"` // stdout or stderr
	Line    string `json:"line"`
}

// Warning is a problem that does not stop the run.
type Warning struct {
	Message string `json:"message"`
}

// Retry announces that an attempt is repeated after an infrastructure error.
type Retry struct {
	TaskID  string `json:"task_id"`
	Attempt int    `json:"attempt"`
	Retry   int    `json:"retry"` // from 1
	Limit   int    `json:"limit"`
	Message string `json:"message"`
}

// Infrastructure is the end of an attempt that infrastructure errors kept from
// a verdict.
type Infrastructure struct {
	TaskID  string `json:"task_id"`
	Attempt int    `json:"attempt"`
	Message string `json:"message"`
}

// Interrupted reports how to resume an interrupted run.
type Interrupted struct {
	ResumeCommand string `json:"resume_command"`
}

// Ending says, after the end of a run, what came of it and what to type next.
type Ending struct {
	Rates   []Rate        `json:"rates"`   // of each basis that the run has
	Reasons []ReasonCount `json:"reasons"` // why attempts did not pass, the most frequent first
	Next    string        `json:"next"`    // a command
}

// Rate is the share of passes, and the interval that it says something about.
type Rate struct {
	Basis    verdict.Basis `json:"basis"`
	Tasks    int           `json:"tasks"`
	Attempts int           `json:"attempts"`
	Passed   int           `json:"passed"`
	Rate     float64       `json:"rate"`
	Interval [2]float64    `json:"interval_95"`
}

// ReasonCount is how many attempts did not pass for one reason; for one without a reason
// that is the outcome.
type ReasonCount struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

// RunDone is the end of a run. Counts are of attempts.
type RunDone struct {
	RunID       string
	Status      string
	Total       int // records
	Counts      verdict.ByBasis[verdict.Counts]
	AgentErrors int             // agents that ended with an exit code other than 0
	Answers     verdict.Answers // what came of the requests to a model
	Output      string          // the file of records
	Failures    []Failure       // only the first [MaxFailures] are shown
}

// MaxFailures is how many failures are listed at the end of a run.
const MaxFailures = 10

// Failure is an attempt that did not pass.
type Failure struct {
	TaskID  string          `json:"task_id"`
	Attempt int             `json:"attempt"`
	Outcome verdict.Outcome `json:"outcome"`
	Reason  verdict.Reason  `json:"reason"`
}

// listed returns the failures to show, and how many others there are.
func (e RunDone) listed() (shown []Failure, others int) {
	shown = e.Failures[:min(len(e.Failures), MaxFailures)]
	others = e.Total - len(shown)
	for _, b := range verdict.Bases() {
		others -= e.Counts.Of(b).Passed
	}
	return shown, max(0, others)
}

// Name returns the event's name in JSON.
func (RunStart) Name() string { return "run_start" }

// Name returns the event's name in JSON.
func (Schedule) Name() string { return "schedule" }

// Name returns the event's name in JSON.
func (Resume) Name() string { return "resume" }

// Name returns the event's name in JSON.
func (TaskStart) Name() string { return "task_start" }

// Name returns the event's name in JSON.
func (WorkerJoined) Name() string { return "worker_joined" }

// Name returns the event's name in JSON.
func (WorkerLeft) Name() string { return "worker_left" }

// Name returns the event's name in JSON.
func (ProviderPace) Name() string { return "provider_pace" }

// Name returns the event's name in JSON.
func (ProducerStart) Name() string { return "producer_start" }

// Name returns the event's name in JSON.
func (ProducerDone) Name() string { return "producer_done" }

// Name returns the event's name in JSON.
func (VerifierStart) Name() string { return "verifier_start" }

// Name returns the event's name in JSON.
func (VerifierDone) Name() string { return "verifier_done" }

// Name returns the event's name in JSON.
func (TaskDone) Name() string { return "task_done" }

// Name returns the event's name in JSON.
func (SandboxCreate) Name() string { return "sandbox_create" }

// Name returns the event's name in JSON.
func (SandboxCommand) Name() string { return "sandbox_command" }

// Name returns the event's name in JSON.
func (SandboxResult) Name() string { return "sandbox_result" }

// Name returns the event's name in JSON.
func (AgentOutput) Name() string { return "agent_output" }

// Name returns the event's name in JSON.
func (Warning) Name() string { return "warning" }

// Name returns the event's name in JSON.
func (Retry) Name() string { return "retry" }

// Name returns the event's name in JSON.
func (Infrastructure) Name() string { return "infrastructure" }

// Name returns the event's name in JSON.
func (Interrupted) Name() string { return "interrupted" }

// Name returns the event's name in JSON.
func (Ending) Name() string { return "ending" }

// Name returns the event's name in JSON.
func (RunDone) Name() string { return "run_done" }
