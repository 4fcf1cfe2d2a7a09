package scoring

import (
	"context"
	"fmt"

	"securebench/internal/config"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/engines"
)

// Found is an engine that is there.
type Found struct {
	Name   string
	Engine sandbox.Engine
}

// OpenEngines opens every engine that is there, and removes nothing from it. why
// is called for each of the others. The caller closes them.
func OpenEngines(ctx context.Context, around Surroundings, why func(string)) ([]Found, error) {
	c, err := around.config(config.Default().Sandbox)
	if err != nil {
		return nil, err
	}
	var out []Found
	for _, name := range []string{engines.Native, engines.Docker} {
		c.Name = name
		e, err := engines.Open(ctx, c)
		if err != nil {
			why(fmt.Sprintf("the %s engine cannot be opened, so what it may keep stays: %v", name, err))
			continue
		}
		out = append(out, Found{name, e})
	}
	return out, nil
}
