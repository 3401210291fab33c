// Package gateway is the long-running form of the product: it owns the message
// journal, the chat platforms, the schedule and the HTTP listener, and replaces
// the agent when the configuration changes.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/keyring"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/api"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// ErrRestart ends a gateway that somebody asked to restart.
var ErrRestart = errors.New("a restart was asked for")

// Options of a Gateway.
type Options struct {
	app.Options
	Listen     string // address instead of the configured one; "-" is none: the host program mounts Handler
	NoChannels bool   // leave all chat platforms off until it has run for a while
	// Dry is for a look at what would run, while another gateway may: what that
	// one holds is done without. Run must not be called.
	Dry bool
	// Checks look at the installation for the web interface. nil: nothing does.
	Checks subject.Checks
	// Rejected says why the configuration in the file cannot be used. Loaded then
	// stands in for it; the next reload reads the file again.
	Rejected error
}

// Gateway is the long-running form of the product: the message journal, an
// agent that works through it, chat platforms, schedules and one HTTP listener.
// The agent can be replaced while the rest goes on; messages wait meanwhile.
type Gateway struct {
	o        Options
	log      *slog.Logger
	secrets  *httpsafe.Registry
	started  time.Time
	notes    []string
	state    state
	mail     *mail
	channels *deliver.Manager
	accounts *accounts
	front    *front
	web      *webClients
	restart  chan bus.Route
	reload   chan chan error
	ending   chan struct{} // closed when Run comes to rest
	free     func(dir string) (uint64, bool)

	background sync.WaitGroup
	carrying   context.Context //nolint:containedctx // the life of what carries answers; set by Run

	stamp     string // of the configuration file before it was read
	workspace string
	scratch   string // the queue of a dry run; "" is the real one
}

// New reads the configuration, takes the locks and the port and builds
// everything. It connects to nobody yet. A section that can be done without
// and is wrong is left out; Problems names it.
func New(ctx context.Context, o Options) (*Gateway, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Config.Lenient = true
	if o.Config.Sections == nil {
		o.Config.Sections = Sections(o.Channels)
	}
	g := &Gateway{
		o: o, log: o.Log, started: o.Now(), restart: make(chan bus.Route, 1), reload: make(chan chan error),
		state: state{moved: make(chan struct{})}, ending: make(chan struct{}), free: diskio.FreeBytes,
	}
	g.state.quiet.Store(o.NoChannels)
	if file, err := config.Locate(g.o.file()); err == nil {
		g.stamp = stampOf(file)
	}
	g.front = &front{state: &g.state, metrics: api.NewMetrics(o.Version, g.started, o.Now)}
	g.o.Figures = api.NewFigures(g.front.metrics, o.UseModel != nil)
	g.o.Restart = func(r bus.Route) {
		select {
		case g.restart <- r:
		default: // asked for already
		}
	}
	m := &mail{topics: publisher{keyOf: g.state.keyOf, unread: func(string) {}, coming: map[bus.Route]*arrival{}}, state: &g.state, figures: g.o.Figures, now: o.Now}
	g.o.Log = withNotes(o.Log, func() { m.topics.Publish("log", nil) })
	m.log = g.o.Log
	g.mail = m
	g.o.Deliver, g.o.Elsewhere, g.o.Notify = m.deliver, m.elsewhere, m.tellOwner
	g.o.Link = app.Link{
		Submit: m.submit, Notify: m.publish, Language: m.language, Deliverable: m.reaches, Blocked: m.blocked,
		LastRoute: func(context.Context) (bus.Route, bool) { return m.owner.last() },
		Reload:    g.reloadFor, Problems: g.Problems, Changed: m.topics.soon,
	}
	g.o.Observers.Events = append(slices.Clip(g.o.Observers.Events), func(ev turn.RuntimeEvent) {
		if ev.Kind == turn.QuestionClosed {
			g.background.Go(func() { g.web.asking.keep(ev) })
		}
	})
	if o.Rejected != nil {
		g.state.inUse.rejected = o.Rejected.Error()
	}
	a, err := app.New(ctx, g.o.Options)
	if err != nil {
		return nil, err
	}
	g.o.Loaded = nil // the next agent reads the file
	g.log, g.secrets, g.workspace = a.Log(), a.Secrets(), a.Workspace
	g.state.inUse.config = a.Config
	g.state.booted = a.Config
	m.log, m.secrets = g.log, g.secrets
	m.vault = guard.NewVault(keyring.Options{DataDir: a.Config.DataDir, Getenv: app.Getenv(o.Env)}, g.secrets, g.log)
	if err := g.open(ctx, a); err != nil {
		return nil, errors.Join(err, a.Close(), g.close())
	}
	g.state.inUse.agent = &generation{app: a}
	g.notes = a.Notes
	return g, nil
}

