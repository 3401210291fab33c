// Package reach decides which hosts commands may reach, and how much a turn
// may send that has seen content from outside. It hides where a yes comes from:
// the configuration, the built-in package hosts, an answer for the turn or the
// conversation, or a question to the person the turn works for.
//
// Nothing here resolves a name or opens a connection: httpsafe.Proxy does that
// after it was told yes.
package reach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Options describe a Policy.
type Options struct {
	// Any allows every public host without a question.
	Any bool
	// Allowed are the owner's own hosts.
	Allowed []httpsafe.HostRule
	// Keep writes a host into the owner's list, so that it is allowed from then
	// on; nil means that "always" is not offered.
	Keep func(ctx context.Context, entry string) error
	// Sent keeps the sums of the day; nil counts each turn alone.
	Sent store.Store
	// Timeout bounds the wait for an answer; 0 is five minutes.
	Timeout time.Duration
	Now     func() time.Time // nil is time.Now
	Log     *slog.Logger     // nil discards
}

// Policy remembers what people answered. It is safe for concurrent use.
type Policy struct {
	o   Options
	day *day

	mu    sync.Mutex
	kept  []httpsafe.HostRule        // allowed for good since the start
	talks map[string]map[string]bool // hosts allowed for a conversation, by session and sender
	turns []*turn                    // oldest first
}

const (
	maxTurns = 256  // that are remembered
	maxTalks = 4096 // conversations
	maxHosts = 1000 // of one turn or conversation
)

// New makes a policy.
func New(o Options) *Policy {
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Policy{o: o, day: newDay(o.Sent, o.Now), talks: map[string]map[string]bool{}}
}

// Command returns what the command of a call may do, for as long as life
// lasts. taint says that content from outside has reached the command since it
// began: from then on counts what it sends.
func (p *Policy) Command(life context.Context, c tool.Call) (a *httpsafe.Access, taint func()) {
	u := p.user(life, c)
	return u.access(), func() { u.tainted.Store(true) }
}

// Server returns what a program may do that belongs to no turn, such as an MCP
// server: no person can be asked, and what it is told may be a stranger's
// words. setting names the list that allows more.
func (p *Policy) Server(setting string, allowed []httpsafe.HostRule) *httpsafe.Access {
	decide := func(_ context.Context, r httpsafe.HostRequest) (httpsafe.Reach, error) {
		if covers(allowed, r) || p.o.Any {
			return httpsafe.ReachFull, nil
		}
		if readable(r) {
			return httpsafe.ReachRead, nil
		}

		reason := fmt.Sprintf("not in %s, the list of hosts that this server may reach", setting)
		if r.Exposes != "" {
			reason += ", and more than a package host serves without: " + r.Exposes
		}
		return httpsafe.ReachNone, &httpsafe.BlockedError{Target: r.String(), Reason: reason}
	}

	spend := func(ctx context.Context, use httpsafe.Use) error {
		if use.Class != httpsafe.ClassPackages {
			return nil // the owner listed the host for this server
		}

		var one httpsafe.Budget // what a server says again is counted again
		cost, _ := one.Spend(use)
		if err := p.day.spend(ctx, setting, use.Class, cost); err != nil {
			return &httpsafe.BlockedError{Target: use.Host, Reason: "this server has sent as much to package hosts as it may in a day; list the host in " + setting}
		}
		return nil
	}
	return &httpsafe.Access{Decide: decide, Spend: spend, Contained: func() bool { return true }}
}

// readable reports whether a request reads from a package host, and others than
// its operator see nothing of it.
func readable(r httpsafe.HostRequest) bool {
	return r.Exposes == "" && httpsafe.PackageHost(r.Host, r.Port)
}

// Fetch counts what a tool of our own is about to send to a host in a turn that
// has seen content from outside. An error is a refusal.
func (p *Policy) Fetch(ctx context.Context, c tool.Call, host string, bytes int) error {
	u := p.user(ctx, c)
	return u.spend(ctx, httpsafe.Use{Host: host, Requests: 1, Bytes: bytes})
}

