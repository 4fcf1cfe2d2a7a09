package picture

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"testing"
)

// drawn is a picture of two colours.
func drawn(w, h int) *image.Paletted {
	m := image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.White, color.Black})
	m.SetColorIndex(1, 1, 1)
	return m
}

func encoded(tb testing.TB, encode func(*bytes.Buffer) error) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := encode(&b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func pngOf(tb testing.TB, w, h int) []byte {
	return encoded(tb, func(b *bytes.Buffer) error { return png.Encode(b, drawn(w, h)) })
}

func jpegOf(tb testing.TB, w, h int) []byte {
	return encoded(tb, func(b *bytes.Buffer) error { return jpeg.Encode(b, drawn(w, h), nil) })
}

func gifOf(tb testing.TB, w, h int) []byte {
	return encoded(tb, func(b *bytes.Buffer) error { return gif.Encode(b, drawn(w, h), nil) })
}

// chunk is a chunk of a PNG.
func chunk(kind, data string) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	out = append(out, kind+data...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE([]byte(kind+data)))
}

// declaring is a PNG of a size, of which it has no pixel.
func declaring(w, h uint32) []byte {
	size := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
	return slices.Concat([]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", string(size)+"\x08\x02\x00\x00\x00"), chunk("IEND", ""))
}

// with adds a part to a PNG after its header.
func with(file, part []byte) []byte { return slices.Insert(slices.Clone(file), 33, part...) }

func webpOf(kind string, data []byte, more ...byte) []byte {
	body := slices.Concat([]byte("WEBP"+kind), binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data, more)
	return slices.Concat([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body)
}

func webpChunk(kind string, data []byte) []byte {
	return slices.Concat([]byte(kind), binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data)
}

func TestSize(t *testing.T) {
	t.Parallel()
	canvas, lossy := []byte{0, 0, 0, 0, 0x3f, 0x01, 0, 0xef, 0, 0}, []byte{0, 0, 0, 0x9d, 0x01, 0x2a, 0x40, 0x01, 0xf0, 0x00}
	for name, tt := range map[string]struct {
		file          []byte
		media         string
		width, height int
	}{
		"png":       {pngOf(t, 240, 180), PNG, 240, 180},
		"jpeg":      {jpegOf(t, 31, 7), JPEG, 31, 7},
		"gif":       {gifOf(t, 12, 34), GIF, 12, 34},
		"webp":      {webpOf("VP8 ", lossy), WebP, 320, 240},
		"lossless":  {webpOf("VP8L", []byte{0x2f, 0x3f, 0xc1, 0x3b, 0, 0, 0, 0, 0, 0}), WebP, 320, 240},
		"extended":  {webpOf("VP8X", canvas, webpChunk("VP8 ", lossy)...), WebP, 320, 240},
		"no pixels": {webpOf("VP8X", canvas), WebP, 320, 240},
		"moving":    {webpOf("VP8X", canvas, webpChunk("ANMF", []byte{0, 0, 0, 0, 0, 0, 9, 0, 0, 9, 0, 0, 1, 0, 0, 0})...), WebP, 320, 240},
		"pdf":       {[]byte("%PDF-1.7\n…"), PDF, 0, 0},
		"the limit": {declaring(8000, 8000), PNG, 8000, 8000},
	} {
		for _, read := range []func([]byte) (Info, error){
			func(b []byte) (Info, error) { return Size(bytes.NewReader(b)) },
			func(b []byte) (Info, error) { return Read(bytes.NewReader(b)) },
		} {
			got, err := read(tt.file)
			if err != nil || got.Type != tt.media || got.Width != tt.width || got.Height != tt.height {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	}
}

// TestRefused: what declares a size that nobody should decode is refused by its header,
// and so is what is no picture.
func TestRefused(t *testing.T) {
	t.Parallel()
	huge := declaring(40_000, 40_000)
	if weak, err := png.DecodeConfig(bytes.NewReader(huge)); err != nil || weak.Width != 40_000 {
		t.Fatalf("the standard library refuses the picture as well: %v", err)
	}
	for name, tt := range map[string]struct {
		file []byte
		want error
	}{
		"huge":            {huge, ErrSize},
		"wide":            {declaring(1<<31-1, 1), ErrSize},
		"overflowing":     {declaring(1<<32-1, 1<<32-1), ErrSize},
		"webp":            {webpOf("VP8X", []byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), ErrSize},
		"webp twice":      {webpOf("VP8X", []byte{0, 0, 0, 0, 9, 0, 0, 9, 0, 0}, webpChunk("VP8L", []byte{0x2f, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0})...), ErrSizes},
		"webp frame":      {webpOf("VP8X", []byte{0, 0, 0, 0, 9, 0, 0, 9, 0, 0}, webpChunk("ANMF", []byte{0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0})...), ErrSize},
		"nothing of it":   {declaring(0, 9), ErrBroken},
		"cut short":       {declaring(9, 9)[:20], ErrBroken},
		"jpeg of nothing": {[]byte("\xff\xd8\xff\xd9" + strings.Repeat("\x00", 32)), ErrBroken},
		"text":            {[]byte("no picture"), ErrType},
		"nothing":         {nil, ErrType},
		"svg":             {[]byte("<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>"), ErrType},
	} {
		if _, err := Size(bytes.NewReader(tt.file)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, not %v", name, err, tt.want)
		}
	}
}

// TestTexts: a picture's texts are found wherever its format has them.
func TestTexts(t *testing.T) {
	t.Parallel()
	const secret = "the answer is Paris"
	deflated := encoded(t, func(b *bytes.Buffer) error {
		z := zlib.NewWriter(b)
		_, err := z.Write([]byte(secret))
		return errors.Join(err, z.Close())
	})
	jpg, moving := jpegOf(t, 9, 9), gifOf(t, 9, 9)
	segment := func(marker byte, s string) []byte {
		return slices.Concat([]byte{0xff, marker}, binary.BigEndian.AppendUint16(nil, uint16(len(s)+2)), []byte(s))
	}
	wide := ""
	for _, r := range secret {
		wide += string(r) + "\x00"
	}
	for name, file := range map[string][]byte{
		"png text":       with(pngOf(t, 9, 9), chunk("tEXt", "Comment\x00"+secret)),
		"png compressed": with(pngOf(t, 9, 9), chunk("zTXt", "Comment\x00\x00"+string(deflated))),
		"png utf-8":      with(pngOf(t, 9, 9), chunk("iTXt", "Comment\x00\x00\x00\x00\x00"+secret)),
		"png at the end": slices.Concat(pngOf(t, 9, 9)[:len(pngOf(t, 9, 9))-12], chunk("tEXt", "a\x00"+secret), chunk("IEND", "")),
		"jpeg comment":   slices.Concat(jpg[:2], segment(0xfe, secret), jpg[2:]),
		"jpeg exif":      slices.Concat(jpg[:2], segment(0xe1, "Exif\x00\x00II*\x00\x08\x00\x00\x00"+wide), jpg[2:]),
		"webp exif":      webpOf("VP8X", []byte{0, 0, 0, 0, 9, 0, 0, 9, 0, 0}, slices.Concat([]byte("EXIF"), binary.LittleEndian.AppendUint32(nil, uint32(len(secret))), []byte(secret))...),
		"gif comment":    slices.Concat(moving[:len(moving)-1], []byte{0x21, 0xfe, byte(len(secret))}, []byte(secret), []byte{0, 0x3b}),
	} {
		got, err := Read(bytes.NewReader(file))
		if err != nil || !slices.ContainsFunc(got.Words(), func(s string) bool { return strings.Contains(s, secret) }) {
			t.Errorf("%s: %q, %v", name, got.Words(), err)
		}
		if plain, err := Size(bytes.NewReader(file)); err != nil || plain.Texts != nil {
			t.Errorf("%s: the header alone has %q, %v", name, plain.Texts, err)
		}
	}
}

// TestOneColour: a palette of one colour shows nothing.
func TestOneColour(t *testing.T) {
	t.Parallel()
	flat := image.NewPaletted(image.Rect(0, 0, 9, 9), color.Palette{color.White})
	got, err := Read(bytes.NewReader(encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, flat) })))
	if err != nil || !got.OneColour {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Read(bytes.NewReader(pngOf(t, 9, 9))); err != nil || got.OneColour {
		t.Errorf("of two colours: %+v, %v", got, err)
	}
}

// FuzzRead: whatever a file says, it is bounded, and a size that is accepted is within the
// limits.
func FuzzRead(f *testing.F) {
	for _, seed := range [][]byte{pngOf(f, 3, 3), jpegOf(f, 3, 3), gifOf(f, 3, 3), declaring(40_000, 40_000), webpOf("VP8L", []byte{0x2f, 1, 2, 3, 4, 5, 6, 7, 8, 9}),
		with(pngOf(f, 3, 3), chunk("zTXt", "a\x00\x00x\x9c")), []byte("%PDF-"), []byte("GIF89a")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		got, err := Read(bytes.NewReader(file))
		if err != nil {
			return
		}
		total := 0
		for _, s := range got.Texts {
			total += len(s)
		}
		if total > maxTexts || got.Type != PDF && (got.Width < 1 || got.Height < 1 || got.Width > MaxSide || got.Height > MaxSide || got.Width*got.Height > MaxPixels) {
			t.Errorf("%+v", got)
		}
		got.Words()
	})
}
