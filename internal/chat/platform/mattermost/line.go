package mattermost

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	maxFrame  = 16 << 20         // bytes
	pingEvery = 25 * time.Second // proxies cut connections that are silent for longer than 100 s
	overlap   = time.Minute      // between what was seen and what is read again
	pageSize  = 200              // posts; the most that the server gives
	maxPages  = 5                // of one channel
	maxHeard  = 1000             // posts for others that wait; more of them are not remembered
)

var errGap = errors.New("events of the server are missing")

// line is the connection during one Run. Its methods are called from one
// goroutine.
type line struct {
	bot *bot
	in  *kit.Intake[event]

	id      string    // of the connection, to take it up again; "" begins another one
	next    int64     // number of the event that must come next
	now     time.Time // of the server, when it was asked last
	greeted bool      // it was asked for this connection
	cursors *kit.Cursors
	heard   atomic.Int64 // posts for others that wait
}

// Names of the cursors. Both are times of the server in ms, for all channels
// together: one that we know nothing of has messages, too.
const (
	cursorBegan = "began" // older posts are never answered
	cursorSeen  = "seen"  // all posts up to this time were seen
)

func (l *line) cursor(name string) int64 {
	n, _ := strconv.ParseInt(l.cursors.Get(name), 10, 64) // 0: not known
	return n
}

func (l *line) setCursor(ctx context.Context, name string, at int64) {
	if at <= l.cursor(name) {
		return
	}
	if err := l.cursors.Set(name, strconv.FormatInt(at, 10)); err != nil {
		l.bot.deps.Log.WarnContext(ctx, "how far the channel has read cannot be saved", "err", err)
	}
}

func (l *line) run(ctx context.Context) error {
	err := socket.Run(ctx, socket.Options{
		Client:   l.bot.calls.rest.Client,
		Dial:     l.dial,
		Open:     l.open,
		Receive:  l.receive,
		Lost:     l.lost,
		Match:    match,
		Ping:     cmp.Or(l.bot.silence/3, pingEvery),
		Silence:  l.bot.silence,
		MaxFrame: maxFrame,
	})

	l.bot.conn.Store(nil)
	return err
}

// dial proves the token, since the server accepts every connection, and names the
// connection to take up.
func (l *line) dial(ctx context.Context) (socket.Target, error) {
	b := l.bot
	if !l.greeted {
		now, err := b.hello(ctx)
		if chat.IsFatal(err) {
			return socket.Target{}, socket.Fatal(err)
		}
		if err != nil {
			return socket.Target{}, err
		}
		l.now = now
	}

	l.greeted = false
	q := url.Values{"connection_id": {l.id}, "sequence_number": {strconv.FormatInt(l.next, 10)}}
	return socket.Target{
		URL:    "ws" + strings.TrimPrefix(b.calls.rest.Base, "http") + "/websocket?" + q.Encode(),
		Header: http.Header{"Authorization": {"Bearer " + b.o.Token.Reveal()}},
	}, nil
}

// open waits until the server answers us: only then it has let us in.
func (l *line) open(ctx context.Context, c *socket.Conn) error {
	b := l.bot
	b.seq.Store(1)
	answer, err := c.Call(ctx, "1", request(1, "ping", nil))
	if err != nil {
		return err
	}

	var f frame
	if json.Unmarshal(answer.Data, &f) != nil || f.Status != "OK" {
		l.id, l.next = "", 0
		return errors.New("the server does not accept the token on the WebSocket")
	}

	b.limits(ctx)
	b.conn.Store(c)
	b.deps.Ready(b.identity(), nil)
	return nil
}

func (l *line) lost(err error) error {
	l.bot.conn.Store(nil)
	l.bot.deps.Ready(l.bot.identity(), err)
	return err
}

// request returns what a client says on the WebSocket.
func request(seq int64, action string, data map[string]string) socket.Frame {
	text, _ := json.Marshal(map[string]any{"seq": seq, "action": action, "data": data}) // words only
	return socket.Frame{Data: text}
}

// match finds answers.
func match(f socket.Frame) (string, bool) {
	if !bytes.Contains(f.Data, []byte(`"seq_reply"`)) {
		return "", false
	}
	var a frame
	if json.Unmarshal(f.Data, &a) != nil || a.SeqReply == 0 {
		return "", false
	}
	return strconv.FormatInt(a.SeqReply, 10), true
}

// receive handles a frame. Events are numbered; what follows a gap is left to
// the next connection.
func (l *line) receive(ctx context.Context, _ *socket.Conn, raw socket.Frame) error {
	var f frame
	if err := json.Unmarshal(raw.Data, &f); err != nil {
		l.bot.once(ctx, "it is not JSON as expected", "err", err)
		return nil
	}

	switch {
	case f.Event == "":
		return nil // the answer to something that we do not wait for
	case f.Event == "hello":
		return l.begin(ctx, f)
	case f.Seq != l.next:
		l.id, l.next = "", 0
		return errGap
	}

	if err := l.event(ctx, f); err != nil {
		return err // it comes again with the next connection
	}

	l.next = f.Seq + 1
	return nil
}

