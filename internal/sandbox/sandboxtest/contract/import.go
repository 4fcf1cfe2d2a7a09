package contract

import (
	"archive/tar"
	"context"
	"errors"
	"strings"
	"testing"

	"securebench/internal/sandbox"
)

// importImage makes an image of an archive and begins a workspace with it.
func (s *suite) importImage(t *testing.T) {
	e, ok := s.engine.(sandbox.Importer)
	if !ok {
		t.Skip("the engine imports no images")
	}
	hostile := sandbox.Labels{Run: `run" $HOME \ "x"="y`, Task: "a\nUSER root", Role: "suite"}
	link := file{tar.Header{Typeflag: tar.TypeSymlink, Name: "home/repo/link", Linkname: "/etc/passwd"}, ""}
	owned := plain("home/repo/run.sh", "#!/bin/sh", 0o755)
	top := dir("home/repo/", 0o751)
	for _, h := range []*tar.Header{&owned.Header, &top.Header, &link.Header} {
		h.Uid, h.Gid = folderOwner.UID, folderOwner.GID
	}
	img, err := e.Import(t.Context(), hostile, archive(t, dir("home/", 0o755), top, owned, link, plain("home/repo/sub/x", "hello", 0o644)))
	if err != nil {
		t.Fatalf("Import: %v", err)
	}
	t.Cleanup(func() { s.removeImage(t, e, img) })
	if again, err := s.engine.Image(t.Context(), img.ID); err != nil || again.ID != img.ID {
		t.Errorf("Image: got %+v and %v, want the image %s", again, err, img.ID)
	}
	w := s.make(t, sandbox.WorkspaceSpec{Labels: sandbox.Labels{Run: "suite"}, Owner: folderOwner,
		Disk: 16 << 20, From: &sandbox.ImageFolder{Image: img, Path: "/home/repo"}})
	diffTree(t, w, "run.sh", "0 755 run.sh #!/bin/sh")
	diffTree(t, w, "link", "2 777 link /etc/passwd")
	u, err := w.Usage(t.Context())
	if err != nil || u.Mode.Perm() != 0o751 || s.caps.Isolation && u.Root != folderOwner {
		t.Errorf("the root: got %v of %v and %v, want mode 0751 of %v", u.Mode, u.Root, err, folderOwner)
	}
	put(t, w, plain("new", "x", 0o644)) // the folder is its owner's
	if err := w.Remove(t.Context(), "run.sh", "link"); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if err := e.RemoveImage(t.Context(), s.caps.Image); err == nil {
		t.Error("RemoveImage removed an image that was not imported")
	}
	if bad, err := e.Import(t.Context(), sandbox.Labels{}, strings.NewReader("this is not an archive"+strings.Repeat("x", 1000))); err == nil {
		t.Errorf("Import of no archive: got %+v", bad)
	}
	cause := errors.New("the source broke")
	if bad, err := e.Import(t.Context(), sandbox.Labels{}, brokenReader{cause}); err == nil {
		t.Errorf("Import of a broken archive: got %+v", bad)
	}
}

// removeImage removes an image twice and looks whether it is gone.
func (s *suite) removeImage(t *testing.T, e sandbox.Importer, img sandbox.Image) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // it is removed in any case
	for range 2 {
		if err := e.RemoveImage(ctx, img); err != nil {
			t.Errorf("RemoveImage: %v", err)
		}
	}
	if _, err := s.engine.Image(context.Background(), img.ID); !errors.Is(err, sandbox.ErrImageMissing) {
		t.Errorf("the removed image: got %v, want ErrImageMissing", err)
	}
}
