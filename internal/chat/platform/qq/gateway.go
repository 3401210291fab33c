package qq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/chat"
)

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

// What the gateway is asked to send. QQ may refuse what is additional.
const (
	intentsBase = 1<<25 | 1<<12 // people and groups, direct chats of guilds
	intentsMore = 1<<30 | 1<<26 // messages of guilds that name us, buttons
)

// The codes that the gateway closes with after which something else must be done
// than to resume.
const (
	closeBadOp       = 4001
	closeBadPayload  = 4002
	closeBadToken    = 4004
	closeBadSession  = 4006
	closeBadSeq      = 4007
	closeTooFast     = 4008
	closeTimeout     = 4009
	closeBadShard    = 4010
	closeBadIntents  = 4013
	closeNoIntents   = 4014
	closeSandboxOnly = 4914
	closeBanned      = 4915
)

// gateway is what is known about the session of one Run. Its fields belong to the
// goroutine of socket.Run, except the atomic ones.
type gateway struct {
	bot     *bot
	rc      *receiver
	intents int
	session string // "": none that can be resumed
	seq     atomic.Int64
	missing atomic.Int32 // heartbeats that were not answered
}

var (
	errReconnect = errors.New("QQ asks for another connection")
	errInvalid   = errors.New("the session is over")
	errZombie    = errors.New("QQ does not answer heartbeats any more")
)

func newGateway(b *bot, rc *receiver) *gateway {
	g := &gateway{bot: b, rc: rc, intents: intentsBase | intentsMore}
	session, seq := b.book.session()
	g.session = session
	g.seq.Store(seq)
	return g
}

// saveProgress saves how far events were read: a later run resumes behind them.
func (g *gateway) saveProgress(ctx context.Context) {
	if err := g.bot.book.saveSession(g.session, g.seq.Load()); err != nil {
		g.bot.deps.Log.WarnContext(ctx, "the session of the gateway cannot be kept", "err", err)
	}
}

// dial names the address of the gateway.
func (g *gateway) dial(ctx context.Context) (socket.Target, error) {
	g.missing.Store(0)
	info, err := g.bot.calls.gateway(ctx)
	if err != nil {
		if err = g.bot.explained(err); chat.IsFatal(err) {
			return socket.Target{}, socket.Fatal(err)
		}
		if e, ok := errors.AsType[*apiError](err); ok && e.After > 0 {
			return socket.Target{}, socket.After(e.After, err)
		}
		return socket.Target{}, err
	}

	if info.Limit.Remaining < 1 && info.Limit.After > 0 && g.session == "" {
		return socket.Target{}, socket.After(time.Duration(info.Limit.After)*time.Millisecond, errors.New("the bot logged in too often today; QQ allows the next login later"))
	}
	if !strings.HasPrefix(info.URL, "wss://") && !strings.HasPrefix(info.URL, "ws://") {
		return socket.Target{}, errors.New("QQ named no address of its gateway")
	}
	return socket.Target{URL: info.URL, Header: http.Header{}}, nil
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

	token, err := g.bot.calls.tokens.Get(ctx, "")
	if err != nil {
		return err
	}

	every := time.Duration(hello.Every) * time.Millisecond
	c.Heartbeat(ctx, rand.N(every), every, func(ctx context.Context) error { return g.beat(ctx, c) }) //nolint:gosec // only spreads load

	token = "QQBot " + token
	if g.session != "" {
		return g.send(ctx, c, opResume, map[string]any{"token": token, "session_id": g.session, "seq": g.seq.Load()})
	}

	g.seq.Store(0)
	return g.send(ctx, c, opIdentify, map[string]any{
		"token": token, "intents": g.intents, "shard": []int{0, 1}, "properties": map[string]string{},
	})
}

func (g *gateway) send(ctx context.Context, c *socket.Conn, op int, d any) error {
	data, err := json.Marshal(map[string]any{"op": op, "d": d})
	if err != nil {
		return err
	}
	return c.Send(ctx, socket.Frame{Data: data})
}

// beat sends a heartbeat. Two that are not answered mean that the connection is
// only half open.
func (g *gateway) beat(ctx context.Context, c *socket.Conn) error {
	if g.missing.Add(1) > 2 {
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
		g.rc.once.Warn(ctx, "frame", "a frame of the gateway cannot be read", "err", err)
		return nil
	}

	switch f.Op {
	case opHeartbeat:
		return g.heartbeat(ctx, c)
	case opAck:
		g.missing.Store(0)
	case opReconnect:
		return socket.After(0, errReconnect)
	case opInvalid:
		g.session = ""
		return socket.After(time.Second+rand.N(4*time.Second), errInvalid) //nolint:gosec // only spreads load
	case opDispatch:
		if err := g.dispatch(ctx, f); err != nil {
			return err
		}
		if f.Seq > 0 {
			g.seq.Store(f.Seq)
		}
	}

	return nil
}

