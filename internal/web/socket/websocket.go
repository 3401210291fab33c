// Package socket is the channel for programs: a socket over which clients
// of ours, scripts and web pages talk to the agent. It hides both generations
// of its wire protocol, who may connect, and how a client that was away gets
// what it missed.
package socket

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	ws "github.com/coder/websocket"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

const (
	farewell      = 100 * time.Millisecond // for connections to take what is on its way to them at the end
	headerTimeout = 10 * time.Second       // of requests on our own listener
)

// Options are abilities that the gateway lends.
type Options struct {
	// Fork makes a new conversation of the beginning of another, up to before
	// the given message of the user, counted from 0, or, if that is negative, before
	// the message with an index of the thread. Nil: clients are told that it cannot
	// be done.
	Fork func(ctx context.Context, from, to bus.Route, beforeUser, beforeIndex int, title string) error
	// Transcribe turns a recording of that length (0 is unknown) into text, or says
	// why not in the words of the protocol, such as "not_configured". Nil:
	// chat.Deps.Transcribe, which gives no reasons.
	Transcribe func(ctx context.Context, path string, length time.Duration) (text, reason string)
	// Model names the model that answers usually; nil tells clients nothing.
	Model func() string
	// ChatState tells what is kept about a chat besides what was said in it. Nil:
	// nothing is known.
	ChatState func(ctx context.Context, to bus.Route) ChatState
	// Scope gives a chat a folder to work in, as far as its client may: remote
	// ones can only narrow what there is. It returns what is in force then; an
	// error is for the person. Nil: clients are told that it cannot be done.
	Scope func(ctx context.Context, to bus.Route, want guard.Scope, remote bool) (guard.Scope, error)
	// SetModel chooses the model of a chat by its name or that of a preset; neither is
	// the usual one. It returns the name of the model; an error is for the person.
	// Nil: clients are told that it cannot be done.
	SetModel func(ctx context.Context, to bus.Route, model, preset string) (string, error)
	// Recall is the final reply to a message that was answered before; false if
	// there is none. Nil: it is not kept.
	Recall func(ctx context.Context, in bus.Inbound) (bus.Outbound, bool)
	// Exposed reports whether other machines reach the listener of the gateway,
	// which we are served on without one of our own. Nil: they do not.
	Exposed func() bool
	// API is what a web interface looks at and changes. Nil: there is none.
	API API
	// Pages finds what answers a browser on a listener of our own; exposed says that
	// other machines reach it. Nil: there are no pages.
	Pages func(r *http.Request, exposed bool) (http.Handler, bool)
	// Hidden reports whether only the gateway's own pages use the channel, because
	// no section enables it: programs find nothing then. Nil: they do.
	Hidden func() bool
}

// ChatState is what is kept about a chat.
type ChatState struct {
	Goal   *bus.Goal    // nil: none was ever set
	Preset string       // of the model, "" for the usual one
	Scope  *guard.Scope // nil: the workspace
	Title  string       // "" if it has none
	Kept   string       // conversation that has its messages, "" for its own
}

// API answers a web interface. Requests are those below /api/, of people who
// proved who they are.
type API interface {
	http.Handler
	// Do carries out a named action. It returns what the client is told and the
	// topics that have changed. An error with a method HTTPStatus says what kind
	// it is; its text is for the person.
	Do(ctx context.Context, action string, payload json.RawMessage) (result json.RawMessage, changed []string, err error)
}

// Driver is the platform.
func Driver(o Options) chat.Driver {
	return chat.Driver{Title: "WebSocket", Options: func() any { return defaults() }, New: o.open}
}

// open makes the channel of a section.
func (o Options) open(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
	set, err := decode(section)
	if err != nil {
		return nil, err
	}

	if !set.own && o.Exposed != nil && o.Exposed() {
		if err := set.checkGuessing("the gateway"); err != nil {
			return nil, chat.Fatal(err)
		}
	}

	c := &Channel{
		d: d, set: set, o: o, hub: newHub(d.Now, d.Shown), issued: auth.NewTokens("nbwt_"), access: auth.NewTokens("nbat_"),
	}
	c.hub.ending = d.Ending
	if d.Back != nil {
		c.hub.back = func(chatID string) { d.Back(bus.Route{Channel: d.Name, ChatID: chatID}) }
	}
	return c, nil
}

// Channel is the server side of all connections.
type Channel struct {
	d      chat.Deps
	set    *settings
	o      Options
	hub    *hub
	issued *auth.Tokens // for the socket, good for one connection
	access *auth.Tokens // for /api/, good until they end
	links  links
	asked  requests

	uploads uploads

	mu   sync.Mutex
	live *life // nil while Run is not going on
}

