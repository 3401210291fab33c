package socket

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
)

const (
	maxFiles      = 4
	maxFileBytes  = 6 << 20
	maxVideoBytes = 20 << 20
	maxTotalBytes = 24 << 20
	maxVideos     = 1
)

// attachment is a file that came inside a frame.
type attachment struct {
	name, mime, data string // data is base64
	upload           string // id of a file that came ahead, instead of data
	size             int64  // decoded
}

// kindOf is image, video or document, "" for types that are not taken.
func kindOf(mediaType string) string {
	switch mediaType {
	case "image/png", "image/jpeg", "image/webp", "image/gif":
		return "image"
	case "video/mp4", "video/webm", "video/quicktime":
		return "video"
	case "application/pdf", "application/json", "application/yaml", "application/x-yaml", "application/toml", "application/xml",
		"application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint",
		"text/plain", "text/markdown", "text/x-markdown", "text/csv", "text/html", "text/xml", "text/yaml", "text/x-yaml", "text/toml", "text/x-toml":
		return "document"
	}

	if strings.HasPrefix(mediaType, "application/vnd.openxmlformats-officedocument.") || strings.HasPrefix(mediaType, "application/vnd.oasis.opendocument.") {
		return "document"
	}
	return ""
}

// parseAttachments reads the list of a message; reason says why it is refused.
func parseAttachments(raw json.RawMessage) (files []attachment, reason string) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, ""
	}

	in := json.NewDecoder(bytes.NewReader(raw))
	if begin, err := in.Token(); err != nil || begin != json.Delim('[') {
		return nil, "malformed"
	}

	for in.More() && len(files) <= maxFiles { // a frame has room for millions
		var item struct {
			DataURL string `json:"data_url"`
			Name    string `json:"name"`
			Upload  string `json:"upload_id"`
		}
		if in.Decode(&item) != nil {
			return nil, "malformed"
		}
		if item.Upload != "" && item.DataURL == "" {
			files = append(files, attachment{upload: item.Upload})
			continue
		}

		f, reason := parseDataURL(item.DataURL)
		if reason != "" {
			return nil, reason
		}

		f.name = text.CutBytes(item.Name, 256)
		files = append(files, f)
	}

	if slices.ContainsFunc(files, func(f attachment) bool { return f.upload != "" }) {
		return files, "" // nothing is known about them yet
	}
	return files, overLimit(files)
}

// overLimit says which limit the files of one message exceed, "" if none.
func overLimit(files []attachment) string {
	var videos int
	var total int64
	for _, f := range files {
		limit := int64(maxFileBytes)
		switch kindOf(f.mime) {
		case "":
			return "mime"
		case "video":
			videos++
			limit = maxVideoBytes
		}

		if f.size > limit {
			return "size"
		}
		total += f.size
	}

	switch {
	case videos > maxVideos:
		return "too_many_videos"
	case len(files) > maxFiles:
		return tooMany(files)
	case total > maxTotalBytes:
		return "total_size"
	}

	return ""
}

func tooMany(files []attachment) string {
	for _, f := range files {
		if kindOf(f.mime) != "image" {
			return "too_many_attachments"
		}
	}
	return "too_many_images"
}

// parseDataURL takes a data: address apart without decoding it.
func parseDataURL(url string) (attachment, string) {
	rest, ok := strings.CutPrefix(url, "data:")
	head, data, comma := strings.Cut(rest, ",")
	head, b64 := strings.CutSuffix(head, ";base64")
	if !ok || !comma || !b64 {
		return attachment{}, "malformed"
	}

	t, _, err := mime.ParseMediaType(head)
	if err != nil {
		return attachment{}, "malformed"
	}

	pad := len(data) - len(strings.TrimRight(data, "="))
	return attachment{mime: t, data: data, size: int64(len(data)/4*3 - pad)}, ""
}

// store writes files that came in to the media store; reason says why not.
func (r *receiver) store(ctx context.Context, files []attachment) (out []bus.Media, reason string) {
	if reason := r.c.uploads.described(files, r.device); reason != "" {
		return nil, reason
	}

	for _, f := range files {
		var m bus.Media
		var reason string
		if f.upload != "" {
			m, reason = r.c.uploads.adopt(f, r.device, r.c.d.Media.Dir)
		} else {
			m, reason = r.c.storeOne(ctx, f)
		}

		if reason != "" {
			r.c.uploads.refund(files, out, r.device, uploadDir(r.c.d))
			return nil, reason
		}
		out = append(out, m)
	}

	return out, ""
}

func (c *Channel) storeOne(ctx context.Context, f attachment) (bus.Media, string) {
	if c.d.Media == nil {
		return bus.Media{}, "size"
	}

	name := f.name
	if name == "" {
		name = "file" + extension(f.mime)
	}

	m, err := c.d.Media.Save(ctx, name, base64.NewDecoder(base64.StdEncoding, strings.NewReader(f.data)))
	var corrupt base64.CorruptInputError
	switch {
	case errors.As(err, &corrupt) || errors.Is(err, io.ErrUnexpectedEOF):
		return bus.Media{}, "decode"
	case errors.Is(err, media.ErrTooLarge):
		return bus.Media{}, "size"
	case err != nil:
		c.d.Log.WarnContext(ctx, "cannot save a file", "channel", c.d.Name, "err", err)
		return bus.Media{}, "decode"
	}

	declared, ok := media.Declared(m, f.mime)
	if !ok {
		discard([]bus.Media{m})
		return bus.Media{}, "mime"
	}
	return declared, ""
}

// extension is a file name's end for a type, "" if none is known.
func extension(mediaType string) string {
	_, sub, _ := strings.Cut(mediaType, "/")
	switch sub {
	case "png", "jpeg", "webp", "gif", "mp4", "webm", "pdf", "json", "csv", "html", "xml", "toml", "yaml", "ogg", "mpeg", "wav":
		return "." + sub
	case "plain":
		return ".txt"
	case "markdown", "x-markdown":
		return ".md"
	case "quicktime":
		return ".mov"
	}

	return ""
}
