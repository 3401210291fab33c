package teams

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// streamTime is how long Teams lets a text grow.
const streamTime = 2 * time.Minute

// streams are the texts that grow now: one in a personal chat, as Teams allows.
type streams struct {
	mu sync.Mutex
	by map[string]*stream // by chat
}

// stream is a text that grows. Teams takes pieces that hold all that was shown
// before, so the pieces have no markup that could turn out otherwise.
type stream struct {
	chat, id string
	shown    string
	sequence int
	began    time.Time
	mute     bool // the person stopped it: nothing more is shown before the end
}

// find returns the stream of a message, nil if it does not grow.
func (s *streams) find(chat, id string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.by[chat]; st != nil && st.id == id {
		return st
	}
	return nil
}

// busy reports whether a text grows in a chat.
func (s *streams) busy(chat string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.by[chat]
	return st != nil && now.Sub(st.began) < streamTime
}

func (s *streams) store(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[string]*stream{}
	}
	s.by[st.chat] = st
}

func (s *streams) drop(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[st.chat] == st {
		delete(s.by, st.chat)
	}
}

// beginStream begins a stream with its first piece. Where Teams allows none the
// message is sent and edited like any other.
func (b *bot) beginStream(ctx context.Context, out bus.Outbound) (id string, ok bool, err error) {
	now := b.deps.Now()
	if b.streams.busy(out.Route.ChatID, now) {
		return "", false, nil
	}

	st := &stream{chat: out.Route.ChatID, shown: preview(out.Text), sequence: 1, began: now}
	m := st.piece(st.shown)
	m.ReplyToID = b.replyTo(out)
	st.id, err = b.post(ctx, out.Route, m)
	if refusedStream(err) {
		return "", false, nil
	}
	if err != nil || st.id == "" {
		return "", false, err
	}

	b.streams.store(st)
	return st.id, true, nil
}

// piece returns a text of a stream on its way.
func (st *stream) piece(s string) outgoing {
	return outgoing{
		Type: "typing", Text: s, TextFormat: "markdown",
		Entities: []streamInfo{{Type: "streaminfo", ID: st.id, Kind: "streaming", Sequence: st.sequence}},
	}
}

// refusedStream reports whether Teams does not take a stream, or no more of it:
// the time is over, or the person stopped it.
func refusedStream(err error) bool {
	e := refusal(err)
	return e != nil && (e.Status == http.StatusForbidden && strings.HasPrefix(e.Code, "ContentStream") || e.Status == http.StatusBadRequest)
}

// grow shows more of a stream, or its end.
func (b *bot) grow(ctx context.Context, st *stream, out bus.Outbound, final bool) error {
	if final {
		return b.closeStream(ctx, st, out)
	}

	text := preview(out.Text)
	if st.mute || text == st.shown || !strings.HasPrefix(text, st.shown) {
		return nil // the end will say it
	}

	st.sequence++
	_, err := b.post(ctx, out.Route, st.piece(text))
	switch {
	case err == nil:
		st.shown = text
	case refusedStream(err) && strings.Contains(strings.ToLower(err.Error()), "cancel"):
		st.mute = true
		err = nil
	case refusedStream(err): // from now on it is edited like any other message
		b.streams.drop(st)
		err = nil
	default:
		st.sequence--
	}

	return err
}

// closeStream ends a stream. Its end must hold what was shown; if the answer does
// not, the message is replaced then.
func (b *bot) closeStream(ctx context.Context, st *stream, out bus.Outbound) error {
	m := b.message(out, true)
	m.ReplyToID = ""
	m.Entities = []streamInfo{{Type: "streaminfo", ID: st.id, Kind: "final"}}
	same := strings.HasPrefix(m.Text, st.shown) && m.TextFormat == "markdown"
	if !same {
		m.Text = st.shown
		m.TextFormat = "markdown"
		m.Attachments = nil
	}

	if !st.mute {
		_, err := b.post(ctx, out.Route, m)
		if err != nil && !refusedStream(err) {
			return err
		}
		same = same && err == nil
	}

	b.streams.drop(st)
	if same && !st.mute {
		b.recordQuestion(out, st.id)
		return nil
	}
	return b.replace(ctx, out, st.id, true)
}
