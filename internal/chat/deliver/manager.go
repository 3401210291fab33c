// Package deliver runs the channels: it hides retries, rate limits, the splitting
// of messages, streaming by edits, typing, restarts, and the accounts of sections.
//
// A Manager has a supervisor for each section, which starts its channel, restarts
// it and takes what it receives, and a sender, which has a worker for each chat
// with something to send. What the queue calls durable is sent in order, and
// reported as delivered only after the platform took it; a channel that fails
// disturbs no other.
package deliver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// Bounds of the manager's life.
const (
	flushWait     = 5 * time.Second // for what is being sent when the end comes
	stopWait      = 5 * time.Second // for a platform to leave
	mediaKeep     = 30 * 24 * time.Hour
	sweepEvery    = 24 * time.Hour
	backoffLowest = 5 * time.Second
	firstBackoff  = 30 * time.Second // ... until the first connection
)

// Options is what a Manager needs.
type Options struct {
	Queue bus.Queue
	// Directory is filled with the accounts. nil: the Manager makes its own.
	Directory *Directory
	Drivers   map[string]chat.Driver     // by platform; a section "telegram.work" uses that of telegram
	Sections  map[string]json.RawMessage // by runtime name
	Defaults  chat.Filters
	// MaxRetries is how often a message is tried in quick succession. After
	// that it is tried ever more slowly; see docs/how-to/channels.
	MaxRetries int
	Store      store.Store // what channels remember, and who was let in
	DataDir    string
	MediaDir   string   // "" is media below DataDir
	Kept       []string // further folders of MediaDir that old files are removed from

	Client     func(proxy string) (*http.Client, error)
	Fetch      func() (*http.Client, error)
	Transcribe func(ctx context.Context, path string) string
	Commands   []chat.Command
	Redact     func(string) string // takes secrets out of errors; nil leaves them
	// Changed is told that the state of a channel, "channels", or the list of paired
	// people, "pairing", is another one. It must not block. It may be nil.
	Changed func(what string)
	Log     *slog.Logger
	Now     func() time.Time
}

// Manager runs the channels. A channel that fails never disturbs another.
type Manager struct {
	*Directory
	o        Options
	book     *access.Book
	requests chan order // capacity 0: Run takes them one by one
	mux      atomic.Pointer[http.ServeMux]
	ending   chan struct{} // closed by StopIntake

	// Guarded by the lock of the Directory.
	away    map[string]bool   // not started while a login uses their account
	claims  map[string]string // names of sections, by the platform and account that they use
	running bool
	ended   chan struct{} // closed when Run returns; made by Run
}

// order is something that Run does between two others.
type order struct {
	do   func(ctx context.Context) []error
	done chan []error // capacity 1
}

// NewManager makes the channels of the sections. One that cannot be made is
// reported by Status and stops nothing; only missing options are an error.
func NewManager(o Options) (*Manager, error) {
	if o.Queue == nil || o.Store == nil || o.DataDir == "" {
		return nil, errors.New("channels need a queue, a store and a folder for their data")
	}

	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Client == nil {
		o.Client = chat.Client
	}
	if o.Fetch == nil {
		o.Fetch = func() (*http.Client, error) { return httpsafe.Guarded(httpsafe.GuardOptions{}) }
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxRetries <= 0 {
		o.MaxRetries = 1
	}
	if o.MediaDir == "" {
		o.MediaDir = datadir.Media.In(o.DataDir)
	}
	if o.Directory == nil {
		o.Directory = NewDirectory(o.Log)
	}

	m := &Manager{
		Directory: o.Directory,
		o:         o,
		away:      map[string]bool{},
		claims:    map[string]string{},
		requests:  make(chan order),
		ending:    make(chan struct{}),
	}

	m.book = access.OpenBook(access.BookOptions{
		Store:   o.Store,
		Changed: func() { o.Changed("pairing") },
		Log:     o.Log,
		Now:     o.Now,
	})

	m.mu.Lock()
	defer m.mu.Unlock()

	for name, section := range m.expand(o.Sections) {
		m.supervisors[name] = m.build(name, section)
	}

	m.route()
	return m, nil
}

// Book returns the list of people who were let in by hand.
func (m *Manager) Book() *access.Book { return m.book }

// Run starts the channels and ends when ctx ends, after what is being sent at
// that time is out or five seconds have passed. What was not sent stays in the
// queue for the next start.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.running {
		m.mu.Unlock()
		return errors.New("the channels are already running")
	}

	m.running, m.ended = true, make(chan struct{})
	for _, s := range m.supervisors {
		s.start(ctx)
	}

	m.mu.Unlock()
	var sweeper sync.WaitGroup
	sweeper.Go(func() { m.sweep(ctx) })

	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case r := <-m.requests:
			r.done <- r.do(ctx)
		}
	}

	m.mu.Lock()
	list := slices.Collect(maps.Values(m.supervisors))
	m.running = false
	close(m.ended)
	m.mu.Unlock()
	for _, s := range list {
		s.join()
	}

	sweeper.Wait()
	return nil
}

