package main

import (
	"securebench/internal/pipeline"
	"securebench/internal/steer"
)

// steered takes orders for the run in a directory, at its socket.
func steered(dir string, obey func(act string, workers int) (pipeline.ControlState, error)) (end func() error, err error) {
	s, err := steer.Listen(dir, func(o steer.Order) (steer.State, error) {
		is, err := obey(string(o.Act), o.Workers)
		return steer.State{Paused: is.Paused, Draining: is.Draining, Workers: is.Workers, Most: is.Most, Running: is.Running}, err
	})
	if err != nil {
		return nil, err
	}
	return s.Close, nil
}
