package reader_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/artifact"
)

func encoded(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPixels: pictures of the same pixels are the same, however they were stored, and
// those that differ in one are not.
func TestPixels(t *testing.T) {
	const width, height = 300, 130
	plain, paletted := image.NewRGBA(image.Rect(0, 0, width, height)), image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.White, color.Black})
	faint := image.NewNRGBA(image.Rect(0, 0, width, height))
	sum := sha256.New()
	_ = binary.Write(sum, binary.BigEndian, []uint32{width, height})
	for y := range height {
		for x := range width {
			c := color.RGBA{255, 255, 255, 255}
			if (x/100+y/65)%2 == 1 {
				c = color.RGBA{0, 0, 0, 255}
			}
			plain.Set(x, y, c)
			paletted.Set(x, y, c)
			faint.SetNRGBA(x, y, color.NRGBA{200, 100, 50, uint8(x)})
			sum.Write([]byte{c.R, c.G, c.B, c.A})
		}
	}
	f, reason := read(t, encoded(t, plain), artifact.PNG)
	if reason != "" || f.Image.Width != width || f.Image.Height != height || f.Image.Pixels != hex.EncodeToString(sum.Sum(nil)) {
		t.Fatalf("%s, %+v", reason, f)
	}
	if s := f.Image.Small; len(s) != 256*256 || s[0] != 255 || s[150] != 0 || s[255] != 255 || s[255*256] != 0 || s[255*256+150] != 255 {
		t.Error("the small form is another picture")
	}
	if g, _ := read(t, encoded(t, paletted), artifact.PNG); !cmp.Equal(f.Image, g.Image) {
		t.Error("a palette makes it another picture")
	}
	plain.Set(7, 9, color.RGBA{255, 255, 254, 255})
	if g, _ := read(t, encoded(t, plain), artifact.PNG); f.Image.Pixels == g.Image.Pixels {
		t.Error("a pixel makes no difference")
	}
	a, _ := read(t, encoded(t, faint), artifact.PNG)
	faint.SetNRGBA(0, 0, color.NRGBA{201, 100, 50, 0})
	if b, _ := read(t, encoded(t, faint), artifact.PNG); a.Image.Pixels == b.Image.Pixels {
		t.Error("the colour of a transparent pixel is lost")
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, paletted, nil); err != nil {
		t.Fatal(err)
	}
	if g, reason := read(t, b.Bytes(), artifact.JPEG); reason != "" || g.Image.Width != width || g.Image.Small[150] > 5 {
		t.Errorf("JPEG: %s", reason)
	}
}

// npy returns an array as NumPy writes it.
func npy(descr, order, shape string, numbers any) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }", descr, order, shape)
	for (10+len(header)+1)%64 != 0 {
		header += " "
	}
	b := bytes.NewBufferString("\x93NUMPY\x01\x00")
	_ = binary.Write(b, binary.LittleEndian, uint16(len(header)+1))
	b.WriteString(header + "\n")
	_ = binary.Write(b, binary.LittleEndian, numbers)
	return b.Bytes()
}

