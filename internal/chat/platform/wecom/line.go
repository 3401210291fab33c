package wecom

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	maxFrame      = 16 << 20
	pingEvery     = 30 * time.Second
	pingsMost     = 2                // without an answer
	silence       = 2 * time.Minute  // a fallback: the pings find it out sooner
	ackTime       = 5 * time.Second  // for the answer to a command
	uploadTime    = 30 * time.Second // for that to a piece of a file
	refusals      = 5                // of the account, before we give up
	conflictPause = 5 * time.Minute
	reconnect     = 30 * time.Second // longest pause
	heldMost      = 1000             // events in memory while the disk fails
)

var (
	errTaken        = errors.New("another program uses this bot: stop it, or create a second bot; nanobot tries again in five minutes")
	errUnsubscribed = errors.New("WeCom does not know the subscription any more")
	errPings        = errors.New("WeCom does not answer pings any more")
)

// line is the connection during one Run. Its methods are called from one
// goroutine, except for the heartbeat.
type line struct {
	bot     *bot
	in      *kit.Intake[event]
	refused int          // times that the account was refused
	missed  atomic.Int32 // pings without an answer
	waiting atomic.Int32 // events in memory only
}

// event is a callback of WeCom.
type event struct {
	Bot   string          `json:"bot"`
	Cmd   string          `json:"cmd"`
	ReqID string          `json:"req_id"`
	At    int64           `json:"at"` // when it arrived, in ms
	Body  json.RawMessage `json:"body"`
}

func (l *line) run(ctx context.Context) error {
	err := socket.Run(ctx, socket.Options{
		Client: l.bot.http,
		Dial: func(context.Context) (socket.Target, error) {
			return socket.Target{URL: l.bot.o.WSURL}, nil
		},
		Open:     l.open,
		Receive:  l.receive,
		Lost:     l.lost,
		Match:    match,
		Ping:     -1,
		Silence:  silence,
		MaxFrame: maxFrame,
		MaxPause: reconnect,
	})

	l.bot.conn.Store(nil)
	return err
}

// open subscribes the bot.
func (l *line) open(ctx context.Context, c *socket.Conn) error {
	b := l.bot
	body := map[string]string{"bot_id": b.o.BotID, "secret": b.o.Secret.Reveal()}
	_, err := command(ctx, c, cmdSubscribe, newID(cmdSubscribe), body, ackTime)
	if refused(err) != 0 && refused(err) != codeBusy {
		if l.refused++; l.refused >= refusals {
			return socket.Fatal(chat.Fatal(fmt.Errorf("%w; copy botId and secret again from the bot's API mode, or run \"nanobot channels login %s --force\"", err, b.deps.Name)))
		}
	}

	if err != nil {
		return err
	}

	l.refused = 0
	l.missed.Store(0)
	c.Heartbeat(ctx, b.beat, b.beat, func(ctx context.Context) error { return l.ping(ctx, c) })
	b.conn.Store(c)
	b.deps.Ready(b.o.BotID, nil)
	return nil
}

// ping asks for a sign of life. Its answer goes to receive.
func (l *line) ping(ctx context.Context, c *socket.Conn) error {
	if l.missed.Add(1) > pingsMost {
		return errPings
	}
	data, err := encode(cmdPing, newID(cmdPing), nil)
	if err != nil {
		return err
	}
	return c.Send(ctx, socket.Frame{Data: data})
}

func (l *line) lost(err error) error {
	l.bot.conn.Store(nil)
	l.bot.deps.Ready(l.bot.o.BotID, err)
	if errors.Is(err, errTaken) {
		return socket.After(conflictPause, err)
	}
	return err
}

// match finds answers.
func match(raw socket.Frame) (string, bool) {
	f, err := parse(raw.Data)
	return f.Headers.ReqID, err == nil && f.Cmd == "" && f.Headers.ReqID != ""
}

