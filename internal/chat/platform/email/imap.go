package email

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-sasl"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// Bounds of the talk with the server.
const (
	maxMail     = 25 << 20  // bytes of a mail that is fetched
	maxHeader   = 256 << 10 // bytes of its header
	batch       = 50        // mails that are looked at together
	commandTime = time.Minute
	fetchTime   = 10 * time.Minute
	logoutTime  = 5 * time.Second
)

// mailbox is a connection with the mailbox opened.
type mailbox struct {
	c        *imapclient.Client
	conn     net.Conn
	validity uint32
	news     chan struct{} // capacity 1: the server said that something is new
}

// connect opens the mailbox.
func (p *post) connect(ctx context.Context) (*mailbox, error) {
	m := &mailbox{news: make(chan struct{}, 1)}
	conn, err := p.dial(ctx, p.o.imapAddress(), p.o.IMAPHost, p.o.IMAPUseSSL)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", p.o.imapAddress(), err)
	}

	m.conn = conn
	stop := context.AfterFunc(ctx, m.abort)
	defer stop()
	defer m.within(2 * commandTime)()

	if err := m.greet(p); err != nil {
		m.abort()
		return nil, fmt.Errorf("connect to %s: %w", p.o.imapAddress(), err)
	}
	if err := m.enter(ctx, p); err != nil {
		m.close()
		return nil, err
	}

	p.welcome.Store(true)
	return m, nil
}

// dial connects, with TLS from the first byte if wanted. A connection that is
// silent for long is probed, since a lost one looks the same as one without
// news.
func (p *post) dial(ctx context.Context, address, host string, secure bool) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := p.reach(ctx, address, host)
	if err != nil || !secure {
		return conn, err
	}

	safe := tls.Client(conn, p.tlsConfig(host))
	if err := safe.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return safe, nil
}

// reach connects directly, or through the proxy if there is one; what is on
// this machine needs none.
func (p *post) reach(ctx context.Context, address, host string) (net.Conn, error) {
	if p.o.via != nil && !loopback(host) {
		return httpsafe.Tunnel(ctx, p.o.via, address)
	}
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 20 * time.Second, Count: 4}}
	return d.DialContext(ctx, "tcp", address)
}

func (p *post) tlsConfig(host string) *tls.Config {
	c := &tls.Config{}
	if p.tls != nil {
		c = p.tls.Clone()
	}
	c.ServerName, c.MinVersion = host, tls.VersionTLS12
	return c
}

// greet waits for the server's first words. Without TLS from the first byte it
// is asked for, except on this machine, where it is not needed.
func (m *mailbox) greet(p *post) error {
	o := &imapclient.Options{
		TLSConfig: p.tlsConfig(p.o.IMAPHost), WordDecoder: wordDecoder(),
		UnilateralDataHandler: &imapclient.UnilateralDataHandler{Mailbox: func(d *imapclient.UnilateralDataMailbox) {
			if d.NumMessages != nil {
				select {
				case m.news <- struct{}{}:
				default:
				}
			}
		}},
	}
	if p.o.IMAPUseSSL || loopback(p.o.IMAPHost) {
		m.c = imapclient.New(m.conn, o)
		return m.c.WaitGreeting()
	}

	var err error
	if m.c, err = imapclient.NewStartTLS(m.conn, o); err != nil {
		return fmt.Errorf("STARTTLS, which imapUseSsl false means on another machine: %w", err)
	}
	return nil
}

// enter logs in and opens the mailbox.
func (m *mailbox) enter(ctx context.Context, p *post) error {
	if err := m.login(ctx, p); err != nil {
		return p.refusedLogin(err)
	}

	if m.c.Caps().Has(imap.CapID) { // some servers refuse clients that do not say who they are
		if _, err := m.c.ID(&imap.IDData{Name: "nanobot", Vendor: "nanobot"}).Wait(); err != nil && m.gone() {
			return fmt.Errorf("introduce ourselves: %w", err)
		}
	}

	data, err := m.c.Select(p.o.IMAPMailbox, nil).Wait()
	if err != nil {
		return fmt.Errorf("open the mailbox %q (imapMailbox): %w", p.o.IMAPMailbox, err)
	}

	m.validity = data.UIDValidity
	return nil
}

func (m *mailbox) login(ctx context.Context, p *post) error {
	user := p.o.IMAPUsername
	if p.tokens != nil {
		token, err := p.tokens.Get(ctx, "")
		if err != nil {
			return err
		}
		if m.c.Caps().Has("AUTH=XOAUTH2") || !m.c.Caps().Has("AUTH=OAUTHBEARER") {
			return m.c.Authenticate(&xoauth2{user: user, token: token.value})
		}
		return m.c.Authenticate(sasl.NewOAuthBearerClient(&sasl.OAuthBearerOptions{Username: user, Token: token.value, Host: p.o.IMAPHost, Port: p.o.IMAPPort}))
	}

	password := p.o.IMAPPassword.Reveal()
	plain := m.c.Caps().Has("AUTH=PLAIN")
	if plain && (m.c.Caps().Has(imap.CapLoginDisabled) || !ascii(user+password)) {
		return m.c.Authenticate(sasl.NewPlainClient("", user, password))
	}
	return m.c.Login(user, password).Wait()
}

