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
package nanobot

import (
	"context"
	"errors"
	"iter"
	"os"
	"sync"

	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/runner"
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
	// Model answers requests; see WithModel.
	Model = llm.Model
	// Tool is something the model can call; see NewTool and WithTools.
	Tool = tool.Tool
	// ToolCall is one execution of a tool.
	ToolCall = tool.Call
	// ToolResult is what a tool produced.
	ToolResult = tool.Result
	// Hooks observe turns and may veto tool calls; see WithHooks.
	Hooks = runner.Hooks
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
	Notice    = bus.Notice
	Ask       = bus.Ask
)

// ErrStopped is returned when a turn was stopped before it had an answer.
var ErrStopped = agent.ErrStopped

// NewTool makes a tool from a typed function; the parameters' schema comes from
// In's fields (tags json, desc, enum, min, max).
func NewTool[In any](t Tool, fn func(ctx context.Context, c ToolCall, in In) (ToolResult, error)) Tool {
	return tool.Func(t, fn)
}

// ToolText is a successful tool result.
func ToolText(s string) ToolResult { return tool.Text(s) }

// Input is one message to the agent.
type Input struct {
	Text    string
	Media   []Media
	Session string // "" means "sdk:default"
	Route   Route  // "" means channel sdk, chat default
	Sender  string
}

// Result is the outcome of a turn.
type Result struct {
	Text string
	Turn Turn
}

// Bot is a running agent.
type Bot struct {
	app    *app.App
	stop   context.CancelFunc
	start  sync.Once
	done   chan struct{}
	parent context.Context //nolint:containedctx // the life of the bot, given to New
}

// New reads the configuration and prepares an agent. It calls no model.
func New(ctx context.Context, opts ...Option) (*Bot, error) {
	o := app.Options{Env: os.Environ(), Version: Version()}
	for _, opt := range opts {
		opt(&o)
	}
	a, err := app.New(ctx, o)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	return &Bot{app: a, stop: stop, parent: ctx, done: make(chan struct{})}, nil
}

// run starts the agent with the first message.
func (b *Bot) run() {
	b.start.Do(func() {
		b.app.Agent.Open(b.parent)
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
	msg := bus.Inbound{
		Route: in.Route, SenderID: in.Sender, Text: in.Text, Media: in.Media, SessionKey: in.Session,
		WantsStream: true, OwnTurn: true,
	}
	if msg.Route == (bus.Route{}) {
		msg.Route = bus.Route{Channel: "sdk", ChatID: "default"}
	}
	return b.app.Agent.Ask(ctx, msg)
}

// Ask is Stream for a complete inbound message, as user interfaces build it.
func (b *Bot) Ask(ctx context.Context, in bus.Inbound) iter.Seq2[Event, error] {
	b.run()
	return b.app.Agent.Ask(ctx, in)
}

// Run sends a message and waits for the reply.
func (b *Bot) Run(ctx context.Context, in Input) (Result, error) {
	for ev, err := range b.Stream(ctx, in) {
		if err != nil {
			return Result{}, err
		}
		if ev.Kind == bus.Final {
			res := Result{Text: ev.Text}
			if ev.Turn != nil {
				res.Turn = *ev.Turn
			}
			if res.Turn.Error != "" {
				return res, errors.New(res.Turn.Error)
			}
			return res, nil
		}
	}
	return Result{}, ErrStopped
}

// Stop ends the running turn of a session and says what happened.
func (b *Bot) Stop(ctx context.Context, session string) string {
	return b.app.Agent.Stop(ctx, session)
}

// Working is how many subagents work in the background or have a result that
// was not handled yet.
func (b *Bot) Working() int { return b.app.Agent.Working() }

// Wait waits until no subagent works any more and their results were handled.
func (b *Bot) Wait(ctx context.Context) error { return b.app.Agent.Quiet(ctx) }

// Model names the model in use.
func (b *Bot) Model() string { return b.app.ModelInfo().Name }

// Notes tells what the user should know about this start, such as which model
// was found when none is configured.
func (b *Bot) Notes() []string { return b.app.Notes }

// Workspace is the folder the agent works in.
func (b *Bot) Workspace() string { return b.app.Workspace }

// DataDir is the folder that holds sessions and other state.
func (b *Bot) DataDir() string { return b.app.Config.DataDir }

// Close lets running turns finish for a short while, stops the rest and waits.
func (b *Bot) Close() error {
	b.stop()
	b.start.Do(func() { close(b.done) }) // never started: nothing to wait for
	<-b.done
	return b.app.Close()
}
