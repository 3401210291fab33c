// Package approve decides whether a tool call that is ready to run may run. It
// hides when a person is asked (by mode, by what the call does, by whether the
// turn has seen content from outside), what exactly they are asked, how an
// answer is understood, what of it is remembered, and how a yes is tied to the
// one call it was given for.
//
// A Policy holds the answers people gave for the rest of a turn or a
// conversation, in memory only. Nothing a model or a tool writes counts as an
// answer: the only way in is tool.Call.Ask. A Policy is safe for concurrent
// use; questions of one conversation are asked one after another.
package approve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Mode says how much is asked.
type Mode string

// The modes.
const (
	Off  Mode = "off"  // never ask; only rules that deny and the check for secrets apply
	Ask  Mode = "ask"  // ask before every call that is not read-only
	Auto Mode = "auto" // ask before calls that are risky for what they do or for what the turn has seen
)

// Action says what happens to a call.
type Action string

// The actions.
const (
	ActionAllow Action = "allow"
	ActionAsk   Action = "ask"
	ActionDeny  Action = "deny"
)

// Rule is an exception the operator wrote; the first that matches wins.
type Rule struct {
	Tool string // name of a tool, with * for any part of it
	// Match is text the call must contain; empty is any call. A command is
	// looked at as the shell would run it; where that only shows when it runs,
	// a rule that denies or asks makes it a question. To allow a command it
	// must be the very command, word by word, or name a program that is known
	// to be harmless with all its options; to allow a write every path must
	// contain it.
	Match  string
	Action Action
}

// Match says whether a rule applies to a call.
type Match int

// The matches. Perhaps is what only the run decides.
const (
	Never Match = iota
	Perhaps
	Surely
)

// Network values of Options.
const (
	networkHost  = "host"
	networkProxy = "proxy"
	networkNone  = "none"
)

// DefaultTimeout is how long a person has to answer.
const DefaultTimeout = 300 * time.Second

// Options configures a Policy.
type Options struct {
	Mode          Mode          // empty is Off
	Timeout       time.Duration // 0 means DefaultTimeout
	FallbackAllow bool          // no answer, or no person to ask, means yes
	Rules         []Rule
	Targets       []string // chats that are not asked, as channel:chat
	// Sandboxed says that commands run inside a kernel boundary, Network what
	// they reach from there, and SandboxProfile describes both completely: an
	// approval is void when it changes.
	Sandboxed      bool
	Network        string
	SandboxProfile string
	// Contained says why a command must not do more than a stranger's, worded
	// to follow "because"; "" means that it is clean. Commands of tainted turns
	// are contained without a question. nil: no others are.
	Contained func(c tool.Call) string
	// Outside names the files from outside that a contained command is going to
	// run or build, in dir, an absolute path. An empty command is one whose text
	// says nothing. nil: none are known.
	Outside func(c tool.Call, command, dir string) []Outside
	// Exposed reports that the sandbox cannot keep contained commands from
	// changing what the agent follows and others run by themselves. nil means
	// that it can.
	Exposed func() bool
	// Jail is the way to the files calls name. Not needed when Mode is Off.
	Jail *diskio.Jail
	// CommandRisk says why a command should be looked at although it is contained.
	CommandRisk func(command string) (reason string, risky bool)
	// CommandPrefix names the harmless programs a command consists of, so that
	// they can be remembered; ok is false if anything in it is not harmless.
	CommandPrefix func(command string) (words []string, ok bool)
	// CommandMatch says whether a command does what the words of a rule name.
	// nil looks only for the text.
	CommandMatch func(command, rule string) Match
	// Suspicious reports addresses that can carry away much text.
	Suspicious func(url string) bool
	// Known reports addresses that a result of the conversation showed exactly
	// so: what they carry was put there by others, who do not know what the
	// model knows. nil knows none.
	Known func(c tool.Call, url string) bool
	// Leaks finds registered secrets.
	Leaks func(text string) (name string, found bool)
	Now   func() time.Time // nil means time.Now
	Log   *slog.Logger     // nil discards
}

// Outside is something from outside that a command runs or builds.
type Outside struct {
	Name string // for people
	// Key says what a yes that lasts is bound to, Covers the same in words. No
	// key means that only exactly the same call can be allowed, and no state
	// either that nothing can be allowed for longer than this call.
	Key, Covers string
	At          string // a folder that must be the same one then, absolute; "" if there is none
	// State sums up what it holds now. An answer, also one that lasts, belongs to
	// that: what is added or changed later is asked about.
	State string
}

// Policy decides about tool calls.
type Policy struct {
	Options
	sessions sessions
	running  running
}

// New makes a policy. It does no I/O.
func New(o Options) (*Policy, error) {
	switch o.Mode {
	case "":
		o.Mode = Off
	case Off, Ask, Auto:
	default:
		return nil, fmt.Errorf("approval mode %q: want off, ask or auto", o.Mode)
	}

	if o.Jail == nil && o.Mode != Off {
		return nil, errors.New("approval needs a jail to look at files")
	}

	for i, r := range o.Rules {
		if _, err := path.Match(r.Tool, ""); err != nil || r.Tool == "" {
			return nil, fmt.Errorf("approval rule %d: tool %q is not a name or pattern", i+1, r.Tool)
		}
		switch r.Action {
		case ActionAllow, ActionAsk, ActionDeny:
		default:
			return nil, fmt.Errorf("approval rule %d: action %q: want allow, ask or deny", i+1, r.Action)
		}
	}

	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Policy{Options: o}, nil
}

// Check decides about a call, perhaps by asking the person the turn works for.
// nil allows it; otherwise the result is what the model sees instead.
func (p *Policy) Check(ctx context.Context, t tool.Tool, c tool.Call) *tool.Result {
	s := newSubject(t, c)
	if name, leaks := p.leaks(s); leaks {
		p.log(ctx, s, "denied", "it contains the secret "+name, "")
		return fail(tool.DeniedPolicy, "this call contains the secret %s, which must not leave this machine. It was not run and nothing like it will be. Do without the secret, and tell the user.", name)
	}

	v := p.decide(s)
	switch v.action {
	case ActionAllow:
		return nil
	case ActionDeny:
		p.log(ctx, s, "denied", v.reason.String(), "")
		return fail(tool.DeniedPolicy, "%s forbids this call. Do not look for another way to the same end; tell the user.", v.reason)
	}

	s.byOutside = v.byOutside
	return p.ask(ctx, s, v.reason)
}

// Forget drops what was remembered for a conversation, because it is over or
// starts again.
func (p *Policy) Forget(sessionKey string) { p.sessions.forget(sessionKey) }

func (p *Policy) log(ctx context.Context, s *subject, decision, reason, request string) {
	p.Log.InfoContext(ctx, "approval", "tool", s.tool.Name, "session", s.call.SessionKey, "turn", s.call.TurnID,
		"decision", decision, "reason", reason, "request", request, "tainted", s.call.Tainted, "args_sha256", s.argsHash())
}

func fail(code tool.Code, format string, args ...any) *tool.Result {
	r := tool.Fail(code, format, args...)
	return &r
}
