package seccomp

// The families of sockets that stay within a sandbox: its own network has nothing
// but loopback. Others reach past it (AF_VSOCK the hypervisor, and all sandboxes of
// the host) or are a part of the kernel that no benchmark needs.
const (
	familyUnix    = 1
	familyINET    = 2
	familyINET6   = 10
	familyNetlink = 16
	familyBits    = 6 // of more than there are

	netlinkRoute = 0 // addresses and interfaces
	netlinkDiag  = 4 // for ss
	netlinkBits  = 5 // the kernel has 32
)

// muxCalls are the 32-bit x86 calls that carry others, whose arguments are in memory
// where no filter sees them. The calls that they carry are there by themselves
// too. Runtimes let the carriers through for each call that they carry, unless there
// is a rule about the carriers themselves.
const muxCalls = "socketcall ipc"

// socketRules let sockets of the families be made. What is refused looks as if the
// kernel did not have it, so that programs that try do without.
func socketRules() (rules []rule) {
	socket, both := []string{"socket"}, []string{"socket", "socketpair"}
	for _, family := range []uint32{familyUnix, familyINET, familyINET6} {
		rules = append(rules, rule{Names: both, Action: allow, Args: []condition{is(0, family)}})
	}
	rules = append(rules, each(refuse, errnoAFNOSUPPORT, socket, others(0, familyBits, familyUnix, familyINET, familyINET6, familyNetlink))...)
	for _, protocol := range []uint32{netlinkRoute, netlinkDiag} {
		rules = append(rules, rule{Names: socket, Action: allow, Args: []condition{is(0, familyNetlink), is(2, protocol)}})
	}
	for _, r := range each(refuse, errnoPROTONOSUPPORT, socket, others(2, netlinkBits, netlinkRoute, netlinkDiag)) {
		r.Args = append([]condition{is(0, familyNetlink)}, r.Args...)
		rules = append(rules, r)
	}
	return rules
}
