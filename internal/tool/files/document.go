package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/document"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Limits of documents in one call.
const (
	maxPDFPages      = 20
	maxDocumentChars = 2_000_000 // of text that is paged by lines
)

// readDocument answers for PDF and Office files. A PDF is shown by pages; the
// others become text that is paged by lines like any other.
func (f *family) readDocument(ctx context.Context, s source, kind document.Format, in readInput) (tool.Result, error) {
	rec := record{info: s.info, offset: in.Offset, limit: in.Limit, pages: in.Pages}
	if f.unchanged(s, rec, in) {
		return tool.Textf("(%s is unchanged since this part was last read; it is above. force=true sends it again.)", s.shown), nil
	}

	o := document.Options{MaxChars: maxDocumentChars, MaxPages: 1 << 20}
	if kind == document.PDF {
		o = document.Options{MaxChars: in.chars, MaxPages: maxPDFPages, WholePages: true}
		var err error
		if o.From, o.To, err = parsePages(in.Pages); err != nil {
			return tool.Fail(tool.InvalidArgs, "%v", err), nil
		}
	}

	r, ok := s.r.(io.ReaderAt)
	if !ok {
		return tool.Fail(tool.Unsupported, "%s cannot be read as a document", s.shown), nil
	}

	t, err := document.Extract(ctx, s.name, r, s.info.Size(), o)
	if err != nil {
		return f.documentFailed(ctx, s, err)
	}

	var out string
	if kind == document.PDF {
		out = pdfPage(s.shown, t, in.chars)
	} else {
		p, err := readPage(strings.NewReader(t.Content), in.Offset, in.Limit, pageOptions{count: true, chars: in.chars})
		if err != nil {
			return f.fail(ctx, s.shown, err)
		}
		if p.text == "" && in.Offset > 1 {
			return tool.Fail(tool.InvalidArgs, "offset %d is past the end: the text of %s has %s", in.Offset, s.shown, plural(p.total, "line")), nil
		}
		out = officePage(s.shown, t, p, in.Offset)
	}

	f.remember(s, rec)
	res := tool.Text(out)
	res.Whole, res.Untrusted = true, true
	return res, nil
}

// documentFailed words what is wrong with a document.
func (f *family) documentFailed(ctx context.Context, s source, err error) (tool.Result, error) {
	if ctx.Err() != nil {
		return tool.Result{}, ctx.Err()
	}

	code := tool.Unsupported
	switch {
	case errors.Is(err, document.ErrNoSuchPage):
		code = tool.InvalidArgs
	case errors.Is(err, document.ErrTooLarge):
		code = tool.TooLarge
	case errors.Is(err, document.ErrTooSlow):
		code = tool.TimedOut
	}

	return tool.Fail(code, "%s: %v", s.shown, err), nil
}

// parsePages reads "N" or "N-M".
func parsePages(s string) (from, to int, err error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0, 0, nil
	}

	first, last, isRange := strings.Cut(s, "-")
	from, err = strconv.Atoi(strings.TrimSpace(first))
	if to = from; err == nil && isRange {
		to, err = strconv.Atoi(strings.TrimSpace(last))
	}

	switch {
	case err != nil || from < 1 || to < from:
		return 0, 0, fmt.Errorf("pages must be N or N-M, counted from 1, not %q", s)
	case to-from >= maxPDFPages:
		return 0, 0, fmt.Errorf("pages: at most %d at a time; start with %d-%d", maxPDFPages, from, from+maxPDFPages-1)
	}
	return from, to, nil
}

// pdfPage returns the text of some pages with a footer that says how to go on.
func pdfPage(shown string, t document.Text, chars int) string {
	var b strings.Builder
	escaped := false
	for line := range strings.SplitSeq(t.Content, "\n") {
		v, changed := visible(line)
		escaped = escaped || changed
		b.WriteString(v + "\n")
	}

	out := b.String()
	switch {
	case t.Pages == 0:
		out = "(" + shown + " has no pages.)\n"
	case t.Content == "":
		out = fmt.Sprintf("(No text on pages %d-%d of %s: they hold pictures, probably scans. To read them, turn pages into images with exec, for example pdftoppm, and view those.)\n", t.From, t.To, shown)
	}

	if t.Pages > 0 {
		out += fmt.Sprintf("\n(Pages %d-%d of %d", t.From, t.To, t.Pages)
		if t.Cut {
			out += fmt.Sprintf("; page %d is cut at %d characters", t.To, chars)
		}
		if t.To < t.Pages {
			out += fmt.Sprintf("; next: pages=%d-%d", t.To+1, min(t.Pages, t.To+maxPDFPages))
		}
		out += ")"
	}

	return out + remarks(t, escaped)
}

// officePage is some lines of the text of an Office file.
func officePage(shown string, t document.Text, p page, offset int) string {
	out := p.text
	switch {
	case t.Content == "":
		out = fmt.Sprintf("(No text in %s.)", shown)
	case p.end && t.Cut:
		out += fmt.Sprintf("\n(Cut after %s; the rest of %s is too long to be shown.)", plural(p.total, "line"), shown)
	case p.end:
		out += fmt.Sprintf("\n(End of document: %s)", plural(p.total, "line"))
	default:
		out += fmt.Sprintf("\n(Lines %d-%d of %d; next: offset=%d)", offset, p.last, p.total, p.last+1)
	}

	return out + remarks(t, p.escaped)
}

func remarks(t document.Text, escaped bool) string {
	var b strings.Builder
	for _, n := range t.Notes {
		b.WriteString("\n(" + n + ")")
	}
	if escaped {
		b.WriteString("\n(Invisible characters are shown as <U+....>.)")
	}
	return b.String()
}
