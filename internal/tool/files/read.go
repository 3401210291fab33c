package files

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/document"
	"github.com/nanobot-go/nanobot/internal/tool"
)

const (
	defaultLines = 2000
	// smallBytes is the size up to which a file is read whole: counting its
	// lines and hashing it costs a few milliseconds at most.
	smallBytes = 8 << 20
	sniffBytes = 64 << 10
)

type readInput struct {
	Path   string `json:"path" alias:"file_path|filename|file"`
	Offset int    `json:"offset,omitempty" desc:"first line, from 1"`
	Limit  int    `json:"limit,omitempty" desc:"default 2000"`
	Pages  string `json:"pages,omitempty" desc:"of a PDF: N or N-M" alias:"page"`
	Force  bool   `json:"force,omitempty" hidden:"1"`

	chars int // longest page
}

func (f *family) readFile(ctx context.Context, c tool.Call, in readInput) (tool.Result, error) {
	if in.Offset < 0 || in.Limit < 0 {
		return tool.Fail(tool.InvalidArgs, "offset and limit must be at least 1"), nil
	}

	in.Offset = max(in.Offset, 1)
	if in.Limit == 0 {
		in.Limit = defaultLines
	}

	in.chars = pageChars(c.MaxChars)
	if name, ok := f.builtin(in.Path); ok {
		return f.readVirtual(ctx, name, in)
	}

	file, err := f.jail.Open(in.Path)
	if err != nil {
		if name, ok := f.fallback(in.Path); ok && diskio.IsMissing(err) {
			return f.readVirtual(ctx, name, in)
		}
		if info, serr := f.jail.Stat(in.Path); serr == nil && info.IsDir() {
			return tool.Fail(tool.InvalidArgs, "%s is a directory; use list_dir", in.Path), nil
		}
		return f.fail(ctx, in.Path, err)
	}

	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return f.fail(ctx, in.Path, err)
	}

	abs, err := f.jail.Path(in.Path)
	if err != nil {
		return f.fail(ctx, in.Path, err)
	}

	s := source{name: in.Path, abs: abs, shown: f.show(abs), info: info, r: file}
	if c.State != nil {
		s.seen = historyOf(c.State)
	}

	res, err := f.readSource(ctx, s, in)
	if !res.Untrusted { // errors may quote it, too
		target, _ := filepath.EvalSymlinks(abs) // a link must not launder what it leads to
		res.Untrusted = f.foreign(abs) || target != "" && f.foreign(target)
	}
	return res, err
}

// source is an open file to be shown.
type source struct {
	name, abs, shown string
	info             fs.FileInfo
	r                io.Reader
	seen             *history // nil: nothing is remembered
}

func (f *family) readVirtual(ctx context.Context, name string, in readInput) (tool.Result, error) {
	if f.virtual == nil {
		return tool.Fail(tool.NotFound, "%s does not exist", in.Path), nil
	}

	file, err := f.virtual.Open(name)
	if err != nil {
		return tool.Fail(tool.NotFound, "%s does not exist; list_dir builtin:// shows what is built in", in.Path), nil
	}

	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return f.fail(ctx, in.Path, err)
	}
	if info.IsDir() {
		return tool.Fail(tool.InvalidArgs, "%s is a directory; use list_dir", in.Path), nil
	}
	return f.readSource(ctx, source{name: in.Path, abs: in.Path, shown: in.Path, info: info, r: file}, in)
}

