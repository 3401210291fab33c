package document

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"
)

func asPNG(t *testing.T, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func asJPEG(t *testing.T, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// painted is a picture whose upper left quarter is red, on blue.
func painted(w, h int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := color.RGBA{B: 255, A: 255}
			if x < w/2 && y < h/2 {
				c = color.RGBA{R: 255, A: 255}
			}
			m.SetRGBA(x, y, c)
		}
	}
	return m
}

func noise(w, h int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range m.Pix {
		m.Pix[i] = byte(r.Uint32())
	}
	return m
}

// header is a PNG file that only claims a size.
func header(w, h uint32) []byte {
	chunk := []byte("IHDR\x00\x00\x00\x00\x00\x00\x00\x00\x08\x06\x00\x00\x00")
	binary.BigEndian.PutUint32(chunk[4:], w)
	binary.BigEndian.PutUint32(chunk[8:], h)
	b := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), chunk...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(chunk))
}

// turned adds Exif data to a JPEG file.
func turned(data []byte, turn byte) []byte {
	exif := []byte("\xff\xe1\x00\x22Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00" + string(turn) + "\x00\x00\x00\x00\x00\x00\x00")
	return append(append([]byte("\xff\xd8"), exif...), data[2:]...)
}

func TestPicturesFit(t *testing.T) {
	t.Parallel()
	damaged := asPNG(t, painted(3000, 10))
	damaged = damaged[:len(damaged)/2]
	for _, c := range []struct {
		name    string
		data    []byte
		mime    string
		want    Picture // Data is not compared
		problem string
	}{
		{"small", asPNG(t, painted(40, 20)), "image/png", Picture{Type: "image/png", W: 40, H: 20}, ""},
		{"wide", asPNG(t, painted(4096, 64)), "image/png", Picture{Type: "image/png", W: 2048, H: 32, Smaller: true}, ""},
		{"high, thin", asPNG(t, painted(1, 9000)), "image/png", Picture{Type: "image/png", W: 1, H: 2048, Smaller: true}, ""},
		{"photo", asJPEG(t, painted(64, 4096)), "image/jpeg", Picture{Type: "image/jpeg", W: 32, H: 2048, Smaller: true}, ""},
		{"many bytes, transparent", asPNG(t, noise(1000, 1000)), "image/png", Picture{Type: "image/jpeg", W: 1000, H: 1000, Smaller: true}, ""},
		{"bomb", header(60_000, 60_000), "image/png", Picture{}, "60000x60000 pixels are too many"},
		{"damaged", damaged, "image/png", Picture{Type: "image/png", W: 3000, H: 10}, ""},
		{"damaged, too large", header(10, 9000), "image/png", Picture{}, "it has 10x9000 pixels, and the picture is damaged"},
		{"junk", []byte("\x89PNG\r\n\x1a\njunk"), "image/png", Picture{Type: "image/png", W: 7, H: 8}, ""},
		{"long junk", append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, pictureBytes)...), "image/png", Picture{}, "damaged"},
		{"other", []byte("?"), "", Picture{}, "cannot be made smaller"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var p Pictures
			got, err := p.Fit(Picture{Data: c.data, Type: c.mime, W: 7, H: 8})
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Fatalf("error %v, want %q", err, c.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if same := bytes.Equal(got.Data, c.data); same == c.want.Smaller || len(got.Data) > pictureBytes {
				t.Errorf("%d bytes of %d, the same: %v", len(got.Data), len(c.data), same)
			}
			if cfg, kind, err := image.DecodeConfig(bytes.NewReader(got.Data)); c.want.Smaller && (err != nil || cfg.Width != c.want.W || cfg.Height != c.want.H || "image/"+kind != c.want.Type) {
				t.Errorf("%s of %dx%d, %v", kind, cfg.Width, cfg.Height, err)
			}
			if got.Data = nil; got.Type != c.want.Type || got.W != c.want.W || got.H != c.want.H || got.Smaller != c.want.Smaller {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// What cannot be decoded is passed on only if its head does not claim too much.
func TestPicturesBelieveTheHead(t *testing.T) {
	t.Parallel()
	var p Pictures
	if _, err := p.Fit(Picture{Data: header(1<<31-1, 1<<31-1), Type: "image/png", W: 1<<31 - 1, H: 1<<31 - 1}); err == nil {
		t.Error("a picture of 2147483647x2147483647 pixels is passed on")
	}
}

// A photo stays upright although the smaller file does not say how the camera was
// held: the red quarter, on the upper left of the file, is where people saw it.
func TestPicturesStayUpright(t *testing.T) {
	t.Parallel()
	photo := asJPEG(t, painted(4096, 128))
	for turn, want := range map[byte]struct{ w, h, x, y int }{
		1: {2048, 64, 0, 0},
		2: {2048, 64, 1, 0},
		3: {2048, 64, 1, 1},
		4: {2048, 64, 0, 1},
		5: {64, 2048, 0, 0},
		6: {64, 2048, 1, 0},
		7: {64, 2048, 1, 1},
		8: {64, 2048, 0, 1},
		9: {2048, 64, 0, 0},
	} {
		var p Pictures
		got, err := p.Fit(Picture{Data: turned(photo, turn), Type: "image/jpeg"})
		if err != nil {
			t.Fatal(err)
		}
		m, err := jpeg.Decode(bytes.NewReader(got.Data))
		if err != nil {
			t.Fatal(err)
		}
		if b := m.Bounds(); b.Dx() != want.w || b.Dy() != want.h {
			t.Errorf("orientation %d: %v", turn, b)
			continue
		}
		r, _, blue, _ := m.At(want.w/4+want.x*want.w/2, want.h/4+want.y*want.h/2).RGBA()
		if r < 60000 || blue > 6000 {
			t.Errorf("orientation %d: the red quarter is elsewhere", turn)
		}
	}
}

func FuzzPictures(f *testing.F) {
	f.Add([]byte("\xff\xd8\xff\xe1\x00\x22Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00"))
	f.Add([]byte("\xff\xd8\xff\xe1\x00\x10Exif\x00\x00MM*\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if turn := orientation(data); turn < 0 {
			t.Error(turn)
		}
	})
}
