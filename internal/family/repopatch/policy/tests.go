package policy

import (
	"path"
	"strings"

	"securebench/internal/repository"
)

// isTestFile reports whether a file is a test by the conventions of its
// language. name is folded; spelled is not.
func isTestFile(name, spelled string, atRoot bool) bool {
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	switch ext {
	case ".py":
		return strings.HasPrefix(stem, "test_") || hasSuffix(stem, "_test _tests") || stem == "tests" || stem == "test" && atRoot
	case ".go", ".exs", ".dart", ".rb", ".cc", ".cpp", ".c", ".rs":
		return hasSuffix(stem, "_test _spec _unittest") || ext != ".go" && strings.HasPrefix(stem, "test_")
	case ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".coffee":
		return hasSuffix(stem, ".test .spec .e2e") || stem == "test" && atRoot
	case ".snap":
		return true
	case ".java", ".kt", ".scala", ".cs", ".php", ".swift":
		// By letter case: Latest.java is no test.
		plain := strings.TrimSuffix(spelled, path.Ext(spelled))
		return hasSuffix(plain, "Test Tests TestCase Spec")
	}
	return false
}

// sourceRoots are the folders that Python puts on its path in usual layouts.
// What tests add themselves is not known here.
const sourceRoots = "src lib python"

// shadows reports whether a change adds a module that Python would import
// instead of its own or the test runner's of the same name. Only new files
// can: what the base has under such a name is the project itself.
func shadows(c repository.Change, parts []string) bool {
	if c.Before.Exists() {
		return false
	}
	if len(parts) > 1 && oneOf(parts[0], sourceRoots) {
		parts = parts[1:]
	}
	if len(parts) > 2 {
		return false
	}
	module, _, _ := strings.Cut(parts[0], ".")
	if !oneOf(module, runnerModules) && !oneOf(module, standardModules) && !oneOf(module, privateModules) && !hasPrefix(module, "pytest_ _pytest") {
		return false
	}
	name := parts[len(parts)-1]
	if len(parts) == 2 {
		// Only these make a folder come before an installed package.
		return hasPrefix(name, "__init__. __main__.")
	}
	return path.Ext(name) == ".py"
}

// runnerModules are what test runners consist of.
const runnerModules = "pytest _pytest py pluggy iniconfig exceptiongroup tomli xdist nose nose2 unittest2 mock coverage hypothesis " +
	"sitecustomize usercustomize pkg_resources setuptools pip " +
	"attr attrs packaging toml importlib_metadata zipp six wcwidth atomicwrites more_itertools colorama pygments execnet typing_extensions"

// standardModules are the modules of Python's standard library, of all
// versions from 3.6 on, that are not private.
const standardModules = "abc aifc antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb binascii binhex bisect " +
	"builtins bz2 calendar cgi cgitb chunk cmath cmd code codecs codeop collections colorsys compileall compression concurrent configparser " +
	"contextlib contextvars copy copyreg crypt csv ctypes curses dataclasses datetime dbm decimal difflib dis distutils doctest dummy_threading " +
	"email encodings ensurepip enum errno faulthandler fcntl filecmp fileinput fnmatch formatter fractions ftplib functools gc genericpath " +
	"getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib imaplib imghdr imp importlib inspect io ipaddress " +
	"itertools json keyword lib2to3 linecache locale logging lzma macpath mailbox mailcap marshal math mimetypes mmap modulefinder " +
	"multiprocessing netrc nis nntplib ntpath nturl2path numbers opcode operator optparse os ossaudiodev parser pathlib pdb pickle " +
	"pickletools pipes pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc " +
	"pyexpat queue quopri random re readline reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex shutil signal " +
	"site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat statistics string stringprep struct " +
	"subprocess sunau symbol symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile termios textwrap this threading time " +
	"timeit tkinter token tokenize tomllib trace traceback tracemalloc tty turtle turtledemo types typing unicodedata unittest urllib uu " +
	"uuid venv warnings wave weakref webbrowser wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zlib zoneinfo __future__"

// privateModules are those of the standard library's private modules that are
// files, so that one in the checkout would come first.
const privateModules = "_aix_support _bootlocale _bootsubprocess _collections_abc _colorize _compat_pickle _compression _markupbase " +
	"_opcode_metadata _osx_support _py_abc _pydatetime _pydecimal _pyio _pylong _pyrepl _sitebuiltins _strptime _threading_local _weakrefset " +
	"_asyncio _bisect _bz2 _contextvars _crypt _csv _ctypes _curses _datetime _dbm _decimal _elementtree _gdbm _hashlib _heapq _json _lzma " +
	"_lsprof _multiprocessing _opcode _pickle _posixshmem _posixsubprocess _queue _random _socket _sqlite3 _ssl _statistics _struct _uuid _zoneinfo"