// open takes what only one gateway can have.
func (g *Gateway) open(ctx context.Context, a *app.App) (err error) {
	j, err := journal.Open(store.Under(app.State(a.Config, g.log), string(datadir.Bus)), journal.Options{Now: g.o.Now, Log: g.log})
	locked, ok := errors.AsType[*diskio.LockedError](err)
	if ok && g.o.Dry {
		a.Notes = append(a.Notes, fmt.Sprintf("A gateway runs with %s already (process %d).", a.Config.DataDir, locked.PID))
		if g.scratch, err = os.MkdirTemp("", "nanobot-dry-"); err != nil {
			return err
		}
		j, err = journal.Open(disk.Open(g.scratch, g.log), journal.Options{Now: g.o.Now, Log: g.log})
	} else if ok {
		return fmt.Errorf("another gateway already works with %s: %w", a.Config.DataDir, locked)
	}
	if err != nil {
		return err
	}
	g.mail.queue = j
	g.mail.owner = &ownerChat{state: app.State(a.Config, g.log)}
	g.mail.mailbox = Mailbox(a.Config, g.o.Now, g.log)
	if err := g.front.listen(ctx, g.o.Listen, a.Config.Config.Gateway); err != nil && g.o.Dry {
		a.Notes = append(a.Notes, fmt.Sprintf("It could not start now: %v.", err))
	} else if err != nil {
		return err
	}
	g.web = &webClients{app: g.o.Options, state: &g.state, settings: g.settings, log: g.log, topics: &g.mail.topics}
	g.web.asking = newAsking(g.web, g.secrets.Redact)
	g.web.unread = subject.NewUnread(store.Under(app.State(a.Config, g.log), string(datadir.WebUI)), g.log)
	g.mail.topics.unread = func(key string) { g.web.unread.Add(context.WithoutCancel(ctx), key) }
	g.web.operations = func() (map[string]web.Read, map[string]web.Action) { return operations(g) }
	g.web.hidden = func() bool { return !enabledSocket(g.state.config()) }
	if g.channels, err = deliver.NewManager(g.channelOptions(a)); err != nil {
		return err
	}
	g.mail.channels, g.web.channels = g.channels, g.channels
	g.mail.topics.channels.Store(g.channels)
	g.web.pages = newPages(g) //nolint:contextcheck // notifications do not end with the request that caused them
	g.accounts = &accounts{
		channels: g.channels, address: g.mail.address, say: g.Say, file: g.o.file, reload: g.Reload, redact: g.secrets.Redact,
	}
	g.front.base = api.Options{
		Ask: g.Ask, Health: g.health, Log: g.log, Now: g.o.Now,
		Media: api.Uploads{Transcribe: func(ctx context.Context, path string) (string, error) { return g.web.transcript(ctx, path), nil }},
	}
	g.front.metrics.OnRead(g.gauges)
	if g.web.desk, err = g.web.newDesk(); err != nil {
		return err
	}
	return g.front.renew(a)
}

// Addr is where the gateway listens, nil if it does not.
func (g *Gateway) Addr() net.Addr { return g.front.addr() }

// Ask lets somebody in who waits for the answer himself, such as an HTTP
// request. It does not go through the journal.
func (g *Gateway) Ask(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
	return g.AskWith(ctx, in, turn.Extra{})
}

// AskWith is Ask for a message that brings something along for its turn.
func (g *Gateway) AskWith(ctx context.Context, in bus.Inbound, x turn.Extra) iter.Seq2[bus.Outbound, error] {
	return func(yield func(bus.Outbound, error) bool) {
		a, err := g.state.current(ctx)
		if err != nil {
			yield(bus.Outbound{}, err)
			return
		}
		g.o.Figures.Counted(func(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
			return a.Agent.AskWith(ctx, in, x)
		})(ctx, in)(yield)
	}
}

