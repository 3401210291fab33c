// Package nanobot runs a personal AI agent inside a Go program: it chats,
// keeps sessions on disk so that nothing is lost, reads and edits files and
// runs commands through guarded tools, and works with any model.
//
//	bot, err := nanobot.New(ctx)
//	if err != nil { ... }
//	defer bot.Close()
//	res, err := bot.Run(ctx, nanobot.Input{Text: "What is in this folder?"})
//
// With no configuration it uses a key from the environment, else a model
// server on this machine, else a built-in demo model that is not an AI. A Bot
// is safe for concurrent use; turns of one session run one after the other.
//
// NewGateway is the form that runs for months: chat platforms, schedules and
// HTTP, with every message on disk until it is answered.
package nanobot

import (
	"context"
	"iter"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/doctor"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// The words of the agent that programs need.
type (
	// Event is something the agent says: a delta, a tool event, the final reply.
	Event = bus.Outbound
	// Media is a file that comes with a message.
	Media = bus.Media
	// Route says where a message comes from and where answers go.
	Route = bus.Route
	// Turn sums up a finished turn.
	Turn = bus.Turn
	// Tool is something the model can call; see NewTool and WithTools.
	Tool = tool.Tool
	// ToolCall is one execution of a tool.
	ToolCall = tool.Call
	// ToolResult is what a tool produced.
	ToolResult = tool.Result
	// Hooks observe turns and may veto tool calls; see WithHooks.
	Hooks = runner.Hooks
	// Iteration is one request to the model and what follows from it, for Hooks.
	Iteration = runner.Iteration
	// Outcome is how the loop of a turn ended, for Hooks.
	Outcome = runner.Result
	// StopReason says why a turn ended.
	StopReason = runner.Stop
	// Usage counts tokens and costs of a turn.
	Usage = bus.Usage
	// ToolFatalError is what a tool returns when its turn cannot go on. Any other
	// error is a result that the model reads.
	ToolFatalError = tool.FatalError
	// RuntimeEvent is something that happened to a turn; see WithSubscriber.
	RuntimeEvent = turn.RuntimeEvent
)

// The kinds of RuntimeEvent.
const (
	InputAccepted = turn.InputAccepted
	TurnStarted   = turn.TurnStarted
	TurnAdmitted  = turn.TurnAdmitted
	TurnStatus    = turn.TurnStatus
	TurnPersisted = turn.TurnPersisted
	TurnCompleted = turn.TurnCompleted
	GoalChanged   = turn.GoalChanged
	ModelChanged  = turn.ModelChanged
)

// The reasons why a turn ends.
const (
	StopCompleted     = runner.Completed
	StopToolError     = runner.ToolError
	StopModelError    = runner.ModelError
	StopEmptyFinal    = runner.EmptyFinal
	StopMaxIterations = runner.MaxIterations
	StopLoopDetected  = runner.LoopDetected
	StopOverBudget    = runner.OverBudget
	StopRefused       = runner.Refused
	StopCancelled     = runner.Cancelled
)

// The kinds of Event.
const (
	Final     = bus.Final
	Message   = bus.Message
	Delta     = bus.Delta
	Reasoning = bus.Reasoning
	DeltaEnd  = bus.DeltaEnd
	Progress  = bus.Progress
	ToolHint  = bus.ToolHint
	ToolEvent = bus.ToolEvent
	ToolDelta = bus.ToolDelta
	Notice    = bus.Notice
	Ask       = bus.Ask
	Gone      = bus.Gone
	GoalState = bus.GoalState
	FileEdit  = bus.FileEdit
)

// ErrStopped is returned when a turn was stopped before it had an answer.
var ErrStopped = turn.ErrStopped

// NewTool makes a tool from a typed function; the parameters' schema comes from
// In's fields (tags json, desc, enum, min, max).
func NewTool[In any](t Tool, fn func(ctx context.Context, c ToolCall, in In) (ToolResult, error)) Tool {
	return tool.Func(t, fn)
}

// ToolText returns a successful tool result.
func ToolText(s string) ToolResult { return tool.Text(s) }

// ToolFail returns a tool result that tells the model what went wrong and what to do.
func ToolFail(format string, args ...any) ToolResult {
	return tool.Fail(tool.Internal, format, args...)
}

// Input is one message to the agent.
type Input struct {
	Text    string
	Media   []Media
	Session string // "" means "sdk:default"
	Route   Route  // "" means channel sdk, chat default
	Sender  string
	Preset  string // one of modelPresets for this turn; "" is the session's
	// Ephemeral turns read and keep no conversation: Session means nothing.
	Ephemeral bool

	// For this turn only. Its subagents have the same model and hooks, and no
	// tool that is not offered here.
	Tools     []Tool   // beside those of the bot
	Offer     []string // names of the tools that the model gets; nil is all
	Hooks     []Hooks  // called after those of the bot
	ModelName string   // a model or a preset
	Model     Model    // a model of your own
}

// extra returns what the message brings along for its turn.
func (in Input) extra(ended func(Outcome)) turn.Extra {
	return turn.Extra{
		Tools:     in.Tools,
		Offer:     in.Offer,
		Hooks:     in.Hooks,
		ModelName: in.ModelName,
		Model:     in.Model,
		Ended:     ended,
	}
}

// inbound returns the message as the agent takes it.
func (in Input) inbound() bus.Inbound {
	msg := bus.Inbound{
		Route: in.Route, SenderID: in.Sender, Text: in.Text, Media: in.Media, SessionKey: in.Session,
		Preset: in.Preset, Stateless: in.Ephemeral, WantsStream: true, OwnTurn: true,
	}
	if msg.Route == (bus.Route{}) {
		msg.Route = bus.Route{Channel: "sdk", ChatID: "default"}
	}
	return msg
}

// Result is the outcome of a turn.
type Result struct {
	Text     string
	Messages []ModelMessage // what followed the message: answers, tool calls and their results
	Tools    []string       // names of the tools that were called, in order
	Usage    Usage
	Stop     StopReason // "" if no turn ran, as for a command such as /status
	Turn     Turn
}

// Bot is a running agent.
type Bot struct {
	app    *app.App
	o      app.Options
	stop   context.CancelFunc
	start  sync.Once
	runs   atomic.Bool
	done   chan struct{}
	parent context.Context //nolint:containedctx // the life of the bot, given to New
}

// New reads the configuration and prepares an agent. It calls no model.
func New(ctx context.Context, opts ...Option) (*Bot, error) {
	o := options(opts).Options
	a, err := app.New(ctx, o)
	if err != nil {
		return nil, explained(err)
	}
	ctx, stop := context.WithCancel(ctx)
	return &Bot{app: a, o: o, stop: stop, parent: ctx, done: make(chan struct{})}, nil
}

func options(opts []Option) gateway.Options {
	o := gateway.Options{Options: app.Options{Env: os.Environ(), Version: Version()}}
	for _, opt := range opts {
		opt(&o)
	}

	o.Config.Sections = gateway.Sections(o.Channels)
	if about := o.Options; o.Doctor == nil {
		o.Doctor = func(ctx context.Context) string { return doctor.Checkup(ctx, about).Text() }
	}

	o.Checks = doctor.Web{Options: o.Options}
	return o
}

// run starts the agent with the first message.
func (b *Bot) run() {
	b.start.Do(func() {
		b.app.Agent.Open(b.parent)
		b.runs.Store(true)
		go func() {
			defer close(b.done)
			_ = b.app.Run(b.parent) // ends only with its context
		}()
	})
}

// Stream sends a message and yields what the agent says, the Final event last.
// Breaking out of the loop stops the turn.
func (b *Bot) Stream(ctx context.Context, in Input) iter.Seq2[Event, error] {
	b.run()
	return b.app.Agent.AskWith(ctx, in.inbound(), in.extra(nil))
}

// Ask is Stream for a complete inbound message, as user interfaces build it.
func (b *Bot) Ask(ctx context.Context, in Inbound) iter.Seq2[Event, error] {
	b.run()
	return b.app.Agent.Ask(ctx, in)
}

// Run sends a message and waits for the reply. A turn that failed is a
// *TurnError, and what is known of it is in the Result.
func (b *Bot) Run(ctx context.Context, in Input) (Result, error) {
	b.run()
	return result(func(ended func(Outcome)) iter.Seq2[Event, error] {
		return b.app.Agent.AskWith(ctx, in.inbound(), in.extra(ended))
	})
}

// result waits for the end of a turn.
func result(ask func(ended func(Outcome)) iter.Seq2[Event, error]) (Result, error) {
	end, res := Outcome{}, Result{}
	for ev, err := range ask(func(o Outcome) { end = o }) {
		if err == nil && ev.Kind != bus.Final {
			continue // the turn goes on, and its end may be written at this moment
		}

		res.Messages, res.Stop = end.New, end.Stop
		if err != nil {
			return res, explained(err)
		}

		res.Text = ev.Text
		if ev.Turn != nil {
			res.Turn = *ev.Turn
			res.Tools = ev.Turn.Tools
			res.Usage = ev.Turn.Usage
		}

		if res.Turn.Error != "" {
			return res, &TurnError{Kind: res.Turn.ErrorKind, Message: res.Turn.Error, cause: end.Err}
		}
		return res, nil
	}

	return res, ErrStopped
}

// Stop ends the running turn of a session and says what happened.
func (b *Bot) Stop(ctx context.Context, session string) string {
	return b.app.Agent.Stop(ctx, session)
}

// Working returns how many subagents work in the background or have a result that
// was not handled yet.
func (b *Bot) Working() int { return b.app.Agent.Working() }

// Wait waits until no subagent works any more and their results were handled.
func (b *Bot) Wait(ctx context.Context) error { return b.app.Agent.Quiet(ctx) }

// FinishMemory takes into memory what conversations left for it, until ctx ends;
// a program calls it before Close if it does not run for long. Begun is called
// with their number if there are any. What is left then, the returned number,
// is taken up by the next bot or gateway with this data folder.
func (b *Bot) FinishMemory(ctx context.Context, begun func(conversations int)) (left int) {
	if !b.runs.Load() {
		return 0 // it has not worked; the next one that does takes up what is there
	}
	return b.app.FinishMemory(ctx, begun)
}

// KeepTime runs the jobs of the chats that WithReminders names, at their time,
// until ctx ends or the bot is closed. While a gateway runs the jobs of the
// workspace it waits. It is for programs that a person sits at; call it once.
func (b *Bot) KeepTime(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(b.parent, stop)() //nolint:contextcheck // stop belongs to the one above
	b.app.KeepTime(ctx, b.run)
}

// Handler answers the OpenAI-compatible API, health and metrics for this agent;
// mount it on any mux (docs/reference/api.md says who is let in). It starts the agent.
func (b *Bot) Handler() (http.Handler, error) {
	h, err := b.app.API(b.o)
	if err != nil {
		return nil, err
	}
	b.run()
	return h.Handler(), nil
}

// Sessions returns the conversations of the workspace.
func (b *Bot) Sessions() Sessions { return Sessions{b.current} }

// Cron returns the jobs of the workspace.
func (b *Bot) Cron() Cron { return Cron{b.current} }

// Triggers returns the triggers of the workspace.
func (b *Bot) Triggers() Triggers { return Triggers{b.current} }

// Memory returns what the agent remembers across conversations.
func (b *Bot) Memory() Memory { return Memory{b.current} }

func (b *Bot) current(context.Context) (*app.App, error) { return b.app, nil }

// Model names the model in use.
func (b *Bot) Model() string { return b.app.ModelInfo().Name }

// Notes tells what the user should know about this start, such as which model
// was found when none is configured.
func (b *Bot) Notes() []string { return b.app.Notes }

// Workspace returns the folder the agent works in.
func (b *Bot) Workspace() string { return b.app.Workspace }

// DataDir returns the folder that holds sessions and other state.
func (b *Bot) DataDir() string { return b.app.Config.DataDir }

// Close lets running turns finish for a short while, stops the rest and waits.
func (b *Bot) Close() error {
	b.stop()
	b.start.Do(func() { close(b.done) }) // never started: nothing to wait for
	<-b.done
	return b.app.Close()
}
