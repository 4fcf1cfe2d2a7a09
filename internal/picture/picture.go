// Package picture reads what the first bytes of a picture say: its type and size, and
// the texts that it carries beside its pixels. Pictures come from packs, which others
// made: everything here is bounded, and no pixel is ever decoded.
package picture

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The types that are known, as media types.
const (
	PNG  = "image/png"
	JPEG = "image/jpeg"
	WebP = "image/webp"
	GIF  = "image/gif"
	PDF  = "application/pdf"
)

// What pictures may declare. A few bytes can declare any size, and whoever decodes them
// pays for it.
const (
	MaxSide   = 32_768     // pixels
	MaxPixels = 64_000_000 // of all
)

// Reasons why a file is refused.
var (
	ErrType   = errors.New("is none of PNG, JPEG, WebP, GIF and PDF")
	ErrSize   = fmt.Errorf("declares more than %d megapixels, or more than %d on a side", MaxPixels/1_000_000, MaxSide)
	ErrSizes  = errors.New("declares two sizes that differ")
	ErrBroken = errors.New("is broken: its header cannot be read")
)

// Info is what a file says of itself.
type Info struct {
	Type          string
	Width, Height int // 0 of a document
	// OneColour says that its palette has one colour, so that it shows nothing.
	OneColour bool
	// Texts are what it says beside its pixels, in the order of the file, as bytes of any
	// encoding; only [Read] finds them.
	Texts [][]byte
}

// The bounds of what is read.
const (
	maxRead   = 64 << 20 // bytes of a file
	maxParts  = 1 << 16  // chunks, segments and blocks
	maxTexts  = 256 << 10
	maxHeader = 32
)

// Size reads the type and the size of a picture and nothing that comes after them.
func Size(r io.Reader) (Info, error) { return read(r, false) }

// Read also finds the texts that a picture carries.
func Read(r io.Reader) (Info, error) { return read(r, true) }

func read(r io.Reader, whole bool) (Info, error) {
	s := &scanner{in: bufio.NewReader(io.LimitReader(r, maxRead)), whole: whole}
	head, err := s.in.Peek(maxHeader)
	if err != nil && !errors.Is(err, io.EOF) {
		return Info{}, fmt.Errorf("reading a picture: %w", err)
	}
	scan := s.format(head)
	if scan == nil {
		return Info{}, ErrType
	}
	scan()
	switch {
	case s.err != nil && !errors.Is(s.err, io.EOF) && !errors.Is(s.err, io.ErrUnexpectedEOF):
		return Info{}, fmt.Errorf("reading a picture: %w", s.err)
	case s.Type == PDF:
		return s.Info, nil
	case s.differ:
		return Info{}, ErrSizes
	case s.Width <= 0 || s.Height <= 0:
		return Info{}, ErrBroken
	case s.Width > MaxSide || s.Height > MaxSide || s.Width*s.Height > MaxPixels:
		return Info{}, ErrSize
	}
	return s.Info, nil
}

// A scanner walks through the parts of a file. After an error it reads nothing more, and
// what it has found counts.
type scanner struct {
	Info
	in    *bufio.Reader
	whole bool // texts are wanted, too
	kept  int  // bytes of texts
	// differ says that sizes are declared that must be the same and are not.
	differ bool
	err    error
}

// format returns what reads a file with this beginning, nil for an unknown one.
func (s *scanner) format(head []byte) func() {
	for _, f := range []struct {
		begins, at8 string
		media       string
		scan        func()
	}{
		{"\x89PNG\r\n\x1a\n", "", PNG, s.png},
		{"\xff\xd8\xff", "", JPEG, s.jpeg},
		{"RIFF", "WEBP", WebP, s.webp},
		{"GIF87a", "", GIF, s.gif},
		{"GIF89a", "", GIF, s.gif},
		{"%PDF-", "", PDF, func() {}},
	} {
		if bytes.HasPrefix(head, []byte(f.begins)) && (f.at8 == "" || len(head) >= 12 && bytes.HasPrefix(head[8:], []byte(f.at8))) {
			s.Type = f.media
			return f.scan
		}
	}
	return nil
}

// done reports whether nothing more is to be read.
func (s *scanner) done() bool { return s.err != nil || !s.whole && s.Width > 0 }

// take reads the next n bytes; it returns zeros after an error.
func (s *scanner) take(n int) []byte {
	b := make([]byte, n)
	if s.err == nil {
		_, s.err = io.ReadFull(s.in, b)
	}
	return b
}

// skip leaves out n bytes.
func (s *scanner) skip(n int) {
	if s.err == nil && n > 0 {
		_, s.err = s.in.Discard(n)
	}
}

// text keeps a part of n bytes as a text, as far as there is room for it.
func (s *scanner) text(n int) {
	if !s.whole {
		s.skip(n)
		return
	}
	some := min(n, maxTexts-s.kept)
	if b := s.take(some); s.err == nil && some > 0 {
		s.Texts, s.kept = append(s.Texts, b), s.kept+some
	}
	s.skip(n - some)
}

// size keeps the first size that a file declares, and of several parts the largest.
func (s *scanner) size(width, height uint32) {
	const most = 1 << 24 // far beyond what is accepted, so that products fit
	width, height = min(width, most), min(height, most)
	if int64(width)*int64(height) > int64(s.Width)*int64(s.Height) || s.Width == 0 {
		s.Width, s.Height = int(width), int(height)
	}
}