// receive handles a frame.
func (l *line) receive(ctx context.Context, _ *socket.Conn, raw socket.Frame) error {
	b := l.bot
	f, err := parse(raw.Data)
	if err != nil {
		b.once(ctx, "it is not JSON as expected", "err", err)
		return nil
	}

	switch f.Cmd {
	case "":
		if strings.HasPrefix(f.Headers.ReqID, cmdPing) && f.ErrCode == 0 {
			l.missed.Store(0)
		}
		return nil

	case cmdMessage, cmdEvent:
	default:
		b.once(ctx, "unknown command", "cmd", f.Cmd)
		return nil
	}

	var m message
	if err := json.Unmarshal(f.Body, &m); err != nil {
		b.once(ctx, "the body of "+f.Cmd+" is not as expected", "err", err)
		return nil
	}
	return l.accept(ctx, f, &m)
}

// accept queues a callback. WeCom sends it once, whatever we do.
func (l *line) accept(ctx context.Context, f frame, m *message) error {
	b := l.bot
	e := event{Bot: b.o.BotID, Cmd: f.Cmd, ReqID: f.Headers.ReqID, At: b.deps.Now().UnixMilli(), Body: f.Body}
	if f.Cmd == cmdEvent {
		switch m.Event.Type {
		case "disconnected_event":
			return errTaken
		case "feedback_event":
			return nil
		case "enter_chat": // it must be answered within 5 s, whatever else waits in the chat
			l.add(ctx, "welcome "+m.chat(), e)
			return nil
		case "template_card_event":
		default:
			b.once(ctx, "unknown event", "event", m.Event.Type)
			return nil
		}
	}

	if m.From.UserID == "" {
		b.once(ctx, "a message without a sender")
		return nil
	}

	err := l.in.Hold(ctx, m.chat(), m.key(), e)
	if errors.Is(err, chat.ErrStopping) {
		return err
	}

	if err != nil { // it would not come again
		b.deps.Log.WarnContext(ctx, "a message is kept in memory only", "err", err)
		l.add(ctx, m.chat(), e)
	}
	return nil
}

// add queues an event that is in memory only.
func (l *line) add(ctx context.Context, chatID string, e event) {
	if l.waiting.Add(1) > heldMost {
		l.waiting.Add(-1)
		l.bot.once(ctx, "too many wait")
		return
	}
	l.in.Add(chatID, e, func() { l.waiting.Add(-1) })
}

// newID makes the id of a command that answers nothing.
func newID(cmd string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%s_%d_%s", cmd, time.Now().UnixMilli(), hex.EncodeToString(b[:]))
}

func encode(cmd, req string, body any) ([]byte, error) {
	f := map[string]any{"cmd": cmd, "headers": map[string]string{"req_id": req}}
	if body != nil {
		f["body"] = body
	}
	return json.Marshal(f)
}

// call makes a command and waits for its answer. Those with the same id are
// made one after the other.
func (b *bot) call(ctx context.Context, cmd, req string, body any, limit time.Duration) (json.RawMessage, error) {
	c := b.conn.Load()
	if c == nil {
		return nil, chat.ErrNotReady
	}

	answer, err := command(ctx, c, cmd, req, body, limit)
	switch {
	case refused(err) == codeUnsubscribed: // connect again; the manager tries again after that
		c.Heartbeat(ctx, 0, pingEvery, func(context.Context) error { return errUnsubscribed })
	case errors.Is(err, socket.ErrLost):
		err = fmt.Errorf("%w: %w", chat.ErrNotReady, err)
	}
	return answer, err
}

// command waits for the answer even if ctx ends: it would be taken for that of
// the next command with the same id.
func command(ctx context.Context, c *socket.Conn, cmd, req string, body any, limit time.Duration) (json.RawMessage, error) {
	data, err := encode(cmd, req, body)
	if err != nil {
		return nil, err
	}

	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	raw, err := c.Call(limited, req, socket.Frame{Data: data})
	if err != nil {
		if limited.Err() != nil {
			err = fmt.Errorf("WeCom does not answer %s within %s", cmd, limit)
		}
		return nil, err
	}

	f, err := parse(raw.Data)
	if err == nil && f.ErrCode != 0 {
		err = &refusal{Cmd: cmd, Code: f.ErrCode, Text: f.ErrMsg}
	}
	return f.Body, err
}
