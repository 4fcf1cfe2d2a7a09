package docker

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
)

// resolveHost finds the engine as the docker command would, and refuses what
// it cannot reach. An empty result is the platform's default.
func resolveHost(host string, getenv func(string) string, readFile func(string) ([]byte, error)) (string, error) {
	if host == "" {
		host = getenv("DOCKER_HOST")
	}
	if host == "" {
		if c := dockerContext(getenv, readFile); c != "" && c != "default" {
			return "", fmt.Errorf("the Docker context %q is not supported: set DOCKER_HOST to a unix:// or tcp:// address", c)
		}
		return "", nil
	}
	scheme, _, ok := strings.Cut(host, "://")
	if !ok || scheme != "unix" && scheme != "tcp" {
		return "", fmt.Errorf("the engine address %q is not supported: use a unix:// or tcp:// address", host)
	}
	return host, nil
}

// dockerContext returns the name of the context that the docker command would
// use when DOCKER_HOST is not set, "" if none is selected.
func dockerContext(getenv func(string) string, readFile func(string) ([]byte, error)) string {
	if c := getenv("DOCKER_CONTEXT"); c != "" {
		return c
	}
	dir := getenv("DOCKER_CONFIG")
	if dir == "" {
		dir = filepath.Join(getenv("HOME"), ".docker")
	}
	b, err := readFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return ""
	}
	var cfg struct {
		CurrentContext string `json:"currentContext"`
	}
	// The docker command could not read a broken file either.
	if err := json.Unmarshal(b, &cfg); err != nil {
		return ""
	}
	return cfg.CurrentContext
}
