package families

import (
	"securebench/internal/family"
	"securebench/internal/task"
)

// Deferred describes the families that packs may contain but that have no verifier yet:
// their rows are accepted unchecked, their values get lanes, and their tasks stay
// pending. They are browser_task and desktop_task.
func Deferred() []family.Family {
	return []family.Family{
		declare("browser_task", map[string]task.Lane{
			"credentials":   task.EvaluationInputs,
			"success_check": task.Hidden,
		}),
		declare("desktop_task", map[string]task.Lane{"success_check": task.Hidden}),
	}
}

func declare(name string, lanes map[string]task.Lane) family.Family {
	return family.Family{Name: name, Lanes: lanes, VerifySeconds: 300}
}