// AwaitLocal waits until the channels for programs take connections, at most
// for a time, so that a gateway that says it is ready is.
func (m *Manager) AwaitLocal(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	m.mu.Lock()
	list := slices.Collect(maps.Values(m.supervisors))
	m.mu.Unlock()

	for _, s := range list {
		if s.ch == nil || !s.caps.Whole {
			continue
		}

		running, connected := s.health.running()
		if running {
			continue
		}

		select {
		case <-connected:
		case <-ctx.Done():
			return
		}
	}
}

// StopIntake makes every channel refuse what comes in from now on; the
// platforms keep it for the next start. What goes out still does, until Run
// ends.
func (m *Manager) StopIntake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isEnding() {
		close(m.ending)
	}
}

func (m *Manager) isEnding() bool {
	select {
	case <-m.ending:
		return true
	default:
		return false
	}
}

// Delivering reports whether a message is on its way to a platform. Waiting is how
// many the queue holds for each channel. Those that wait for something that
// we cannot bring about are not on their way: a client that is away, a platform
// that is not connected, the end of a pause after a failure, the right to send more.
func (m *Manager) Delivering(waiting map[string]int) bool {
	m.mu.Lock()
	list := slices.Collect(maps.Values(m.supervisors))
	m.mu.Unlock()
	return slices.ContainsFunc(list, func(s *supervisor) bool {
		if waiting[s.name] == 0 || s.out == nil {
			return false
		}
		connected, _ := s.health.running()
		return connected && waiting[s.name] > s.out.parked()
	})
}

// Apply takes new sections. Only channels whose section changed are stopped
// and made again; the errors say which cannot be used, and why.
func (m *Manager) Apply(ctx context.Context, sections map[string]json.RawMessage) []error {
	sections = m.expand(sections)
	m.mu.Lock()
	if !m.running {
		defer m.mu.Unlock()
		return m.swap(sections, func(*supervisor) {})
	}
	m.mu.Unlock()
	return m.during(ctx, func(life context.Context) []error { return m.replace(life, sections) })
}

// during lets Run do something. Its context is the one of Run.
func (m *Manager) during(ctx context.Context, do func(life context.Context) []error) []error {
	m.mu.Lock()
	ended := m.ended
	m.mu.Unlock()
	r := order{do: do, done: make(chan []error, 1)}
	select {
	case m.requests <- r:
	case <-ended:
		return []error{errors.New("the channels are being stopped")}
	case <-ctx.Done():
		return []error{ctx.Err()}
	}

	select {
	case errs := <-r.done:
		return errs
	case <-ctx.Done():
		return []error{ctx.Err()}
	}
}

// replace changes what runs. It belongs to Run.
func (m *Manager) replace(ctx context.Context, sections map[string]json.RawMessage) []error {
	m.mu.Lock()
	var old []*supervisor
	for name, s := range m.supervisors {
		if next, ok := sections[name]; !ok || !sameJSON(s.section, next) {
			old = append(old, s)
		}
	}

	m.mu.Unlock()
	stopAll(old...)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.swap(sections, func(s *supervisor) { s.start(ctx) })
}