// Run serves until ctx ends, then comes to rest in order: platforms stop
// receiving, turns finish or are kept for the next start, what was said goes
// out. Ready is called once everything runs. It returns ErrRestart when
// somebody asked for one.
func (g *Gateway) Run(ctx context.Context, ready func()) error {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	// What carries answers lives longer than what brings questions.
	carrying, stopCarrying := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCarrying()
	g.carrying = carrying
	var work sync.WaitGroup
	work.Go(func() {
		if err := g.channels.Run(carrying); err != nil {
			g.log.ErrorContext(ctx, "channels", "err", err)
		}
	})
	var servers []*httpServer
	start := func(l net.Listener, h http.Handler) {
		s := newServer(carrying, h)
		servers = append(servers, s)
		work.Go(func() { s.serve(l, g.log) })
	}
	if g.front.listener != nil {
		start(g.front.listener, g.Handler())
	}
	use := g.state.snapshot()
	if use.config.Config.Gateway.ControlSocket {
		if l, err := listenControl(use.config.DataDir); err != nil {
			g.log.WarnContext(ctx, "commands such as gateway status will not reach this gateway", "err", err)
		} else {
			start(l, g.control())
		}
	}
	keepTime := use.agent.start(carrying, g.mail)
	g.mail.announce(ctx)
	g.watchConfig(serving)
	g.reportDisabled(ctx, use.config)
	keepGood(ctx, use.config, g.log)
	g.channels.AwaitLocal(ctx, localWait)
	if ready != nil {
		ready()
	}
	keepTime()
	err := g.supervise(serving)
	stop()
	return errors.Join(err, g.shutdown(ctx, stopCarrying, servers, &work))
}

// shutdown stops in the order of dependence: intake, turns, deliveries, HTTP,
// background work.
func (g *Gateway) shutdown(ctx context.Context, stopDelivery func(), servers []*httpServer, work *sync.WaitGroup) error {
	close(g.ending)
	g.channels.StopIntake()

	var turnErr error
	if gen := g.state.snapshot().agent; gen != nil { // nil: a reload was under way
		turnErr = gen.finishWithin(g.ending)
	}

	g.carryOut()
	stopDelivery()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpGrace)
	defer cancel()
	for _, s := range servers {
		s.stop(ctx)
	}

	work.Wait()
	g.background.Wait()
	return errors.Join(turnErr, g.close())
}

// localWait is how long we wait for our own listeners before we say that we are
// ready. They need a fraction of it.
const localWait = 200 * time.Millisecond

// httpGrace is how long requests may take to end when we stop.
const httpGrace = 2 * time.Second

// supervise waits for the end and does what is asked for until then.
func (g *Gateway) supervise(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case route := <-g.restart:
			g.mail.rememberRestart(ctx, route)
			return ErrRestart
		case answer := <-g.reload:
			answer <- g.reloadNow(ctx)
		case <-g.state.rebuildTimer():
			g.rebuildAgent(ctx)
		}
	}
}

// Close gives back what a gateway holds that never ran.
func (g *Gateway) Close() error { return errors.Join(g.state.inUse.agent.finish(), g.close()) }

func (g *Gateway) close() error {
	err := g.mail.close()
	if l := g.front.listener; l != nil {
		_ = l.Close() // closed by the server already, or never used
	}
	if g.scratch != "" {
		err = errors.Join(err, os.RemoveAll(g.scratch))
	}
	return err
}

// Workspace is the folder the agent works in.
func (g *Gateway) Workspace() string { return g.workspace }

// Problems says what is wrong: why the gateway is not ready, channels that
// cannot work, sections of the configuration that were left out.
func (g *Gateway) Problems() []string {
	s := g.Status()
	for i := range s.Channels {
		if c := &s.Channels[i]; c.Enabled && c.Error != "" {
			s.Problems = append(s.Problems, "channel "+c.Name+": "+c.Error)
		}
	}
	return s.Problems
}

// Notes are what the user should know about this start.
func (g *Gateway) Notes() []string { return g.notes }

// Current is the agent in use. It waits while one takes over from another, and
// must not be kept: a new configuration replaces it.
func (g *Gateway) Current(ctx context.Context) (*app.App, error) { return g.state.current(ctx) }

// Say keeps a message for a chat until its platform has taken it.
func (g *Gateway) Say(ctx context.Context, out bus.Outbound) error {
	if out.Text == "" && len(out.Media) == 0 {
		return errors.New("the message is empty")
	}
	var err error
	if out.Route, err = g.mail.address(ctx, out.Route); err != nil {
		return err
	}
	return g.mail.queue.Publish(ctx, out)
}
