// Package mcp lets the agent use tools, resources and prompts of MCP servers.
// It hides the protocol and its SDK, how servers are started and reached, what
// keeps them running, and everything that protects the agent from a server
// that is broken or hostile: what a server says is data, never more.
//
// A Server is one configured server, a Pool all of them. A Pool connects
// nothing before its tools are asked for; from then on every server has a
// supervisor that connects it, lists what it offers, follows changes and
// connects again when it was lost. A server that is down delays a turn once,
// by a few seconds; its tools stay on offer and say that it is down.
package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// timing holds the times a pool works with, so that tests need not wait.
type timing struct {
	first      time.Duration // how long turns wait for servers that are just being started
	slow       time.Duration // after which a server that is waited for is named
	connect    time.Duration // to start a server and shake hands with it
	listen     time.Duration // for the stream on which a server may speak first; what it says before is lost
	minBackoff time.Duration // between attempts to connect
	maxBackoff time.Duration
	reconnect  time.Duration // how long a call waits for a server that is coming back
}

func defaultTiming() timing {
	return timing{
		first: 3 * time.Second, slow: time.Second, connect: 15 * time.Second, listen: 500 * time.Millisecond, reconnect: 10 * time.Second,
		minBackoff: time.Second, maxBackoff: time.Minute,
	}
}

// Options of a Pool.
type Options struct {
	Servers []Server
	// Environ is the agent's environment; servers get only the harmless part.
	Environ []string
	// Spawn is called before a server with Sandbox is started and may change
	// the command. cleanup is called when the server has ended. nil means that
	// there is no sandbox, and such servers are not started.
	Spawn func(s Server, cmd *exec.Cmd) (cleanup func(), err error)
	// Cover is called the same way for all other servers; it hides the agent's
	// own data from them. nil leaves them as they are.
	Cover func(s Server, cmd *exec.Cmd) (cleanup func(), err error)
	// Memory bounds what all processes of one server use together, in bytes; 0
	// is no bound. A server over it is ended, and started again like any that ended.
	Memory int64
	// Auth supplies tokens to servers whose auth is set; nil means none.
	Auth Authorizer
	// Reserved are names of tools that are not ours.
	Reserved []string
	// MediaDir is where pictures, sound and files of results are kept, in a
	// folder per server; "" drops them.
	MediaDir string
	// Pins is where definitions are remembered, to notice when a server changes
	// them; nil remembers for this process only.
	Pins store.Store
	// HoldChanged withholds what changed until it is accepted.
	HoldChanged bool
	// accept takes what servers offer as looked at by the owner.
	Accept bool
	// Expect is the digest of what Accept may take; "" is any.
	Expect string
	// Patient waits with the first tools until each server came or its time to
	// connect is over: for programs that end after one answer.
	Patient bool
	// Changed is called when a server changes its state or the tools change. It must
	// not call the pool. May be nil.
	Changed func()
	// Redact removes known secrets from texts for people and logs; may be nil.
	Redact  func(string) string
	Version string // of this program, told to servers
	Log     *slog.Logger
	Now     func() time.Time
}

// Pool is all MCP servers of an agent. It is safe for concurrent use.
type Pool struct {
	o       Options
	timing  timing
	servers []*server // by name
	pins    *pins
	start   chan struct{} // closed when tools are first asked for
	once    sync.Once

	mu      sync.Mutex // taken before that of a server
	started time.Time
	tools   []tool.Tool
	sum     [sha256.Size]byte // of tools
	gen     uint64
}

// New makes a pool. Nothing is started before Run and the first Tools.
func New(o Options) (*Pool, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	o.Log = o.Log.With("component", "mcp")
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}

	p := &Pool{o: o, timing: defaultTiming(), pins: &pins{store: o.Pins}, start: make(chan struct{})}
	if o.Patient {
		p.timing.first = 2 * p.timing.connect // a server may be tried with two versions of the protocol
	}

	for _, c := range o.Servers {
		if c.Name == "" {
			return nil, errors.New("an MCP server has no name")
		}
		if slices.ContainsFunc(p.servers, func(s *server) bool { return s.Name == c.Name }) {
			return nil, fmt.Errorf("two MCP servers are called %q", c.Name)
		}
		p.servers = append(p.servers, newServer(p, c))
	}

	slices.SortStableFunc(p.servers, func(a, b *server) int { return strings.Compare(a.Name, b.Name) })
	p.refresh()
	return p, nil
}

// Run keeps the servers connected from the first use on, and stops them all
// when ctx ends. Call it once.
func (p *Pool) Run(ctx context.Context) error {
	select {
	case <-p.start:
	case <-ctx.Done():
		return ctx.Err()
	}

	var wg sync.WaitGroup
	for _, s := range p.servers {
		if !s.Disabled {
			wg.Go(func() { s.run(ctx) })
		}
	}

	wg.Wait()
	return ctx.Err()
}

// Tools returns what the servers offer now, and a number that changes whenever
// that does. The slice stays the same while nothing changes; callers must not
// modify it. The first call starts the servers. In the first 3 s from then on,
// or longer in a patient pool, calls wait for servers that are still being
// connected; later ones never do.
func (p *Pool) Tools(ctx context.Context) ([]tool.Tool, uint64) {
	p.awaitFirstTries(ctx, p.timing.first)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tools, p.gen
}

// Slow starts the servers of a patient pool and names those that Tools will
// have to wait for. It takes a second at most.
func (p *Pool) Slow(ctx context.Context) (names []string) {
	if !p.o.Patient {
		return nil
	}

	p.awaitFirstTries(ctx, p.timing.slow)
	p.mu.Lock()
	over := time.Since(p.started) >= p.timing.first
	p.mu.Unlock()

	for _, s := range p.servers {
		s.mu.Lock()
		if !s.tried && !over {
			names = append(names, s.Name)
		}
		s.mu.Unlock()
	}

	return names
}

