package document

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"sync"

	"golang.org/x/image/webp"
)

// What vision models take. Larger pictures are made smaller: models look at no
// more pixels anyway, and some of them refuse more bytes.
const (
	pictureSide  = 2048      // pixels
	pictureBytes = 3_750_000 // 5 MB in base64
	// pictureAsIs is the longest side that is passed on if a picture cannot be
	// made smaller.
	pictureAsIs = 8000
	// pictureMemory bounds what decoding a picture takes, in bytes; it is known
	// from the head of the file.
	pictureMemory = 256 << 20
)

// MaxPicture is the size of the largest file that Fit looks at, in bytes.
const MaxPicture = 48 << 20

// Picture is a picture in its file format.
type Picture struct {
	Data    []byte
	Type    string // such as image/png
	W, H    int    // in pixels, 0 if unknown
	Smaller bool   // it was made smaller; Data is not the original
}

// Pictures makes pictures small enough for models. It works on one at a time,
// because decoding takes memory, and is safe for concurrent use.
type Pictures struct{ mu sync.Mutex }

// Fit returns a picture as models take it: as it is if it is small enough, else a
// smaller one that looks the same. W and H are the least that is known of its
// size.
func (p *Pictures) Fit(as Picture) (Picture, error) {
	data, mime := as.Data, as.Type
	format, ok := formats()[mime]
	if !ok {
		return as, fmt.Errorf("%s cannot be made smaller", mime)
	}

	cfg, err := format.config(bytes.NewReader(data))
	if err != nil {
		err = fmt.Errorf("the picture is damaged: %w", err)
	} else {
		as.W, as.H = cfg.Width, cfg.Height
	}

	if err == nil && len(data) <= pictureBytes && max(as.W, as.H) <= pictureSide {
		return as, nil
	}

	if err == nil {
		var small Picture
		if small, err = p.shrink(data, mime, cfg); err == nil {
			return small, nil
		}
	}

	if len(data) <= pictureBytes && max(as.W, as.H) <= pictureAsIs {
		return as, nil // the model may know what to do with it
	}

	if err != nil && max(as.W, as.H) > pictureAsIs {
		err = fmt.Errorf("it has %dx%d pixels, and %w", as.W, as.H, err)
	}
	return as, err
}

// format is how pictures of one type are read.
type format struct {
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
	lossy  bool
}

func formats() map[string]format {
	return map[string]format{
		"image/png":  {png.DecodeConfig, png.Decode, false},
		"image/gif":  {gif.DecodeConfig, gif.Decode, false}, // the first picture of several
		"image/jpeg": {jpeg.DecodeConfig, jpeg.Decode, true},
		"image/webp": {webp.DecodeConfig, webp.Decode, true},
	}
}

// pixelBytes is about what a decoder needs for one pixel.
func pixelBytes(m color.Model) int {
	switch m {
	case color.RGBA64Model, color.NRGBA64Model:
		return 8
	case color.YCbCrModel, color.NYCbCrAModel:
		return 5 // twice as much for progressive files, which are rare
	}
	return 4
}