// stopAll stops channels, all at the same time.
func stopAll(list ...*supervisor) {
	for _, s := range list {
		s.cancel()
	}
	for _, s := range list {
		s.join()
	}
}

// swap replaces the channels whose section changed by new ones. The
// caller holds the lock.
func (m *Manager) swap(sections map[string]json.RawMessage, begin func(*supervisor)) (errs []error) {
	for name := range m.supervisors {
		if _, ok := sections[name]; !ok {
			delete(m.supervisors, name)
			m.unclaim(name, "")
		}
	}

	var fresh []*supervisor
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		if s := m.supervisors[name]; s != nil && sameJSON(s.section, sections[name]) {
			continue
		}
		s := m.build(name, sections[name])
		m.supervisors[name] = s
		fresh = append(fresh, s)
	}

	m.route()
	for _, s := range fresh {
		if s.ch == nil {
			m.unclaim(s.name, "")
		}
		if s.broken != nil {
			errs = append(errs, fmt.Errorf("channel %s: %w", s.name, s.broken))
		}
		if !m.away[s.name] {
			begin(s)
		}
	}

	return errs
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		return bytes.Equal(a, b)
	}
	return bytes.Equal(x.Bytes(), y.Bytes())
}

// build makes the channel of a section, or notes why it cannot be.
func (m *Manager) build(name string, section json.RawMessage) *supervisor {
	s := newSupervisor(m, name, section)
	if err := chat.DecodeCommon(section, &s.common); err != nil {
		s.enabled = true // whether it is cannot be told: the owner should see why
		s.fail(err)
		return s
	}

	s.enabled = s.common.Enabled
	if !s.enabled {
		return s
	}

	driver, err := m.driver(name)
	if err != nil {
		s.fail(chat.Fatal(err))
		return s
	}

	s.usual = driver.Language
	ch, err := s.make(driver.New)
	if err != nil {
		s.fail(err)
		return s
	}

	s.attach(ch)
	if len(s.common.AllowFrom) == 0 && !s.caps.Whole { // programs of ours know who may come by themselves
		s.log.Warn("allowFrom is empty: new people must pair first")
	}

	for _, doubt := range s.gate.Doubts() {
		s.log.Warn("an entry of the lists of people means less than it may seem", "channel", s.name, "entry", doubt)
	}
	return s
}

// Doubts are, by section, what is odd about the lists of people of channels that
// are switched on.
func (m *Manager) Doubts() map[string][]string {
	m.mu.Lock()
	defer m.mu.Unlock()

	out := map[string][]string{}
	for name, s := range m.supervisors {
		if s.gate == nil || s.ch == nil || s.caps.Whole {
			continue
		}
		if list := s.gate.Doubts(); len(list) > 0 {
			out[name] = list
		}
	}

	return out
}

// make calls a factory.
func (s *supervisor) make(factory chat.Factory) (ch chat.Channel, err error) {
	defer func() {
		if r := recover(); r != nil {
			ch, err = nil, chat.Fatal(fmt.Errorf("panic: %v", r))
		}
	}()
	return factory(s.deps(), s.section)
}

// deps returns what the channel gets from the house.
func (s *supervisor) deps() chat.Deps {
	o := s.m.o
	var known, settled func(id string) bool
	if k, ok := o.Queue.(bus.Knower); ok {
		known, settled = k.Known, k.Completed
	}

	if s.gate == nil {
		s.gate = access.NewGate(access.GateOptions{
			Name:     s.name,
			Lists:    s.common.Lists,
			Book:     s.m.book,
			Language: s.language,
			Send:     o.Queue.Publish,
			Log:      s.log,
			Now:      o.Now,
		})
	}

	return chat.Deps{
		Name:       s.name,
		Gate:       s.gate,
		Media:      &media.Store{Dir: filepath.Join(o.MediaDir, media.FileName(s.name)), Max: s.common.MediaLimit()},
		State:      chat.OpenState(o.Store, string(datadir.Channels)+"/"+media.FileName(s.name)+".json", s.log),
		Dir:        s.dir,
		Claim:      s.claim,
		Forget:     s.forget,
		Refine:     func(change func(*chat.Caps)) { s.out.a.refine(change) }, // like Back
		Quoted:     func(route bus.Route, id string) (chat.Quoted, bool) { return s.out.a.quotes.get(route.ChatID, id) },
		Ready:      s.health.ready,
		Client:     o.Client,
		Fetch:      o.Fetch,
		Transcribe: o.Transcribe,
		Commands:   o.Commands,
		Shown:      s.filters(),
		Known:      known,
		Settled:    settled,
		Ending:     s.m.ending,
		Back:       func(route bus.Route) { s.out.back(route) }, // a channel runs only after attach
		Log:        s.log,
		Now:        o.Now,
	}
}

