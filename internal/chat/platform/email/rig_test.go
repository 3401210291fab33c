package email

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
)

const (
	botAddress = "bot@example.org"
	botSecret  = "pässwort" // not ASCII, so that it takes the right way
	owner      = "ann@friends.example"
)

// provider is a mail provider on loopback: a mailbox and a server for sending.
type provider struct {
	t    *testing.T
	user *imapmemserver.User
	in   *imapserver.Server
	out  *smtp.Server
	imap net.Listener
	smtp net.Listener

	mu      sync.Mutex
	conns   []net.Conn
	sent    []sentMail
	fail    []error // of the next mails
	token   string  // the only one XOAUTH2 takes
	changed chan struct{}
}

type sentMail struct {
	from, to string
	raw      []byte
}

// serverOptions changes a provider.
type serverOptions struct {
	caps imap.CapSet
	tls  *tls.Config // for STARTTLS
}

func newProvider(t *testing.T, o serverOptions) *provider {
	t.Helper()
	p := &provider{t: t, user: imapmemserver.NewUser(botAddress, botSecret), changed: make(chan struct{})}
	for _, name := range []string{"INBOX", "Archive"} {
		if err := p.user.Create(name, nil); err != nil {
			t.Fatal(err)
		}
	}
	if o.caps == nil {
		o.caps = imap.CapSet{imap.CapIMAP4rev1: {}, imap.CapIdle: {}, imap.CapMove: {}, imap.CapUIDPlus: {}, imap.CapID: {}}
	}
	mem := imapmemserver.New()
	mem.AddUser(p.user)
	p.in = imapserver.New(&imapserver.Options{
		NewSession: func(*imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			return &attentive{mem.NewSession()}, &imapserver.GreetingData{}, nil
		},
		Caps: o.caps, TLSConfig: o.tls, InsecureAuth: o.tls == nil, Logger: discard{},
	})
	p.out = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &smtpSession{p: p}, nil }))
	p.out.AllowInsecureAuth, p.out.TLSConfig, p.out.EnableSMTPUTF8, p.out.ErrorLog = o.tls == nil, o.tls, true, discard{}
	p.out.MaxMessageBytes = 10 << 20
	p.imap, p.smtp = p.listen(), p.listen()
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.in.Serve(p.imap) })
	wg.Go(func() { _ = p.out.Serve(p.smtp) })
	t.Cleanup(func() {
		_ = p.imap.Close() // the servers may not have begun yet
		_ = p.smtp.Close()
		_ = p.in.Close()
		_ = p.out.Close()
		p.cut()
		wg.Wait()
	})
	return p
}

// attentive is a session that tells of mail which came just before IDLE, as
// real servers do.
type attentive struct{ imapserver.Session }

func (a *attentive) Idle(w *imapserver.UpdateWriter, stop <-chan struct{}) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := a.Poll(w, true); err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
	}
}

func (a *attentive) Move(w *imapserver.MoveWriter, set imap.NumSet, to string) error {
	s, ok := a.Session.(imapserver.SessionMove)
	if !ok {
		return errors.New("no MOVE")
	}
	return s.Move(w, set, to)
}

// listen opens a port whose connections are remembered, to be cut.
func (p *provider) listen() net.Listener {
	l, err := new(net.ListenConfig).Listen(p.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	return &rememberer{l, p}
}

type rememberer struct {
	net.Listener
	p *provider
}

func (r *rememberer) Accept() (net.Conn, error) {
	c, err := r.Listener.Accept()
	if err == nil {
		r.p.mu.Lock()
		r.p.conns = append(r.p.conns, c)
		r.p.mu.Unlock()
	}
	return c, err
}

// cut ends all connections.
func (p *provider) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *provider) note(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *provider) failNext(errs ...error) { p.note(func() { p.fail = append(p.fail, errs...) }) }