func (f *family) readSource(ctx context.Context, s source, in readInput) (tool.Result, error) {
	if r, ok := s.r.(io.ReaderAt); ok {
		head := make([]byte, 8)
		n, _ := r.ReadAt(head, 0)
		if kind := document.Detect(s.name, head[:n]); kind != document.None {
			return f.readDocument(ctx, s, kind, in)
		}
	}

	if oldOffice(s.name) {
		return tool.Fail(tool.Unsupported, "%s is in an old or unusual office format; save it as .docx, .xlsx, .pptx or .pdf, for example with exec: soffice --headless --convert-to pdf", s.shown), nil
	}

	rec := record{info: s.info, offset: in.Offset, limit: in.Limit, pages: in.Pages}
	r := io.Reader(&ctxReader{ctx: ctx, r: s.r})
	small := s.info.Size() <= smallBytes
	if small {
		data, err := io.ReadAll(io.LimitReader(r, smallBytes+1))
		if err != nil {
			return f.fail(ctx, s.shown, err)
		}
		rec.hash, rec.hashed = sha256.Sum256(data), true
		// A file that grew, or one of /proc without a size, goes on streaming.
		small = len(data) <= smallBytes
		r = io.MultiReader(bytes.NewReader(data), r)
	}

	br := bufio.NewReaderSize(r, sniffBytes)
	head, err := br.Peek(sniffBytes)
	if len(head) == 0 {
		if err != nil && err != io.EOF { //nolint:errorlint // Peek returns it bare
			return f.fail(ctx, s.shown, err)
		}
		f.remember(s, rec)
		return tool.Textf("(Empty file: %s)", s.shown), nil
	}

	if res, ok, err := f.readImage(ctx, s, head, br); ok || err != nil {
		return res, err
	}
	if f.unchanged(s, rec, in) {
		return tool.Textf("(%s is unchanged since these lines were last read; they are above. force=true sends them again.)", s.shown), nil
	}

	enc := sniff(head, len(head) < sniffBytes, s.name)
	if enc == notText {
		return tool.Fail(tool.Unsupported, "%s is not text (%s, %s); inspect it with exec, e.g. file or xxd", s.shown, http.DetectContentType(head), byteSize(s.info.Size())), nil
	}

	p, err := readPage(decoder(br, enc), in.Offset, in.Limit, pageOptions{count: small, numbers: true, chars: in.chars})
	if err != nil {
		return f.fail(ctx, s.shown, err)
	}
	if p.text == "" {
		return tool.Fail(tool.InvalidArgs, "offset %d is past the end: %s has %s", in.Offset, s.shown, plural(p.total, "line")), nil
	}

	f.remember(s, rec)
	res := tool.Text(p.text + p.footer(in.Offset, s.info.Size(), enc))
	res.Whole = true
	res.Untrusted = rec.hashed && f.foreignSum != nil && f.foreignSum(rec.hash)
	return res, nil
}

func (f *family) remember(s source, rec record) {
	if s.seen != nil {
		s.seen.store(s.abs, rec)
	}
}

// unchanged reports whether the same lines of the same content were shown before.
func (f *family) unchanged(s source, now record, in readInput) bool {
	if s.seen == nil || in.Force {
		return false
	}
	old, ok := s.seen.get(s.abs)
	return ok && old.offset == in.Offset && old.limit == in.Limit && old.pages == in.Pages && old.same(now)
}

func (p page) footer(offset int, size int64, enc encoding) string {
	var b strings.Builder
	switch {
	case p.end:
		fmt.Fprintf(&b, "\n(End of file: %s)", plural(p.total, "line"))
	case p.total >= 0:
		fmt.Fprintf(&b, "\n(Lines %d-%d of %d; next: offset=%d)", offset, p.last, p.total, p.last+1)
	default:
		fmt.Fprintf(&b, "\n(Lines %d-%d of a file of %s, not counted; next: offset=%d)", offset, p.last, byteSize(size), p.last+1)
	}

	if p.escaped {
		b.WriteString("\n(Invisible characters are shown as <U+....>; edit_file accepts that form.)")
	}

	switch enc {
	case latin1:
		b.WriteString("\n(Not UTF-8: decoded as Latin-1.)")
	case utf16LE, utf16BE:
		b.WriteString("\n(Decoded from UTF-16.)")
	}
	return b.String()
}

// oldOffice knows formats that would have to be converted first.
func oldOffice(name string) bool {
	switch strings.ToLower(extension(name)) {
	case ".doc", ".xls", ".ppt", ".odt", ".ods", ".odp", ".xlsb":
		return true
	}
	return false
}

// ctxReader stops a long read when the call is cancelled.
type ctxReader struct {
	ctx context.Context //nolint:containedctx // lives as long as one call
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

func byteSize(n int64) string {
	const k = 1024
	switch {
	case n >= k*k*k:
		return fmt.Sprintf("%.1f GiB", float64(n)/(k*k*k))
	case n >= k*k:
		return fmt.Sprintf("%.1f MiB", float64(n)/(k*k))
	case n >= 10*k:
		return fmt.Sprintf("%.1f KiB", float64(n)/k)
	}

	return plural(int(n), "byte")
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
