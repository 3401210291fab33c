package llm

import (
	"bytes"
	"encoding/binary"
)

// PictureType tells by its first bytes, of which it needs 12, a picture that
// models take; "" if it is none.
func PictureType(head []byte) string {
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

// PictureSize finds width and height of a picture of some type in its first
// bytes, without a decoder; 0 when they are not there.
func PictureSize(b []byte, mime string) (w, h int) {
	switch {
	case mime == "image/png" && len(b) >= 24:
		return int(binary.BigEndian.Uint32(b[16:])), int(binary.BigEndian.Uint32(b[20:]))
	case mime == "image/gif" && len(b) >= 10:
		return int(binary.LittleEndian.Uint16(b[6:])), int(binary.LittleEndian.Uint16(b[8:]))
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
			return int(binary.BigEndian.Uint16(b[i+7:])), int(binary.BigEndian.Uint16(b[i+5:]))
		}
		if marker == 0xFF {
			i++
			continue
		}
		i += 2 + int(binary.BigEndian.Uint16(b[i+2:]))
	}
	return 0, 0
}

func webpSize(b []byte) (w, h int) {
	switch string(b[12:16]) {
	case "VP8 ":
		return int(binary.LittleEndian.Uint16(b[26:]) & 0x3FFF), int(binary.LittleEndian.Uint16(b[28:]) & 0x3FFF)
	case "VP8L":
		v := binary.LittleEndian.Uint32(b[21:])
		return int(v&0x3FFF) + 1, int(v>>14&0x3FFF) + 1
	case "VP8X":
		return 1 + int(b[24]) + int(b[25])<<8 + int(b[26])<<16, 1 + int(b[27]) + int(b[28])<<8 + int(b[29])<<16
	}
	return 0, 0
}
