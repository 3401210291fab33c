// Package email is the channel for mail. It hides IMAP and SMTP: how new mail
// is noticed (IDLE, or asking now and then), how a mail of many parts becomes
// one message for the agent, who really wrote it, and how an answer becomes a
// mail that stands in the right thread.
//
// A mail counts as read only after the message in it is durable: then the
// place in the mailbox is saved, then the mail is flagged. What is left to do
// on the server when we are interrupted is saved too and done later.
//
// Every sender can write any address into From. A mail whose sender the receiving
// server, or a signature that we check, vouches for belongs to the
// conversation with that sender. Any other mail is answered in a conversation
// of its own, marked as untrusted, so that it can neither act for the owner
// nor slip words into the owner's conversation.
//
// Machines are not answered: automatic replies, lists, bounces and our own
// mails are passed over, and one address gets at most twenty mails an hour.
package email

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/oauth"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// Timeouts of connections. Commands have their own in the libraries.
const (
	dialTime    = 30 * time.Second
	smtpTime    = 30 * time.Second
	idleRenewal = 25 * time.Minute // servers may hang up after 30
	idleLook    = 5 * time.Minute  // for mail that a server did not tell of
)

// post is the channel.
type post struct {
	deps    chat.Deps
	o       *options
	own     []string
	facts   *facts
	senders verifier
	tokens  *oauth.Source[accessToken] // nil without oauth
	replies *budget
	forged  *budget     // mails whose sender nothing proves, by address
	strays  *budget     // the same of all addresses together
	tls     *tls.Config // of connections; nil is the usual
	run     sync.Mutex
	welcome atomic.Bool // the server has let us in before
}

// Driver returns the platform. It is quiet: people do not want a letter per tool call.
func Driver() chat.Driver {
	return chat.Driver{
		Title:   "E-mail",
		Aliases: []string{"mail", "e-mail"},
		Options: func() any { return defaults() },
		New:     newChannel,
		Probe:   probe,
		Quiet:   true,
	}
}

// newChannel is newPost for the contract.
func newChannel(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
	p, err := newPost(d, section)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// newPost makes the channel of a section.
func newPost(d chat.Deps, section json.RawMessage) (*post, error) {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return nil, err
	}

	p := &post{
		deps:    d,
		o:       o,
		own:     o.own(),
		facts:   &facts{state: d.State},
		senders: verifier{o: o, lookup: new(net.Resolver).LookupTXT},
		replies: newBudget(20, time.Hour),
		forged:  newBudget(20, time.Hour),
		strays:  newBudget(60, time.Hour),
	}
	if d.Gate != nil {
		d.Gate.SetRules(access.Rules{Entries: readEntry})
	}

	if o.oauth != nil {
		var h *http.Client
		if h, err = d.Client(o.Proxy); err != nil {
			return nil, chat.Fatal(err)
		}
		p.tokens = newTokens(*o.oauth, h, d.Now)
	}

	return p, nil
}

// Name implements chat.Channel.
func (p *post) Name() string { return p.deps.Name }

// Caps implements chat.Channel.
func (p *post) Caps() chat.Caps { return p.o.caps() }

// Run implements chat.Channel. A connection that was good once is taken up
// again at once; trouble at the beginning is left to the manager's backoff.
func (p *post) Run(ctx context.Context, submit chat.Submit) error {
	if !p.run.TryLock() {
		return errors.New("the channel runs already")
	}

	defer p.run.Unlock()

	if err := p.deps.Claim(p.own[0]); err != nil {
		return err
	}
	if err := p.facts.open(); err != nil {
		return err
	}

	for {
		good, err := p.session(ctx, submit)
		if ctx.Err() != nil {
			return nil
		}
		if !good {
			return err
		}

		p.deps.Ready("", err)
		if wait.For(ctx, time.Second) != nil {
			return nil
		}
	}
}

// session returns the life of one connection. Good means that mail was looked for
// at least once.
func (p *post) session(ctx context.Context, submit chat.Submit) (good bool, err error) {
	m, err := p.connect(ctx)
	if err != nil {
		return false, err
	}

	defer m.close()
	stop := context.AfterFunc(ctx, m.abort)
	defer stop()

	for {
		if err := p.pass(ctx, m, submit); err != nil {
			return good, err
		}

		if !good {
			p.deps.Ready(p.own[0], nil)
			good = true
		}

		if err := m.wait(ctx, p.o.poll(), p.o.Idle); err != nil || ctx.Err() != nil {
			return good, err
		}
	}
}