// refusedLogin makes a refused password fatal, unless it was good before: then
// the server has a bad day.
func (p *post) refusedLogin(err error) error {
	if e, ok := errors.AsType[*imap.Error](err); ok && e.Type == imap.StatusResponseTypeNo && !p.welcome.Load() && p.tokens == nil &&
		(e.Code == imap.ResponseCodeAuthenticationFailed || e.Code == "") {
		return chat.Fatal(fmt.Errorf("%s refuses imapUsername and imapPassword (%w); many providers want an app password", p.o.IMAPHost, err))
	}
	return fmt.Errorf("log in to %s: %w", p.o.IMAPHost, err)
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// within ends the connection when the server does not answer in time. The
// result is called when it did.
func (m *mailbox) within(d time.Duration) func() bool {
	return time.AfterFunc(d, m.abort).Stop
}

// abort cuts the line; whoever waits for the server gets an error.
func (m *mailbox) abort() { _ = m.conn.Close() }

func (m *mailbox) gone() bool {
	select {
	case <-m.c.Closed():
		return true
	default:
		return false
	}
}

// close leaves politely if the server listens.
func (m *mailbox) close() {
	stop := m.within(logoutTime)
	defer stop()
	if !m.gone() {
		_ = m.c.Logout().Wait() // we leave anyway
	}
	_ = m.c.Close()
	m.abort()
	<-m.c.Closed()
}

// wait returns when there may be something new.
func (m *mailbox) wait(ctx context.Context, poll time.Duration, idle bool) error {
	limit := poll
	if idle = idle && m.c.Caps().Has(imap.CapIdle); idle {
		limit = min(max(poll, idleLook), idleRenewal)
	}

	var cmd *imapclient.IdleCommand
	if idle {
		var err error
		stop := m.within(commandTime)
		cmd, err = m.c.Idle()
		stop()
		if err != nil {
			return fmt.Errorf("wait for mail: %w", err)
		}
	}

	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-m.news:
	case <-m.c.Closed():
	}

	if cmd == nil {
		return nil
	}

	defer m.within(commandTime)()
	err := cmd.Close()
	if err == nil {
		err = cmd.Wait()
	}

	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("wait for mail: %w", err)
	}
	return nil
}

// unread lists mails that are not marked as read, after the last one we know, oldest first.
func (m *mailbox) unread(last uint32) ([]imap.UID, error) {
	defer m.within(commandTime)()
	select {
	case <-m.news:
	default:
	}

	data, err := m.c.UIDSearch(&imap.SearchCriteria{
		UID: []imap.UIDSet{{imap.UIDRange{Start: imap.UID(last + 1)}}}, NotFlag: []imap.Flag{imap.FlagSeen, imap.FlagDeleted},
	}, nil).Wait()
	if err != nil {
		return nil, fmt.Errorf("look for mail: %w", err)
	}

	uids := slices.DeleteFunc(data.AllUIDs(), func(u imap.UID) bool { return uint32(u) <= last }) // "n:*" always has the last one
	slices.Sort(uids)
	return uids, nil
}

// head is what is known of a mail before it is fetched.
type head struct {
	uid    imap.UID
	size   int64
	header []byte
	at     time.Time // when the server got it
}

// heads fetches sizes and headers, in order.
func (m *mailbox) heads(uids []imap.UID) ([]head, error) {
	defer m.within(fetchTime)()
	section := &imap.FetchItemBodySection{Specifier: imap.PartSpecifierHeader, Peek: true, Partial: &imap.SectionPartial{Size: maxHeader}}
	list, err := m.c.Fetch(imap.UIDSetNum(uids...), &imap.FetchOptions{UID: true, RFC822Size: true, InternalDate: true, BodySection: []*imap.FetchItemBodySection{section}}).Collect()
	if err != nil {
		return nil, fmt.Errorf("fetch headers: %w", err)
	}

	var out []head
	for _, b := range list {
		if len(b.BodySection) > 0 && slices.Contains(uids, b.UID) {
			out = append(out, head{b.UID, b.RFC822Size, b.BodySection[0].Bytes, b.InternalDate})
		}
	}

	sort.Slice(out, func(i, j int) bool { return out[i].uid < out[j].uid })
	return out, nil
}

// body fetches a whole mail without marking it as read. Nil means that it is
// gone.
func (m *mailbox) body(uid imap.UID) (data []byte, err error) {
	defer m.within(fetchTime)()
	cmd := m.c.Fetch(imap.UIDSetNum(uid), &imap.FetchOptions{UID: true, BodySection: []*imap.FetchItemBodySection{{Peek: true}}})
	for msg := cmd.Next(); msg != nil; msg = cmd.Next() {
		for item := msg.Next(); item != nil; item = msg.Next() {
			s, ok := item.(imapclient.FetchItemDataBodySection)
			if !ok || s.Literal == nil || data != nil {
				continue
			}
			if data, err = io.ReadAll(io.LimitReader(s.Literal, maxMail+1)); err != nil {
				return nil, errors.Join(fmt.Errorf("fetch a mail: %w", err), cmd.Close())
			}
		}
	}

	if err := cmd.Close(); err != nil {
		return nil, fmt.Errorf("fetch a mail: %w", err)
	}
	return data, nil
}

