package nanobot

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"sync"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// ErrRestart is returned by Serve when /restart was asked for in a chat.
var ErrRestart = gateway.ErrRestart

// Gateway is an agent that runs for months: it connects to chat platforms,
// works through the schedule and answers HTTP. What comes in by a platform is
// on disk before the platform is told so, and answers stay there until they
// are delivered, over any number of crashes.
//
// It takes ownership of its data folder: one gateway at a time. A Gateway is
// safe for concurrent use.
type Gateway struct {
	gateway *gateway.Gateway
	ready   chan struct{} // closed once everything runs
	begin   sync.Once     // Serve or Close, whoever comes first
}

// NewGateway reads the configuration, takes the port and builds everything. It
// makes no connection and calls no model before Serve. A section of the
// configuration that can be done without and is wrong is left out; Problems
// names it.
func NewGateway(ctx context.Context, opts ...Option) (*Gateway, error) {
	g, err := gateway.New(ctx, options(opts))
	if err != nil {
		return nil, explained(err)
	}
	return &Gateway{gateway: g, ready: make(chan struct{})}, nil
}

// Serve works until ctx ends, then comes to rest in order: platforms stop
// receiving, turns finish or are kept for the next start, what was said goes
// out. It can be called once. It installs no signal handlers.
func (g *Gateway) Serve(ctx context.Context) error {
	err := errors.New("the gateway was served or closed before")
	g.begin.Do(func() {
		err = g.gateway.Run(ctx, func() { close(g.ready) })
	})
	return err
}

// Ready is closed once everything runs.
func (g *Gateway) Ready() <-chan struct{} { return g.ready }

// Handler answers everything the gateway's own port does: the OpenAI-compatible
// API, health and the platforms that receive by HTTP. Mount it where you like;
// docs/reference/api.md says who is let in.
func (g *Gateway) Handler() http.Handler { return g.gateway.Handler() }

// Addr returns where the gateway listens, "" if it does not.
func (g *Gateway) Addr() string {
	if a := g.gateway.Addr(); a != nil {
		return a.String()
	}
	return ""
}

// Stream sends a message to the agent and yields what it says, the Final event
// last, like Bot.Stream. It waits until Serve runs. The message is not kept
// over a crash: whoever waits for the answer notices.
func (g *Gateway) Stream(ctx context.Context, in Input) iter.Seq2[Event, error] {
	return g.stream(ctx, in, nil)
}

func (g *Gateway) stream(ctx context.Context, in Input, ended func(Outcome)) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		select {
		case <-g.ready:
			g.gateway.AskWith(ctx, in.inbound(), in.extra(ended))(yield)
		case <-ctx.Done():
			yield(Event{}, context.Cause(ctx))
		}
	}
}

// Run sends a message to the agent and waits for the reply, like Bot.Run.
func (g *Gateway) Run(ctx context.Context, in Input) (Result, error) {
	return result(func(ended func(Outcome)) iter.Seq2[Event, error] { return g.stream(ctx, in, ended) })
}

// Send says something in a chat without a turn of the agent. It returns when
// the message is on disk; from there it is delivered as answers are, also
// after a restart. Text is Markdown.
func (g *Gateway) Send(ctx context.Context, to Route, text string, media ...Media) error {
	return g.gateway.Say(ctx, Event{Kind: bus.Message, Route: to, Text: text, Media: media})
}

// Sessions returns the conversations of the workspace.
func (g *Gateway) Sessions() Sessions { return Sessions{g.gateway.Current} }

// Cron returns the jobs of the workspace.
func (g *Gateway) Cron() Cron { return Cron{g.gateway.Current} }

// Triggers returns the triggers of the workspace.
func (g *Gateway) Triggers() Triggers { return Triggers{g.gateway.Current} }

// Memory returns what the agent remembers across conversations.
func (g *Gateway) Memory() Memory { return Memory{g.gateway.Current} }

// Reload reads the configuration again and puts to use what changed. Nothing
// changes when the new one cannot be used.
func (g *Gateway) Reload(ctx context.Context) error {
	select {
	case <-g.ready:
		return g.gateway.Reload(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Problems says what is wrong: why the gateway is not ready, channels that
// cannot work, sections of the configuration that were left out.
func (g *Gateway) Problems() []string { return g.gateway.Problems() }

// Workspace returns the folder the agent works in.
func (g *Gateway) Workspace() string { return g.gateway.Workspace() }

// Close gives back what a gateway holds that was never served. After Serve
// there is nothing left to close.
func (g *Gateway) Close() error {
	var err error
	g.begin.Do(func() { err = g.gateway.Close() })
	return err
}