func (p *provider) mails() []sentMail {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

// deliver puts a mail into the inbox, as it is.
func (p *provider) deliver(raw string) {
	p.t.Helper()
	p.deliverAt(raw, time.Time{})
}

func (p *provider) deliverAt(raw string, at time.Time) {
	p.t.Helper()
	raw = strings.ReplaceAll(raw, "\n", "\r\n")
	if _, err := p.user.Append("INBOX", bytes.NewReader([]byte(raw)), &imap.AppendOptions{Time: at}); err != nil {
		p.t.Fatal(err)
	}
}

// counts are the numbers of mails in a mailbox, and of unread ones.
func (p *provider) counts(mailbox string) (all, unseen int) {
	p.t.Helper()
	d, err := p.user.Status(mailbox, &imap.StatusOptions{NumMessages: true, NumUnseen: true})
	if err != nil {
		p.t.Fatal(err)
	}
	return int(*d.NumMessages), int(*d.NumUnseen)
}

// section is the configuration for this provider, with changes.
func (p *provider) section(changes map[string]any) json.RawMessage {
	port := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	s := map[string]any{
		"enabled": true, "consentGranted": true, "allowFrom": []string{owner},
		"imapHost": "127.0.0.1", "imapPort": port(p.imap), "imapUsername": botAddress, "imapPassword": botSecret, "imapUseSsl": false,
		"smtpHost": "127.0.0.1", "smtpPort": port(p.smtp), "smtpUsername": botAddress, "smtpPassword": botSecret, "smtpUseTls": false,
	}
	maps.Copy(s, changes)
	data, err := json.Marshal(s)
	if err != nil {
		p.t.Fatal(err)
	}
	return data
}

type smtpSession struct {
	p        *provider
	loggedIn bool
	from, to string
}

func (s *smtpSession) AuthMechanisms() []string { return []string{sasl.Plain, "XOAUTH2"} }

func (s *smtpSession) Auth(mech string) (sasl.Server, error) {
	if mech == "XOAUTH2" {
		return xoauth2Server{s}, nil
	}
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != botAddress || password != botSecret {
			return smtp.ErrAuthFailed
		}
		s.loggedIn = true
		return nil
	}), nil
}

type xoauth2Server struct{ s *smtpSession }

func (x xoauth2Server) Next(response []byte) ([]byte, bool, error) {
	if want := "user=" + botAddress + "\x01auth=Bearer " + x.s.p.token + "\x01\x01"; string(response) != want {
		return nil, false, smtp.ErrAuthFailed
	}
	x.s.loggedIn = true
	return nil, true, nil
}

func (s *smtpSession) Mail(from string, _ *smtp.MailOptions) error {
	if !s.loggedIn {
		return smtp.ErrAuthRequired
	}
	s.from = from
	return nil
}

func (s *smtpSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	var err error
	s.p.note(func() {
		if len(s.p.fail) > 0 {
			err, s.p.fail = s.p.fail[0], s.p.fail[1:]
		}
	})
	return err
}

func (s *smtpSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.p.note(func() { s.p.sent = append(s.p.sent, sentMail{s.from, s.to, raw}) })
	return nil
}

func (s *smtpSession) Reset()        {}
func (s *smtpSession) Logout() error { return nil }

type discard struct{}

func (discard) Printf(string, ...any) {}
func (discard) Println(...any)        {}

// rig is a channel at a provider.
type rig struct {
	*chattest.Rig
	*provider
	*post
	deps chat.Deps
}

func newRig(t *testing.T, p *provider, changes map[string]any) *rig {
	t.Helper()
	r := &rig{Rig: chattest.NewRig(t), provider: p}
	r.deps = r.Deps("email")
	r.deps.Client = func(string) (*http.Client, error) {
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, nil
	}
	r.reopen(changes)
	return r
}

// reopen makes the channel anew over the same state, as after a restart.
func (r *rig) reopen(changes map[string]any) {
	r.t.Helper()
	raw := r.section(changes)
	r.deps.Gate = r.Gate("email", raw, access.OpenBook(access.BookOptions{Store: disk.Open(r.t.TempDir(), nil)}))
	ch, err := newChannel(r.deps, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	p, ok := ch.(*post)
	if !ok {
		r.t.Fatalf("New made a %T", ch)
	}
	p.senders.lookup = func(context.Context, string) ([]string, error) { return nil, errors.New("no such name") }
	r.post = p
}

// once looks for mail a single time.
func (r *rig) once() error {
	r.t.Helper()
	if err := r.facts.open(); err != nil {
		r.t.Fatal(err)
	}
	m, err := r.connect(r.t.Context())
	if err != nil {
		return err
	}
	defer m.close()
	return r.pass(r.t.Context(), m, r.Submit)
}

// mustOnce looks for mail and returns all that came in so far.
func (r *rig) mustOnce() []bus.Inbound {
	r.t.Helper()
	if err := r.once(); err != nil {
		r.t.Fatalf("look for mail: %v; log:\n%s", err, r.Log)
	}
	return r.Inbound()
}

// proven is what the provider's server writes on top of a mail whose sender it
// has checked.
const proven = "Authentication-Results: mx.example.org; dmarc=pass (p=reject) header.from=friends.example\n" +
	"Received: from out.friends.example (out.friends.example [192.0.2.1])\n by mx.example.org with ESMTPS id 1; Sun, 15 Nov 2026 08:00:00 +0000\n"

// letterOf is a simple mail of the owner.
func letterOf(id int, subject, body string) string {
	return proven + fmt.Sprintf(
		"From: Ann Example <%s>\nTo: %s\nSubject: %s\nDate: Sun, 15 Nov 2026 08:00:00 +0000\nMessage-ID: <%d@friends.example>\n\n%s\n",
		owner, botAddress, subject, id, body)
}
