package email

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/mail"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-message"
	"github.com/emersion/go-message/textproto"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Bounds of a mail that is taken apart.
const (
	maxDepth    = 12
	maxParts    = 200
	maxTextPart = 2 << 20 // bytes of a part that is read as text; of all together twice that
	maxShown    = 500     // characters of a header line
)

// letter is the header of a mail.
type letter struct {
	header  textproto.Header
	from    *mail.Address // its Address is in lower case; nil if it is not clear who wrote
	subject string
	date    string
	at      time.Time
	id      string
	refs    []string
	answers string // the id in In-Reply-To
	replyTo string
	to, cc  []*mail.Address
}

// readHeader takes a header apart. One that cannot be read has no sender.
func readHeader(data []byte) letter {
	h, err := textproto.ReadHeader(bufio.NewReader(io.MultiReader(bytes.NewReader(data), strings.NewReader("\r\n\r\n"))))
	if err != nil && h.Len() == 0 {
		return letter{}
	}

	l := letter{header: h, subject: line(words(h.Get("Subject"))), date: line(h.Get("Date"))}
	l.from = sender(h)
	if l.at, err = mail.ParseDate(l.date); err != nil {
		l.at = time.Time{}
	}

	l.refs = ids(h.Get("References"))
	if own := ids(h.Get("Message-Id")); len(own) > 0 {
		l.id = own[0]
	}

	if a := ids(h.Get("In-Reply-To")); len(a) > 0 {
		l.answers = a[len(a)-1]
		if len(l.refs) == 0 {
			l.refs = a[:1]
		}
	}

	if list := people(h, "Reply-To"); len(list) == 1 {
		l.replyTo = text.LowerASCII(list[0].Address)
	}

	l.to, l.cc = people(h, "To"), people(h, "Cc")
	return l
}

// sender returns the only author of a mail. A mail with two From lines is one that
// different programs read differently, so it has no author.
func sender(h textproto.Header) *mail.Address {
	if h.FieldsByKey("From").Len() != 1 {
		return nil
	}

	list := people(h, "From")
	if len(list) != 1 {
		return nil
	}

	a := *list[0]
	a.Address = text.LowerASCII(a.Address)
	if local, host, ok := strings.Cut(a.Address, "@"); !ok || local == "" || host == "" || strings.Contains(host, "@") || strings.ContainsAny(a.Address, " \t\r\n<>,;\"\x00") {
		return nil
	}
	return &a
}

// people returns the addresses of all lines of a name.
func people(h textproto.Header, key string) []*mail.Address {
	var out []*mail.Address
	p := mail.AddressParser{WordDecoder: wordDecoder()}
	for f := h.FieldsByKey(key); f.Next(); {
		if list, err := p.ParseList(f.Value()); err == nil {
			out = append(out, list...)
		}
	}
	return out
}

// words decodes encoded words.
func words(s string) string {
	if out, err := wordDecoder().DecodeHeader(s); err == nil {
		return out
	}
	return s
}

// line makes one short line of a header value.
func line(s string) string { return text.Label(s, maxShown) }

// ids returns the message ids in a header value, with their brackets.
func ids(s string) []string {
	var out []string
	for {
		from := strings.IndexByte(s, '<')
		if from < 0 {
			return out
		}

		to := strings.IndexByte(s[from:], '>')
		if to < 0 {
			return out
		}

		id := s[from : from+to+1]
		if s = s[from+to+1:]; len(id) > 2 && len(id) <= 250 && ascii(id) && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			out = append(out, id)
		}
	}
}

// others returns the people who got the mail besides us.
func (l letter) others(own []string) (to, cc []string) {
	pick := func(list []*mail.Address) (out []string) {
		for _, a := range list {
			ours := false
			for _, o := range own {
				ours = ours || strings.EqualFold(a.Address, o)
			}
			if !ours {
				out = append(out, line(a.Address))
			}
		}
		return out
	}
	return pick(l.to), pick(l.cc)
}

// part is an attachment. Its data is bounded by the size of the mail.
type part struct {
	name, mime string
	data       []byte
	omitted    bool // it was not fetched: the mail is too large
	damaged    bool // nothing of it can be decoded
}

// content is what is in a mail.
type content struct { //nolint:recvcheck // walk fills it in, all else only reads
	plain, html []string
	files       []part
	count       int
	size        int  // bytes of plain and html
	cut         bool // there is more of the text
}

// readContent takes a mail apart. What is broken is left out; a mail is never
// refused for it.
func readContent(data []byte) content {
	var c content
	e, err := message.Read(bytes.NewReader(data))
	if e == nil || err != nil && !message.IsUnknownCharset(err) && !message.IsUnknownEncoding(err) {
		return c
	}
	c.walk(e, 0)
	return c
}

func (c *content) walk(e *message.Entity, depth int) {
	if c.count++; c.count > maxParts || depth > maxDepth {
		return
	}

	mr := e.MultipartReader()
	if mr == nil {
		c.leaf(e)
		return
	}

	for {
		p, err := mr.NextPart()
		if p == nil || errors.Is(err, io.EOF) || err != nil && !message.IsUnknownCharset(err) && !message.IsUnknownEncoding(err) {
			return
		}
		c.walk(p, depth+1)
		if c.count > maxParts {
			return
		}
	}
}

func (c *content) leaf(e *message.Entity) {
	kind, params, err := mime.ParseMediaType(e.Header.Get("Content-Type"))
	if err != nil && kind == "" {
		kind = "text/plain"
		if e.Header.Get("Content-Type") != "" {
			kind = "application/octet-stream"
		}
	}

	disposition, dparams, _ := mime.ParseMediaType(e.Header.Get("Content-Disposition")) // a broken one is none
	name := words(or(dparams["filename"], params["name"]))
	isText := (kind == "text/plain" || kind == "text/html") && disposition != "attachment" && name == ""
	limit := int64(maxMail)
	if isText {
		limit = maxTextPart
	}

	data, err := io.ReadAll(io.LimitReader(e.Body, limit))
	if err != nil && len(data) == 0 {
		if !isText {
			c.files = append(c.files, part{name: line(name), mime: strings.ToLower(kind), damaged: true})
		}
		return
	}

	if isText {
		if c.size += len(data); c.size > 2*maxTextPart {
			return
		}
	}

	switch {
	case isText && kind == "text/html":
		c.html = append(c.html, htmlText(toUTF8(data, or(params["charset"], htmlCharset(data)))))
	case isText:
		c.plain = append(c.plain, toUTF8(data, params["charset"]))
	default:
		c.files = append(c.files, part{name: line(name), mime: strings.ToLower(kind), data: data})
	}
}

// add reads a text that was fetched alone, with what the server says of it.
func (c *content) add(p *imap.BodyStructureSinglePart, data []byte) {
	var h message.Header
	h.SetContentType(p.MediaType(), p.Params)
	h.Set("Content-Transfer-Encoding", p.Encoding)
	e, err := message.New(h, bytes.NewReader(data))
	if e == nil || err != nil && !message.IsUnknownCharset(err) && !message.IsUnknownEncoding(err) {
		return
	}
	c.leaf(e)
}

// text returns what was written: the plain form if there is one.
func (c content) text() string {
	list := c.plain
	if strings.TrimSpace(strings.Join(list, "")) == "" {
		list = c.html
	}
	return strings.TrimSpace(strings.ReplaceAll(strings.Join(list, "\n\n"), "\r\n", "\n"))
}
