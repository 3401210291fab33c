package email

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// askMark begins the ids of mails that ask something. The id of the question
// follows, so that an answer to the mail names the question.
const askMark = "ask."

// questionOf reads the id of the question from the id of a mail of ours; "" is
// a mail that asks nothing.
func questionOf(mail string) string {
	rest, ok := strings.CutPrefix(mail, "<"+askMark)
	if !ok {
		return ""
	}
	id, _, ok := strings.Cut(rest, ".")
	if !ok || !plainID(id) {
		return ""
	}
	return id
}

// plainID reports whether the id of a question can stand in the id of a mail.
func plainID(id string) bool {
	return id != "" && len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}

// envelope is everything about a mail but its content.
type envelope struct {
	from, to *mail.Address
	subject  string
	id       string
	refs     []string // the last is the mail that is answered
	date     time.Time
	auto     string
}

// messageID returns the same for the same message, so that one that had to be sent
// twice is shown once by those who look.
func messageID(out bus.Outbound, host string) string {
	key := out.ID
	if key == "" {
		key = rand.Text()
	}

	sum := sha256.Sum256([]byte(key + "\x00" + out.Text))
	mark := "nanobot."
	if q := out.Question; out.Kind == bus.Ask && q != nil && plainID(q.ID) {
		mark = askMark + q.ID + "."
	}
	return "<" + mark + hex.EncodeToString(sum[:16]) + "@" + host + ">"
}

// answerSubject returns the subject of an answer, without a second prefix.
func answerSubject(prefix, subject string) string {
	lower := strings.ToLower(subject)
	for _, known := range []string{prefix, "re:", "aw:", "sv:", "antw:", "回复:", "回复：", "答复:"} {
		if known = strings.ToLower(strings.TrimSpace(known)); known != "" && strings.HasPrefix(lower, known) {
			return subject
		}
	}

	if subject == "" {
		subject = "your mail"
	}
	return prefix + subject
}

// compose writes a mail: as text and as HTML, with files behind them.
func compose(e envelope, out bus.Outbound, files []file) ([]byte, error) {
	var b bytes.Buffer
	h := func(key, value string) { fmt.Fprintf(&b, "%s: %s\r\n", key, value) }
	h("From", e.from.String())
	h("To", e.to.String())
	h("Subject", encodeWords(e.subject))
	h("Date", e.date.Format(time.RFC1123Z))
	h("Message-ID", e.id)

	if len(e.refs) > 0 {
		h("In-Reply-To", e.refs[len(e.refs)-1])
		h("References", strings.Join(e.refs, "\r\n "))
	}

	h("Auto-Submitted", e.auto)
	h("X-Auto-Response-Suppress", "All")
	h("MIME-Version", "1.0")
	w := multipart.NewWriter(&b)
	if len(files) == 0 {
		h("Content-Type", `multipart/alternative; boundary="`+w.Boundary()+`"`)
		b.WriteString("\r\n")
		if err := writeTexts(w, out); err != nil {
			return nil, err
		}
		return b.Bytes(), nil
	}

	h("Content-Type", `multipart/mixed; boundary="`+w.Boundary()+`"`)
	b.WriteString("\r\n")
	var texts bytes.Buffer
	inner := multipart.NewWriter(&texts)
	if err := writeTexts(inner, out); err != nil {
		return nil, err
	}

	p, err := w.CreatePart(textproto.MIMEHeader{"Content-Type": {`multipart/alternative; boundary="` + inner.Boundary() + `"`}})
	if err != nil {
		return nil, err
	}
	if _, err := p.Write(texts.Bytes()); err != nil {
		return nil, err
	}

	for _, f := range files {
		if err := writeFile(w, f); err != nil {
			return nil, err
		}
	}

	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// encodeWords makes a header value of any text, in lines that are short enough.
func encodeWords(s string) string {
	return strings.ReplaceAll(mime.QEncoding.Encode("utf-8", s), "?= =?", "?=\r\n =?")
}

// writeTexts writes the text twice, the preferred form last.
func writeTexts(w *multipart.Writer, out bus.Outbound) error {
	plain := out.Text
	if !out.Plain {
		tree := markdown.Parse(out.Text)
		if plain = markdown.Plain(tree); strings.TrimSpace(plain) == "" {
			plain = out.Text
		}

		if err := writeText(w, "text/plain", plain); err != nil {
			return err
		}
		if err := writeText(w, "text/html", toHTML(tree)); err != nil {
			return err
		}
		return w.Close()
	}

	if err := writeText(w, "text/plain", plain); err != nil {
		return err
	}
	return w.Close()
}

func writeText(w *multipart.Writer, kind, s string) error {
	p, err := w.CreatePart(textproto.MIMEHeader{"Content-Type": {kind + "; charset=utf-8"}, "Content-Transfer-Encoding": {"quoted-printable"}})
	if err != nil {
		return err
	}
	q := quotedprintable.NewWriter(p)
	if _, err := io.WriteString(q, strings.TrimSpace(s)+"\n"); err != nil {
		return err
	}
	return q.Close()
}

func writeFile(w *multipart.Writer, f file) error {
	disposition := mime.FormatMediaType("attachment", map[string]string{"filename": f.name})
	if disposition == "" {
		disposition = "attachment"
	}

	p, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Type": {f.mime}, "Content-Disposition": {disposition}, "Content-Transfer-Encoding": {"base64"},
	})
	if err != nil {
		return err
	}

	coded := base64.StdEncoding.EncodeToString(f.data)
	for len(coded) > 0 {
		n := min(76, len(coded))
		if _, err := io.WriteString(p, coded[:n]+"\r\n"); err != nil {
			return err
		}
		coded = coded[n:]
	}

	return nil
}
