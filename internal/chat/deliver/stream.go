package deliver

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// stream is a text that grows before the reader's eyes: a row of messages of one
// chat that are edited as more text comes.
type stream struct {
	c      *conversation
	id     string
	route  bus.Route
	meta   map[string]string // of the text it began with
	text   strings.Builder
	sealed int // bytes of text that are sealed; see turn.go
	shown  []shownPart
	dirty  bool      // there is more text than is shown
	next   time.Time // no preview before
	ended  bool      // all text has come and is shown
	blind  bool      // the platform gave no id to change a message by
	void   bool      // it broke off; the next one takes its place
}

// shownPart is a message of a stream.
type shownPart struct {
	id, text string
	key      string // it is being sent, or was by a process that died: what it is sent by
	final    bool   // with all formatting; it changes no more
	found    bool   // it is known from the queue only: it may be gone
}

// keyMark precedes a key where the queue keeps the id of a message.
const keyMark = "key:"

// due reports whether a preview waits for its time.
func (st *stream) due() bool { return st.dirty && !st.ended && !st.blind }

// parts returns the texts of its messages.
func (st *stream) parts() []string {
	caps := st.c.w.a.limits()
	return markdown.Split(strings.TrimSpace(st.text.String()), caps.MaxChars, caps.Unit)
}

// grow takes text of a stream, and shows it if it is time and no more waits.
func (c *conversation) grow(ctx context.Context, out bus.Outbound, more bool) {
	st := c.streamFor(ctx, out)
	st.write(out.Text)
	if !more && st.due() && !time.Now().Before(st.next) {
		st.preview(ctx)
	}
}

// streamFor returns the stream that a text belongs to. Its beginning ends another
// one of the same answer.
func (c *conversation) streamFor(ctx context.Context, out bus.Outbound) *stream {
	if st := c.streamOf(out.StreamID); st != nil && !st.ended {
		return st
	}

	if st := c.streamTo(out.Route); st != nil {
		if st.void {
			st.id, st.void = out.StreamID, false
			return st
		}

		if c.w.a.caps.OneMessage && !st.ended {
			st.seal()
			st.id = out.StreamID
			return st
		}

		st.close(ctx)
		c.drop(st)
	}

	st := c.findStream(ctx, out.Route)
	st.id, st.meta = out.StreamID, out.Meta
	c.streams = append(c.streams, st)
	return st
}

// streamOf returns the stream of an id, nil if there is none.
func (c *conversation) streamOf(id string) *stream {
	for _, st := range c.streams {
		if st.id == id {
			return st
		}
	}
	return nil
}

// streamTo returns the stream of the answer to the message of a route, nil if there
// is none.
func (c *conversation) streamTo(to bus.Route) *stream {
	for _, st := range c.streams {
		if st.route.MessageID == to.MessageID {
			return st
		}
	}
	return nil
}

// drop forgets a stream.
func (c *conversation) drop(st *stream) {
	c.streams = slices.DeleteFunc(c.streams, func(other *stream) bool { return other == st })
}

// nextPreview returns the stream whose preview comes first, nil if none is due.
func (c *conversation) nextPreview() (first *stream) {
	for _, st := range c.streams {
		if st.due() && (first == nil || st.next.Before(first.next)) {
			first = st
		}
	}
	return first
}

// findStream makes the stream of an answer out of the messages that show it
// already, as the queue knows: those of a process that is gone, or of a turn
// that is done again. What they say is not known.
func (c *conversation) findStream(ctx context.Context, to bus.Route) *stream {
	st := &stream{c: c, route: to}
	ids, err := c.w.queue.Showing(ctx, to)
	if err != nil && !errors.Is(err, bus.ErrClosed) {
		c.w.log.WarnContext(ctx, "what shows an answer already cannot be found; it may appear twice", "chat", to.ChatID, "err", err)
	}

	for _, id := range ids {
		p := shownPart{id: id, found: true}
		if key, ok := strings.CutPrefix(id, keyMark); ok && c.w.a.caps.Keys {
			p.id, p.key = "", key
		}
		st.shown = append(st.shown, p)
	}

	return st
}

// recordShown tells the queue which messages show a stream, so that they are
// changed, and not sent again, after a restart.
func (st *stream) recordShown(ctx context.Context) {
	ids := make([]string, len(st.shown))
	for i, p := range st.shown {
		if ids[i] = p.id; p.key != "" {
			ids[i] = keyMark + p.key
		}
	}
	if err := st.c.w.queue.Shown(context.WithoutCancel(ctx), st.route, ids); err != nil && !errors.Is(err, bus.ErrClosed) {
		st.c.w.log.WarnContext(ctx, "a message that shows an answer cannot be noted; it may appear twice after a restart", "chat", st.route.ChatID, "err", err)
	}
}

// awaitPreview waits until the preview may be shown, or something comes.
func (c *conversation) awaitPreview(ctx context.Context, st *stream) {
	t := time.NewTimer(time.Until(st.next))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-c.wake:
	case <-t.C:
		st.preview(ctx)
	}
}

