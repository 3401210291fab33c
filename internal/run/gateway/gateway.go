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
	"github.com/nanobot-go/nanobot/internal/run/control"
	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/api"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// ErrRestart ends a gateway that was asked to restart.
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
	o       Options
	log     *slog.Logger
	secrets *httpsafe.Registry
	started time.Time
	notes   []string

	// In the order in which they are made; see build.
	directory *deliver.Directory
	state     *state
	desk      *web.Desk
	topics    *publisher
	mail      *mail
	front     *front
	pages     *webPages
	asking    *asking
	web       *webClients
	channels  *deliver.Manager
	accounts  *accounts

	restart chan bus.Route
	reload  chan chan error
	ending  chan struct{} // closed when Run comes to rest
	free    func(dir string) (uint64, bool)

	background sync.WaitGroup
	carrying   context.Context //nolint:containedctx // the life of what carries answers; set by Run

	stamp     string // of the configuration file before it was read
	workspace string
	scratch   string // the queue of a dry run; "" is the real one
}

// New reads the configuration, takes the locks and the port and builds
// everything. It makes no connection yet. A section that can be done without
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
		o: o, started: o.Now(), restart: make(chan bus.Route, 1), reload: make(chan chan error),
		ending: make(chan struct{}), free: diskio.FreeBytes,
	}
	if err := g.build(ctx); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// build makes the parts, each complete and from those before it. Three are empty at
// first, because those around them need each other: the directory of accounts, the
// desk, and the state, whose agent comes last.
func (g *Gateway) build(ctx context.Context) (err error) {
	metrics := api.NewMetrics(g.o.Version, g.started, g.o.Now)
	metrics.OnRead(g.gauges)
	g.o.Figures = api.NewFigures(metrics, g.o.UseModel != nil)
	g.directory = deliver.NewDirectory(g.o.Log)
	loaded, err := g.configuration()
	if err != nil {
		return err
	}

	g.state = newState(loaded, g.o.Rejected, g.o.NoChannels)
	if g.desk, err = web.NewDesk(g.log); err != nil {
		return err
	}

	state := app.State(loaded, g.log)
	kept := store.Under(state, string(datadir.WebUI))
	unread := subject.NewUnread(kept, g.log)
	count := func(key string) { unread.Add(context.WithoutCancel(ctx), key) }
	g.topics = newPublisher(g.directory, g.state.keyOf, count, g.pushQuestion)
	queue, err := g.openQueue(loaded)
	if err != nil {
		return err
	}

	g.mail = &mail{
		queue: queue, directory: g.directory, topics: g.topics, owner: &ownerChat{state: state}, figures: g.o.Figures,
		mailbox: Mailbox(loaded, g.o.Now, g.log), vault: guard.NewVault(keyring.Options{DataDir: loaded.DataDir, Getenv: app.Getenv(g.o.Env)}, g.secrets, g.log),
		secrets: g.secrets, state: state, dataDir: loaded.DataDir, now: g.o.Now, log: g.log,
	}

	g.lend()

	g.front = &front{state: g.state, metrics: metrics, base: api.Options{
		Ask: g.Ask, Health: g.health, Log: g.log, Now: g.o.Now,
		Media: api.Uploads{Transcribe: func(ctx context.Context, path string) (string, error) { return g.web.transcript(ctx, path), nil }},
	}}
	if err := g.listen(ctx, loaded); err != nil {
		return err
	}

	g.pages = newPages(g)
	g.asking = newAsking(g.state, kept, g.secrets.Redact, g.topics, g.log)
	g.web = &webClients{
		app: g.o.Options, state: g.state, directory: g.directory, log: g.log, topics: g.topics, unread: unread, asking: g.asking,
	}
	if g.channels, err = deliver.NewManager(g.channelOptions(loaded)); err != nil {
		return err
	}

	g.accounts = &accounts{Manager: g.channels, address: g.mail.address, send: g.Say, file: g.o.file, reload: g.Reload}
	if err := g.desk.Add(g.subjects()...); err != nil {
		return err
	}
	return g.firstAgent(ctx, loaded)
}

// configuration reads the file. From here on nothing that is logged has a credential
// in it, and pages hear of new lines.
func (g *Gateway) configuration() (*config.Loaded, error) {
	if file, err := config.Locate(g.o.file()); err == nil {
		g.stamp = stampOf(file)
	}

	g.o.Log = withNotes(g.o.Log, func() { publish(g.directory, web.TopicLog, nil) })
	loaded, workspace, err := app.Load(&g.o.Options)
	if err != nil {
		return nil, err
	}

	g.o.Loaded = nil // the next agent reads the file
	g.log, g.secrets, g.workspace = g.o.Log, g.o.Secrets, workspace
	return loaded, nil
}