var (
	_ chat.Channel = (*Channel)(nil)
	_ chat.Handler = (*Channel)(nil)
)

// life is one Run.
type life struct {
	sockets sync.WaitGroup
	conn    func() context.Context // of a connection; ends when all must
	submit  chat.Submit
}

// Name implements chat.Channel.
func (c *Channel) Name() string { return c.d.Name }

// clients is how many are connected.
func (c *Channel) clients() int {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	return len(c.hub.peers)
}

// Caps implements chat.Channel: clients get everything as it was said.
func (c *Channel) Caps() chat.Caps {
	caps := chat.Caps{Whole: true, Buttons: true, Clients: c.clients}
	if c.d.Media != nil {
		caps.MaxMedia = c.d.Media.Max
	}
	return caps
}

// Routes implements chat.Handler. They are empty when the channel has a
// listener of its own.
func (c *Channel) Routes() map[string]http.Handler {
	if c.set.own {
		return nil
	}
	return c.routes()
}

func (c *Channel) routes() map[string]http.Handler {
	r := map[string]http.Handler{
		"GET " + mediaPath + "{sig}/{payload}": http.HandlerFunc(c.ServeMedia), // the address is the permission
		"GET " + bootstrapPath:                 c.open(c.serveBootstrap),
	}
	add := func(path string, h http.HandlerFunc) {
		if path != "/" {
			r["GET "+path] = c.open(h)
		}
		r["GET "+strings.TrimRight(path, "/")+"/{$}"] = c.open(h)
	}
	if c.o.API != nil {
		r[apiPath] = c.open(c.serveAPI)
	}

	add(c.set.Path, c.serveSocket)
	if c.set.TokenIssuePath != "" {
		add(c.set.TokenIssuePath, c.serveToken)
	}
	return r
}

// open answers programs, unless the channel is there for the pages only.
func (c *Channel) open(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.o.Hidden != nil && c.o.Hidden() {
			http.NotFound(w, r)
			return
		}
		h(w, r)
	})
}

// Run implements chat.Channel.
func (c *Channel) Run(ctx context.Context, submit chat.Submit) error {
	doc, err := c.load()
	if err != nil {
		return err
	}

	c.links.use(doc.MediaKey)
	conns, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	l := &life{conn: func() context.Context { return conns }, submit: submit}
	served := make(chan error, 1) // the server never blocks on it
	where := c.set.Path
	var srv *http.Server
	if c.set.own {
		ln, err := c.listen(ctx)
		if err != nil {
			return err
		}
		where = ln.Addr().String()
		srv = c.server()
		go func() { served <- c.serve(srv, ln) }()
	}

	if c.d.Media != nil {
		c.uploads.clear(uploadDir(c.d))
		defer c.uploads.clear(uploadDir(c.d))
	}

	c.begin(l)
	c.d.Ready(where, nil)
	for going := true; going; {
		select {
		case <-ctx.Done():
			going = false
		case err = <-served:
			served, going = nil, false
		case <-c.hub.numbers.low:
			if err := c.reserve(&doc, reservedNumbers); err != nil {
				c.d.Log.WarnContext(ctx, "numbers of events may be given twice after a crash", "err", err)
			}
		}
	}

	c.shutdown(l, cancel)
	if err := c.reserve(&doc, spareNumbers); err != nil {
		c.d.Log.WarnContext(ctx, "more numbers of events than needed stay reserved", "err", err)
	}

	if srv != nil {
		_ = srv.Close()
		if served != nil {
			<-served
		}
	}
	return err
}

// listen opens our own listener.
func (c *Channel) listen(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	path := c.set.UnixSocketPath
	if path == "" {
		addr := net.JoinHostPort(c.set.Host, strconv.Itoa(c.set.Port))
		ln, err := lc.Listen(ctx, "tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w; if another program has the port, set port", addr, err)
		}
		return ln, nil
	}

	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}

	ln, err := httpsafe.ListenLocal(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return ln, nil
}

// removeStale takes away a socket that no program listens on any more.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return chat.Fatal(fmt.Errorf("unixSocketPath: %s exists and is not a socket", path))
	}

	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if conn, err := httpsafe.DialLocal(ctx, path); err == nil {
		return errors.Join(fmt.Errorf("another program listens on %s", path), conn.Close())
	}
	return os.Remove(path)
}

