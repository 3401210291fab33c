package napcat

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	maxFrame   = 50 << 20
	actionTime = 20 * time.Second
	silence    = time.Minute
	beatSlack  = 10 * time.Second
	reconnect  = 30 * time.Second // longest pause
	codeToken  = 1403
	codeNoAuth = 1401
)

var errBeats = errors.New("NapCat sends no heartbeats any more")

// line is the connection during one Run. Its methods are called from one
// goroutine.
type line struct {
	bot *bot
	in  *kit.Intake[event]
}

// event is a message or a notice.
type event struct {
	Account string          `json:"account"`
	At      int64           `json:"at"` // when it arrived, in ms
	Raw     json.RawMessage `json:"raw"`
}

func (l *line) run(ctx context.Context) error {
	err := socket.Run(ctx, l.options())
	l.bot.conn.Store(nil)
	return err
}

func (l *line) options() socket.Options {
	b := l.bot
	return socket.Options{
		Client: b.http,
		Dial: func(context.Context) (socket.Target, error) {
			t := socket.Target{URL: b.o.WSURL}
			if !b.o.AccessToken.IsZero() {
				t.Header = http.Header{"Authorization": {"Bearer " + b.o.AccessToken.Reveal()}}
			}
			return t, nil
		},
		Open:     l.open,
		Receive:  l.receive,
		Lost:     l.lost,
		Match:    match,
		Ping:     b.silence / 3,
		Silence:  b.silence,
		MaxFrame: maxFrame,
		MaxPause: reconnect,
	}
}

// open asks who we are. A wrong token is told by a frame before the end of the
// connection.
func (l *line) open(ctx context.Context, c *socket.Conn) error {
	b := l.bot
	var me account
	if err := action(ctx, c, "get_login_info", map[string]any{}, &me); err != nil {
		return l.reason(ctx, c, err)
	}
	if me.ID == "" {
		return errors.New("NapCat does not say which account it has: log in to QQ there")
	}

	b.me.Store(&me)
	if err := b.deps.Claim(string(me.ID)); err != nil {
		return socket.Fatal(err)
	}

	b.conn.Store(c)
	b.deps.Ready(b.identity(), nil)
	return nil
}

// reason looks whether the server said why it ended the connection.
func (l *line) reason(ctx context.Context, c *socket.Conn, err error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for errors.Is(err, socket.ErrLost) {
		raw, next := c.Next(ctx)
		if next != nil {
			break
		}
		var f frame
		if json.Unmarshal(raw.Data, &f) == nil && (f.RetCode == codeToken || f.RetCode == codeNoAuth) {
			return socket.Fatal(l.badToken())
		}
	}

	if e, ok := errors.AsType[*refusal](err); ok && (e.Code == codeToken || e.Code == codeNoAuth) {
		return socket.Fatal(l.badToken())
	}
	return err
}

func (l *line) badToken() error {
	return chat.Fatal(fmt.Errorf("NapCat refuses the token: channels.%s.accessToken must be the token of its WebSocket server", l.bot.deps.Name))
}

func (l *line) lost(err error) error {
	l.bot.conn.Store(nil)
	if e, ok := errors.AsType[*socket.StatusError](err); ok && (e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden) {
		return socket.Fatal(l.badToken())
	}
	l.bot.deps.Ready(l.bot.identity(), err)
	return err
}

// match finds answers.
func match(raw socket.Frame) (string, bool) {
	if !bytes.Contains(raw.Data, []byte(`"echo"`)) {
		return "", false
	}
	var f frame
	var echo string
	if json.Unmarshal(raw.Data, &f) != nil || f.PostType != "" || json.Unmarshal(f.Echo, &echo) != nil || echo == "" {
		return "", false
	}
	return echo, true
}

// receive handles a frame.
func (l *line) receive(ctx context.Context, c *socket.Conn, raw socket.Frame) error {
	b := l.bot
	var f frame
	if err := json.Unmarshal(raw.Data, &f); err != nil {
		b.once(ctx, "it is not JSON as expected", "err", err)
		return nil
	}

	switch f.PostType {
	case "": // an answer whose caller has gone
		if f.RetCode == codeToken {
			return socket.Fatal(l.badToken())
		}
	case "meta_event":
		if f.MetaType == "heartbeat" && f.Interval > 0 {
			late := 2*time.Duration(min(f.Interval, 3600_000))*time.Millisecond + b.slack
			c.Heartbeat(ctx, late, late, func(context.Context) error { return errBeats }) // until the next one
		}

	case "message":
		if f.UserID == "" || f.MessageID == "" || f.Type != "private" && (f.Type != "group" || f.GroupID == "") {
			b.once(ctx, "a message without a sender or a chat")
			return nil
		}
		return l.accept(ctx, &f, raw.Data, string(f.MessageID))

	case "notice":
		if f.Notice == "group_increase" && b.o.WelcomeNewMembers && f.UserID != "" && f.GroupID != "" {
			return l.accept(ctx, &f, raw.Data, fmt.Sprintf("join.%s.%s.%d", f.GroupID, f.UserID, f.Time))
		}
	case "message_sent", "request": // our own words; nothing to decide
	default:
		b.once(ctx, "unknown event", "post_type", f.PostType)
	}

	return nil
}

// accept queues an event. NapCat sends it once.
func (l *line) accept(ctx context.Context, f *frame, raw []byte, key string) error {
	b := l.bot
	me := string(b.me.Load().ID)
	if string(f.UserID) == me {
		return nil
	}

	e := event{Account: me, At: b.deps.Now().UnixMilli(), Raw: raw}
	err := l.in.Hold(ctx, f.chat(), key, e)
	if err != nil && !errors.Is(err, chat.ErrStopping) {
		b.deps.Log.WarnContext(ctx, "a message is lost", "chat", f.chat(), "err", err)
		return nil
	}
	return err
}

// call makes an action.
func (b *bot) call(ctx context.Context, name string, params map[string]any, into any) error {
	c := b.conn.Load()
	if c == nil {
		return chat.ErrNotReady
	}
	err := action(ctx, c, name, params, into)
	if errors.Is(err, socket.ErrLost) {
		err = fmt.Errorf("%w: %w", chat.ErrNotReady, err)
	}
	return err
}

func action(ctx context.Context, c *socket.Conn, name string, params map[string]any, into any) error {
	echo := rand.Text()
	data, err := json.Marshal(map[string]any{"action": name, "params": params, "echo": echo})
	if err != nil {
		return err
	}

	limited, cancel := context.WithTimeout(ctx, actionTime)
	defer cancel()
	raw, err := c.Call(limited, echo, socket.Frame{Data: data})
	if err != nil {
		if ctx.Err() == nil && limited.Err() != nil {
			err = fmt.Errorf("NapCat does not answer %s within %s", name, actionTime)
		}
		return err
	}

	var f frame
	if err := json.Unmarshal(raw.Data, &f); err != nil {
		return fmt.Errorf("the answer to %s is not as expected: %w", name, err)
	}

	if f.RetCode != 0 && f.Status != "async" || f.Status == "failed" {
		var why string
		_ = json.Unmarshal(f.Message, &why) // wording says it as well
		if f.Wording != "" {
			why = f.Wording
		}
		return &refusal{Action: name, Code: f.RetCode, Text: why}
	}

	if into == nil || len(f.Data) == 0 || f.Status == "async" {
		return nil
	}
	if err := json.Unmarshal(f.Data, into); err != nil {
		return fmt.Errorf("the answer to %s is not as expected: %w", name, err)
	}
	return nil
}
