package commit

import (
	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
	"securebench/internal/task"
)

// Binding binds the records of a run to its inputs: the digests that all of them
// share, and the salt that keys digests of hidden data.
type Binding struct {
	Salt     digest.Salt
	Pack     string // keyed
	Assets   string // keyed
	Config   string // plain
	Verifier string // plain
}

// Digests binds a record of t.
func (b Binding) Digests(t task.Task, image sandbox.Image) record.Digests {
	return record.Digests{
		Pack: b.Pack, Assets: b.Assets, Config: b.Config, Verifier: b.Verifier,
		Row: b.Salt.Keyed("row", t.ID(), t.Row()), Image: image.ID,
	}
}
