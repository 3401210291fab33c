package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// silence ends a connection on which not even heartbeats are answered.
const silence = 3 * time.Minute

// The operations of the gateway.
const (
	opDispatch  = 0
	opHeartbeat = 1
	opIdentify  = 2
	opResume    = 6
	opReconnect = 7
	opInvalid   = 9
	opHello     = 10
	opAck       = 11
)

// The codes that the gateway closes with after which a session is over, or
// connecting again is pointless.
const (
	closeBadToken   = 4004
	closeBadSeq     = 4007
	closeTimeout    = 4009
	closeSharding   = 4011
	closeBadIntents = 4013
	closeNoIntents  = 4014
)

// frame is one of the gateway.
type frame struct {
	Op   int             `json:"op"`
	Data json.RawMessage `json:"d"`
	Seq  *int64          `json:"s,omitempty"`
	Kind string          `json:"t,omitempty"`
}

// gateway is what is known about the session of one Run. Its fields without a
// lock belong to the goroutine of socket.Run.
type gateway struct {
	bot *bot
	rc  *receiver

	session string // "": none that can be resumed
	again   string // address to resume at
	greeted bool   // the server said hello on this connection
	seq     atomic.Int64
	waiting atomic.Bool // a heartbeat was not answered yet
}

var (
	errReconnect = errors.New("Discord asks for another connection") //nolint:staticcheck // a name begins the sentence
	errInvalid   = errors.New("the session is over")
	errZombie    = errors.New("Discord does not answer heartbeats any more") //nolint:staticcheck // a name begins the sentence
)

// dial names the address of the gateway.
func (g *gateway) dial(ctx context.Context) (socket.Target, error) {
	g.greeted = false
	g.waiting.Store(false)
	address := g.again
	if g.session == "" || address == "" {
		var a struct {
			URL   string `json:"url"`
			Limit struct {
				Remaining int   `json:"remaining"`
				After     int64 `json:"reset_after"` // milliseconds
			} `json:"session_start_limit"`
		}
		if err := g.bot.calls.do(ctx, call{method: http.MethodGet, path: "/gateway/bot"}, &a); err != nil {
			if e := refusal(err); e != nil && e.Status == http.StatusTooManyRequests {
				return socket.Target{}, socket.After(e.After, err)
			}
			return socket.Target{}, g.bot.refusedToken(err)
		}

		if a.Limit.Remaining < 1 && g.session == "" && a.Limit.After > 0 {
			return socket.Target{}, socket.After(time.Duration(a.Limit.After)*time.Millisecond, errors.New("the bot logged in too often today; Discord allows the next login later"))
		}
		address = a.URL
	}

	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return socket.Target{}, errors.New("Discord named no address of its gateway") //nolint:staticcheck // a name begins the sentence
	}

	u.RawQuery = "v=10&encoding=json"
	return socket.Target{URL: u.String(), Header: http.Header{"User-Agent": {agent}}}, nil
}

// refusedToken makes an error fatal if it means that the token is wrong.
func (b *bot) refusedToken(err error) error {
	if e := refusal(err); e != nil && e.Status == http.StatusUnauthorized {
		return socket.Fatal(b.badToken(err))
	}
	return err
}

func (b *bot) badToken(err error) error {
	return chat.Fatal(fmt.Errorf("Discord refuses the token (%w); reset it on the Bot page of the developer portal and put the new one into channels.%s.token", err, b.deps.Name)) //nolint:staticcheck // a name begins the sentence
}

// open logs in, or resumes.
func (g *gateway) open(ctx context.Context, c *socket.Conn) error {
	raw, err := c.Next(ctx)
	if err != nil {
		return err
	}

	var f frame
	var hello struct {
		Every int64 `json:"heartbeat_interval"` // milliseconds
	}
	if json.Unmarshal(raw.Data, &f) != nil || f.Op != opHello || json.Unmarshal(f.Data, &hello) != nil || hello.Every < 1 {
		return errors.New("the gateway did not say hello")
	}

	g.greeted = true
	every := time.Duration(hello.Every) * time.Millisecond
	c.Heartbeat(ctx, rand.N(every), every, func(ctx context.Context) error { return g.beat(ctx, c) }) //nolint:gosec // only spreads load

	token := g.bot.o.Token.Reveal()
	if g.session != "" {
		return g.send(ctx, c, opResume, map[string]any{"token": token, "session_id": g.session, "seq": g.seq.Load()})
	}

	g.seq.Store(0)
	return g.send(ctx, c, opIdentify, map[string]any{
		"token": token, "intents": g.bot.o.Intents, "large_threshold": 50,
		"properties": map[string]string{"os": runtime.GOOS, "browser": "nanobot", "device": "nanobot"},
	})
}

func (g *gateway) send(ctx context.Context, c *socket.Conn, op int, d any) error {
	data, err := json.Marshal(map[string]any{"op": op, "d": d})
	if err != nil {
		return err
	}
	return c.Send(ctx, socket.Frame{Data: data})
}

// beat sends a heartbeat. One that is not answered before the next means that
// the connection is only half open.
func (g *gateway) beat(ctx context.Context, c *socket.Conn) error {
	if g.bot.calls.limits.dead() {
		return socket.Fatal(g.bot.badToken(errors.New("401 Unauthorized")))
	}
	if g.waiting.Swap(true) {
		return errZombie
	}
	return g.heartbeat(ctx, c)
}

func (g *gateway) heartbeat(ctx context.Context, c *socket.Conn) error {
	var seq any
	if n := g.seq.Load(); n > 0 {
		seq = n
	}
	return g.send(ctx, c, opHeartbeat, seq)
}

