package wecom

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// WeCom closes a stream that was not updated for six minutes. Some have seen it
// close every stream at a certain age as well, of six or ten minutes.
const refreshEvery = 4 * time.Minute // then a stream without news is shown again, so that it stays open

// What people read from us.
const (
	textLater   = "I am still working on it; the answer follows as a new message."
	textStopped = "Stopped."
	textFailed  = "That did not work."
	textNothing = "Done; see my other messages."
	thinking    = "<think></think>" // shown as a sign that the bot works
)

// errClosed says that a stream cannot be changed any more.
var errClosed = errors.New("the stream of the answer is closed")

// turn is the answer to one message, as a stream.
type turn struct {
	req    string    // the id that answers the message
	stream string    // the id of the stream: the same one after a restart
	at     time.Time // when the message arrived, and its stream was opened

	mu      sync.Mutex // one update at a time
	opened  bool
	closed  bool
	shown   string    // what it says; kept if it was closed before the answer was complete
	updated time.Time // the last update that WeCom took
}

// newTurn makes the turn of a message.
func newTurn(message, req string, at time.Time) *turn {
	sum := sha256.Sum256([]byte(message))
	return &turn{req: req, stream: "nanobot_" + hex.EncodeToString(sum[:12]), at: at}
}

// turnOf finds the turn that a message of ours answers, nil if it answers none.
// After a restart all that is known is what the message bears.
func (b *bot) turnOf(out bus.Outbound) *turn {
	id := out.Route.MessageID
	if id == "" {
		return nil
	}
	if t, ok := b.turns.Get(id); ok {
		return t
	}

	ms, err := strconv.ParseInt(out.Meta["received"], 10, 64)
	if err != nil || out.Meta["req_id"] == "" {
		return nil
	}

	t := newTurn(id, out.Meta["req_id"], time.UnixMilli(ms))
	b.turns.Put(id, t)
	return t
}

// update makes a stream say text. The one that finishes it is the last.
func (b *bot) update(ctx context.Context, t *turn, text string, finish bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()

	switch {
	case t.closed || !finish && b.late(t):
		return errClosed
	case !finish && t.opened && text == t.shown:
		return nil
	}

	if err := b.sendUpdate(ctx, t, text, finish); err != nil {
		return err
	}

	t.opened, t.shown = true, text
	if finish {
		t.shown = ""
	}
	return nil
}

// late reports whether WeCom may soon take no update of a stream because of its
// age, as far as it has shown.
func (b *bot) late(t *turn) bool {
	most := time.Duration(b.streamMost.Load())
	return most > 0 && b.deps.Now().Sub(t.at) >= most
}

// sendUpdate sends the text of a stream so far. The turn is locked.
func (b *bot) sendUpdate(ctx context.Context, t *turn, text string, finish bool) error {
	if text == "" {
		text = thinking
	}

	stream := map[string]any{"id": t.stream, "finish": finish, "content": text}
	_, err := b.call(ctx, cmdRespond, t.req, map[string]any{"msgtype": "stream", "stream": stream}, ackTime)
	dead := refused(err) == codeReqID || refused(err) == codeExpired
	b.mu.Lock()
	defer b.mu.Unlock()

	switch {
	case dead:
		if refused(err) == codeExpired && b.deps.Now().Sub(t.updated) < refreshEvery+sweepEvery {
			b.recordAge(t)
		}
		t.closed = true
		err = errClosed
	case err == nil:
		t.closed, t.updated = finish, b.deps.Now()
	}

	if t.closed {
		delete(b.open, t)
	} else if err == nil {
		b.open[t] = true
	}
	return err
}

// recordAge stores the age at which WeCom still took an update of a stream that it
// closed although it was kept open. A stream that is closed soon after its
// beginning has another reason. The channel is locked.
func (b *bot) recordAge(t *turn) {
	age := t.updated.Sub(t.at)
	if old := time.Duration(b.streamMost.Load()); age > time.Minute && (old == 0 || age < old) {
		b.streamMost.Store(int64(age))
	}
}

// refresh shows a stream again as it is, so that it stays open.
func (b *bot) refresh(ctx context.Context, t *turn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || !t.opened {
		return nil
	}
	return b.sendUpdate(ctx, t, t.shown, false)
}

// closeStream ends a stream that people see as unfinished, with a note if it says
// nothing. Keep says that more of the answer comes.
func (b *bot) closeStream(ctx context.Context, t *turn, note string, keep bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.closed || !t.opened {
		return nil
	}

	text := t.shown
	if keep || text == "" {
		text = strings.TrimSpace(text + "\n\n" + note)
	}

	err := b.sendUpdate(ctx, t, text, true)
	if !keep {
		t.shown = ""
	}
	return err
}

// sweep keeps streams open that had no news for a while, and finishes those that
// WeCom would soon take no update of.
func (b *bot) sweep(ctx context.Context) {
	var late, quiet []*turn
	b.mu.Lock()
	for t := range b.open {
		switch {
		case b.late(t):
			late = append(late, t)
		case b.deps.Now().Sub(t.updated) > refreshEvery-sweepEvery:
			quiet = append(quiet, t)
		}
	}

	b.mu.Unlock()
	for _, t := range late {
		if err := b.closeStream(ctx, t, phrase.In(b.language(), textLater), true); err != nil && !errors.Is(err, errClosed) {
			b.deps.Log.DebugContext(ctx, "a stream cannot be finished", "err", err)
		}
	}

	for _, t := range quiet {
		if err := b.refresh(ctx, t); err != nil {
			b.deps.Log.DebugContext(ctx, "a stream cannot be kept open", "err", err)
		}
	}
}

// remainder returns what a closed stream does not say of a text. One that ends in a block
// of code, or says something else, does not count.
func (t *turn) remainder(text string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if more, ok := strings.CutPrefix(text, t.shown); ok && strings.Count(t.shown, "```")%2 == 0 {
		return strings.TrimSpace(more)
	}
	return text
}

// Signal implements chat.Signaller: no stream is left unfinished when its
// turn is over.
func (b *bot) Signal(ctx context.Context, route bus.Route, phase chat.Phase) error {
	t, ok := b.turns.Get(route.MessageID)
	if !ok || route.MessageID == "" {
		return nil
	}

	note := phrase.In(b.language(), textNothing)
	switch phase {
	case chat.Seen, chat.Working: // the stream shows it
		return nil
	case chat.TurnFailed:
		note = phrase.In(b.language(), textFailed)
	case chat.TurnStopped:
		note = phrase.In(b.language(), textStopped)
	case chat.Answered:
	}

	return b.closeStream(ctx, t, note, false)
}

// begin opens the stream of a message that was accepted, unless the answer was
// faster.
func (b *bot) begin(ctx context.Context, t *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opened || t.closed {
		return
	}
	err := b.sendUpdate(ctx, t, "", false)
	if t.opened = err == nil; err != nil {
		b.deps.Log.DebugContext(ctx, "a stream cannot be opened", "err", err)
	}
}
