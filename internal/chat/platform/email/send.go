package email

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"path/filepath"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	submitTime   = 2 * time.Minute // for the server to take a whole mail
	throttleTime = time.Minute     // when a server wants fewer mails and does not say when
)

// Send implements chat.Channel. Only what is worth a mail is sent: what the
// agent does meanwhile is not.
func (p *post) Send(ctx context.Context, out bus.Outbound) (string, error) {
	if !worthAMail(out) {
		return "", nil
	}
	if err := p.facts.open(); err != nil {
		return "", err
	}

	t, wrote := p.threadOf(out)
	if wrote && !p.o.AutoReplyEnabled && out.Meta["force_send"] != "true" {
		p.deps.Log.DebugContext(ctx, "autoReplyEnabled is off, a reply is not sent", "to", out.Route.ChatID)
		return "", nil
	}

	e, err := p.envelopeOf(out, t, wrote)
	if err != nil {
		return "", chat.Permanent(err)
	}

	files, lost := p.files(ctx, out.Media)
	out.Text = strings.TrimSpace(strings.Join(append([]string{out.Text}, lost...), "\n"))
	data, err := compose(e, out, files)
	if err != nil {
		return "", chat.Permanent(err)
	}
	if d := p.replies.wait(e.to.Address, p.deps.Now()); d > 0 {
		return "", chat.RateLimited(d, fmt.Errorf("%s got %d mails within an hour", e.to.Address, p.replies.most))
	}
	if err := p.mail(ctx, e.to.Address, data); err != nil {
		p.replies.back(e.to.Address)
		return "", err
	}
	return e.id, nil
}

// worthAMail reports whether something is sent at all. Notices of the agent
// are about waiting; those of the house say what was lost, and are plain.
func worthAMail(out bus.Outbound) bool {
	switch out.Kind {
	case bus.Final, bus.Message, bus.Ask, bus.Gone:
	case bus.Notice:
		if !out.Plain {
			return false
		}
	default:
		return false
	}
	return strings.TrimSpace(out.Text) != "" || len(out.Media) > 0
}

// threadOf returns the mail that a message answers: the one that it was made for,
// else the last one of this person. Wrote means that there is one.
func (p *post) threadOf(out bus.Outbound) (t thread, wrote bool) {
	if m := out.Meta; m["sender_email"] != "" {
		t = thread{Subject: m["subject"]}
		if list := ids(m["references"]); len(list) > 0 {
			t.References, t.MessageID = list[:len(list)-1], list[len(list)-1]
		}
		if m["verified"] == "true" {
			t.ReplyTo = m["reply_to"]
		}
		return t, true
	}
	return p.facts.thread(out.Route.ChatID)
}

func (p *post) envelopeOf(out bus.Outbound, t thread, wrote bool) (envelope, error) {
	to, err := mail.ParseAddress(or(t.ReplyTo, out.Route.ChatID))
	if err != nil {
		return envelope{}, fmt.Errorf("%q is not an email address", out.Route.ChatID)
	}

	from, err := mail.ParseAddress(p.o.FromAddress)
	if err != nil {
		return envelope{}, err
	}

	e := envelope{
		from: from,
		to:   to,
		refs: t.refs(),
		date: p.deps.Now(),
		auto: "auto-generated",
		id:   messageID(out, domain(from.Address)),
	}
	switch own := out.Meta["subject"]; {
	case out.Meta["sender_email"] == "" && own != "":
		e.subject = own
	case wrote:
		e.subject, e.auto = answerSubject(p.o.SubjectPrefix, t.Subject), "auto-replied"
	default:
		e.subject = "A message for you"
	}

	for _, s := range []string{e.subject, to.Address, to.Name} {
		if strings.ContainsAny(s, "\r\n\x00") {
			return envelope{}, errors.New("a subject or an address contains a line break")
		}
	}
	return e, nil
}

// file is something to attach.
type file struct {
	name, mime string
	data       []byte
}

// files reads what is to be attached. What cannot be is named in a line.
func (p *post) files(ctx context.Context, list []bus.Media) (out []file, lost []string) {
	for i, m := range list {
		name := media.FileName(or(m.Name, filepath.Base(m.Path)))
		if i >= p.o.MaxAttachments {
			lost = append(lost, "[attachment: "+name+" - too many files]")
			continue
		}

		f, err := p.read(ctx, m)
		switch {
		case errors.Is(err, media.ErrTooLarge):
			lost = append(lost, "[attachment: "+name+" - too large]")
		case err != nil:
			p.deps.Log.WarnContext(ctx, "a file cannot be sent", "name", name, "err", err)
			lost = append(lost, "[attachment: "+name+" - send failed]")
		default:
			out = append(out, f)
		}
	}
	return out, lost
}

