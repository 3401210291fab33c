package email

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emersion/go-smtp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// opened is a sent mail taken apart by the standard library.
type opened struct {
	header      mail.Header
	plain, html string
	files       map[string]string
}

func open(t *testing.T, raw []byte) opened {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("the mail cannot be read: %v\n%s", err, raw)
	}
	for l := range strings.SplitSeq(string(raw), "\r\n") {
		if len(l) > 998 || strings.ContainsAny(l, "\r\n") {
			t.Fatalf("a bad line: %.100q", l)
		}
	}
	o := opened{header: m.Header, files: map[string]string{}}
	o.read(t, m.Header.Get("Content-Type"), m.Body)
	return o
}

func (o *opened) read(t *testing.T, kind string, body io.Reader) {
	t.Helper()
	_, params, err := mime.ParseMediaType(kind)
	if err != nil {
		t.Fatal(err)
	}
	mr := multipart.NewReader(body, params["boundary"])
	for {
		p, err := mr.NextRawPart()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, _, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(kind, "multipart/") {
			o.read(t, p.Header.Get("Content-Type"), p)
			continue
		}
		var r io.Reader = quotedprintable.NewReader(p)
		if p.Header.Get("Content-Transfer-Encoding") == "base64" {
			r = base64.NewDecoder(base64.StdEncoding, p)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		s := strings.ReplaceAll(string(data), "\r\n", "\n")
		switch {
		case p.FileName() != "":
			o.files[p.FileName()] = string(data)
		case kind == "text/html":
			o.html = s
		default:
			o.plain = strings.TrimSuffix(s, "\n")
		}
	}
}

func final(text string, meta map[string]string) bus.Outbound {
	return bus.Outbound{ID: "f1", Kind: bus.Final, Route: bus.Route{Channel: "email", ChatID: owner}, Text: text, Meta: meta}
}

func TestAnswerStandsInThread(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"fromAddress": "Bot <bot@example.org>"})
	r.deliver(strings.Replace(letterOf(3, "=?utf-8?b?R3LDvMOfZQ==?=", "hi"), "Subject:", "References: <1@friends.example>\n <2@friends.example>\nIn-Reply-To: <2@friends.example>\nReply-To: ann+bot@friends.example\nSubject:", 1))
	in := r.mustOnce()[0]
	id, err := r.Send(t.Context(), final("**bold** ä\n\n- <one>\n- [two](https://example.org)\n\n[bad](javascript:x)", in.Meta))
	if err != nil {
		t.Fatal(err)
	}
	sent := r.mails()
	if len(sent) != 1 || sent[0].from != botAddress || sent[0].to != "ann+bot@friends.example" {
		t.Fatalf("sent %+v, want one mail to the address of Reply-To", sent)
	}
	m := open(t, sent[0].raw)
	for key, want := range map[string]string{
		"From": `"Bot" <bot@example.org>`, "To": "<ann+bot@friends.example>", "Message-Id": id, "In-Reply-To": "<3@friends.example>",
		"References": "<1@friends.example> <2@friends.example> <3@friends.example>", "Auto-Submitted": "auto-replied", "Mime-Version": "1.0",
	} {
		if got := m.header.Get(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if got := words(m.header.Get("Subject")); got != "Re: Grüße" {
		t.Errorf("subject is %q", got)
	}
	if _, err := m.header.Date(); err != nil {
		t.Errorf("date: %v", err)
	}
	if !strings.Contains(m.plain, "bold ä") || strings.Contains(m.plain, "**") {
		t.Errorf("plain text is %q", m.plain)
	}
	for _, want := range []string{"<b>bold</b> ä", "&lt;one&gt;", `<a href="https://example.org">two</a>`} {
		if !strings.Contains(m.html, want) {
			t.Errorf("HTML %q lacks %q", m.html, want)
		}
	}
	if strings.Contains(m.html, `href="javascript`) {
		t.Errorf("HTML %q has a link that runs", m.html)
	}
}

// The same message has the same id, so that it is shown once.
func TestMessageIDRepeats(t *testing.T) {
	t.Parallel()
	a, b := messageID(final("x", nil), "example.org"), messageID(final("x", nil), "example.org")
	if a != b || a == messageID(final("y", nil), "example.org") {
		t.Errorf("ids are %s and %s", a, b)
	}
	ask := final("x", nil)
	ask.Kind, ask.Question = bus.Ask, &bus.Question{ID: "ab12-34cd"}
	if got := questionOf(messageID(ask, "example.org")); got != "ab12-34cd" {
		t.Errorf("the id of a mail that asks names the question %q", got)
	}
	if ask.Question.ID = "x\r\nBcc: y"; questionOf(messageID(ask, "example.org")) != "" || strings.ContainsAny(messageID(ask, "example.org"), "\r\n ") {
		t.Error("an odd id stands in the id of a mail")
	}
	if ask.Kind, ask.Question.ID = bus.Message, "ab12"; questionOf(messageID(ask, "example.org")) != "" {
		t.Error("a mail that only offers answers counts as a question")
	}
}

// What the agent says on its own goes into the last thread, after a restart too.
func TestThreadSurvives(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), nil)
	r.deliver(letterOf(1, "Re: plan", "hi"))
	r.mustOnce()
	r.reopen(nil)
	if _, err := r.Send(t.Context(), final("news", nil)); err != nil {
		t.Fatal(err)
	}
	m := open(t, r.mails()[0].raw)
	if got := m.header.Get("In-Reply-To") + m.header.Get("Subject"); got != "<1@friends.example>Re: plan" {
		t.Errorf("thread and subject are %q", got)
	}
	out := final("hello", map[string]string{"subject": "Invitation"})
	out.Route.ChatID = "new@elsewhere.example"
	if _, err := r.Send(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	m = open(t, r.mails()[1].raw)
	if got := m.header.Get("In-Reply-To") + m.header.Get("Subject") + m.header.Get("Auto-Submitted"); got != "Invitationauto-generated" {
		t.Errorf("a first mail has %q", got)
	}
}