func (p *Pictures) shrink(data []byte, mime string, cfg image.Config) (Picture, error) {
	if cfg.Width <= 0 || cfg.Height <= 0 || cfg.Width > pictureMemory || cfg.Height > pictureMemory/cfg.Width/pixelBytes(cfg.ColorModel) {
		return Picture{}, fmt.Errorf("%dx%d pixels are too many to make a smaller picture of", cfg.Width, cfg.Height)
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	f := formats()[mime]
	src, err := f.decode(bytes.NewReader(data))
	if err != nil {
		return Picture{}, fmt.Errorf("the picture is damaged: %w", err)
	}

	turn := orientation(data)
	for side := pictureSide; side >= 256; side /= 2 {
		small := upright(reduce(src, side), turn)
		if out, ok := encode(small, f.lossy); ok {
			out.W, out.H = small.Rect.Dx(), small.Rect.Dy()
			return out, nil
		}
	}

	return Picture{}, errors.New("the picture cannot be made small enough")
}

// encode writes a picture: without loss if its original had none and it fits,
// else as JPEG, on white if it is transparent.
func encode(m *image.RGBA, lossy bool) (Picture, bool) {
	var buf bytes.Buffer
	if !lossy || !m.Opaque() {
		if png.Encode(&buf, m) == nil && buf.Len() <= pictureBytes {
			return Picture{Data: buf.Bytes(), Type: "image/png", Smaller: true}, true
		}
		white := image.NewRGBA(m.Rect)
		draw.Draw(white, m.Rect, image.White, image.Point{}, draw.Src)
		draw.Draw(white, m.Rect, m, m.Rect.Min, draw.Over)
		m = white
		buf.Reset()
	}

	err := jpeg.Encode(&buf, m, &jpeg.Options{Quality: 88})
	return Picture{Data: buf.Bytes(), Type: "image/jpeg", Smaller: true}, err == nil && buf.Len() <= pictureBytes
}

// reduce returns a picture whose sides have at most so many pixels. Each one is
// the mean of those it stands for. The scalers of x/image keep a row of floats
// for every row of the source, which is 400 MB for the photo of a telephone.
func reduce(src image.Image, side int) *image.RGBA {
	b := src.Bounds()
	w, h := b.Dx(), b.Dy()
	dw, dh := w, h
	if most := max(w, h); most > side {
		dw, dh = max(1, w*side/most), max(1, h*side/most)
	}

	at := func(x, y int) color.RGBA64 {
		r, g, b, a := src.At(x, y).RGBA()
		return color.RGBA64{R: uint16(r), G: uint16(g), B: uint16(b), A: uint16(a)} //nolint:gosec // they have 16 bits
	}
	if quick, ok := src.(image.RGBA64Image); ok {
		at = quick.RGBA64At
	}

	out := image.NewRGBA(image.Rect(0, 0, dw, dh))
	for y := range dh {
		top, bottom := y*h/dh, max((y+1)*h/dh, y*h/dh+1)
		for x := range dw {
			left, right := x*w/dw, max((x+1)*w/dw, x*w/dw+1)
			var sum [4]uint64
			for sy := top; sy < bottom; sy++ {
				for sx := left; sx < right; sx++ {
					c := at(b.Min.X+sx, b.Min.Y+sy)
					sum[0] += uint64(c.R)
					sum[1] += uint64(c.G)
					sum[2] += uint64(c.B)
					sum[3] += uint64(c.A)
				}
			}

			n := uint64((bottom-top)*(right-left)) << 8 //nolint:gosec // both are positive
			at := out.PixOffset(x, y)
			for i := range sum {
				out.Pix[at+i] = uint8(sum[i] / n) //nolint:gosec // a mean of 16 bits, shifted by 8
			}
		}
	}

	return out
}

// upright turns a picture as its file says it is to be looked at, which the file
// that is made of it does not say any more. See orientation.
func upright(m *image.RGBA, turn int) *image.RGBA {
	if turn <= 1 || turn > 8 {
		return m
	}

	w, h := m.Rect.Dx(), m.Rect.Dy()
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	if turn >= 5 { // the first row of the file is a side
		out = image.NewRGBA(image.Rect(0, 0, h, w))
	}

	for y := range out.Rect.Dy() {
		for x := range out.Rect.Dx() {
			sx, sy := x, y
			if turn >= 5 {
				sx, sy = y, x
			}
			if turn == 2 || turn == 3 || turn == 7 || turn == 8 {
				sx = w - 1 - sx
			}
			if turn == 3 || turn == 4 || turn == 6 || turn == 7 {
				sy = h - 1 - sy
			}
			out.SetRGBA(x, y, m.RGBAAt(sx, sy))
		}
	}

	return out
}

// orientation reads how the camera was held from the Exif data of a JPEG file, 1
// to 8; 1 is upright, 0 means that it is not said.
func orientation(data []byte) int {
	for i := 2; i+4 <= len(data) && data[i] == 0xFF && data[i+1] != 0xDA; {
		size := int(binary.BigEndian.Uint16(data[i+2:]))
		end := i + 2 + size
		if size < 2 || end > len(data) {
			return 0
		}
		if exif, ok := bytes.CutPrefix(data[i+4:end], []byte("Exif\x00\x00")); ok && data[i+1] == 0xE1 {
			return orientationIn(exif)
		}
		i = end
	}
	return 0
}

// orientationIn looks through the first directory of Exif data.
func orientationIn(exif []byte) int {
	if len(exif) < 8 {
		return 0
	}

	var order binary.ByteOrder = binary.BigEndian
	if exif[0] == 'I' {
		order = binary.LittleEndian
	}

	at := order.Uint32(exif[4:])
	if uint64(at)+2 > uint64(len(exif)) {
		return 0
	}

	const entry, tag = 12, 0x0112
	rows := exif[at+2:]
	for range order.Uint16(exif[at:]) {
		if len(rows) < entry {
			return 0
		}
		if order.Uint16(rows) == tag {
			return int(order.Uint16(rows[8:]))
		}
		rows = rows[entry:]
	}

	return 0
}