func (p *post) read(ctx context.Context, m bus.Media) (file, error) {
	a, err := kit.OpenAttachment(ctx, p.deps, m, p.o.MaxAttachmentSize)
	if err != nil {
		return file{}, err
	}
	defer a.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(a)
	return file{name: a.Name, mime: a.MIME, data: data}, err
}

// mail hands a mail to the server. The connection lives as long as this one
// mail: answers are rare, and servers hang up on those who linger.
func (p *post) mail(ctx context.Context, to string, data []byte) error {
	return p.submission(ctx, func(c *smtp.Client) error { return p.hand(c, to, data) })
}

// submission does something on a connection that is logged in.
func (p *post) submission(ctx context.Context, do func(c *smtp.Client) error) error {
	conn, err := p.dial(ctx, p.o.smtpAddress(), p.o.SMTPHost, p.o.SMTPUseSSL)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", p.o.smtpAddress(), err)
	}

	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	limit := time.AfterFunc(dialTime, func() { _ = conn.Close() })
	defer limit.Stop()
	var c *smtp.Client
	if p.o.SMTPUseTLS && !p.o.SMTPUseSSL {
		if c, err = smtp.NewClientStartTLS(conn, p.tlsConfig(p.o.SMTPHost)); err != nil {
			return smtpError("STARTTLS (smtpUseTls)", err)
		}
	} else {
		c = smtp.NewClient(conn)
	}

	defer c.Close() //nolint:errcheck // the mail is sent by then, or not
	c.CommandTimeout, c.SubmissionTimeout = smtpTime, submitTime
	if err := p.hello(ctx, c); err != nil {
		return err
	}

	limit.Stop()
	return do(c)
}

// hello introduces us and logs in.
func (p *post) hello(ctx context.Context, c *smtp.Client) error {
	if err := c.Hello(domain(p.own[0])); err != nil {
		return smtpError("greet the server", err)
	}

	var a sasl.Client
	password := p.o.SMTPPassword.Reveal()
	switch {
	case p.tokens != nil:
		token, err := p.tokens.Get(ctx, "")
		if err != nil {
			return err
		}
		a = &xoauth2{user: p.o.SMTPUsername, token: token.value}

	case c.SupportsAuth(sasl.Plain):
		a = sasl.NewPlainClient("", p.o.SMTPUsername, password)
	case c.SupportsAuth(sasl.Login):
		a = sasl.NewLoginClient(p.o.SMTPUsername, password)
	case loopback(p.o.SMTPHost):
		return nil // a relay of this machine that knows us
	default:
		return fmt.Errorf("%s offers no way to log in that we know (PLAIN, LOGIN)", p.o.SMTPHost)
	}

	if err := c.Auth(a); err != nil {
		return fmt.Errorf("log in to %s with smtpUsername and smtpPassword: %w", p.o.SMTPHost, err)
	}
	return nil
}

// hand gives the mail over. After the server took it nothing can go wrong.
func (p *post) hand(c *smtp.Client, to string, data []byte) error {
	o := &smtp.MailOptions{Size: int64(len(data))}
	if !ascii(to + p.own[0]) {
		o.UTF8 = true
	}

	if most, ok := c.MaxMessageSize(); ok && most > 0 && len(data) > most {
		return chat.Permanent(fmt.Errorf("the mail of %d bytes is %w for the server, which takes %d", len(data), media.ErrTooLarge, most))
	}
	if err := c.Mail(p.own[0], o); err != nil {
		return smtpError("name the sender", err)
	}
	if err := c.Rcpt(to, nil); err != nil {
		return smtpError("name the receiver", err)
	}

	w, err := c.Data()
	if err != nil {
		return smtpError("send the mail", err)
	}
	if _, err := w.Write(data); err != nil {
		return smtpError("send the mail", errors.Join(err, w.Close()))
	}
	if err := w.Close(); err != nil {
		return smtpError("send the mail", err)
	}

	_ = c.Quit() // it is taken
	return nil
}

// smtpError says whether it makes sense to try again.
func smtpError(what string, err error) error {
	wrapped := fmt.Errorf("%s: %w", what, err)
	e, ok := errors.AsType[*smtp.SMTPError](err)
	if !ok {
		return wrapped
	}

	text := strings.ToLower(e.Message)
	switch {
	case e.Code == 530 || e.Code == 534 || e.Code == 535 || e.Code == 538:
		return wrapped // about logging in: the configuration may change
	case strings.Contains(text, "too many") || strings.Contains(text, "rate limit") || e.Code == 454 || e.EnhancedCode == smtp.EnhancedCode{4, 7, 28}:
		return chat.RateLimited(throttleTime, wrapped)
	case e.Code >= 500:
		return chat.Permanent(wrapped)
	}

	return wrapped
}
