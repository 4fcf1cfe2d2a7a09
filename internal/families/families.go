// Package families lists the task families that this build knows.
package families

import (
	"securebench/internal/family"
	"securebench/internal/family/artifacttask"
	"securebench/internal/family/codecompletion"
	"securebench/internal/family/freeresponse"
	"securebench/internal/family/multimodalqa"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/preferencepair"
	"securebench/internal/family/repopatch"
	"securebench/internal/family/shortanswer"
	"securebench/internal/family/terminaltask"
	"securebench/internal/family/toolcall"
)

// All returns the registry of all families. A new family adds one line here.
func All() family.Registry {
	return family.NewRegistry(append(Deferred(),
		multiplechoice.Family(),
		shortanswer.Family(),
		freeresponse.Family(),
		codecompletion.Family(),
		repopatch.Family(),
		terminaltask.Family(),
		toolcall.Family(),
		artifacttask.Family(),
		multimodalqa.Family(),
		preferencepair.Family(),
	)...)
}