// begin starts with the events of a connection that the server does not
// continue: what was posted meanwhile is read from the channels.
func (l *line) begin(ctx context.Context, f frame) error {
	var d details
	if err := json.Unmarshal(f.Data, &d); err != nil {
		return fmt.Errorf("the server's hello: %w", err)
	}

	l.id, l.next = "", 0
	if err := l.catchUp(ctx); err != nil {
		return fmt.Errorf("read what was missed: %w", err)
	}

	l.id, l.next = d.ConnectionID, f.Seq+1
	return nil
}

func (l *line) event(ctx context.Context, f frame) error {
	switch f.Event {
	case "posted", "post_edited", "post_deleted":
	default:
		return nil
	}

	var d details
	var e event
	err := json.Unmarshal(f.Data, &d)
	if err == nil {
		err = json.Unmarshal([]byte(d.Post), &e.Post)
	}

	if err != nil {
		l.bot.once(ctx, "the post of an event is not JSON as expected", "err", err)
		return nil
	}
	if f.Event == "post_deleted" {
		l.bot.deleted.Put(e.Post.ID, true)
		return nil
	}

	e.Type, e.TeamID = d.ChannelType, cmp.Or(d.TeamID, f.Broadcast.TeamID)
	e.Sender, e.Edited = strings.TrimPrefix(d.SenderName, "@"), f.Event == "post_edited"
	return l.accept(ctx, e)
}

// accept queues a post. What is probably for us is on the disk then.
func (l *line) accept(ctx context.Context, e event) error {
	b, p := l.bot, &e.Post
	e.Account = b.account()
	switch {
	case p.UserID == b.me.Load().ID:
		if p.RootID == "" && p.ID != "" {
			b.known.roots.Put(p.ID, true)
		}
		fallthrough
	case !p.typed() || p.machine() && !b.o.knownBot(p):
		l.setCursor(ctx, cursorSeen, p.CreateAt)
		return nil
	}

	mentioned := b.me.Load().named(p.Message) || p.RootID != "" // a reply may be to a post of ours
	if e.Type == "D" || b.o.forUs(p.ChannelID, p.RootID, mentioned) {
		if err := l.in.Hold(ctx, p.ChannelID, e.key(), e); err != nil {
			return err
		}
	} else if !e.Edited && l.heard.Load() < maxHeard {
		l.heard.Add(1)
		l.in.Add(p.ChannelID, e, func() { l.heard.Add(-1) })
	}

	l.setCursor(ctx, cursorSeen, p.CreateAt)
	return nil
}

// catchUp reads the posts since the last one that we saw.
func (l *line) catchUp(ctx context.Context) error {
	b := l.bot
	skew := b.deps.Now().Sub(l.now)
	since, wanted := b.deps.Gate.Backlog()
	if now := l.now.UnixMilli(); !wanted || l.cursor(cursorSeen) == 0 {
		l.setCursor(ctx, cursorBegan, now)
		l.setCursor(ctx, cursorSeen, now)
		return nil
	}

	from := max(since.Add(-skew).UnixMilli(), l.cursor(cursorBegan), l.cursor(cursorSeen)-overlap.Milliseconds())
	var all []conversation
	if err := b.calls.call(ctx, http.MethodGet, "/users/me/channels", nil, &all); err != nil {
		return err
	}

	for _, c := range all {
		b.known.places.Put(c.ID, place{Type: c.Type, TeamID: c.TeamID})
		if c.LastPostAt <= from || c.DeleteAt != 0 || !b.o.serves(place{Type: c.Type, TeamID: c.TeamID}) {
			continue
		}

		missed, err := l.missed(ctx, c.ID, from)
		if refusal(err).refused() {
			b.deps.Log.WarnContext(ctx, "cannot read posts missed while offline", "chat", c.ID, "err", err)
			continue
		}
		if err != nil {
			return err
		}

		for _, p := range missed {
			at := time.UnixMilli(p.CreateAt).Add(skew) // by our clock
			if err := l.accept(ctx, event{Post: p, Type: c.Type, TeamID: c.TeamID, Read: at}); err != nil {
				return err
			}
		}
	}

	return nil
}

// missed returns the posts of a channel after a time, oldest first.
func (l *line) missed(ctx context.Context, id string, since int64) ([]post, error) {
	var out []post
	for page := range maxPages {
		var list posts
		path := fmt.Sprintf("/channels/%s/posts?page=%d&per_page=%d&skipFetchThreads=true", id, page, pageSize)
		if err := l.bot.calls.call(ctx, http.MethodGet, path, nil, &list); err != nil {
			return nil, err
		}

		older := false
		for _, id := range list.Order {
			p := list.Posts[id]
			if older = p.CreateAt <= since; older {
				break
			}
			out = append(out, p)
		}

		if older || len(list.Order) < pageSize {
			break
		}
	}

	sort.SliceStable(out, func(i, j int) bool { return out[i].CreateAt < out[j].CreateAt })
	return out, nil
}
