package docker

import (
	"path/filepath"

	"github.com/go-json-experiment/json"
)

// dockerContext returns the name of the context that the docker command would
// use while DOCKER_HOST is not set, "" if none is chosen.
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
	// A file that the docker command could not read either chooses nothing.
	if err := json.Unmarshal(b, &cfg); err != nil {
		return ""
	}
	return cfg.CurrentContext
}
