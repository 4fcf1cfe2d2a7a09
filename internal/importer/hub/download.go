package hub

import (
	"context"
	"crypto/sha1" //nolint:gosec // git names files by it; those that are large have SHA-256
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"os"
	"path"
	"strings"

	"securebench/internal/durable"
	"securebench/internal/registry"
	"securebench/internal/source"
)

// download is a file to fetch.
type download struct {
	at     *url.URL
	name   string
	size   int64  // 0 if it is not known
	sha256 string // of the content, "" if it is not known
	blob   string // its name in git, "" likewise
}

// pinned reports whether it is known what the file must be.
func (d download) pinned() bool { return d.sha256 != "" || d.blob != "" }

// key is the name of the file in the cache.
func (d download) key() string {
	sum := sha256.Sum256([]byte(d.at.String() + "\x00" + d.sha256 + "\x00" + d.blob))
	return hex.EncodeToString(sum[:16])
}

// fetch returns the path of a file in the cache, which it fetches unless it is there.
func (f *fetcher) fetch(ctx context.Context, d download) (string, error) {
	root, err := durable.OpenFolder(f.cache, 0o700)
	if err != nil {
		return "", fmt.Errorf("opening the folder for what is fetched: %w", err)
	}
	defer root.Close()
	at := path.Join(f.cache, d.key())
	lock, err := durable.WaitIn(ctx, root, d.key()+".lock")
	if err != nil {
		return "", fmt.Errorf("waiting for another process that fetches the same: %w", err)
	}
	defer lock.Close()
	if d.pinned() {
		if file, err := source.OpenIn(root, d.key(), os.O_RDONLY, 0); err == nil {
			err = errors.Join(d.check(file), file.Close())
			if err == nil {
				return at, nil
			}
		}
	}
	if d.size > 0 {
		f.Say("fetching %s (%.1f MB)", d.name, float64(d.size)/1e6)
	} else {
		f.Say("fetching %s", d.name)
	}
	return at, f.load(ctx, root, d)
}

// load fetches a file under the name of an unfinished one, in as many parts as it takes.
func (f *fetcher) load(ctx context.Context, root *os.Root, d download) error {
	temp := d.key() + ".part"
	part, err := source.OpenIn(root, temp, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("writing to the folder for what is fetched: %w", err)
	}
	defer part.Close()
	tag := ""
	if text, err := source.ReadFileIn(root, temp+".tag", 1<<10); err == nil {
		tag = string(text)
	}
	if !d.pinned() && tag == "" { // what is there may be of another state of the file
		if err := part.Truncate(0); err != nil {
			return err
		}
	}
	err = f.asked.Repeat(ctx, func() error {
		var err error
		tag, err = f.more(ctx, root, part, d, tag)
		return err
	})
	if err != nil {
		return err
	}
	if err := d.check(part); err != nil {
		_ = root.Remove(temp) // it would fail again
		return err
	}
	if err := errors.Join(part.Sync(), root.Rename(temp, d.key())); err != nil {
		return fmt.Errorf("writing to the folder for what is fetched: %w", err)
	}
	_ = root.Remove(temp + ".tag") // of a part that is no more
	return nil
}

// more asks for what a part lacks and adds it. It returns the tag of what it is a part of.
func (f *fetcher) more(ctx context.Context, root *os.Root, part *os.File, d download, tag string) (string, error) {
	have, err := part.Seek(0, io.SeekEnd)
	if err != nil {
		return tag, err
	}
	if d.size > 0 && have == d.size {
		return tag, nil
	}
	if d.size > 0 && have > d.size {
		have = 0
	}
	answer, err := f.asked.GetFrom(ctx, d.at, have, tag)
	if errors.Is(err, errPart) { // the file has become shorter
		return tag, errors.Join(fmt.Errorf("%w: %w", registry.ErrUnreachable, err), part.Truncate(0))
	}
	if err != nil {
		return tag, err
	}
	defer answer.Close()
	if answer.Start > have {
		return tag, fmt.Errorf("%w: it answered with another part than was asked for", registry.ErrUnreachable)
	}
	if err := part.Truncate(answer.Start); err != nil {
		return tag, err
	}
	if _, err := part.Seek(answer.Start, io.SeekStart); err != nil {
		return tag, err
	}
	if now := answer.Header.Get("ETag"); !d.pinned() && now != "" && !strings.HasPrefix(now, "W/") {
		if tag = now; durable.WriteFile(root, d.key()+".part.tag", []byte(tag), 0o600) != nil {
			tag = ""
		}
	}
	in := io.Reader(answer)
	if d.size > 0 { // more would be refused in the end
		in = io.LimitReader(answer, d.size-answer.Start+1)
	}
	n, err := io.Copy(part, in)
	if err == nil && answer.Length >= 0 && n < answer.Length && (d.size == 0 || answer.Start+n < d.size) {
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return tag, fmt.Errorf("%w: it stopped at byte %d", registry.ErrUnreachable, answer.Start+n)
	}
	return tag, err
}

// check compares a file with what is known of it.
func (d download) check(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if d.size > 0 && info.Size() != d.size {
		return fmt.Errorf("it has %d bytes, and the hub says %d (try again)", info.Size(), d.size)
	}
	var sum hash.Hash
	want := d.sha256
	switch {
	case d.sha256 != "":
		sum = sha256.New()
	case d.blob != "":
		sum, want = sha1.New(), d.blob //nolint:gosec // see above
		fmt.Fprintf(sum, "blob %d\x00", info.Size())
	default:
		return nil
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(sum, file); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return fmt.Errorf("it is not what was pinned: its digest is %s, and should be %s (try again; if it stays so, somebody has changed it)", got, want)
	}
	return nil
}