// Search is Fetch for a question to a search service, which no stranger sees.
func (p *Policy) Search(ctx context.Context, c tool.Call, bytes int) error {
	u := p.user(ctx, c)
	return u.spend(ctx, httpsafe.Use{Host: "search", Class: httpsafe.ClassPackages, Requests: 1, Bytes: bytes})
}

// Forget drops what was allowed for a conversation, because it is over.
func (p *Policy) Forget(sessionKey string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.talks {
		if session, _, _ := strings.Cut(key, "\x00"); session == sessionKey {
			delete(p.talks, key)
		}
	}
	p.turns = slices.DeleteFunc(p.turns, func(t *turn) bool { return t.session == sessionKey })
}

// limited reports whether the call is for another person than the owner: their
// commands are not asked about.
func limited(c tool.Call) bool { return c.Scope != "" }

// turn holds what one turn was answered and has sent.
type turn struct {
	session, id string
	budget      httpsafe.Budget

	mu      sync.Mutex
	allowed map[string]bool
	refused map[string]string   // by host, the reason
	pending map[string]*pending // questions that are being asked
}

// pending is a question that several connections may wait for.
type pending struct {
	done chan struct{}
	err  error // set before done is closed
}

// turn finds the turn of a call, or begins it.
func (p *Policy) turn(c tool.Call) *turn {
	p.mu.Lock()
	defer p.mu.Unlock()

	if c.TurnID != "" {
		for _, t := range p.turns {
			if t.session == c.SessionKey && t.id == c.TurnID {
				return t
			}
		}
	}

	t := &turn{session: c.SessionKey, id: c.TurnID, allowed: map[string]bool{}, refused: map[string]string{}, pending: map[string]*pending{}}
	if len(p.turns) >= maxTurns {
		p.turns = slices.Delete(p.turns, 0, 1)
	}

	p.turns = append(p.turns, t)
	return t
}

func covers(rules []httpsafe.HostRule, r httpsafe.HostRequest) bool {
	return slices.ContainsFunc(rules, func(h httpsafe.HostRule) bool { return h.Match(r.Host, r.Port) })
}

// owners reports whether the owner's list has a host.
func (p *Policy) owners(r httpsafe.HostRequest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return covers(p.o.Allowed, r) || covers(p.kept, r)
}

// talk returns the key of a conversation: an answer is worth something only for the
// person it came from.
func talk(c tool.Call) string { return c.SessionKey + "\x00" + c.SenderID }

func (p *Policy) allowedInTalk(c tool.Call, entry string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.talks[talk(c)][entry]
}

func (p *Policy) allowInTalk(c tool.Call, entry string) {
	p.mu.Lock()
	defer p.mu.Unlock()

	hosts := p.talks[talk(c)]
	if hosts == nil {
		if len(p.talks) >= maxTalks {
			clear(p.talks) // then they are asked again
		}
		hosts = map[string]bool{}
		p.talks[talk(c)] = hosts
	}

	if len(hosts) < maxHosts {
		hosts[entry] = true
	}
}

// user is one command, or one call of a tool, with its turn.
type user struct {
	p    *Policy
	c    tool.Call
	life context.Context //nolint:containedctx // questions live as long as the command, not as its connections
	turn *turn

	tainted atomic.Bool
	room    string // of a guest or a group; "" is the owner's
}

// access returns what the proxy asks about the command.
func (u *user) access() *httpsafe.Access {
	return &httpsafe.Access{Decide: u.decide, Spend: u.spend, Contained: u.tainted.Load}
}

func (p *Policy) user(life context.Context, c tool.Call) *user {
	u := &user{p: p, c: c, life: life, turn: p.turn(c), room: c.Scope}
	u.tainted.Store(c.Tainted || limited(c)) // the words of others are always a stranger's
	return u
}

// decide implements httpsafe.Access.Decide.
func (u *user) decide(ctx context.Context, r httpsafe.HostRequest) (httpsafe.Reach, error) {
	if u.p.owners(r) || u.p.o.Any {
		return httpsafe.ReachFull, nil
	}

	entry := httpsafe.RuleFor(r).String()
	if u.p.allowedInTalk(u.c, entry) {
		return httpsafe.ReachFull, nil
	}

	u.turn.mu.Lock()
	allowed := u.turn.allowed[entry]
	u.turn.mu.Unlock()
	if allowed {
		return httpsafe.ReachFull, nil
	}
	if readable(r) {
		return httpsafe.ReachRead, nil
	}
	if err := u.once(ctx, entry, func() error { return u.askHost(r, entry) }); err != nil { //nolint:contextcheck // the question lives as long as the command
		return httpsafe.ReachNone, err
	}
	return httpsafe.ReachFull, nil
}