// openQueue takes the journal, which only one gateway can have.
func (g *Gateway) openQueue(l *config.Loaded) (*journal.Journal, error) {
	o := journal.Options{Now: g.o.Now, Log: g.log}
	j, err := journal.Open(store.Under(app.State(l, g.log), string(datadir.Bus)), o)
	locked, ok := errors.AsType[*diskio.LockedError](err)
	switch {
	case !ok:
		return j, err
	case !g.o.Dry:
		return nil, fmt.Errorf("another gateway already works with %s: %w", l.DataDir, locked)
	}

	g.notes = append(g.notes, fmt.Sprintf("A gateway runs with %s already (process %d).", l.DataDir, locked.PID))
	if g.scratch, err = os.MkdirTemp("", "nanobot-dry-"); err != nil {
		return nil, err
	}
	return journal.Open(disk.Open(g.scratch, g.log), o)
}

// lend gives the agents what a gateway has for them.
func (g *Gateway) lend() {
	g.o.Restart = func(r bus.Route) {
		select {
		case g.restart <- r:
		default: // asked for already
		}
	}

	g.o.Deliver, g.o.Elsewhere, g.o.Notify = g.mail.deliver, g.mail.elsewhere, g.mail.notifyOwner
	g.o.Link = app.Link{
		Submit: g.mail.submitOwn, Notify: g.mail.post, Language: g.directory.Language, Deliverable: g.mail.reaches, Blocked: g.mail.blocked,
		LastRoute: func(context.Context) (bus.Route, bool) { return g.mail.owner.last() },
		Reload:    g.reloadFor, Problems: g.Problems, Changed: g.topics.soon,
	}

	g.o.Observers.Events = append(slices.Clip(g.o.Observers.Events), func(ev turn.RuntimeEvent) {
		if ev.Kind == turn.QuestionClosed {
			g.background.Go(func() { g.asking.record(ev) })
		}
	})
}

// listen takes the port of the configuration.
func (g *Gateway) listen(ctx context.Context, l *config.Loaded) (err error) {
	err = g.front.listen(ctx, g.o.Listen, l.Config.Gateway)
	if err != nil && g.o.Dry {
		g.notes = append(g.notes, fmt.Sprintf("It could not start now: %v.", err))
		return nil
	}
	return err
}

// firstAgent puts the agent of the start into use.
func (g *Gateway) firstAgent(ctx context.Context, l *config.Loaded) error {
	o := g.o.Options
	o.Loaded = l
	a, err := app.New(ctx, o)
	if err != nil {
		return err
	}
	if err := g.front.renew(a); err != nil {
		return errors.Join(err, a.Close())
	}

	g.notes = append(a.Notes, g.notes...)
	g.state.attach(&generation{app: a})
	return nil
}

// Addr is where the gateway listens, nil if it does not.
func (g *Gateway) Addr() net.Addr { return g.front.addr() }

// Ask is for a sender that waits for the answer itself, such as an HTTP
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
// one was asked for.
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
		if l, err := control.Listen(use.config.DataDir); err != nil {
			g.log.WarnContext(ctx, "commands such as gateway status will not reach this gateway", "err", err)
		} else {
			start(l, g.commands())
		}
	}

	runSchedule := use.agent.start(carrying, g.mail)
	g.mail.announce(ctx)
	g.watchConfig(serving)
	g.reportDisabled(ctx, use.config)
	saveGood(ctx, use.config, g.log)
	g.channels.AwaitLocal(ctx, localWait)
	if ready != nil {
		ready()
	}

	runSchedule()
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
		turnErr = gen.shutdownWithin(g.ending)
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
func (g *Gateway) Close() error { return errors.Join(g.state.snapshot().agent.shutdown(), g.close()) }

// close gives back what was taken, also by a start that failed.
func (g *Gateway) close() (err error) {
	if g.mail != nil {
		err = g.mail.Close()
	}
	if g.front != nil && g.front.listener != nil {
		_ = g.front.listener.Close() // closed by the server already, or never used
	}
	if g.web != nil {
		err = errors.Join(err, g.web.unread.Close())
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

// Notes returns what the user should know about this start.
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