func (g *gateway) dispatch(ctx context.Context, f frame) error {
	switch f.Kind {
	case "READY":
		return g.ready(ctx, f)
	case "RESUMED":
		if g.bot.me.Load() == nil {
			g.rc.side.Go(func() { g.introduce(ctx) })
			return nil
		}
		g.bot.deps.Ready(g.bot.identity(), nil)

	case "C2C_MESSAGE_CREATE", "GROUP_AT_MESSAGE_CREATE", "GROUP_MESSAGE_CREATE", "DIRECT_MESSAGE_CREATE", "AT_MESSAGE_CREATE":
		var m message
		if err := json.Unmarshal(f.Data, &m); err != nil {
			g.rc.once.Warn(ctx, f.Kind, "an event of QQ cannot be read: "+f.Kind, "err", err)
			return nil
		}
		return g.rc.receive(ctx, event{Kind: f.Kind, Message: &m})

	case "INTERACTION_CREATE":
		var t tap
		if err := json.Unmarshal(f.Data, &t); err != nil {
			g.rc.once.Warn(ctx, f.Kind, "an event of QQ cannot be read: "+f.Kind, "err", err)
			return nil
		}
		return g.rc.receive(ctx, event{Kind: f.Kind, Tap: &t})
	}
	return nil // people and groups that came, left, or changed what they want to get
}

// ready begins a session.
func (g *gateway) ready(ctx context.Context, f frame) error {
	var v struct {
		User    user   `json:"user"`
		Session string `json:"session_id"`
	}
	if err := json.Unmarshal(f.Data, &v); err != nil || v.Session == "" {
		return errors.New("the gateway began a session without saying which")
	}

	g.session = v.Session
	g.seq.Store(f.Seq)
	g.bot.me.Store(&v.User)
	g.saveProgress(ctx)
	g.bot.deps.Ready(g.bot.identity(), nil)
	return nil
}

// introduce asks who we are, after an earlier run's session was resumed.
func (g *gateway) introduce(ctx context.Context) {
	var me user
	if err := g.bot.calls.get(ctx, "/users/@me", &me); err != nil {
		g.bot.deps.Log.DebugContext(ctx, "the name of the bot is not known", "err", err)
	} else {
		g.bot.me.Store(&me)
	}
	g.bot.deps.Ready(g.bot.identity(), nil)
}

// lost decides how to go on after a connection.
func (g *gateway) lost(err error) error {
	name := g.bot.deps.Name
	if e, ok := errors.AsType[*socket.CloseError](err); ok {
		switch {
		case e.Code == closeSandboxOnly:
			return socket.Fatal(chat.Fatal(fmt.Errorf("the bot is not published, so QQ lets it work only in the sandbox: set channels.%s.sandbox, or publish it on https://q.qq.com", name)))
		case e.Code == closeBanned:
			return socket.Fatal(chat.Fatal(errors.New("QQ banned the bot: see the notices on https://q.qq.com")))
		case (e.Code == closeNoIntents || e.Code == closeBadIntents) && g.intents != intentsBase:
			g.intents, g.session = intentsBase, ""
			g.bot.deps.Log.Warn("QQ refuses the events of guilds and buttons; the bot works in direct chats and groups")
			return socket.After(time.Second, err)
		case e.Code == closeBadOp, e.Code == closeBadPayload, e.Code >= closeBadShard && e.Code <= closeNoIntents:
			return socket.Fatal(chat.Fatal(fmt.Errorf("QQ refuses how the bot logs in (%w); check on https://q.qq.com that it may use direct chats and groups", err)))
		case e.Code == closeBadToken:
			g.session = ""
			g.bot.calls.tokens.Forget()
		case e.Code == closeBadSession, e.Code == closeBadSeq, e.Code >= 4900 && e.Code < closeSandboxOnly:
			g.session = ""
		case e.Code == closeTooFast, e.Code == closeTimeout: // it can be resumed
		}
	}

	if !errors.Is(err, errReconnect) {
		g.bot.deps.Ready(g.bot.identity(), err)
	}
	return err
}