// once puts a question that all who need its answer wait for. A refusal holds
// for the rest of the turn.
func (u *user) once(ctx context.Context, key string, ask func() error) error {
	t := u.turn
	t.mu.Lock()
	if why, ok := t.refused[key]; ok {
		t.mu.Unlock()
		return refusal(key, why)
	}

	if q := t.pending[key]; q != nil {
		t.mu.Unlock()
		select {
		case <-q.done:
			if _, no := q.err.(*httpsafe.BlockedError); q.err != nil && !no { //nolint:errorlint // as below
				return u.once(ctx, key, ask) // the command that asked is over, this one is not
			}
			return q.err

		case <-ctx.Done():
			return context.Cause(ctx)
		case <-u.life.Done():
			return context.Cause(u.life) //nolint:contextcheck // the command is over
		}
	}

	q := &pending{done: make(chan struct{})}
	t.pending[key] = q
	t.mu.Unlock()

	err := ask()
	t.mu.Lock()
	delete(t.pending, key)
	if b, ok := err.(*httpsafe.BlockedError); ok && len(t.refused) < maxHosts { //nolint:errorlint // our own, never wrapped
		t.refused[key] = b.Reason
	}

	t.mu.Unlock()
	q.err = err
	close(q.done)
	return err
}

func refusal(key, why string) error {
	if key == budgetKey || key == dayKey {
		key = ""
	}
	return &httpsafe.BlockedError{Target: key, Reason: why}
}

// The questions about what is sent; they are not hosts.
const (
	budgetKey = "what this turn sends"
	dayKey    = "what turns send today"
)

// spend implements httpsafe.Access.Spend.
func (u *user) spend(ctx context.Context, use httpsafe.Use) error {
	if !u.tainted.Load() {
		return nil
	}

	if use.Class == httpsafe.ClassUnknown && u.room == "" && u.named(use.Host) {
		use.Class = httpsafe.ClassNamed
	}

	cost, ok := u.turn.budget.Spend(use)
	for !ok {
		if err := u.once(ctx, budgetKey, func() error { return u.askBudget(use) }); err != nil { //nolint:contextcheck // as in decide
			return err
		}
		cost, ok = u.turn.budget.Spend(use)
	}

	for {
		err := u.p.day.spend(ctx, u.party(), use.Class, cost)
		if err == nil {
			return nil
		}

		if !errors.Is(err, errDay) {
			u.p.o.Log.WarnContext(ctx, "the count of what was sent today cannot be kept", "err", err)
		}

		if err := u.once(ctx, dayKey, func() error { return u.askDay(use) }); err != nil { //nolint:contextcheck // as in decide
			return err
		}
	}
}

// party is whose day a use belongs to.
func (u *user) party() string {
	if u.room == "" {
		return "owner"
	}
	return "guest " + u.room
}

// named reports whether the owner named a host: in the configuration, or in
// the words that began the turn.
func (u *user) named(host string) bool {
	for _, port := range []uint16{443, 80} {
		if u.p.owners(httpsafe.HostRequest{Host: host, Port: port}) {
			return true
		}
	}
	return named(u.c.UserText, host)
}

// named reports whether a text names exactly this host.
func named(text, host string) bool {
	text = strings.ToLower(text)
	inName := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '@'
	}
	for at := 0; ; {
		i := strings.Index(text[at:], host)
		if i < 0 || host == "" {
			return false
		}

		from, to := at+i, at+i+len(host)
		before := from == 0 || !inName(text[from-1])
		after := to == len(text) || !inName(text[to]) || text[to] == '.' && (to+1 == len(text) || !inName(text[to+1]))
		if before && after {
			return true
		}
		at = from + 1
	}
}