func TestArray(t *testing.T) {
	for _, c := range []struct {
		data []byte
		want artifact.Array
	}{
		{npy("<f8", "False", "3,", []float64{1, -0.5, math.MaxFloat64}), artifact.Array{Shape: []int{3}, Values: []float64{1, -0.5, math.MaxFloat64}}},
		{npy("<i4", "False", "2, 2", []int32{1, 2, 3, -4}), artifact.Array{Shape: []int{2, 2}, Values: []float64{1, 2, 3, -4}}},
		{npy("<i4", "True", "2, 3", []int32{1, 4, 2, 5, 3, 6}), artifact.Array{Shape: []int{2, 3}, Values: []float64{1, 2, 3, 4, 5, 6}}},
		{npy(">i2", "False", "1,", []byte{1, 2}), artifact.Array{Shape: []int{1}, Values: []float64{258}}},
		{npy("|b1", "False", "2,", []byte{1, 0}), artifact.Array{Shape: []int{2}, Values: []float64{1, 0}}},
		{npy("<f2", "False", "5,", []uint16{0x3c00, 0xc000, 0x7bff, 1, 0xfc00}), artifact.Array{Shape: []int{5}, Values: []float64{1, -2, 65504, 5.960464477539063e-08, math.Inf(-1)}}},
		{npy("<f4", "False", "", []float32{1.5}), artifact.Array{Shape: []int{}, Values: []float64{1.5}}},
		{npy("<f8", "False", "0, 4", []float64{}), artifact.Array{Shape: []int{0, 4}, Values: []float64{}}},
	} {
		if f, reason := read(t, c.data, artifact.NPY); reason != "" {
			t.Errorf("%q: %s", c.data[10:70], reason)
		} else if d := cmp.Diff(&c.want, f.Array); d != "" {
			t.Errorf("%q: %s", c.data[10:70], d)
		}
	}
}

// A member is a file that is put into an archive.
type member struct{ name, text string }

func zipped(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		part, err := w.Create(m.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write([]byte(m.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestZip(t *testing.T) {
	f, reason := read(t, zipped(t, member{"b/", ""}, member{"b/c.txt", "c"}, member{"a.zip", "PK"}, member{"ä", ""}), artifact.ZIP)
	sum := func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
	want := []artifact.Member{{Name: "a.zip", Bytes: 2, SHA256: sum("PK")}, {Name: "b/c.txt", Bytes: 1, SHA256: sum("c")}, {Name: "ä", SHA256: sum("")}}
	if reason != "" || !cmp.Equal(want, f.Members) {
		t.Errorf("%s, %+v", reason, f)
	}
	if f, reason := read(t, zipped(t), artifact.ZIP); reason != "" || len(f.Members) != 0 {
		t.Errorf("empty: %s, %+v", reason, f)
	}
}

// TestShown: a picture is shown small, on white, and without anything else that its file
// says.
func TestShown(t *testing.T) {
	m := image.NewNRGBA(image.Rect(0, 0, 3000, 1000))
	for y := range 1000 {
		for x := range 1500 {
			m.SetNRGBA(x, y, color.NRGBA{200, 20, 20, 255})
		}
	}
	const mark = "tEXtsaid beside the pixels"
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(mark)-4))
	chunk = binary.BigEndian.AppendUint32(append(chunk, mark...), crc32.ChecksumIEEE([]byte(mark)))
	f, reason := read(t, slices.Insert(encoded(t, m), 33, chunk...), artifact.PNG) // behind the header
	if reason != "" {
		t.Fatal(reason)
	}
	got, err := jpeg.Decode(bytes.NewReader(f.Image.Shown))
	if err != nil || got.Bounds() != image.Rect(0, 0, 1024, 341) || bytes.Contains(f.Image.Shown, []byte(mark)) {
		t.Fatalf("%v, %v", got.Bounds(), err)
	}
	for x, want := range map[int]color.RGBA{10: {200, 20, 20, 255}, 1000: {255, 255, 255, 255}} {
		at := color.RGBAModel.Convert(got.At(x, 170)).(color.RGBA)
		if near := func(a, b uint8) bool { return max(a, b)-min(a, b) < 8 }; !near(at.R, want.R) || !near(at.G, want.G) || !near(at.B, want.B) {
			t.Errorf("the pixel at %d is %v, want about %v", x, at, want)
		}
	}
	noise := image.NewNRGBA(image.Rect(0, 0, 1200, 1200))
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(noise.Pix)
	f, reason = read(t, encoded(t, noise), artifact.PNG)
	if reason != "" || len(f.Image.Shown) > artifact.MaxShown {
		t.Errorf("noise: %s, %d bytes", reason, len(f.Image.Shown))
	}
}