func TestNotWorthAMail(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), nil)
	for _, k := range []bus.Kind{bus.Progress, bus.ToolHint, bus.ToolEvent, bus.Delta, bus.DeltaEnd, bus.Reasoning, bus.Notice} {
		if _, err := r.Send(t.Context(), bus.Outbound{Kind: k, Text: "x", Route: bus.Route{ChatID: owner}}); err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	if n := len(r.mails()); n != 0 {
		t.Errorf("%d mails, want none", n)
	}
}

func TestAutoReplyOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"autoReplyEnabled": false})
	reply := map[string]string{"sender_email": owner}
	for _, c := range []struct {
		name string
		out  bus.Outbound
		want int
	}{
		{"reply", final("a", reply), 0},
		{"forced", final("b", map[string]string{"sender_email": owner, "force_send": "true"}), 1},
		{"first mail", final("c", nil), 2},
	} {
		if _, err := r.Send(t.Context(), c.out); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if n := len(r.mails()); n != c.want {
			t.Errorf("%s: %d mails so far, want %d", c.name, n, c.want)
		}
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), nil)
	for i := range 20 {
		if _, err := r.Send(t.Context(), final(fmt.Sprint(i), nil)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.Send(t.Context(), final("one more", nil))
	if limited, ok := errors.AsType[*chat.RateLimitedError](err); !ok || limited.After <= 0 {
		t.Errorf("the 21st mail: %v, want to be told to wait", err)
	}
	out := final("somebody else", nil)
	out.Route.ChatID = "bob@friends.example"
	if _, err := r.Send(t.Context(), out); err != nil {
		t.Errorf("another address: %v", err)
	}
}

func TestSendErrors(t *testing.T) {
	t.Parallel()
	refuse := func(code int, text string) error {
		return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: text}
	}
	for _, c := range []struct {
		name               string
		err                error
		permanent, limited bool
	}{
		{"unknown mailbox", refuse(550, "no such user"), true, false},
		{"full", refuse(452, "mailbox full"), false, false},
		{"too many", refuse(421, "Too many messages"), false, true},
		{"too many for good", refuse(550, "too many messages today"), false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, newProvider(t, serverOptions{}), nil)
			r.failNext(c.err)
			_, err := r.Send(t.Context(), final("x", nil))
			_, limited := errors.AsType[*chat.RateLimitedError](err)
			if err == nil || chat.IsPermanent(err) != c.permanent || limited != c.limited {
				t.Errorf("error is %v, permanent %v, limited %v", err, chat.IsPermanent(err), limited)
			}
		})
	}
}

func TestBadAddresses(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), nil)
	for name, out := range map[string]bus.Outbound{
		"no address":          {Kind: bus.Message, Text: "x", Route: bus.Route{ChatID: "nobody"}},
		"line end":            {Kind: bus.Message, Text: "x", Route: bus.Route{ChatID: "a@b.example\r\nBcc: c@d.example"}},
		"line end in subject": {Kind: bus.Message, Text: "x", Route: bus.Route{ChatID: "a@b.example"}, Meta: map[string]string{"subject": "a\r\nBcc: c@d.example"}},
	} {
		if _, err := r.Send(t.Context(), out); !chat.IsPermanent(err) {
			t.Errorf("%s: error is %v, want a permanent one", name, err)
		}
	}
	if n := len(r.mails()); n != 0 {
		t.Errorf("%d mails", n)
	}
}

func TestSendFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"maxAttachmentSize": 100, "maxAttachmentsPerEmail": 3})
	dir := t.TempDir()
	write := func(name string, n int) bus.Media {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, bytes.Repeat([]byte{0xff}, n), 0o600); err != nil {
			t.Fatal(err)
		}
		return bus.Media{Path: path, Name: name}
	}
	out := final("see", nil)
	out.Media = []bus.Media{write("übersicht.bin", 90), {Path: filepath.Join(dir, "gone.txt")}, write("big.bin", 200), write("more.bin", 1)}
	if _, err := r.Send(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	m := open(t, r.mails()[0].raw)
	if len(m.files) != 1 || m.files["übersicht.bin"] != strings.Repeat("\xff", 90) {
		t.Errorf("files are %q", m.files)
	}
	for _, want := range []string{"see", "[attachment: gone.txt - send failed]", "[attachment: big.bin - too large]", "[attachment: more.bin - too many files]"} {
		if !strings.Contains(m.plain, want) {
			t.Errorf("text %q lacks %q", m.plain, want)
		}
	}
}

func TestAnswerSubject(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]string{"Hi": "Re: Hi", "Re: Hi": "Re: Hi", "RE: Hi": "RE: Hi", "AW: Hi": "AW: Hi", "": "Re: your mail"} {
		if got := answerSubject("Re: ", subject); got != want {
			t.Errorf("answerSubject(%q) = %q, want %q", subject, got, want)
		}
	}
}

func errNoUser() error {
	return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
}
