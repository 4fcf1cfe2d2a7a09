package docker

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResolveHost(t *testing.T) {
	cfg := func(s string) func(string) ([]byte, error) {
		return func(string) ([]byte, error) {
			if s == "" {
				return nil, fs.ErrNotExist
			}
			return []byte(s), nil
		}
	}
	for _, c := range []struct {
		name, host, env, ctx, config string
		want, err                    string
	}{
		{name: "nothing"},
		{name: "configured", host: "unix:///x", env: "tcp://y:1", want: "unix:///x"},
		{name: "environment", env: "tcp://y:1", ctx: "remote", want: "tcp://y:1"},
		{name: "ssh", env: "ssh://u@h", err: `"ssh://u@h" is not supported`},
		{name: "no scheme", host: "/var/run/docker.sock", err: "is not supported"},
		{name: "context variable", ctx: "remote", err: `Docker context "remote" is not supported`},
		{name: "default context", ctx: "default", config: `{"currentContext":"remote"}`},
		{name: "context file", config: `{"auths":{},"currentContext":"colima"}`, err: `"colima"`},
		{name: "no context in file", config: `{"auths":{}}`},
		{name: "broken file", config: `{`},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := map[string]string{"DOCKER_HOST": c.env, "DOCKER_CONTEXT": c.ctx, "HOME": "/home/u"}
			got, err := resolveHost(c.host, func(k string) string { return env[k] }, cfg(c.config))
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}

func TestOlderAPI(t *testing.T) {
	for v, want := range map[string]bool{"1.40": true, "1.41": false, "1.9": true, "1.100": false, "2.0": false,
		"": true, "1": true, "x.y": true, "1.4x": true} {
		if got := olderAPI(v, minAPI); got != want {
			t.Errorf("olderAPI(%q) = %v", v, got)
		}
	}
}

func TestLabelValue(t *testing.T) {
	for in, want := range map[string]string{"task/1": "task/1", "a\x00\n\"b\x1b": `a\x00\n\"b\x1b`, "ü": `\u00fc`,
		strings.Repeat("x", 5000): strings.Repeat("x", 256)} {
		if d := cmp.Diff(want, labelValue(in)); d != "" {
			t.Errorf("labelValue(%.20q) (-want +got):\n%s", in, d)
		}
	}
}
