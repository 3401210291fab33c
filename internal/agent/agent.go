// Package agent turns inbound messages into turns. One actor per session takes
// messages from an ordered mailbox, so a conversation never runs twice at
// once; a global gate bounds model work; priority commands (/stop, /status,
// /restart) are answered out of band; messages that arrive during a turn are
// injected into it. It hides prompt building, slash commands, what is kept of
// a turn and when, and how a reply reaches its asker.
//
// Agent.Run owns every goroutine started here and waits for them. All methods
// are safe for concurrent use.
package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/agent/prompt"
	"github.com/nanobot-go/nanobot/internal/agent/subagent"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/memory"
	"github.com/nanobot-go/nanobot/internal/runner"
	"github.com/nanobot-go/nanobot/internal/session"
	"github.com/nanobot-go/nanobot/internal/skill"
	"github.com/nanobot-go/nanobot/internal/text"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Runtime is a model ready to use, resolved once per turn.
type Runtime struct {
	Model       llm.Model
	Name        string // wire name
	Display     string // what the user called it
	Preset      string
	MaxTokens   int
	Temperature *float64
	Effort      string
	Window      int // context window in tokens, 0 if unknown
	Block       int // replaces the computed input budget when set
	// Check looks whether a prompt and answer of so many tokens are too much
	// for the server as it runs now and returns a warning; nil means no check.
	Check func(ctx context.Context, needed int) string
}

// Options of an Agent. Sessions, Runtime and Workspace are required.
type Options struct {
	Workspace string
	// Results is the folder where long results of tools are kept, outside of the
	// workspace. "" cuts them instead.
	Results  string
	Sessions *session.Store
	// Runtime resolves a model preset; "" is the configured default.
	Runtime func(ctx context.Context, preset string) (Runtime, error)
	Presets []string // names /model offers besides "default"
	Tools   *tool.Set
	// MoreTools are tools that come and go, such as those of MCP servers. The
	// number changes whenever the list does. May be nil.
	MoreTools func(ctx context.Context) ([]tool.Tool, uint64)
	// Missing names tools of MoreTools that should be there and are not: by how
	// their names begin, with a sentence for the user. May be nil.
	Missing func() map[string]string
	// Secrets are taken out of what tools return and of what is said. May be nil.
	Secrets *httpsafe.Registry
	// Clean takes keys out of what a person typed, before anything of it is kept
	// or shown to a model; the note is for that person. May be nil.
	Clean     func(in bus.Inbound) (clean bus.Inbound, note string)
	Subagents subagent.Options
	// Deliver gets what is said in turns that nobody asked for, such as the
	// result of a subagent. May be nil.
	Deliver func(bus.Outbound)
	// Elsewhere sends a message to another chat than that of the turn, for the
	// owner. nil when there is no way.
	Elsewhere func(ctx context.Context, out bus.Outbound) error
	// Outcome is asked about the final reply to a message with the Event cron,
	// heartbeat or trigger before it goes out: whether it does, and in which
	// form. It may be asked again after a crash. May be nil.
	Outcome func(ctx context.Context, in bus.Inbound, out bus.Outbound) (bus.Outbound, bool)
	// Trigger binds a new trigger to a conversation and says how to use it.
	// May be nil.
	Trigger func(ctx context.Context, name string, r bus.Route, key string) (string, error)
	// HeartbeatKeep is how many messages the conversation of the heartbeat
	// begins with; 0 keeps all.
	HeartbeatKeep int
	// Ended is told when a conversation was stopped or, with stopped false,
	// starts anew, so that what tools keep for it can go. May be nil.
	Ended func(session string, stopped bool)
	// Approve decides about tool calls; see runner.Spec. May be nil.
	Approve func(ctx context.Context, t tool.Tool, c tool.Call) *tool.Result
	Skills  *skill.Library
	// Foreign reports files of the workspace that hold words from outside. Such
	// a file is no part of the prompt. nil means that there are none.
	Foreign func(path string) bool
	// Guest says where the messages of others than the owner work, who never see
	// the workspace. nil: all work in the workspace.
	Guest func(r bus.Route, scope string) prompt.Place
	// GuestSkills are the skills of these messages. May be nil.
	GuestSkills *skill.Library
	Hooks       []runner.Hooks
	Limits      runner.Limits
	// Media opens a file the model wants to send, if policy allows it.
	Media func(ctx context.Context, c tool.Call, path string) (bus.Media, error)
	// Folder says whether a conversation may work in a folder, and what it is
	// called without links. nil: all work in the workspace.
	Folder func(path string) (dir string, err error)
	// UserShell runs a command line that the owner typed, without asking about
	// it. nil: there are no commands.
	UserShell func(ctx context.Context, c tool.Call, command string) (tool.Result, error)
	// Usage tells what model calls cost so far; nil means it is not counted.
	Usage func(ctx context.Context) (string, error)
	// TurnCost is what the calls of a turn cost, if that is known.
	TurnCost func(turnID string) (usd float64, known bool)
	My       Settings
	// Memory takes in what leaves conversations; nil means that it is dropped.
	Memory *memory.Consolidator
	// IdleCompact is the silence after which all of a conversation is taken in; 0 is never.
	IdleCompact time.Duration
	// IdleCheck is the time between two conversations that fell silent before
	// this run and are taken in late.
	IdleCheck time.Duration
	// SharedMemory names chats, as <channel>:<chat>, in which all people have
	// one memory instead of one each.
	SharedMemory []string
	// Undo takes back what turns did to files; nil means that nothing is kept.
	Undo Undoer
	// Dream makes long-term memory of the history; nil means there is none.
	Dream Dreamer
	// Problems are what an owner reads in /status about the program around the
	// agent. May be nil.
	Problems func() []string
	// Commands are the rows of commands whose code lives elsewhere.
	Commands []Command
	// Restart is called after /restart was acknowledged; nil means it is not possible here.
	Restart func(route bus.Route)

	// Resume says what becomes of messages from a queue whose turn was
	// interrupted by a restart.
	Resume ResumePolicy

	Grace       time.Duration // for running turns when Run ends; 0 means 10 s
	Unified     bool          // one session across all channels
	Concurrency int           // turns doing model work at once; 0 means 4, negative no limit
	HintChars   int           // length of paths and commands in tool hints; 0 means 40
	Version     string
	Location    *time.Location
	Now         func() time.Time
	Log         *slog.Logger
	Home        string // shown as ~ in hints
}

