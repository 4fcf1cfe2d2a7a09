package dockertest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/client"
)

// Container finds the container of a run and a role in which a command line contains
// some words, and returns its id: "" if there is none yet.
func Container(ctx context.Context, run, role, words string) (string, error) {
	api, err := client.New(client.FromEnv)
	if err != nil {
		return "", fmt.Errorf("connecting to the engine: %w", err)
	}
	defer api.Close()
	list, err := api.ContainerList(ctx, client.ContainerListOptions{Filters: client.Filters{}.
		Add("label", "securebench.run="+run).Add("label", "securebench.role="+role)})
	if err != nil {
		return "", fmt.Errorf("listing containers: %w", err)
	}
	for _, found := range list.Items {
		top, err := api.ContainerTop(ctx, found.ID, client.ContainerTopOptions{})
		if err != nil {
			continue // it has not started, or has ended
		}
		if slices.ContainsFunc(top.Processes, func(p []string) bool { return strings.Contains(strings.Join(p, " "), words) }) {
			return found.ID, nil
		}
	}
	return "", nil
}

// Kill kills a container from outside.
func Kill(ctx context.Context, id string) error {
	api, err := client.New(client.FromEnv)
	if err != nil {
		return fmt.Errorf("connecting to the engine: %w", err)
	}
	defer api.Close()
	_, err = api.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "KILL"})
	return err
}
