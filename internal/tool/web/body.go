package web

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// Limits of bodies, in bytes.
const (
	maxWire     = 5 << 20  // of text, as it is sent
	maxText     = 10 << 20 // of text, unpacked
	maxImage    = 20 << 20
	maxDocument = 20 << 20
)

type kind int

const (
	kindBinary kind = iota
	kindText
	kindHTML
	kindJSON
	kindImage
	kindDocument
)

// body holds what was read of a response.
type body struct {
	kind        kind
	data        []byte
	contentType string // as the server sent it
	mime        string // as it was found out
	ext         string // of a document, with its dot
	cut         bool   // there is more
	short       bool   // the connection broke
}

// tooLargeError is a file that is useless in part.
type tooLargeError struct {
	what  string
	limit int64
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the %s is larger than %d MiB", e.what, e.limit>>20)
}

// meter reads until its allowance is used up.
type meter struct {
	r    io.Reader
	left int64
}

var errAllowance = errors.New("more bytes than allowed")

func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, errAllowance
	}
	n, err := m.r.Read(p[:min(int64(len(p)), m.left)])
	m.left -= int64(n)
	return n, err
}

// readBody reads a response within the limits of its kind, which is decided by
// the first bytes where they are clear, else by what the server says.
func readBody(resp *http.Response) (body, error) {
	wire := &meter{resp.Body, maxWire}
	var plain io.Reader = wire
	switch enc := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); enc {
	case "", "identity":
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(wire)
		if err != nil {
			return body{}, fmt.Errorf("unpack the answer: %w", err)
		}
		z.Multistream(true)
		plain = z

	default:
		return body{}, fmt.Errorf("the server packed its answer as %q although only gzip was offered", oneLine(enc, 40))
	}

	r := bufio.NewReaderSize(plain, 4096)
	head, err := r.Peek(1024)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && len(head) == 0 {
		return body{}, err
	}

	b := body{contentType: resp.Header.Get("Content-Type")}
	b.identify(head, resp.Request)
	limit := int64(maxText)
	switch b.kind {
	case kindBinary:
		return b, nil
	case kindImage:
		limit, wire.left = maxImage, wire.left+maxImage-maxWire
	case kindDocument:
		limit, wire.left = maxDocument, wire.left+maxDocument-maxWire
	}

	if b.kind >= kindImage && resp.ContentLength > limit {
		return b, &tooLargeError{b.mime, limit}
	}
	return b, b.fill(r, limit, resp.ContentLength)
}

// fill reads the rest, which is said to be of some size; -1 is unknown.
func (b *body) fill(r io.Reader, limit, size int64) error {
	var buf bytes.Buffer
	buf.Grow(int(min(max(size, 0), 1<<20)) + 2*bytes.MinRead)
	n, err := buf.ReadFrom(io.LimitReader(r, limit+1))
	b.data = buf.Bytes()
	if n > limit {
		b.data, b.cut = b.data[:limit], true
	}

	switch {
	case err == nil:
	case errors.Is(err, errAllowance):
		b.cut = true
	case errors.Is(err, io.ErrUnexpectedEOF) && n > 0 && b.kind < kindImage:
		b.short = true
	default:
		return err
	}

	if b.cut && b.kind >= kindImage {
		return &tooLargeError{b.mime, limit}
	}
	return nil
}

// identify decides what a body is.
func (b *body) identify(head []byte, req *http.Request) {
	media, _, err := mime.ParseMediaType(b.contentType)
	if err != nil {
		media, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(b.contentType)), ";")
	}

	ext := ""
	if req != nil && req.URL != nil {
		ext = strings.ToLower(path.Ext(req.URL.Path))
	}

	b.mime = media
	if b.mime == "" {
		b.mime = "application/octet-stream"
	}

	start := bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n"))
	switch {
	case llm.PictureType(head) != "":
		b.kind, b.mime = kindImage, llm.PictureType(head)
	case bytes.HasPrefix(start, []byte("%pdf-")):
		b.kind = kindDocument
		b.mime = "application/pdf"
		b.ext = ".pdf"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")) && officeExt(media, ext) != "":
		b.kind, b.ext = kindDocument, officeExt(media, ext)
	case binaryType(media), bytes.IndexByte(head, 0) >= 0 && !wide(head, b.contentType):
		b.kind = kindBinary
	case media == "application/json", strings.HasSuffix(media, "+json"):
		b.kind = kindJSON
	case media == "text/html", media == "application/xhtml+xml", bytes.HasPrefix(start, []byte("<!doctype html")), bytes.HasPrefix(start, []byte("<html")),
		media == "" && strings.HasPrefix(http.DetectContentType(head), "text/html"):
		b.kind = kindHTML
	case len(start) > 0 && (start[0] == '{' || start[0] == '[') && media != "text/markdown":
		b.kind = kindJSON // falls back to text when it is not
	default:
		b.kind = kindText
	}
}

