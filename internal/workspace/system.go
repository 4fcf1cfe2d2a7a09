package workspace

import (
	"path"
	"slices"
	"strings"

	"securebench/internal/pathname"
)

// settings are patterns of what below /etc a task may change although a checker
// runs in the same image: accounts, names of hosts, timed jobs and the
// configuration of services. All else there can change what programs of the
// checker load or run. What is below a folder that matches also counts.
// docs/trees.md repeats the list.
func settings() []string {
	return strings.Fields(`passwd passwd- group group- shadow shadow- gshadow gshadow- subuid subuid- subgid subgid-
		sudoers sudoers.d hosts hostname mailname aliases aliases.db motd issue timezone localtime
		crontab anacrontab cron.* at.allow at.deny
		default init.d rc?.d rc.local systemd/system supervisor inetd.conf xinetd.conf xinetd.d
		logrotate.conf logrotate.d rsyslog.conf rsyslog.d
		ssh/sshd_config ssh/sshd_config.d ssh/ssh_host_* ssh/moduli
		nginx apache2 httpd lighttpd haproxy caddy squid php/*/fpm uwsgi
		postfix exim4 dovecot opendkim opendkim.conf mailman3 bind dnsmasq.conf dnsmasq.d
		mysql mariadb postgresql postgresql-common redis mongod.conf memcached.conf rabbitmq
		samba exports vsftpd.conf proftpd ntp.conf chrony fail2ban monit`)
}

// EvaluatorDir is where a checker of terminal_task has its evaluation files. It is
// at the top, because a mount point cannot be renamed and a folder above one can, by
// whoever owns that.
const EvaluatorDir = "/securebench-evaluator"

// Reserved are the folders that no candidate contains anything of: they are the
// kernel's and securebench's own.
func Reserved() []string {
	return []string{"/proc", "/sys", "/dev", "/opt/securebench", "/.securebench", EvaluatorDir}
}

// Temporary are the folders whose files do not outlive a start of the system.
func Temporary() []string { return []string{"/tmp", "/run/lock"} }

// rootSettings are what programs look for in every folder above the files that they
// work on, and so at the root: there it would count for a checker's own files. No task
// of a system has them there. docs/trees.md repeats the list.
func rootSettings() []string {
	return strings.Fields(`conftest.py pytest.ini .pytest.ini pyproject.toml tox.ini setup.cfg setup.py
		node_modules package.json .npmrc .babelrc babel.config.js jest.config.js tsconfig.json .eslintrc
		Gemfile .rspec .bundle Rakefile Cargo.toml .cargo go.mod go.work .git .gitattributes .editorconfig`)
}

// programFolders are those of programs; the folders of libraries are all whose
// names begin with lib.
func programFolders() []string { return []string{"/bin", "/sbin", "/usr"} }

// Changeable reports whether an absolute path outside of the workspace is part
// of a candidate when a task captures the whole file system.
func Changeable(p string) bool {
	p = path.Clean(p)
	return p != "/" && !SystemPath(p) && !slices.Contains(rootSettings(), strings.SplitN(p, "/", 3)[1]) && !slices.ContainsFunc(slices.Concat(Reserved(), Temporary()), func(dir string) bool {
		return pathname.Within(p, dir)
	})
}

// SystemPath reports whether an absolute path is, or lies below, a folder of
// programs, of libraries, or of what tells the loader and interpreters which to
// use: what is there decides what a checker in the same image runs.
func SystemPath(p string) bool {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path.Clean(p), "/"), "/")
	switch {
	case first == "etc":
		return !isSetting(rest)
	case strings.HasPrefix(first, "lib"):
		return true
	}
	return slices.Contains(programFolders(), "/"+first)
}

// isSetting reports whether a path below /etc matches one of the patterns, or
// lies below one that does.
func isSetting(p string) bool {
	parts := strings.Split(p, "/")
	return slices.ContainsFunc(settings(), func(pattern string) bool {
		n := strings.Count(pattern, "/") + 1
		if len(parts) < n {
			return false
		}
		ok, _ := path.Match(pattern, strings.Join(parts[:n], "/")) // the patterns are well formed: a test says so
		return ok
	})
}