// every returns the time between two previews.
func (st *stream) every() time.Duration {
	a := st.c.w.a
	d := a.caps.EditEvery
	if a.group(st.route) {
		d = max(d, a.caps.GroupEditEvery)
	}
	return max(d, st.c.slow)
}

// preview shows the text so far. An error only puts the next one off.
func (st *stream) preview(ctx context.Context) {
	st.next = time.Now().Add(st.every())
	parts := st.parts()
	for i, text := range parts {
		last := i == len(parts)-1
		if i < len(st.shown) && (st.shown[i].final || st.shown[i].text == text && last || st.shows(i, text)) {
			continue
		}
		if edit := i < len(st.shown); edit && !st.c.w.edits.try(time.Now()) || !st.c.w.total.try(time.Now()) {
			return // still dirty
		}

		if err := st.showPart(ctx, i, text, !last); err != nil {
			st.c.backoff(err)
			if limited, ok := errors.AsType[*chat.RateLimitedError](err); ok {
				st.next = time.Now().Add(max(limited.After, st.every()))
			}
			if chat.IsPermanent(err) {
				st.dirty = false
			}

			st.c.w.log.DebugContext(ctx, "a preview could not be shown", "chat", st.route.ChatID, "err", err)
			return
		}
	}

	st.dirty = false
}

// shows reports whether part i of a stream says text already, in its final form.
func (st *stream) shows(i int, text string) bool {
	if i >= len(st.shown) || st.shown[i].text != text {
		return false
	}
	p, previewed := &st.shown[i], st.c.w.a.caps.Previewed
	p.final = p.final || previewed != nil && previewed(st.route, text)
	return p.final
}

// showPart makes part i of a stream say text.
func (st *stream) showPart(ctx context.Context, i int, text string, final bool) error {
	out := bus.Outbound{Kind: bus.Delta, Route: st.route, StreamID: st.id, Text: text, Meta: st.meta}
	if final {
		out.Kind = bus.Message
	}
	return st.showAs(ctx, i, out, final, st.c.w.a.caps.Replies.Count/2)
}

// showAs makes part i of a stream say what out says. If it must be sent, so many
// replies to the message are left.
func (st *stream) showAs(ctx context.Context, i int, out bus.Outbound, final bool, keep int) error {
	w, text := st.c.w, out.Text
	if i < len(st.shown) && st.shown[i].key == "" {
		p := &st.shown[i]
		err := w.a.edit(ctx, out, p.id, final)
		if err == nil {
			*p = shownPart{id: p.id, text: text, final: final}
			return nil
		}

		p.text = "" // it may have been changed all the same
		if !p.found || !chat.IsPermanent(err) {
			return err
		}

		w.log.DebugContext(ctx, "a message of an earlier process cannot be changed; it is sent again", "chat", st.route.ChatID, "err", err)
		st.eraseFrom(ctx, i)
	}

	if i == 0 {
		out.ReplyTo = st.route.MessageID
	}

	if !w.replies.spend(&out, w.now(), keep) {
		return chat.Deferred(errRepliesUsed)
	}

	out.Key = st.announce(ctx, i)
	st.c.rate.chat.reserve(time.Now())
	id, err := w.a.send(ctx, out)
	if err != nil {
		if out.Key != "" {
			st.shown[i].found = true // it may be there all the same, with these words
		}
		return err
	}

	if id == "" { // it cannot be changed, so no more is shown before the end
		st.shown, st.blind = nil, true
		return nil
	}

	if i == len(st.shown) {
		st.shown = append(st.shown, shownPart{})
	}

	said := shownPart{id: id, text: text, final: final}
	if !st.shown[i].found {
		st.shown[i] = said
		st.recordShown(ctx)
		return nil
	}

	// It may be the message of an earlier try, or of a process that died, with
	// other words.
	st.shown[i] = shownPart{id: id}
	st.recordShown(ctx)
	if err := w.a.edit(ctx, out, id, final); err != nil {
		return err
	}

	st.shown[i] = said
	return nil
}

// announce tells the queue that part i of a stream is about to be sent, and
// returns its key: if the process dies before it knows the message, the next
// one finds it by that. Without such keys it does nothing.
func (st *stream) announce(ctx context.Context, i int) string {
	if !st.c.w.a.caps.Keys || st.route.MessageID == "" {
		return ""
	}
	if i == len(st.shown) {
		st.shown = append(st.shown, shownPart{key: st.id + "/" + strconv.Itoa(i)})
		st.recordShown(ctx)
	}
	return st.shown[i].key
}

// eraseFrom removes the messages of a stream from one on. They stay on a
// platform that cannot erase.
func (st *stream) eraseFrom(ctx context.Context, from int) {
	old := st.shown[from:]
	st.shown = st.shown[:from]
	for _, p := range old {
		if p.id == "" { // it is not known whether it is there
			continue
		}

		err := st.retryEdit(ctx, func() error { return st.c.w.a.erase(ctx, st.route, p.id) })
		if errors.Is(err, errors.ErrUnsupported) {
			return
		}

		if err != nil {
			st.c.w.log.DebugContext(ctx, "a message that says nothing any more cannot be removed", "chat", st.route.ChatID, "err", err)
		}
	}
}