func (c *Channel) server() *http.Server {
	mux := http.NewServeMux()
	for pattern, h := range c.routes() {
		mux.Handle(pattern, h)
	}

	exposed := c.set.UnixSocketPath == "" && !httpsafe.LoopbackHost(c.set.Host)
	all := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.o.Pages != nil {
			if h, ok := c.o.Pages(r, exposed); ok {
				h.ServeHTTP(w, r)
				return
			}
		}
		mux.ServeHTTP(w, r)
	})
	return &http.Server{
		Handler: all, ReadHeaderTimeout: headerTimeout, ReadTimeout: 3 * headerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog:  slog.NewLogLogger(c.d.Log.Handler(), slog.LevelDebug), // strangers cause most of it
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
	}
}

func (c *Channel) serve(srv *http.Server, ln net.Listener) (err error) {
	if c.set.CertFile != "" {
		err = srv.ServeTLS(ln, c.set.CertFile, c.set.KeyFile)
	} else {
		err = srv.Serve(ln)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// begin lets connections in.
func (c *Channel) begin(l *life) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = l
}

// shutdown tells all clients, gives them a moment and waits for them.
func (c *Channel) shutdown(l *life, cut context.CancelFunc) {
	c.mu.Lock()
	c.live = nil
	c.mu.Unlock()
	c.hub.announceRestart()
	t := time.AfterFunc(farewell, cut)
	defer t.Stop()
	l.sockets.Wait()
}

// enter begins a connection; leave ends it.
func (c *Channel) enter() (l *life, leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		return nil, nil, false
	}
	c.live.sockets.Add(1)
	return c.live, c.live.sockets.Done, true
}

// serveSocket is the handshake and then the connection.
func (c *Channel) serveSocket(w http.ResponseWriter, r *http.Request) {
	c.connect(w, r, nil, func() (person, bool) { return c.admit(w, r) })
}

// ServePage is serveSocket for a page of ours whose person is signed in, until gone
// is closed.
func (c *Channel) ServePage(w http.ResponseWriter, r *http.Request, device string, gone <-chan struct{}) {
	c.connect(w, r, gone, func() (person, bool) {
		return person{client: clientID(r), identity: owner, device: device, proven: true}, true
	})
}

// person is who is behind a connection.
type person struct {
	client   string // id it gave
	identity string // who it proved to be; of others the name they chose, marked as such
	device   string // that a page is signed in as, "" for programs
	proven   bool   // came with something that only the owner knows
}

// connect serves a connection of who is admitted.
func (c *Channel) connect(w http.ResponseWriter, r *http.Request, gone <-chan struct{}, admit func() (person, bool)) {
	l, leave, ok := c.enter()
	if !ok {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "not running")
		return
	}

	defer leave()
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		refuse(w, http.StatusUpgradeRequired, "this is a WebSocket address")
		return
	}

	who, ok := admit()
	if !ok {
		return
	}

	if !c.hub.seat(c.set.MaxConnections) {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "too many connections")
		return
	}

	defer c.hub.unseat()
	offered := []string{protocolName}
	for _, p := range subprotocols(r) {
		if strings.HasPrefix(p, protocolToken) {
			offered = append(offered, p)
		}
	}

	corked := &corkable{ResponseWriter: w}
	conn, err := ws.Accept(corked, r, &ws.AcceptOptions{InsecureSkipVerify: true, Subprotocols: offered}) // the origin was looked at
	if err != nil {
		c.d.Log.DebugContext(r.Context(), "handshake", "err", err)
		return
	}

	conn.SetReadLimit(c.set.MaxMessageBytes)
	s := &socket{
		c: c, life: l, conn: conn, cork: corked.conn, person: who, home: newChatID(), wake: make(chan struct{}, 1), eased: make(chan struct{}, 1), places: map[*conversation]*place{},
		local: c.isLocal(r), gone: gone,
	}
	s.run(l.conn()) //nolint:contextcheck // a connection lives with the channel, not with the request that opened it
	_ = conn.CloseNow()
}

// Send implements chat.Channel. What must be delivered is delivered when a
// connection has it; while no client listens to the chat it stays in the queue.
func (c *Channel) Send(ctx context.Context, out bus.Outbound) (string, error) {
	if !c.set.wants(out.Kind) {
		return "", nil
	}

	m, err := c.link(ctx, out.Media)
	if err != nil {
		return "", err
	}

	e := c.hub.send(out, m)
	if e == nil {
		return "", nil
	}

	err = c.hub.delivered(ctx, e)
	if errors.Is(err, chat.ErrAway) && strings.HasPrefix(out.Route.ChatID, privatePrefix) {
		return "", nil // it is kept in the hub alone
	}
	return "", err
}
