package terminaltask

import (
	"strings"
	"testing"

	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// TestCanariesLookLikeTests: tests run in the workspace, and nothing about their
// files tells canaries from them but names and content. They come in the order of
// their names, so no date tells more than these.
func TestCanariesLookLikeTests(t *testing.T) {
	t.Parallel()
	const look = `import os, pathlib


def test_alike():
    files = sorted(pathlib.Path(__file__).parent.glob('test_*.py'))
    assert os.getcwd() == '/app' and len(files) == 7
    assert len({(s.st_mode, s.st_uid, s.st_gid) for s in (f.stat() for f in files)}) == 1
    assert files == sorted(files, key=lambda f: (f.stat().st_mtime_ns, f.stat().st_ctime_ns, f))
    assert all('def test_alike(' in f.read_text() for f in files)
`
	b := newBench(t, map[string]string{"t/test_look.py": look, "test_look.py": look})
	b.image = enginetest.GitImage(t, b.engine)
	for _, path := range []string{"t/test_look.py", "test_look.py", "t"} {
		got := b.score(t, object{"checker": object{"source": "pytest", "path": path}}, app(), nil)
		expect(t, path, got, verdict.Passed, "")
	}
}

// TestPytestOfTheCandidate: tests do not run with a pytest that the candidate can
// change. That is the row's fault, and a captured folder without it is fine.
func TestPytestOfTheCandidate(t *testing.T) {
	t.Parallel()
	b := newBench(t, packFiles())
	b.image = enginetest.Script(t, b.engine, enginetest.GitImage(t, b.engine), `mkdir -p /srv/lib /srv/data
mv /usr/lib/python3/dist-packages/pytest /srv/lib; echo /srv/lib > /usr/lib/python3/dist-packages/srv.pth`)
	changes := map[string]change{"srv/lib/pytest/__init__.py": file("import os\nos._exit(0)\n")}
	checker := object{"source": "pytest", "path": "t/test_answer.py"}
	got := b.score(t, object{"checker": checker, "capture": object{"roots": []string{"/srv", "/app"}}}, app(), changes)
	expect(t, "it can be changed", got, verdict.Pending, verdict.PackFault)
	if !strings.Contains(got.Message, "/srv/lib/pytest/__init__.py") {
		t.Errorf("the message does not name the file: %q", got.Message)
	}
	for name, capture := range map[string]object{
		"it is left out":     {"roots": []string{"/srv", "/app"}, "exclude": []string{"/srv/lib"}},
		"it is not in it":    {"roots": []string{"/srv/data", "/app"}},
		"the workspace only": {"roots": []string{"/app"}},
	} {
		expect(t, name, b.score(t, object{"checker": checker, "capture": capture}, app(), answer()), verdict.Passed, "")
		expect(t, name+", wrong", b.score(t, object{"checker": checker, "capture": capture}, app(), changes), verdict.Failed, verdict.TestsFailed)
	}
}
