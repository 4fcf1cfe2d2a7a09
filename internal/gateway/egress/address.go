package egress

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"
)

// domains are the hosts that may be reached.
type domains struct {
	exact []string
	below []string // each with a dot at its start
}

func newDomains(list []string) domains {
	var d domains
	for _, name := range list {
		if base, ok := strings.CutPrefix(name, "*"); ok {
			d.below = append(d.below, base)
		} else {
			d.exact = append(d.exact, name)
		}
	}
	return d
}

// allow reports whether a host in normal form may be reached. An exact name is
// that host's only. A pattern reaches no further than the owner of its base:
// a host below a public suffix that lies in between belongs to another owner.
func (d domains) allow(host string) bool {
	if d.names(host) {
		return true
	}
	return slices.ContainsFunc(d.below, func(base string) bool {
		return strings.HasSuffix(host, base) && len(host) > len(base) && sameOwner(host, base[1:])
	})
}

// names reports whether a host is there in full.
func (d domains) names(host string) bool { return slices.Contains(d.exact, host) }

// sameOwner reports whether two names have the same registrable domain.
func sameOwner(a, b string) bool {
	x, errX := publicsuffix.EffectiveTLDPlusOne(a)
	y, errY := publicsuffix.EffectiveTLDPlusOne(b)
	return errX == nil && errY == nil && x == y
}

// mirror reports whether a host may have private addresses at a port, which is its own or
// the usual one.
func (p *Proxy) mirror(host string, port, usual int) bool {
	return slices.ContainsFunc(p.cfg.Private, func(name string) bool {
		name, own, named := strings.Cut(name, ":")
		return name == host && (!named && port == usual || named && own == strconv.Itoa(port))
	})
}

const (
	// maxAddresses is how many addresses a host may have.
	maxAddresses = 256
	// maxDials is how many of them are tried.
	maxDials    = 4
	resolveTime = 30 * time.Second
	dialTime    = 30 * time.Second
)

// connect resolves a host once, refuses it if any of its addresses is not
// public, nor private where mirror says so, and connects to one of the addresses that it
// has checked.
func (p *Proxy) connect(ctx context.Context, host string, port int, mirror bool) (net.Conn, netip.AddrPort, *refusal) {
	addresses, r := p.lookUp(ctx, host, mirror)
	if r != nil {
		return nil, netip.AddrPort{}, r
	}
	for _, a := range addresses[:min(len(addresses), maxDials)] {
		address := netip.AddrPortFrom(a, uint16(port))
		dialContext, cancel := context.WithTimeout(ctx, dialTime)
		conn, err := p.cfg.Dial(dialContext, address)
		cancel()
		if err == nil {
			return conn, address, nil
		}
	}
	return nil, netip.AddrPort{}, failed("dial", "the host cannot be connected to")
}

// lookUp returns the addresses of a host, all of them public, or private if they may be.
func (p *Proxy) lookUp(ctx context.Context, host string, mirror bool) ([]netip.Addr, *refusal) {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	addresses, err := p.cfg.Resolve(ctx, host)
	if err != nil || len(addresses) == 0 || len(addresses) > maxAddresses {
		return nil, failed("resolve", "the host cannot be resolved")
	}
	return addresses, p.check(addresses, mirror)
}

// check refuses addresses that are neither public, nor private where they may be.
func (p *Proxy) check(addresses []netip.Addr, mirror bool) *refusal {
	mine, err := p.cfg.Own()
	if err != nil {
		return failed("resolve", "the addresses of this machine are unknown")
	}
	for _, a := range addresses {
		may := p.public(a) || mirror && private(a)
		if !may || slices.ContainsFunc(mine, func(m netip.Addr) bool { return m.Unmap().WithZone("") == a }) {
			return denied("address", "the host has an address that is not public")
		}
	}
	return nil
}

// public reports whether an address belongs to the public internet, to one host
// there, and is no IPv4 address in disguise.
func (p *Proxy) public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" || a.Is4In6() {
		return false
	}
	if a.Is6() {
		b := a.As16()
		isatap := b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe // RFC 5214
		if b[0]&0xe0 != 0x20 || isatap {
			return false // all that is global so far lies in 2000::/3
		}
	}
	return !slices.ContainsFunc(p.special, func(x netip.Prefix) bool { return x.Contains(a) })
}

// private reports whether an address is of a network of somebody's own: no loopback, none
// where clouds serve credentials, as those of the link, and no IPv4 address in disguise.
func private(a netip.Addr) bool {
	return a.IsPrivate() && a.Zone() == "" && !a.Is4In6() && !slices.Contains(credentials(), a.String())
}

// credentials are where Amazon's and Google's clouds serve credentials over IPv6.
func credentials() []string { return []string{"fd00:ec2::254", "fd20:ce::254"} }

// specialAddresses are those of the registries of special addresses of IANA,
// of 2000::/3 for IPv6.
func specialAddresses() []netip.Prefix {
	var out []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
		"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"168.63.129.16/32",           // services of a cloud's host machines, at a public address
		"2001::/23",                  // Teredo, benchmarks, identifiers
		"2001:db8::/32", "3fff::/20", // documentation
		"2002::/16", // 6to4
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// resolve asks the system. The dot at the end keeps it from trying the name
// below the machine's own domain.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	out, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host+".")
	for i := range out {
		out[i] = out[i].Unmap() // the library may return IPv4 addresses as mapped ones
	}
	return out, err
}

func dial(ctx context.Context, address netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address.String())
}

// own returns the addresses of the machine's interfaces.
func own() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out, nil
}
