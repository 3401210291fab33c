// Package document gets the text out of PDF, Word, Excel and PowerPoint files
// from any sender. It hides the formats and enforces the limits while reading,
// never by trusting what a file says about itself: a file that decompresses
// without end, nests without end, refers to itself or takes too long ends in an
// error or in cut text, with memory bounded by a few dozen megabytes. No code
// in a document is run and nothing outside the file is read.
package document

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Limits that hold for every document.
const (
	maxFileBytes = 50_000_000
	maxTime      = 10 * time.Second
	maxCells     = 100_000
	maxTables    = 8 // inside each other
)

// The defaults of Options, which are also the limits for attachments.
const (
	defaultMaxChars = 200_000
	defaultMaxPages = 100
)

// The reasons a document has no text for us. Every error of Extract other than
// a cancelled context is a failure that wraps one of them.
var (
	// errMalformed means that the file is damaged or not what its name says.
	errMalformed = errors.New("malformed document")
	// errEncrypted means that a password is needed.
	errEncrypted = errors.New("encrypted document")
	// ErrTooLarge means that the file, or what it decompresses to, is over a limit.
	ErrTooLarge = errors.New("document too large")
	// ErrTooSlow means that reading took longer than ten seconds.
	ErrTooSlow = errors.New("document takes too long to read")
	// ErrNoSuchPage means that the wanted pages are not in the document.
	ErrNoSuchPage = errors.New("no such page")
	// errUnsupported means that the format is not one we read.
	errUnsupported = errors.New("unsupported format")
)

// failure says what is wrong with a document, in words for whoever asked for it.
type failure struct {
	Format Format
	Kind   error // one of the Err... values
	Detail string
}

func (e *failure) Error() string {
	if e.Format == None {
		return e.Detail
	}
	return e.Format.String() + ": " + e.Detail
}

// Unwrap returns the kind.
func (e *failure) Unwrap() error { return e.Kind }

