package files

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// page is a run of numbered lines.
type page struct { //nolint:recvcheck // fill writes it, all else only reads
	text    string
	last    int  // number of the last line shown; below the offset: none
	total   int  // lines in the file, -1 if not known
	escaped bool // some characters are spelled out
	cut     bool // the last line was too long to show whole
	end     bool // the file ends with the page
}

// pageOptions says how a page is made.
type pageOptions struct {
	count   bool // read on to the end to know the number of lines
	numbers bool // write them before the lines
	chars   int  // longest page
}

// readPage reads limit lines from the offset-th on, at most o.chars
// characters, and then stops reading unless count asks for the number of lines.
// It holds no more than one page in memory, whatever the length of a line. Only
// LF ends a line (with a CR before it taken off), as in editors.
func readPage(r io.Reader, offset, limit int, o pageOptions) (page, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	p := page{last: offset - 1, total: -1}
	for line := 1; line < offset; line++ {
		ended, err := skipLine(br)
		if err != nil {
			return p, err
		}

		if ended {
			p.last = line - 1
			p.total = line - 1
			p.end = true
			return p, nil
		}
	}

	taken, partial, err := p.fill(br, offset, limit, o)
	if err != nil {
		return p, err
	}

	if !p.end && !partial && p.last == taken {
		if _, err := br.Peek(1); errors.Is(err, io.EOF) {
			p.total, p.end = p.last, true
		}
	}

	if !o.count || p.end {
		return p, nil
	}

	if partial {
		if _, err := skipLine(br); err != nil {
			return p, err
		}
	}

	for p.total = taken; ; p.total++ {
		ended, err := skipLine(br)
		if err != nil || ended {
			p.end = p.last == p.total
			return p, err
		}
	}
}

// fill puts lines on the page. It returns the number of the last line it took
// from the reader, which may be one more than it shows, and whether the rest of
// that line is still unread.
func (p *page) fill(br *bufio.Reader, offset, limit int, o pageOptions) (taken int, partial bool, err error) {
	var out strings.Builder
	defer func() { p.text = out.String() }()
	chars := 0
	taken = offset - 1
	for line := offset; line-offset < limit; line++ {
		raw, whole, err := readLine(br, 4*o.chars)
		if errors.Is(err, io.EOF) {
			p.total, p.end = line-1, true
			return taken, false, nil
		}
		if err != nil {
			return taken, false, err
		}

		taken = line
		shown, escaped := visible(strings.ToValidUTF8(string(raw), "\uFFFD"))
		prefix := ""
		if o.numbers {
			prefix = strconv.Itoa(line) + "| "
		}

		n := len(prefix) + utf8.RuneCountInString(shown) + 1
		if chars+n > o.chars || !whole {
			if chars > 0 {
				return taken, !whole, nil // it starts the next page
			}
			shown = text.Cut(shown, o.chars-len(prefix)-len(lineCut)-1) + lineCut
			p.cut = true
		}

		out.WriteString(prefix)
		out.WriteString(shown)
		out.WriteByte('\n')
		chars += n
		p.last = line
		p.escaped = p.escaped || escaped
		if p.cut {
			return taken, !whole, nil
		}
	}

	return taken, false, nil
}

const lineCut = " …[long line cut; grep or exec can show more of it]"

// readLine returns the next line without its end. whole is false when only the
// first max bytes are returned; the rest is then still unread.
func readLine(br *bufio.Reader, limit int) (line []byte, whole bool, err error) {
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			line = bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))
			return line, true, nil
		case errors.Is(err, io.EOF):
			if len(line) == 0 {
				return nil, true, io.EOF
			}
			return line, true, nil

		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		case len(line) >= limit:
			return line, false, nil
		}
	}
}

// skipLine reads past the next line; ended says that there was none.
func skipLine(br *bufio.Reader) (ended bool, err error) {
	for n := 0; ; {
		part, err := br.ReadSlice('\n')
		n += len(part)
		switch {
		case err == nil:
			return false, nil
		case errors.Is(err, io.EOF):
			return n == 0, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return false, err
		}
	}
}