// awaitFirstTries starts the servers and waits until each was tried once, or the time
// for that, from the start on, is over.
func (p *Pool) awaitFirstTries(ctx context.Context, within time.Duration) {
	p.once.Do(func() {
		p.mu.Lock()
		p.started = time.Now()
		p.mu.Unlock()
		close(p.start)
	})

	p.mu.Lock()
	left := time.Until(p.started.Add(within))
	p.mu.Unlock()
	t := time.NewTimer(left)
	defer t.Stop()

	for _, s := range p.servers {
		for {
			s.mu.Lock()
			tried, moved := s.tried, s.moved
			s.mu.Unlock()
			if tried {
				break
			}

			select {
			case <-moved:
			case <-t.C:
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// refresh puts the offers of all servers together. Offers of a server that is
// down are kept: a prompt that changes whenever a server hiccups is never
// cached.
func (p *Pool) refresh() {
	p.mu.Lock()
	defer p.mu.Unlock()

	type owned struct {
		s *server
		o offer
	}
	var all []owned
	var ids []identity
	seen := map[identity]bool{}
	for _, s := range p.servers {
		s.mu.Lock()
		for _, o := range s.list.offers {
			if !seen[o.identity] { // a server may repeat itself
				seen[o.identity] = true
				all = append(all, owned{s, o})
				ids = append(ids, o.identity)
			}
		}

		s.mu.Unlock()
	}

	names := uniqueNames(ids, p.o.Reserved)
	var tools []tool.Tool
	for _, e := range all {
		if name, ok := names[e.o.identity]; ok {
			tools = append(tools, e.s.tool(name, e.o))
		}
	}

	slices.SortStableFunc(tools, func(a, b tool.Tool) int { return cmp.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, t := range tools {
		_, _ = fmt.Fprintf(h, "%q %q %q %t\n", t.Name, t.Description, t.Schema, t.ReadOnly)
	}

	if sum := [sha256.Size]byte(h.Sum(nil)); sum != p.sum {
		p.tools, p.sum = tools, sum
		p.gen++
		p.o.Changed()
	}
}

// Retry lets a server that waits be tried again at once, for example after a login.
func (p *Pool) Retry(server string) {
	for _, s := range p.servers {
		if s.Name == server {
			select {
			case s.wake <- struct{}{}:
			default:
			}
		}
	}
}

// Relist asks a server again what it offers, for example after its definitions
// were accepted elsewhere.
func (p *Pool) Relist(server string) {
	for _, s := range p.servers {
		s.mu.Lock()
		l := s.link
		s.mu.Unlock()

		if s.Name == server && l != nil {
			select {
			case l.wire.changed <- struct{}{}:
			default:
			}
		}
	}
}

// Status is how one server is doing.
type Status struct {
	Name      string    `json:"name"`
	State     State     `json:"state"`
	Transport string    `json:"transport"`
	Protocol  string    `json:"protocol,omitempty"` // version agreed on
	Tools     int       `json:"tools"`
	Resources int       `json:"resources"`
	Prompts   int       `json:"prompts"`
	Held      []string  `json:"held,omitempty"`  // withheld because their definition changed
	Digest    string    `json:"-"`               // of all definitions that it gives now
	New       int       `json:"-"`               // definitions that the owner has not accepted
	Error     string    `json:"error,omitempty"` // why it is not ready
	Since     time.Time `json:"since"`           // of the state
	Log       string    `json:"log,omitempty"`   // the last lines a stdio server logged
}

// Missing names the servers that should be there, were tried and offer nothing:
// by how the names of their tools begin, with the reason and what a person can
// do about it.
func (p *Pool) Missing() map[string]string {
	var out map[string]string
	for _, s := range p.Status() {
		var note string
		switch {
		case s.Tools+s.Resources+s.Prompts > 0:
			continue
		case s.State == PendingLogin:
			note = fmt.Sprintf("MCP server %s needs a login: nanobot mcp login %s", s.Name, s.Name)
		case s.State == Backoff:
			note = fmt.Sprintf("MCP server %s is not connected: %s. More with: nanobot mcp test %s", s.Name, text.Clean(s.Error), s.Name)
		default:
			continue
		}

		if out == nil {
			out = map[string]string{}
		}
		out[plainName("mcp_"+s.Name+"_")] = note
	}

	return out
}

// Names returns the tools that a server offers, as it calls them. It starts nothing.
func (p *Pool) Names(server string) []string {
	var out []string
	for _, s := range p.servers {
		if s.Name != server {
			continue
		}

		s.mu.Lock()
		for _, o := range s.list.offers {
			if o.kind == kindTool {
				out = append(out, o.raw)
			}
		}

		s.mu.Unlock()
	}

	return out
}

// maxLog is how much of a server's log is shown, in bytes.
const maxLog = 2000

// Status tells how the servers are doing, by name.
func (p *Pool) Status() []Status {
	out := make([]Status, len(p.servers))
	for i, s := range p.servers {
		tail := s.redact(text.Clean(s.stderr.text()))
		s.mu.Lock()
		out[i] = Status{
			Name: s.Name, State: s.state, Transport: s.Type, Protocol: s.version,
			Tools: s.list.count(kindTool), Resources: s.list.count(kindResource), Prompts: s.list.count(kindPrompt),
			Held: slices.Clone(s.list.held), Digest: s.list.digest, New: s.list.unaccepted(), Error: s.reason, Since: s.since,
			Log: strings.ToValidUTF8(tail[max(0, len(tail)-maxLog):], ""),
		}

		s.mu.Unlock()
	}

	return out
}
