package imageconfig_test

import (
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imageconfig"
)

func TestLookupUser(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\n\nagent:x:1000:1001::/home/agent:/bin/sh\n" +
		"agent:x:7:7::/:/bin/sh\nshort:x:5\nhuge:x:99999999999:1::/:\n1234:x:55:56::/:/bin/sh\nneg:x:-1:1::/:"
	const group = "root:x:0:\nwheel:x:10:root,agent\nbad:x\nworse:x:q:\n"
	for in, want := range map[string]sandbox.User{
		"root": {}, "agent": {UID: 1000, GID: 1001}, "1000": {UID: 1000, GID: 1001}, "42": {UID: 42},
		"agent:wheel": {UID: 1000, GID: 10}, "agent:10": {UID: 1000, GID: 10}, "agent:77": {UID: 1000, GID: 77},
		"agent:": {UID: 1000, GID: 1001}, "1234": {UID: 1234}, "42:wheel": {UID: 42, GID: 10},
	} {
		if got, err := imageconfig.LookupUser(in, []byte(passwd), []byte(group)); err != nil || got != want {
			t.Errorf("lookupUser(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"nobody", "short", "huge", "neg", "broken", "", ":", "agent:none", "agent:bad", "agent:worse", "agent:wheel:x", "-1", "2147483648"} {
		if got, err := imageconfig.LookupUser(in, []byte(passwd), []byte(group)); err == nil {
			t.Errorf("lookupUser(%q) = %v", in, got)
		}
	}
}

func FuzzLookupUser(f *testing.F) {
	f.Add("agent:wheel", []byte("agent:x:1000:1001::/home:/bin/sh\n"), []byte("wheel:x:10:\n"))
	f.Fuzz(func(t *testing.T, name string, passwd, group []byte) {
		u, err := imageconfig.LookupUser(name, passwd, group)
		if err == nil && (u.UID < 0 || u.GID < 0 || u.UID > 1<<31-1 || u.GID > 1<<31-1) {
			t.Errorf("lookupUser(%q) = %v", name, u)
		}
	})
}
