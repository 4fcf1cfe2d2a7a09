package viewer

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"securebench/internal/gateway/ledger"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/transcript"
)

// Network is what the gateway decided about an agent's requests.
type Network struct {
	Note      string     `json:"note,omitzero"`
	Decisions []Decision `json:"decisions,omitzero"`
}

// Decision is one decision. Its texts are escaped.
type Decision struct {
	Gate     string `json:"gate"`
	Method   string `json:"method"`
	Target   string `json:"target"`
	Allowed  bool   `json:"allowed"`
	Reason   string `json:"reason,omitzero"`
	Address  string `json:"address,omitzero"`
	Status   int    `json:"status,omitzero"`
	Sent     int64  `json:"sent,omitzero"`
	Received int64  `json:"received,omitzero"`
	Began    string `json:"began"`
	TookMS   int64  `json:"took_ms"`
}

// networkFile ends the name of a file with the gateway's decisions.
const networkFile = "agent-network.jsonl"

// maxDecisions is how many decisions are shown.
const maxDecisions = 2000

// network reads the gateway's decisions, of all tries; nil where there are none or only
// the operator has them.
func network(l *record.Line, from transcript.Source) *Network {
	if from.FS == nil || from.Salt == nil {
		return nil
	}
	var n *Network
	left := int64(0)
	for _, f := range l.Restricted {
		if !strings.HasSuffix(path.Base(f.Path), networkFile) {
			continue
		}
		if n == nil {
			n = &Network{}
		}
		entries, more, err := decisions(l, f, from)
		if err != nil {
			n.Note = redact.Escape("they cannot be used: " + source.Words(err))
			return n
		}
		left += more
		for _, e := range entries {
			if len(n.Decisions) == maxDecisions {
				left++
				continue
			}
			n.Decisions = append(n.Decisions, decision(e))
		}
	}
	if left > 0 {
		n.Note = fmt.Sprintf("%d more are not shown", left)
	}
	return n
}

// decisions reads a file of decisions, if it is what the record says.
func decisions(l *record.Line, f record.RawFile, from transcript.Source) ([]ledger.Entry, int64, error) {
	if err := f.Check(from.FS, *from.Salt, l.TaskID); err != nil {
		return nil, 0, err
	}
	lines, err := fs.ReadFile(from.FS, f.Path)
	if err != nil {
		return nil, 0, err
	}
	return ledger.Read(lines)
}

func decision(e ledger.Entry) Decision {
	return Decision{Gate: redact.Escape(string(e.Gate)), Method: redact.Escape(e.Method), Target: redact.Escape(e.Target), Allowed: e.Allowed,
		Reason: redact.Escape(e.Reason), Address: redact.Escape(e.Address), Status: e.Status, Sent: e.Sent, Received: e.Received,
		Began: e.Began.UTC().Format("15:04:05.000"), TookMS: e.Took.Milliseconds()}
}