// Limits of mailboxes and memory.
const (
	mailboxCap = 256
	liveCap    = 64
	liveSize   = 16384 // messages of conversations in memory
	stopWait   = 5 * time.Second
	drainGrace = 10 * time.Second // if Options.Grace is 0
)

// Errors of Ask.
var (
	// ErrStopped ends the stream of a turn that /stop ended.
	ErrStopped = errors.New("stopped")
	// ErrBusy refuses a message because too many are waiting in its session.
	ErrBusy = errors.New("this conversation has too many messages waiting; try again in a moment")
	// ErrClosed refuses messages while the agent is not running.
	ErrClosed = errors.New("the agent is shutting down")
)

// Agent runs turns.
type Agent struct {
	Options
	commands  []Command // the table, by name
	prompt    *prompt.Builder
	keeper    *keeper
	fixed     *tool.Set // the tools that are always there
	sets      toolSets
	subagents *subagent.Manager
	gate      gate // nil: no limit

	started time.Time
	models  modelFacts

	queue  atomic.Pointer[bus.Queue] // that Serve takes messages from
	served sync.Map                  // names of channels whose messages come from it

	mu     sync.Mutex
	base   context.Context //nolint:containedctx // the context of Run, which owns all turns
	cancel context.CancelCauseFunc
	idle   chan *actor   // unbuffered: taken by a goroutine that waits, or not at all
	quit   chan struct{} // closed when no more messages come
	actors map[string]*actor
	live   map[string]*conversation
	stats  map[string]stats
	wg     sync.WaitGroup
}

