package docker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/system"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/platform"
)

// LetUserIn is what to do if the engine does not let this user in.
const LetUserIn = "let your user use it: sudo usermod -aG docker $USER, then log in again; or run securebench as root"

// Requirements says what the engine needs, whether it holds, and how to make it
// hold. It makes nothing, and waits for [Config.Patience] at the most.
func Requirements(ctx context.Context, cfg Config) []sandbox.Requirement {
	answers := sandbox.Requirement{Name: "a Docker engine that answers",
		Fix: "start Docker, set DOCKER_HOST, or install it: apt-get install docker.io"}
	conn, err := newConn(cfg)
	if err != nil {
		answers.Found = err.Error()
		return []sandbox.Requirement{answers}
	}
	defer func() { _ = conn.Close() }() // nothing was made
	in, err := conn.Connect(ctx, cfg.Patience)
	if err != nil {
		answers.Found = err.Error()
		if strings.Contains(answers.Found, "permission denied") {
			answers.Fix = LetUserIn
		}
		return []sandbox.Requirement{answers}
	}
	answers.Holds, answers.Fix = true, ""
	answers.Found = fmt.Sprintf("Docker %s, API %s, at %s", in.ServerVersion, conn.API.ClientVersion(), conn.API.DaemonHost())
	machine := platform.Machine{Own: platform.New(in.OSType, in.Architecture, "")}
	if conn.onThisMachine() {
		machine.Emulated = platform.ThisMachine().Emulated
	}
	return append([]sandbox.Requirement{answers, platform.Requirement(machine)}, offers(in, cfg.Runtime)...)
}

// offers judges what an engine says about itself.
func offers(in system.Info, runtime string) []sandbox.Requirement {
	name := cmp.Or(runtime, in.DefaultRuntime)
	_, has := in.Runtimes[name]
	out := []sandbox.Requirement{
		{Name: "the OCI runtime " + name, Holds: has || runtime == "", Found: absentUnless(has || runtime == ""),
			Fix: "add it to \"runtimes\" in the engine's daemon.json, or choose another sandbox.runtime"},
		{Name: "a limit on memory", Holds: in.MemoryLimit, Found: "cgroup version " + in.CgroupVersion,
			Fix: "boot with cgroup_enable=memory"},
		{Name: "a limit on swap", Optional: true, Holds: in.SwapLimit, Found: "cgroup version " + in.CgroupVersion,
			Fix: "boot with swapaccount=1, or without swap"},
		{Name: "a limit on processors", Holds: in.CPUCfsPeriod && in.CPUCfsQuota, Found: "cgroup version " + in.CgroupVersion,
			Fix: "use a kernel with CONFIG_CFS_BANDWIDTH"},
		{Name: "a limit on processes", Holds: in.PidsLimit, Found: "cgroup version " + in.CgroupVersion,
			Fix: "use a kernel with CONFIG_CGROUP_PIDS"},
		// runc ignores the limit of version 1 on the memory of sockets, and the settings of
		// a network namespace bound neither a datagram socket nor the number of sockets.
		{Name: "a limit on the memory of sockets", Optional: true, Holds: in.CgroupVersion != "1", Found: "cgroup version " + in.CgroupVersion,
			Fix: "boot with version 2 of control groups, or take the native engine"},
		option(in, "seccomp", "a filter of system calls", false, "use a kernel with CONFIG_SECCOMP_FILTER"),
		option(in, "userns", "users of their own", true, "set \"userns-remap\" in the engine's daemon.json"),
	}
	for i, r := range out {
		if r.Holds {
			out[i].Fix = ""
		}
	}
	return out
}

// option is a requirement that the engine lists among its security options.
func option(in system.Info, key, name string, optional bool, fix string) sandbox.Requirement {
	has := slices.ContainsFunc(in.SecurityOptions, func(s string) bool {
		first, _, _ := strings.Cut(s, ",") // "name=seccomp,profile=default"
		return first == "name="+key
	})
	return sandbox.Requirement{Name: name, Optional: optional, Holds: has, Found: absentUnless(has), Fix: fix}
}

func absentUnless(has bool) string {
	if has {
		return "there"
	}
	return "not there"
}