// receive handles a frame. The number of an event counts as seen only after
// that, so a resumed session brings again what could not be held.
func (g *gateway) receive(ctx context.Context, c *socket.Conn, raw socket.Frame) error {
	var f frame
	if err := json.Unmarshal(raw.Data, &f); err != nil {
		g.rc.trouble.Warn(ctx, "frame", "a frame of the gateway is not JSON", "err", err)
		return nil
	}

	switch f.Op {
	case opHeartbeat:
		return g.heartbeat(ctx, c)
	case opAck:
		g.waiting.Store(false)
	case opReconnect:
		return socket.After(0, errReconnect)
	case opInvalid:
		if string(f.Data) != "true" {
			g.session = ""
		}
		return socket.After(time.Second+rand.N(4*time.Second), errInvalid) //nolint:gosec // only spreads load

	case opDispatch:
		if err := g.dispatch(ctx, f); err != nil {
			return err
		}
		if f.Seq != nil {
			g.seq.Store(*f.Seq)
		}
	}

	return nil
}

// decodeEvent reads an event. What cannot be read is left out, with a word in
// the log once per kind.
func decodeEvent[T any](ctx context.Context, g *gateway, f frame) (v T, ok bool) {
	if err := json.Unmarshal(f.Data, &v); err != nil {
		g.rc.trouble.Warn(ctx, f.Kind, "an event of the gateway is ignored", "what", "an event of Discord cannot be read: "+f.Kind, "err", err)
		return v, false
	}
	return v, true
}

func (g *gateway) dispatch(ctx context.Context, f frame) error {
	p := g.bot.places
	switch f.Kind {
	case "READY":
		return g.ready(ctx, f)
	case "RESUMED":
		g.bot.deps.Ready(g.bot.identity(), nil)
	case "GUILD_CREATE":
		if v, ok := decodeEvent[guild](ctx, g, f); ok && v.ID != "" {
			p.enter(v, g.bot.me.Load())
			g.rc.guildCame(ctx, v)
		}

	case "CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE":
		if v, ok := decodeEvent[place](ctx, g, f); ok && v.ID != "" {
			p.store(v)
		}
	case "THREAD_LIST_SYNC":
		if v, ok := decodeEvent[guild](ctx, g, f); ok {
			for _, t := range v.Threads {
				p.store(t)
			}
		}

	case "CHANNEL_DELETE", "THREAD_DELETE":
		if v, ok := decodeEvent[place](ctx, g, f); ok {
			p.drop(v.ID)
		}
	case "MESSAGE_CREATE", "MESSAGE_UPDATE":
		if v, ok := decodeEvent[message](ctx, g, f); ok {
			g.rc.receive(ctx, &v, f.Kind == "MESSAGE_UPDATE")
		}
	case "INTERACTION_CREATE":
		if v, ok := decodeEvent[interaction](ctx, g, f); ok {
			g.rc.used(ctx, &v)
		}
	}

	return nil
}

// ready begins a session.
func (g *gateway) ready(ctx context.Context, f frame) error {
	v, ok := decodeEvent[struct {
		User    user   `json:"user"`
		Session string `json:"session_id"`
		Again   string `json:"resume_gateway_url"`
		App     struct {
			ID string `json:"id"`
		} `json:"application"`
		Guilds []struct {
			ID string `json:"id"`
		} `json:"guilds"`
	}](ctx, g, f)
	if !ok || v.User.ID == "" || v.Session == "" {
		return errors.New("the gateway began a session without saying which")
	}
	if err := g.bot.deps.Claim(v.User.ID); err != nil {
		return socket.Fatal(err)
	}

	g.session, g.again = v.Session, v.Again
	g.bot.me.Store(&v.User)
	if g.bot.o.Intents&intentContent == 0 {
		g.bot.deps.Log.WarnContext(ctx, "intents lacks Message Content (32768): in servers the bot reads only what names it")
	}

	ids := make([]string, len(v.Guilds))
	for i, guild := range v.Guilds {
		ids[i] = guild.ID
	}

	if err := g.rc.began(ctx, v.User.ID, ids); err != nil {
		return err
	}

	g.rc.side.Go(func() {
		g.rc.register(ctx, v.App.ID)
		g.rc.openDirect(ctx)
	})
	g.bot.deps.Ready(g.bot.identity(), nil)
	return nil
}

// lost decides how to go on after a connection.
func (g *gateway) lost(err error) error {
	if !g.greeted {
		g.again = "" // the next one asks for the address
	}

	name := g.bot.deps.Name
	if e, ok := errors.AsType[*socket.CloseError](err); ok {
		switch e.Code {
		case closeBadToken:
			return socket.Fatal(g.bot.badToken(err))
		case closeNoIntents:
			return socket.Fatal(chat.Fatal(errors.New("Discord refuses the intents: on the Bot page of the developer portal, switch on Message Content Intent (and any other privileged intent in channels." + name + ".intents), then restart")))
		case closeBadIntents:
			return socket.Fatal(chat.Fatal(fmt.Errorf("channels.%s.intents: %d is not a sum of intents that Discord knows", name, g.bot.o.Intents)))
		case closeSharding:
			return socket.Fatal(chat.Fatal(errors.New("the bot is in too many servers for one connection (Discord asks for sharding)")))
		case closeBadSeq, closeTimeout, 1000, 1001:
			g.session = ""
		}
	}

	if !errors.Is(err, errReconnect) {
		g.bot.deps.Ready(g.bot.identity(), err)
	}
	return err
}