// New makes an agent. It starts nothing; call Run.
func New(o Options) (*Agent, error) {
	if o.Workspace == "" || o.Sessions == nil || o.Runtime == nil {
		return nil, errors.New("agent: workspace, sessions and runtime are required")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Secrets == nil {
		o.Secrets = &httpsafe.Registry{}
	}
	if o.Concurrency == 0 {
		o.Concurrency = 4
	}
	if o.HintChars == 0 {
		o.HintChars = 40
	}
	if o.Grace == 0 {
		o.Grace = drainGrace
	}
	a := &Agent{
		Options: o,
		prompt: prompt.New(prompt.Options{
			Workspace: o.Workspace, Skills: o.Skills, GuestSkills: o.GuestSkills, Guests: o.Guest != nil, Foreign: o.Foreign,
			Location: o.Location, Now: o.Now, Log: o.Log,
		}),
		idle: make(chan *actor), quit: make(chan struct{}),
		actors: map[string]*actor{}, live: map[string]*conversation{}, stats: map[string]stats{}, started: o.Now(),
	}
	var err error
	if a.commands, err = commandTable(o.Commands); err != nil {
		return nil, err
	}
	a.keeper = newKeeper(a)
	if o.Concurrency > 0 {
		a.gate = make(gate, o.Concurrency) // capacity is the limit
	}
	a.subagents = subagent.New(o.Subagents, a.subagentHost())
	if a.fixed, err = o.Tools.With(append(a.ownTools(), messageTool(a.messenger()))...); err != nil {
		return nil, fmt.Errorf("agent tools: %w", err)
	}
	return a, nil
}

// Open makes the agent accept messages. Run does it too; calling it first
// means that a message sent right after starting Run in a goroutine is not refused.
func (a *Agent) Open(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.base == nil && a.cancel == nil {
		a.base, a.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	}
}

// Run accepts messages until ctx ends, then lets running turns finish for a
// short grace time, cancels the rest and waits for them. It runs once.
func (a *Agent) Run(ctx context.Context) error {
	a.Open(ctx)
	if a.Memory != nil {
		a.wg.Go(func() { a.keeper.run(ctx) })
	}
	<-ctx.Done()
	a.mu.Lock()
	a.base = nil // refuse new messages
	close(a.quit)
	a.mu.Unlock()
	idle := make(chan struct{})
	go func() { a.wg.Wait(); close(idle) }()
	grace := time.NewTimer(a.Grace)
	defer grace.Stop()
	select {
	case <-idle:
	case <-grace.C:
		a.cancel(ErrClosed)
		<-idle
	}
	a.cancel(ErrClosed)
	a.subagents.Close()
	return nil
}

// Ask sends a message and yields everything that is said in answer to it, the
// last value of a normal turn being a Final. Breaking out of the loop, or the
// end of ctx, stops the turn. A message that joins a running turn yields one
// Notice; its answer is part of that turn.
func (a *Agent) Ask(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
	return func(yield func(bus.Outbound, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if a.Clean != nil {
			clean, note := a.Clean(in)
			if in = clean; note != "" && !yield(bus.Outbound{Kind: bus.Notice, Route: in.Route, Text: note}, nil) {
				return
			}
		}
		it := &item{in: in, key: a.keyOf(in), ctx: ctx, out: make(chan bus.Outbound, 16), done: make(chan struct{})}
		if err := a.submit(it); err != nil { //nolint:contextcheck // the item carries it
			yield(bus.Outbound{}, err)
			return
		}
		for {
			select {
			case o := <-it.out:
				if !yield(o, nil) {
					cancel()
					it.discard()
					return
				}
			case <-it.done:
				it.rest(yield)
				return
			}
		}
	}
}

// KeyOf is the session that the messages of a chat belong to.
func (a *Agent) KeyOf(chat bus.Route) string { return a.keyOf(bus.Inbound{Route: chat}) }

// keyOf is the session a message belongs to.
func (a *Agent) keyOf(in bus.Inbound) string {
	switch {
	case in.SessionKey != "":
		return in.SessionKey
	case a.Unified && in.Scope == "": // a guest must not read what the owner said elsewhere
		return "unified:default"
	}
	return in.Route.SessionKey()
}

// item is a message in a mailbox, with the way back to its asker.
type item struct {
	in   bus.Inbound
	key  string
	ctx  context.Context   //nolint:containedctx // the asker's context, which travels with the message
	out  chan bus.Outbound // 16 deep; a slow asker slows its own turn, nobody else's
	done chan struct{}
	err  error // set before done is closed
	post *post // of a message from a queue, which has no out and done

	over  tool.Turn    // ends with the work on it
	began time.Time    // when its turn began; guarded by Agent.mu until then
	moved atomic.Int64 // how long after that something happened last, whatever the clock on the wall says; see Pulse
}

// stir notes that the turn of the message moves.
func (it *item) stir() { it.moved.Store(int64(time.Since(it.began))) }

func (it *item) emit(o bus.Outbound) {
	it.stir()
	if it.post != nil {
		it.post.say(o)
		return
	}
	select {
	case it.out <- o:
	case <-it.ctx.Done():
	}
}

func (it *item) finish(err error) {
	if it.post != nil {
		it.post.end(err)
		return
	}
	it.err = err
	close(it.done)
}

// discard waits for the end of a turn nobody listens to.
func (it *item) discard() {
	for {
		select {
		case <-it.out:
		case <-it.done:
			return
		}
	}
}

// rest yields what is still buffered after the turn ended.
func (it *item) rest(yield func(bus.Outbound, error) bool) {
	for {
		select {
		case o := <-it.out:
			if !yield(o, nil) {
				return
			}
		default:
			if it.err != nil {
				yield(bus.Outbound{}, it.err)
			}
			return
		}
	}
}

// modelFacts are what was learned about models.
type modelFacts struct {
	calib   sync.Map // model name -> *text.Calibration
	windows sync.Map // model name -> real context window in tokens, learned from refusals
	heads   sync.Map // tier and system prompt -> estimated tokens of prompt and tools
}

func (m *modelFacts) calibration(model string) *text.Calibration {
	c, _ := m.calib.LoadOrStore(model, &text.Calibration{})
	return c.(*text.Calibration) //nolint:errcheck // only this function stores
}

// headTokens is the estimate of what every request with this prompt starts with.
func (m *modelFacts) headTokens(system string, tier prompt.Tier, tools *tool.Set) int {
	key := struct {
		tier, system string
		tools        *tool.Set
	}{tier.Name, system, tools}
	if n, ok := m.heads.Load(key); ok {
		return n.(int) //nolint:errcheck // only this function stores
	}
	n := runner.EstimateHead(system, tools.Defs())
	m.heads.Clear() // prompts change rarely; old ones are of no use
	m.heads.Store(key, n)
	return n
}

// gate bounds the model work that goes on at once by its capacity; nil does not.
type gate chan struct{}

// enter waits for a slot.
func (g gate) enter(ctx context.Context) error {
	if g == nil {
		return nil
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives a slot back.
func (g gate) leave() {
	if g != nil {
		<-g
	}
}

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