// maxTexts is how many texts of a mail are read that is not fetched whole.
const maxTexts = 20

// outline reads what people wrote in a mail that is too large to be fetched
// whole, and the names of its files. Nil means that it is gone.
func (m *mailbox) outline(uid imap.UID) (*content, error) {
	defer m.within(fetchTime)()
	list, err := m.c.Fetch(imap.UIDSetNum(uid), &imap.FetchOptions{UID: true, BodyStructure: &imap.FetchItemBodyStructure{Extended: true}}).Collect()
	if err != nil {
		return nil, fmt.Errorf("fetch the structure of a mail: %w", err)
	}
	if len(list) == 0 || list[0].UID != uid || list[0].BodyStructure == nil {
		return nil, nil
	}

	c := &content{}
	var texts []*imap.BodyStructureSinglePart
	var sections []*imap.FetchItemBodySection
	room := int64(2 * maxTextPart)
	list[0].BodyStructure.Walk(func(path []int, s imap.BodyStructure) bool {
		p, ok := s.(*imap.BodyStructureSinglePart)
		if c.count++; !ok || c.count > maxParts || len(path) > maxDepth {
			return c.count <= maxParts && len(path) <= maxDepth
		}

		size := min(int64(p.Size), maxTextPart)
		if !writtenText(p) || len(texts) == maxTexts || size > room {
			c.files = append(c.files, part{name: line(words(p.Filename())), mime: p.MediaType(), omitted: true})
			return true
		}

		room -= size
		texts = append(texts, p)
		sections = append(sections, &imap.FetchItemBodySection{Part: slices.Clone(path), Peek: true, Partial: &imap.SectionPartial{Size: maxTextPart}})
		c.cut = c.cut || int64(p.Size) > maxTextPart
		return true
	})
	if len(texts) == 0 {
		return c, nil
	}

	list, err = m.c.Fetch(imap.UIDSetNum(uid), &imap.FetchOptions{UID: true, BodySection: sections}).Collect()
	if err != nil {
		return nil, fmt.Errorf("fetch the text of a mail: %w", err)
	}
	if len(list) == 0 || list[0].UID != uid {
		return nil, nil
	}

	for i, section := range sections {
		if data := sectionOf(list[0], section); data != nil {
			c.add(texts[i], data)
		}
	}
	return c, nil
}

// writtenText reports whether a part is a text of the author, not a file.
func writtenText(p *imap.BodyStructureSinglePart) bool {
	if d := p.Disposition(); d != nil && strings.EqualFold(d.Value, "attachment") || p.Filename() != "" {
		return false
	}
	return p.MediaType() == "text/plain" || p.MediaType() == "text/html"
}

// sectionOf returns what a server sent of a part, nil if it sent nothing.
func sectionOf(b *imapclient.FetchMessageBuffer, want *imap.FetchItemBodySection) []byte {
	for _, got := range b.BodySection {
		if slices.Equal(got.Section.Part, want.Part) && got.Section.Specifier == want.Specifier {
			return got.Bytes
		}
	}
	return nil
}

// seen flags mails as read.
func (m *mailbox) seen(uids imap.UIDSet) error {
	defer m.within(commandTime)()
	if err := m.c.Store(uids, &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: []imap.Flag{imap.FlagSeen}}, nil).Close(); err != nil {
		return fmt.Errorf("mark mail as read: %w", err)
	}
	return nil
}

// move puts mails into another mailbox.
func (m *mailbox) move(uids imap.UIDSet, to string, expunge bool) error {
	defer m.within(commandTime)()
	if m.c.Caps().Has(imap.CapMove) {
		if _, err := m.c.Move(uids, to).Wait(); err != nil {
			return fmt.Errorf("move mail to %q: %w", to, err)
		}
		return nil
	}

	if _, err := m.c.Copy(uids, to).Wait(); err != nil {
		return fmt.Errorf("copy mail to %q: %w", to, err)
	}
	return m.remove(uids, expunge)
}

// remove deletes mails. A server that cannot delete just these is told to only
// if it may delete all others that carry the flag too.
func (m *mailbox) remove(uids imap.UIDSet, expunge bool) error {
	defer m.within(commandTime)()
	if err := m.c.Store(uids, &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: []imap.Flag{imap.FlagDeleted}}, nil).Close(); err != nil {
		return fmt.Errorf("mark mail as deleted: %w", err)
	}

	var cmd *imapclient.ExpungeCommand
	switch {
	case m.c.Caps().Has(imap.CapUIDPlus):
		cmd = m.c.UIDExpunge(uids)
	case expunge:
		cmd = m.c.Expunge()
	default:
		return nil
	}

	if err := cmd.Close(); err != nil {
		return fmt.Errorf("delete mail: %w", err)
	}
	return nil
}