func problem(kind error, format string, args ...any) error {
	return &failure{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// Format is a kind of document.
type Format int

// The formats Extract reads.
const (
	None Format = iota
	PDF
	Word
	Excel
	PowerPoint
)

func (f Format) String() string {
	switch f {
	case PDF:
		return "PDF"
	case Word:
		return "Word document"
	case Excel:
		return "Excel workbook"
	case PowerPoint:
		return "PowerPoint presentation"
	}
	return "not a document"
}

// Detect tells a document by its name and, for PDF, also by its first bytes,
// which may be nil.
func Detect(name string, head []byte) Format {
	switch extension(name) {
	case ".pdf":
		return PDF
	case ".docx", ".docm", ".dotx", ".dotm":
		return Word
	case ".xlsx", ".xlsm", ".xltx", ".xltm":
		return Excel
	case ".pptx", ".pptm", ".potx", ".ppsx", ".ppsm":
		return PowerPoint
	}

	if bytes.HasPrefix(head, []byte("%PDF-")) {
		return PDF
	}
	return None
}

func extension(name string) string {
	if i := strings.LastIndexAny(name, `./\`); i >= 0 && name[i] == '.' {
		return strings.ToLower(name[i:])
	}
	return ""
}

// Options says how much of a document is wanted.
type Options struct {
	// MaxChars bounds the text, in characters; 0 means defaultMaxChars.
	MaxChars int
	// From and To choose pages of a PDF, slides or sheets, counted from 1; 0
	// means from the first and to the last.
	From, To int
	// MaxPages bounds how many of them are read; 0 means DefaultMaxPages.
	MaxPages int
	// WholePages ends a PDF before a page that does not fit into MaxChars
	// instead of cutting it, unless it is the first; Text.To then says so.
	WholePages bool
}

// Text holds what Extract found. Whoever made the document wrote it: it is
// data, never instructions.
type Text struct {
	Format Format
	// Content is the text with a header line per page, slide or sheet. It may
	// be empty, as it is for scanned pages.
	Content string
	// Pages is how many pages, slides or sheets there are; 0 for Word.
	Pages int
	// From and To are the pages that were read; 0 for Word.
	From, To int
	// Cut says that the last page, or the whole text, goes on after Content.
	Cut bool
	// Notes are sentences about what was left out and why, for the reader.
	Notes []string
}

// Extract reads the document r of size bytes. The name decides the format, as
// in Detect. It ends after ten seconds or with ctx, and turns a panic of a
// parser into errMalformed.
func Extract(ctx context.Context, name string, r io.ReaderAt, size int64, o Options) (t Text, err error) {
	head := make([]byte, 8)
	n, _ := r.ReadAt(head, 0)
	format := Detect(name, head[:n])
	defer func() {
		if p := recover(); p != nil {
			t, err = Text{}, problem(errMalformed, "damaged in a way the reader did not expect (%v)", short(p))
		}
		if e, ok := errors.AsType[*failure](err); ok && e.Format == None {
			e.Format = format
		}
	}()

	switch {
	case format == None:
		return Text{}, problem(errUnsupported, "not a PDF, Word, Excel or PowerPoint file")
	case size == 0:
		return Text{}, problem(errMalformed, "the file is empty")
	case size > maxFileBytes:
		return Text{}, problem(ErrTooLarge, "%d MB; at most %d MB are read", size/1_000_000, maxFileBytes/1_000_000)
	case format != PDF && bytes.HasPrefix(head, []byte("\xd0\xcf\x11\xe0")):
		return Text{}, problem(errEncrypted, "protected with a password, or in the old binary format; save it again without a password as %s", extension(name))
	}

	if o.MaxChars <= 0 {
		o.MaxChars = defaultMaxChars
	}
	if o.MaxPages <= 0 {
		o.MaxPages = defaultMaxPages
	}

	limited, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	in := &input{ctx: limited, r: r, size: size}
	out := &output{left: o.MaxChars}
	t, err = read(format, in, out, o)
	if ctx.Err() != nil {
		return Text{}, ctx.Err()
	}
	if limited.Err() != nil { // readers may have taken the end of time for the end of data
		return Text{}, problem(ErrTooSlow, "reading it takes longer than %d seconds", int(maxTime.Seconds()))
	}

	t.Format = format
	return t, err
}

func read(format Format, in *input, out *output, o Options) (Text, error) {
	if format == PDF {
		return readPDF(in, out, o)
	}

	z, err := openArchive(in)
	if err != nil {
		return Text{}, err
	}

	switch format {
	case Word:
		return readWord(z, out)
	case Excel:
		return readExcel(z, out, o)
	default:
		return readSlides(z, out, o)
	}
}

// short names a panic without the addresses a Go error may hold.
func short(p any) string {
	if e, ok := p.(error); ok {
		return strings.TrimPrefix(e.Error(), "runtime error: ")
	}
	return fmt.Sprint(p)
}

// pages applies the wanted range to a document of total pages.
func (o Options) pages(total int) (from, to int, err error) {
	from, to = max(o.From, 1), o.To
	if to <= 0 || to > total {
		to = total
	}

	if total == 0 {
		return 1, 0, nil
	}
	if from > total || from > to {
		return 0, 0, problem(ErrNoSuchPage, "there is no page %d: it has %d", from, total)
	}
	return from, min(to, from+o.MaxPages-1), nil
}

// input is the file with the deadline: every read fails when time is up, so
// that no loop over its content can go on.
type input struct {
	ctx  context.Context //nolint:containedctx // lives as long as one Extract
	r    io.ReaderAt
	size int64
}

func (in *input) ReadAt(p []byte, off int64) (int, error) {
	if err := in.ctx.Err(); err != nil {
		return 0, err
	}
	if off < 0 || off >= in.size {
		return 0, io.EOF
	}
	return in.r.ReadAt(p, off)
}

// timed is a reader that fails when time is up.
type timed struct {
	in *input
	r  io.Reader
}

func (t *timed) Read(p []byte) (int, error) {
	if err := t.in.ctx.Err(); err != nil {
		return 0, err
	}
	return t.r.Read(p)
}
