package gateway

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

// Reload reads the configuration again and puts to use what changed: single
// channels, schedules, or the agent with its models and tools. Nothing changes
// when the new configuration cannot be used.
func (g *Gateway) Reload(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case g.reload <- answer:
	case <-ctx.Done():
		return context.Cause(ctx)
	}

	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reloadFor is Reload for a person in a chat, who cannot be kept waiting: the
// agent that answers them may be replaced. What is refused is told to the
// owner anyway.
func (g *Gateway) reloadFor(r bus.Route) {
	ctx := g.carrying
	g.background.Go(func() {
		if g.Reload(ctx) != nil || g.mail.deliverable(r) != nil {
			return
		}
		text := phrase.Later("The new settings are in use.")
		if later := g.Status().Later; len(later) > 0 {
			text = phrase.Later("The new settings are in use, except for those that need a /restart: %s.", strings.Join(later, ", "))
		}
		g.mail.deliver(bus.Outbound{Kind: bus.Message, Route: r, ReplyTo: r.MessageID, Text: text.In(g.directory.Language(r.Channel)), Plain: true}) //nolint:contextcheck // it is kept even if we end now
	})
}

func (g *Gateway) reloadNow(ctx context.Context) (err error) {
	defer func() { g.front.metrics.Reloads.Add(1, api.Outcome(err)) }()
	fresh, err := config.Load(g.o.file())
	if err != nil {
		g.reject(ctx, err)
		return err
	}

	for name, s := range fresh.Secrets() {
		_ = g.secrets.Add(name, s) // as at the start
	}

	model := g.web.usualModel()
	change := changeOf(fresh.Changed(g.state.config()))
	g.log.InfoContext(ctx, "configuration read again", "agent", change.agent, "channels", change.channels, "restart", change.restart)

	if change.agent || change.schedule {
		if err := g.replace(ctx); err != nil {
			if ctx.Err() == nil {
				g.reject(ctx, err)
			}
			return err
		}
	}

	g.state.use(fresh, "")
	g.web.publishModel(model)
	if change.channels {
		for _, err := range g.channels.Apply(ctx, g.sections(fresh)) {
			g.log.WarnContext(ctx, "channel", "err", err)
		}
	}

	if change.restart {
		g.log.WarnContext(ctx, "some of these settings are used after a restart: where and how the gateway listens and logs, and what all channels have in common")
	}

	g.reportDisabled(ctx, fresh)
	saveGood(ctx, fresh, g.log)
	for _, topic := range []string{web.TopicSettings, web.TopicChannels, web.TopicMCP, web.TopicBudget} {
		g.topics.Publish(topic, nil)
	}
	return nil
}

// reportDisabled says what was left out of the configuration.
func (g *Gateway) reportDisabled(ctx context.Context, l *config.Loaded) {
	if len(l.Disabled) == 0 {
		return
	}
	var b strings.Builder
	for _, p := range l.Disabled {
		g.log.ErrorContext(ctx, "a section of the configuration is left out", "why", p.String())
		b.WriteString("\n- " + p.String())
	}
	g.mail.notifyOwner(ctx, phrase.Later("A part of the configuration cannot be used and is left out:\n%s", b.String()))
}

// file is how the configuration is found and read.
func (o *Options) file() config.Options {
	out := o.Config
	if out.Env == nil {
		out.Env = o.Env
	}
	return out
}

// reject keeps what is in use and says why.
func (g *Gateway) reject(ctx context.Context, err error) {
	g.state.use(nil, err.Error())
	g.log.ErrorContext(ctx, "the new configuration is not used; the one before stays", "err", err)
	g.mail.notifyOwner(ctx, phrase.Later("The changed configuration is not valid. I continue with the previous one.\n\n%s", text.Cut(err.Error(), 1000)))
}

// changes is what a new configuration asks for.
type changes struct{ agent, schedule, channels, restart bool }

// changeOf sorts the names of config.Loaded.Changed by who has to do with them.
func changeOf(names []string) changes {
	var c changes
	for _, name := range names {
		top, sub, _ := strings.Cut(name, ".")
		switch {
		case config.Restarts(name):
			c.restart = true
		case top == "channels":
			c.channels = true
		case top == "gateway" && (sub == "cron" || sub == "heartbeat"):
			c.schedule = true
		default:
			c.agent = true
		}
	}

	return c
}

// replace puts an agent with the newest configuration into use instead of the one
// that runs. Messages wait in the queue meanwhile; turns that do not finish in
// time are taken up by the new agent.
func (g *Gateway) replace(ctx context.Context) error {
	// What cannot be built at all is found out before anything is stopped.
	if _, err := app.Inspect(ctx, g.o.Options); err != nil {
		return err
	}

	if old := g.state.detach(); old != nil {
		if err := old.shutdownWithin(ctx.Done()); err != nil {
			g.log.WarnContext(ctx, "cannot close the agent", "err", err)
		}
	}

	if ctx.Err() != nil { // the end of the gateway; what is in the queue is for the next one
		return context.Cause(ctx)
	}
	return g.swapAgent(ctx)
}

// swapAgent puts a new agent to work. With an error it is one with the old
// settings, or there is none.
func (g *Gateway) swapAgent(ctx context.Context) error {
	a, err := app.New(ctx, g.o.Options)
	if err != nil {
		// The files changed again, or the machine refuses: the old settings
		// worked a moment ago.
		back := g.o.Options
		back.Loaded = g.state.config()
		var again error
		if a, again = app.New(ctx, back); again != nil {
			return again
		}
	}

	g.mail.Redeliver()
	g.activate(&generation{app: a})
	return err
}

// rebuildAgent tries again to put an agent to work.
func (g *Gateway) rebuildAgent(ctx context.Context) {
	err := g.swapAgent(ctx)
	if g.state.snapshot().agent == nil {
		g.log.ErrorContext(ctx, "there is no agent; messages wait", "err", err)
		return
	}

	g.log.InfoContext(ctx, "there is an agent again")
	if err == nil {
		g.state.use(nil, "")
		for _, err := range g.channels.Apply(ctx, g.sections(g.state.config())) {
			g.log.WarnContext(ctx, "channel", "err", err)
		}
	}
}

// activate starts a new agent and puts it into use.
func (g *Gateway) activate(next *generation) {
	next.start(g.carrying, g.mail)()
	g.state.attach(next)
	if err := g.front.renew(next.app); err != nil {
		g.log.Error("the API keeps its old settings", "err", err)
	}
}

// saveGood keeps a copy of a configuration that works, if gateway.bootFallback
// asks for it.
func saveGood(ctx context.Context, l *config.Loaded, log *slog.Logger) {
	if l.Config.Gateway.BootFallback != "last-good" || !l.Exists || len(l.Disabled) > 0 || filepath.Base(l.File) == string(datadir.LastGood) {
		return
	}

	data, err := os.ReadFile(l.File)
	if err == nil {
		err = store.Update(ctx, app.State(l, log), string(datadir.LastGood), func([]byte) ([]byte, error) { return data, nil })
	}
	if err != nil {
		log.WarnContext(ctx, "cannot save a copy of the configuration", "err", err)
	}
}