// retryEdit does something that is worth a few tries.
func (st *stream) retryEdit(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil {
			return nil
		}

		st.c.backoff(err)
		failures := try - 1
		if chat.IsPermanent(err) || try >= st.c.w.maxRetries || !st.c.pause(ctx, err, &failures) {
			return err
		}
	}
}

// closeSegment ends a segment. If the turn goes on, its text stays as a message
// of its own; else the final reply will say whether it is right. One that
// broke off leaves its messages to the one that says it all again.
func (c *conversation) closeSegment(ctx context.Context, out bus.Outbound) {
	if out.Text != "" {
		c.grow(ctx, bus.Outbound{
			Kind:     bus.Delta,
			Route:    out.Route,
			StreamID: out.StreamID,
			Text:     out.Text,
			Meta:     out.Meta,
		}, true)
	}

	if !out.Resuming {
		c.w.signals.stop(c.key)
	}

	st := c.streamOf(out.StreamID)
	if st == nil {
		return
	}
	if out.Void && !st.blind {
		st.restart()
		return
	}

	if c.w.a.caps.OneMessage {
		if out.Resuming {
			st.seal()
		}
		return // the final reply, or the end of the turn, closes it
	}

	st.close(ctx)
	if n := len(st.parts()); out.Resuming && n > 0 && len(st.shown) > 0 {
		st.eraseFrom(ctx, min(n, len(st.shown)))
		st.shown = nil
		st.recordShown(ctx) // they say all they had to
	}

	if out.Resuming || len(st.shown) == 0 {
		c.drop(st)
	}
}

// restart makes the messages of a stream ready for another text.
func (st *stream) restart() {
	st.void, st.dirty = true, false
	st.cutUnsealed()
	for i := range st.shown {
		st.shown[i].final = false
	}
}

// close shows the whole text of a stream with its formatting. It tries a few
// times: the final reply, which is tried for long, comes after it.
func (st *stream) close(ctx context.Context) {
	st.ended = true
	if st.blind {
		return
	}

	for i, text := range st.parts() {
		if st.shows(i, text) {
			continue
		}
		if err := st.retryEdit(ctx, func() error { return st.showPart(ctx, i, text, true) }); err != nil {
			st.c.w.log.DebugContext(ctx, "the end of a text could not be shown", "chat", st.route.ChatID, "err", err)
			return
		}
	}

	st.dirty = false
}

// completeStream makes what was streamed, perhaps by an earlier process, say what
// the final reply says, and returns how many parts of it are shown by that.
// False means that ctx ended.
func (c *conversation) completeStream(ctx context.Context, d bus.Delivery, parts []bus.Outbound) (from int, ok bool) {
	st := c.streamTo(d.Route)
	if st == nil {
		st = c.findStream(ctx, d.Route)
		st.ended = true
	} else {
		defer c.drop(st)
		if c.w.a.caps.OneMessage {
			return c.completeTurn(ctx, st, d, parts)
		}
	}

	// What was read already is not wiped out by an error, nor by other words
	// that are not the model's.
	other := d.Plain || d.Turn != nil && d.Turn.Error != ""
	if len(st.shown) == 0 || d.Parts > 0 || other || texts(parts) == 0 {
		if len(st.shown) > 0 && !st.ended {
			st.close(ctx)
		}
		return d.Parts, ctx.Err() == nil
	}

	from = min(texts(parts), len(st.shown))
	for i, p := range st.shown[:from] {
		text, out := parts[i].Text, parts[i]
		out.Media = nil
		if st.shows(i, text) && out.Question == nil {
			continue
		}

		err := c.retry(ctx, st.route, func() error {
			if p.key != "" {
				return st.showPart(ctx, i, text, true)
			}
			return c.w.a.edit(ctx, out, p.id, true)
		})
		if err != nil && ctx.Err() != nil {
			return 0, false
		}

		if err != nil { // it cannot be changed any more: send the rest again
			c.w.log.WarnContext(ctx, "a streamed message cannot be changed; it is sent again", "chat", st.route.ChatID, "err", c.w.redact(err.Error()))
			from = i
			break
		}
	}

	st.eraseFrom(ctx, from) // no more of them than of the answer
	return shown(parts[:from]), true
}

// texts returns how many parts have a text; they come first.
func texts(parts []bus.Outbound) (n int) {
	for n < len(parts) && parts[n].Text != "" {
		n++
	}
	return n
}

// shown notes that the texts of parts are shown, and returns how many of the
// parts that leaves nothing to send of: only files may be left of the last.
func shown(parts []bus.Outbound) int {
	n := texts(parts)
	if n == 0 || len(parts[n-1].Media) == 0 {
		return n
	}
	parts[n-1].Text, parts[n-1].Question = "", nil
	return n - 1
}