// wide says that text uses two bytes per character, so zeros are normal.
func wide(head []byte, contentType string) bool {
	return bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) ||
		strings.Contains(strings.ToLower(contentType), "utf-16")
}

func binaryType(media string) bool {
	switch kind, sub, _ := strings.Cut(media, "/"); kind {
	case "audio", "video", "font":
		return true
	case "image":
		return sub != "svg+xml"
	case "application":
		switch sub {
		case "zip", "gzip", "x-tar", "x-7z-compressed", "x-rar-compressed", "vnd.rar", "wasm", "java-archive", "x-msdownload", "x-bzip2", "x-xz", "zstd":
			return true
		}
	}
	return false
}

func officeExt(media, ext string) string {
	switch {
	case strings.HasSuffix(media, "wordprocessingml.document"):
		return ".docx"
	case strings.HasSuffix(media, "spreadsheetml.sheet"):
		return ".xlsx"
	case strings.HasSuffix(media, "presentationml.presentation"):
		return ".pptx"
	case ext == ".docx" || ext == ".xlsx" || ext == ".pptx":
		return ext
	}
	return ""
}

// filelike says by its name that an address is not a page, so that the reader
// service has nothing to add.
func filelike(p string) bool {
	switch strings.ToLower(path.Ext(p)) {
	case ".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".json", ".xml", ".txt", ".md", ".csv", ".docx", ".xlsx", ".pptx", ".pdf":
		return true
	}
	return false
}

// prettyJSON puts JSON on lines, one space per level, and stops after about
// limit bytes: indentation can make much of little. What is not JSON is
// returned as it is.
func prettyJSON(data []byte, limit int) string {
	data = bytes.TrimSpace(data)
	if !json.Valid(data) {
		return string(data[:min(len(data), limit)])
	}

	out := make([]byte, 0, min(2*len(data), limit+4096))
	depth := 0
	quoted := false
	escaped := false
	newline := func() {
		out = append(out, '\n')
		for range min(depth, 64) {
			out = append(out, ' ')
		}
	}
	for i, c := range data {
		if len(out) > limit {
			break
		}

		if quoted {
			out = append(out, c)
			switch {
			case escaped:
				escaped = false
			case c == '\\':
				escaped = true
			case c == '"':
				quoted = false
			}

			continue
		}

		switch c {
		case ' ', '\t', '\r', '\n':
		case '"':
			quoted = true
			out = append(out, c)
		case '{', '[':
			out = append(out, c)
			depth++
			if closes := nextByte(data[i+1:]); closes != '}' && closes != ']' {
				newline()
			}

		case '}', ']':
			depth--
			if last := out[len(out)-1]; last != '{' && last != '[' {
				newline()
			}
			out = append(out, c)

		case ',':
			out = append(out, c)
			newline()
		case ':':
			out = append(out, ':', ' ')
		default:
			out = append(out, c)
		}
	}

	return string(out)
}

func nextByte(b []byte) byte {
	for _, c := range b {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c
		}
	}
	return 0
}

var remoteImage = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`!\[([^\]\n]{0,300})\]\(\s{0,3}<?(?:https?:)?//`)
})

// disarm bends pictures in Markdown that others wrote: shown as they are, they
// would be loaded from a stranger's server.
func disarm(s string) string {
	if !strings.Contains(s, "![") {
		return s
	}
	return remoteImage().ReplaceAllStringFunc(s, func(m string) string { return `!\` + m[1:] })
}