// png walks through the chunks of a PNG.
func (s *scanner) png() {
	s.skip(8)
	for range maxParts {
		if s.done() {
			return
		}
		h := s.take(8)
		n, kind := binary.BigEndian.Uint32(h), string(h[4:])
		if s.err != nil || n > 1<<31-1 {
			return
		}
		left := int(n)
		switch {
		case kind == "IHDR" && left >= 8:
			b := s.take(8)
			s.size(binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]))
			s.skip(left - 8)
		case kind == "PLTE":
			s.OneColour = left == 3
			s.skip(left)
		case kind == "tEXt" || kind == "zTXt" || kind == "iTXt" || kind == "eXIf":
			s.text(left)
		case kind == "IEND":
			return
		default:
			s.skip(left)
		}
		s.skip(4) // the checksum
	}
}

// jpeg walks through the segments of a JPEG, as far as its pixels.
func (s *scanner) jpeg() {
	s.skip(2)
	for range maxParts {
		if s.done() {
			return
		}
		b := s.take(2)
		marker := b[1]
		if s.err != nil || b[0] != 0xff {
			return
		}
		for marker == 0xff { // it may be filled up
			marker = s.take(1)[0]
		}
		switch {
		case marker == 0xda || marker == 0xd9: // pixels, or the end
			return
		case marker == 0x01 || marker >= 0xd0 && marker <= 0xd7:
			continue
		}
		n := int(binary.BigEndian.Uint16(s.take(2))) - 2
		if s.err != nil || n < 0 {
			return
		}
		switch {
		case marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc && n >= 5:
			f := s.take(5)
			s.size(uint32(binary.BigEndian.Uint16(f[3:])), uint32(binary.BigEndian.Uint16(f[1:])))
			s.skip(n - 5)
		case marker == 0xfe || marker == 0xe1 || marker == 0xed: // a comment, EXIF or XMP, IPTC
			s.text(n)
		default:
			s.skip(n)
		}
	}
}

// webp walks through the chunks of a WebP. One that begins with its canvas has a picture of
// the same size behind it, or frames.
func (s *scanner) webp() {
	s.skip(12)
	drawn := false // a picture or a frame was seen
	for range maxParts {
		if s.err != nil || drawn && !s.whole {
			return
		}
		h := s.take(8)
		n, kind := binary.LittleEndian.Uint32(h[4:]), string(h[:4])
		if s.err != nil || n > 1<<31-2 {
			return
		}
		left := int(n)
		const most, frame = 10, 12
		switch {
		case kind == "EXIF" || kind == "XMP ":
			s.text(left)
			left = 0
		case (kind == "VP8 " || kind == "VP8L" || kind == "VP8X") && left >= most:
			s.canvas(kind, s.take(most))
			left -= most
			drawn = drawn || kind != "VP8X"
		case kind == "ANMF" && left >= frame:
			b := s.take(frame)
			s.size(wide(b[6:])+1, wide(b[9:])+1)
			left -= frame
			drawn = true
		}
		s.skip(left + int(n&1))
	}
}

// canvas reads the size in the first ten bytes of a chunk of a WebP.
func (s *scanner) canvas(kind string, b []byte) {
	var width, height uint32
	switch {
	case kind == "VP8X":
		width, height = wide(b[4:])+1, wide(b[7:])+1
	case kind == "VP8L" && b[0] == 0x2f:
		bits := binary.LittleEndian.Uint32(b[1:])
		width, height = bits&0x3fff+1, bits>>14&0x3fff+1
	case kind == "VP8 " && bytes.Equal(b[3:6], []byte{0x9d, 0x01, 0x2a}):
		width, height = uint32(binary.LittleEndian.Uint16(b[6:])&0x3fff), uint32(binary.LittleEndian.Uint16(b[8:])&0x3fff)
	default:
		return
	}
	s.differ = s.differ || s.Width > 0 && (int(width) != s.Width || int(height) != s.Height)
	s.size(width, height)
}

// wide reads a number of three bytes.
func wide(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }

// gif walks through the blocks of a GIF. A frame may be larger than what the file
// declares as a whole.
func (s *scanner) gif() {
	h := s.take(13)
	s.size(uint32(binary.LittleEndian.Uint16(h[6:])), uint32(binary.LittleEndian.Uint16(h[8:])))
	s.skip(colours(h[10]))
	for range maxParts {
		if s.err != nil {
			return
		}
		switch s.take(1)[0] {
		case 0x21:
			comment := s.take(1)[0] == 0xfe
			s.blocks(comment)
		case 0x2c:
			f := s.take(9)
			s.size(uint32(binary.LittleEndian.Uint16(f[4:])), uint32(binary.LittleEndian.Uint16(f[6:])))
			s.skip(colours(f[8]) + 1) // and the size of codes
			if !s.whole {
				return // of a moving picture the first frame counts
			}
			s.blocks(false)
		default:
			return
		}
	}
}

// colours is how many bytes a table of colours takes.
func colours(flags byte) int {
	if flags&0x80 == 0 {
		return 0
	}
	return 3 << (flags&7 + 1)
}

// blocks reads a sequence of small blocks, as one text if they are one.
func (s *scanner) blocks(text bool) {
	var all []byte
	for range maxParts {
		n := int(s.take(1)[0])
		if s.err != nil || n == 0 {
			break
		}
		if text && s.whole && s.kept+len(all)+n <= maxTexts {
			all = append(all, s.take(n)...)
			continue
		}
		s.skip(n)
	}
	if len(all) > 0 {
		s.Texts, s.kept = append(s.Texts, all), s.kept+len(all)
	}
}
