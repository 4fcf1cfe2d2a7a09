package registry

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"golang.org/x/net/http/httpproxy"

	"securebench/internal/redact"
	"securebench/internal/source"
)

// maxAuthorities bounds a file of certificates, in bytes.
const maxAuthorities = 16 << 20

// Trusting returns the settings of TLS with the authorities of a file, which a setting names;
// without a name they are those of the system.
func Trusting(name, setting string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if name == "" {
		return conf, nil
	}
	text, err := source.ReadFile(name, maxAuthorities)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates of %s: %w", setting, err)
	}
	conf.RootCAs = x509.NewCertPool()
	if !conf.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s, which %s names, holds no certificate in PEM form", redact.Escape(name), setting)
	}
	return conf, nil
}

// EnvironmentProxy returns the proxies that variables name, of which those in lower case
// come first.
func EnvironmentProxy(getenv func(string) string) httpproxy.Config {
	first := func(names ...string) string {
		for _, name := range names {
			if v := getenv(name); v != "" {
				return v
			}
		}
		return ""
	}
	return httpproxy.Config{HTTPProxy: first("http_proxy", "HTTP_PROXY"), HTTPSProxy: first("https_proxy", "HTTPS_PROXY"), NoProxy: first("no_proxy", "NO_PROXY")}
}
