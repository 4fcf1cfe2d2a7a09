package repopatch

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
)

// TestDisturbedSandbox: a sandbox that somebody outside kills while the tests
// run gives no verdict.
func TestDisturbedSandbox(t *testing.T) {
	b := newBench(t, project(), "", "")
	b.v.resources.RunID = strings.ToLower(rand.Text())
	api, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	killed := make(chan error, 1)
	go func() { killed <- killWhenSlow(api, b.v.resources.RunID) }()
	slow := strings.Replace(mended, "@@ -1,5 +1,5 @@\n", "@@ -1,5 +1,7 @@\n+import time\n+time.sleep(30)\n", 1)
	got, err := b.try(t, b.row(t, nil), slow)
	if err := <-killed; err != nil {
		t.Error(err)
	}
	if !errors.Is(err, sandbox.ErrDisturbed) {
		t.Errorf("got %v and %s; want that it was disturbed", err, describe(got))
	}
}

// killWhenSlow kills the verifier's sandbox once the tests sleep in it.
func killWhenSlow(api *client.Client, run string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		res, err := api.ContainerList(ctx, client.ContainerListOptions{Filters: client.Filters{}.
			Add("label", "securebench.run="+run).Add("label", "securebench.role=verifier")})
		if err != nil {
			return err
		}
		for _, found := range res.Items {
			top, err := api.ContainerTop(ctx, found.ID, client.ContainerTopOptions{})
			if err != nil {
				continue // it has not started
			}
			for _, p := range top.Processes {
				if strings.Contains(strings.Join(p, " "), "pytest") {
					time.Sleep(time.Second)
					_, err := api.ContainerKill(ctx, found.ID, client.ContainerKillOptions{Signal: "KILL"})
					return err
				}
			}
		}
	}
	return errors.New("the tests did not begin to run")
}