// Send gives the queue something to send, such as the notice that a restart is over.
func (m *Manager) Send(ctx context.Context, out bus.Outbound) error {
	return m.o.Queue.Publish(ctx, out)
}

// Status returns one entry per section, by name.
func (m *Manager) Status() []Status {
	m.mu.Lock()
	list := slices.Collect(maps.Values(m.supervisors))
	m.mu.Unlock()
	out := make([]Status, 0, len(list))
	for _, s := range list {
		out = append(out, s.status())
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// route collects the HTTP handlers of the channels. The caller holds the lock,
// if there is more than one who could call.
func (m *Manager) route() {
	mux := http.NewServeMux()
	names := slices.Sorted(maps.Keys(m.supervisors))
	slices.SortStableFunc(names, func(a, b string) int { // what runs keeps its addresses
		return cmp.Compare(m.supervisors[a].rank(), m.supervisors[b].rank())
	})

	for _, name := range names {
		h, ok := m.supervisors[name].ch.(chat.Handler)
		if !ok {
			continue
		}

		for pattern, handler := range h.Routes() {
			if err := handle(mux, pattern, handler); err != nil {
				m.supervisors[name].fail(err)
				m.supervisors[name].ch = nil
				break
			}
		}
	}

	m.mux.Store(mux)
}

// handle adds a route; one that cannot stand beside the others is an error.
func handle(mux *http.ServeMux, pattern string, h http.Handler) (err error) {
	defer func() {
		if r := recover(); r != nil {
			why := fmt.Sprint(r)
			if strings.Contains(why, "conflicts with pattern") {
				why = "another channel uses it; give one of them a separate port"
			}
			err = fmt.Errorf("the address %q cannot be served: %s", pattern, why)
		}
	}()

	mux.Handle(pattern, h)
	return nil
}

// Match finds the handler of a channel for a request; false means that no
// channel wants it.
func (m *Manager) Match(r *http.Request) (http.Handler, bool) {
	mux := m.mux.Load()
	_, pattern := mux.Handler(r)
	return mux, pattern != "" // the handler itself would miss what the pattern found in the path
}

// Handler serves the channels that receive by HTTP. It follows Apply.
func (m *Manager) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.mux.Load().ServeHTTP(w, r) })
}

// sweep removes files that came in long ago, at the start and once a day.
func (m *Manager) sweep(ctx context.Context) {
	for {
		m.mu.Lock()
		var stores []*media.Store
		for name := range m.supervisors {
			stores = append(stores, &media.Store{Dir: filepath.Join(m.o.MediaDir, media.FileName(name))})
		}

		m.mu.Unlock()
		for _, name := range m.o.Kept {
			stores = append(stores, &media.Store{Dir: filepath.Join(m.o.MediaDir, name)})
		}

		for _, s := range stores {
			if n, err := s.Sweep(ctx, m.o.Now().Add(-mediaKeep)); err != nil {
				m.o.Log.WarnContext(ctx, "old files of a channel cannot be removed", "dir", s.Dir, "err", err)
			} else if n > 0 {
				m.o.Log.InfoContext(ctx, "old files of a channel were removed", "dir", s.Dir, "files", n)
			}
		}

		if wait.For(ctx, sweepEvery) != nil {
			return
		}
	}
}
