package files

import (
	"bytes"
	"context"
	"encoding/base64"
	enc "encoding/binary"
	"fmt"
	"io"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Limits of what vision models accept.
const (
	maxImageBytes = 20 << 20
	maxImageSide  = 8000
)

// readImage answers for files that are images by their first bytes; ok says so.
func (f *family) readImage(ctx context.Context, s source, head []byte, r io.Reader) (res tool.Result, ok bool, err error) {
	mime := imageType(head)
	if mime == "" {
		return res, false, nil
	}
	if s.info.Size() > maxImageBytes {
		return tool.Fail(tool.TooLarge, "%s is an image of %s; at most %s can be shown, make a smaller copy with exec", s.shown, byteSize(s.info.Size()), byteSize(maxImageBytes)), true, nil
	}
	w, h := imageSize(head, mime)
	if w > maxImageSide || h > maxImageSide {
		return tool.Fail(tool.TooLarge, "%s is an image of %dx%d pixels; at most %d per side can be shown, make a smaller copy with exec", s.shown, w, h, maxImageSide), true, nil
	}
	data, err := io.ReadAll(io.LimitReader(r, maxImageBytes+1))
	if err != nil {
		res, err = f.fail(ctx, s.shown, err)
		return res, true, err
	}
	if len(data) > maxImageBytes {
		return tool.Fail(tool.TooLarge, "%s grew while it was read", s.shown), true, nil
	}
	label := "(Image: " + s.shown + ", " + mime + ", " + byteSize(int64(len(data)))
	if w > 0 && h > 0 {
		label += fmt.Sprintf(", %dx%d", w, h)
	}
	url := "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(data)
	res.Content = llm.Content{Blocks: []llm.Block{
		{Type: "image_url", ImageURL: url, Path: s.abs},
		{Type: "text", Text: label + ")"},
	}}
	res.Whole, res.Untrusted = true, true // pictures may carry words for the model
	return res, true, nil
}

func imageType(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		return "image/gif"
	case len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// imageSize finds width and height in an image's header without a decoder; 0
// when they are not within head.
func imageSize(b []byte, mime string) (w, h int) {
	switch {
	case mime == "image/png" && len(b) >= 24:
		return int(enc.BigEndian.Uint32(b[16:])), int(enc.BigEndian.Uint32(b[20:]))
	case mime == "image/gif" && len(b) >= 10:
		return int(enc.LittleEndian.Uint16(b[6:])), int(enc.LittleEndian.Uint16(b[8:]))
	case mime == "image/jpeg":
		return jpegSize(b)
	case mime == "image/webp" && len(b) >= 30:
		return webpSize(b)
	}
	return 0, 0
}

func jpegSize(b []byte) (w, h int) {
	for i := 2; i+9 < len(b) && b[i] == 0xFF; {
		marker := b[i+1]
		if marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC {
			return int(enc.BigEndian.Uint16(b[i+7:])), int(enc.BigEndian.Uint16(b[i+5:]))
		}
		if marker == 0xFF {
			i++
			continue
		}
		i += 2 + int(enc.BigEndian.Uint16(b[i+2:]))
	}
	return 0, 0
}

func webpSize(b []byte) (w, h int) {
	switch string(b[12:16]) {
	case "VP8 ":
		return int(enc.LittleEndian.Uint16(b[26:]) & 0x3FFF), int(enc.LittleEndian.Uint16(b[28:]) & 0x3FFF)
	case "VP8L":
		v := enc.LittleEndian.Uint32(b[21:])
		return int(v&0x3FFF) + 1, int(v>>14&0x3FFF) + 1
	case "VP8X":
		return 1 + int(b[24]) + int(b[25])<<8 + int(b[26])<<16, 1 + int(b[27]) + int(b[28])<<8 + int(b[29])<<16
	}
	return 0, 0
}
