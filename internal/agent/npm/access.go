package npm

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"securebench/internal/redact"
	"securebench/internal/registry"
	"securebench/internal/source"
)

// Registry returns the address of the registry of a package, which ends in a
// slash.
func (c *Config) Registry(name string) (u *url.URL, err error) {
	var v value
	if scope, _, ok := strings.Cut(name, "/"); ok {
		if v, err = c.get(scope + ":registry"); err != nil {
			return nil, err
		}
	}
	if v.text == "" {
		if v, err = c.get("registry"); err != nil {
			return nil, err
		}
	}
	if v.text == "" {
		v.text = defaultRegistry
	}
	u, err = url.Parse(strings.TrimSuffix(v.text, "/") + "/")
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%s: the registry must be an address such as %s", v.from, defaultRegistry)
	}
	if err := registry.CheckAddress(u); err != nil {
		return nil, fmt.Errorf("%s: %w", v.from, err)
	}
	return u, nil
}

// Authorization returns the header of a request that is made for a package, ""
// for none. Credentials belong to a host and a path, as in
// //HOST/PATH/:_authToken; those that name neither belong to the default
// registry.
func (c *Config) Authorization(u *url.URL, name string) (string, error) {
	if h, err := c.below(u); h != "" || err != nil {
		return h, err
	}
	own, err := c.Registry(name)
	if err != nil || own.Host != u.Host || own.Scheme != u.Scheme {
		return "", err
	}
	// What lies beside the registry's own path also gets its credentials.
	if h, err := c.below(own); h != "" || err != nil {
		return h, err
	}
	if main, err := c.Registry(""); err != nil || *main != *own {
		return "", err
	}
	return c.credentials("")
}

// below returns the credentials of the closest path that u is below.
func (c *Config) below(u *url.URL) (string, error) {
	for at := "//" + u.Host + u.EscapedPath(); len(at) > 2; at = up(at) {
		if h, err := c.credentials(at + ":"); h != "" || err != nil {
			return h, err
		}
	}
	return "", nil
}

// up removes the last part of a path, or the slash at its end.
func up(at string) string {
	if rest, ok := strings.CutSuffix(at, "/"); ok {
		return rest
	}
	return at[:strings.LastIndexByte(at, '/')+1]
}

func (c *Config) credentials(prefix string) (string, error) {
	var failed error
	read := func(key string) string {
		v, err := c.get(prefix + key)
		if err != nil {
			failed = err
		}
		return v.text
	}
	token, auth, user, password := read("_authToken"), read("_auth"), read("username"), read("_password")
	switch {
	case failed != nil:
		return "", failed
	case token != "":
		return checkHeader("Bearer " + token)
	case auth != "":
		return checkHeader("Basic " + auth)
	case user != "" && password != "":
		plain, err := base64.StdEncoding.DecodeString(password)
		if err != nil {
			return "", fmt.Errorf("the npm client's setting %s_password is not base64", redact.Escape(prefix))
		}
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+string(plain))), nil
	}
	return "", nil
}

// checkHeader refuses a credential that no header can carry. The error does not
// quote it.
func checkHeader(h string) (string, error) {
	for _, r := range h {
		if r < ' ' || r > '~' {
			return "", errors.New("a credential of the npm client's configuration contains a character that no header can carry")
		}
	}
	return h, nil
}

// TLS returns whose certificates are trusted: only those of the configured authorities,
// or those of the system. NODE_EXTRA_CA_CERTS adds to either. A project's file
// cannot name authorities: together with a proxy of its own, it would get the
// user's credentials.
func (c *Config) TLS() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	for _, key := range []string{"ca", "cafile"} {
		v, err := c.get(key)
		if err != nil {
			return nil, err
		}
		if v.project {
			return nil, fmt.Errorf("%s: a project's .npmrc cannot say whom to trust: move %s to your own .npmrc", v.from, key)
		}
	}
	ca, err := c.all("ca")
	if err != nil {
		return nil, err
	}
	for _, v := range ca {
		if v.text == "null" || v.text == "" {
			continue
		}
		if conf.RootCAs == nil {
			conf.RootCAs = x509.NewCertPool()
		}
		if !conf.RootCAs.AppendCertsFromPEM([]byte(strings.ReplaceAll(v.text, `\n`, "\n"))) {
			return nil, fmt.Errorf("%s: ca is not a certificate in PEM form", v.from)
		}
	}
	name, err := c.path("cafile", "", true)
	if err != nil {
		return nil, err
	}
	if name != "" && name != "null" {
		if conf.RootCAs == nil {
			conf.RootCAs = x509.NewCertPool()
		}
		if err := appendFile(conf.RootCAs, name); err != nil {
			return nil, fmt.Errorf("the npm client's cafile: %w", err)
		}
	}
	if extra := c.getenv("NODE_EXTRA_CA_CERTS"); extra != "" {
		if conf.RootCAs == nil {
			if conf.RootCAs, err = x509.SystemCertPool(); err != nil {
				return nil, fmt.Errorf("reading the system's certificates: %w", err)
			}
		}
		if err := appendFile(conf.RootCAs, extra); err != nil {
			return nil, fmt.Errorf("NODE_EXTRA_CA_CERTS: %w", err)
		}
	}
	return conf, nil
}

func appendFile(pool *x509.CertPool, name string) error {
	text, err := source.ReadFile(name, 16<<20)
	if err != nil {
		return err
	}
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s holds no certificate in PEM form", redact.Escape(name))
	}
	return nil
}

// Proxy returns the function that chooses the proxy of a request, nil for none.
// This machine is always reached directly.
func (c *Config) Proxy() (func(*url.URL) (*url.URL, error), error) {
	first := func(key string, names ...string) (string, error) {
		v, err := c.get(key)
		if err != nil || v.text != "" && v.text != "null" {
			if v.text == "false" {
				return "", nil
			}
			return v.text, err
		}
		for _, name := range names {
			if text := c.getenv(name); text != "" {
				return text, nil
			}
		}
		return "", nil
	}
	plain, err := first("proxy", "HTTP_PROXY", "http_proxy")
	if err != nil {
		return nil, err
	}
	configured, err := first("proxy")
	if err != nil {
		return nil, err
	}
	https, err := first("https-proxy")
	if err != nil {
		return nil, err
	}
	if https == "" {
		https = configured
	}
	if https == "" {
		https, _ = first("https-proxy", "HTTPS_PROXY", "https_proxy")
	}
	none, err := first("noproxy", "NO_PROXY", "no_proxy")
	if err != nil {
		return nil, err
	}
	conf := httpproxy.Config{HTTPProxy: plain, HTTPSProxy: https, NoProxy: none}
	return conf.ProxyFunc(), nil
}
