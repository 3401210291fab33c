package channel

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// stream is a text that grows before the reader's eyes.
type stream struct {
	id    string
	route bus.Route
	text  strings.Builder
	shown []shownPart
	dirty bool      // there is more text than is shown
	next  time.Time // no preview before
	ended bool      // all text has come and is shown
	blind bool      // the platform gave no id to change a message by
	void  bool      // it broke off; the next one takes its place
}

// shownPart is a message of a stream.
type shownPart struct {
	id, text string
	final    bool // with all formatting; it changes no more
	found    bool // it is known from the queue only: it may be gone
}

// due reports whether a preview waits for its time.
func (st *stream) due() bool { return st != nil && st.dirty && !st.ended && !st.blind }

func (st *stream) parts(s *slot) []string {
	return Split(strings.TrimSpace(st.text.String()), s.caps.MaxChars, s.caps.Unit)
}

// grow takes text of a stream, and shows it if it is time and no more waits.
func (s *slot) grow(ctx context.Context, c *chat, out bus.Outbound, more bool) {
	if st := c.stream; st != nil && st.void {
		st.id, st.void = out.StreamID, false
	}
	if c.stream == nil || c.stream.id != out.StreamID || c.stream.ended {
		if c.stream != nil {
			s.closeStream(ctx, c)
		}
		c.stream = s.findStream(ctx, out.Route)
		c.stream.id = out.StreamID
	}
	st := c.stream
	st.text.WriteString(out.Text)
	st.dirty = st.dirty || strings.TrimSpace(out.Text) != ""
	if !more && st.due() && !time.Now().Before(st.next) {
		s.preview(ctx, c)
	}
}

// findStream makes the stream of an answer out of the messages that show it
// already, as the queue knows: those of a process that is gone, or of a turn
// that is done again. What they say is not known.
func (s *slot) findStream(ctx context.Context, to bus.Route) *stream {
	st := &stream{route: to}
	ids, err := s.m.o.Queue.Showing(ctx, to)
	if err != nil && !errors.Is(err, bus.ErrClosed) {
		s.log.WarnContext(ctx, "what shows an answer already cannot be found; it may appear twice", "chat", to.ChatID, "err", err)
	}
	for _, id := range ids {
		st.shown = append(st.shown, shownPart{id: id, found: true})
	}
	return st
}

// noteShown tells the queue which messages show a stream, so that they are
// changed, and not sent again, after a restart.
func (s *slot) noteShown(ctx context.Context, st *stream) {
	ids := make([]string, len(st.shown))
	for i, p := range st.shown {
		ids[i] = p.id
	}
	if err := s.m.o.Queue.Shown(context.WithoutCancel(ctx), st.route, ids); err != nil && !errors.Is(err, bus.ErrClosed) {
		s.log.WarnContext(ctx, "a message that shows an answer cannot be noted; it may appear twice after a restart", "chat", st.route.ChatID, "err", err)
	}
}

// awaitPreview waits until the preview may be shown, or something comes.
func (s *slot) awaitPreview(ctx context.Context, c *chat) {
	t := time.NewTimer(time.Until(c.stream.next))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-c.wake:
	case <-t.C:
		s.preview(ctx, c)
	}
}

// every is the time between two previews of a chat.
func (s *slot) every(c *chat, to bus.Route) time.Duration {
	d := s.caps.EditEvery
	if s.group(to) {
		d = max(d, s.caps.GroupEditEvery)
	}
	return max(d, c.slow)
}

// preview shows the text so far. Trouble only puts the next one off.
func (s *slot) preview(ctx context.Context, c *chat) {
	st := c.stream
	st.next = time.Now().Add(s.every(c, st.route))
	parts := st.parts(s)
	for i, text := range parts {
		last := i == len(parts)-1
		if i < len(st.shown) && (st.shown[i].final || st.shown[i].text == text && last) {
			continue
		}
		if !s.total.try(time.Now()) {
			return // still dirty
		}
		if err := s.showPart(ctx, c, i, text, !last); err != nil {
			s.patience(c, err)
			if limited, ok := errors.AsType[*RateLimitedError](err); ok {
				st.next = time.Now().Add(max(limited.After, s.every(c, st.route)))
			}
			if IsPermanent(err) {
				st.dirty = false
			}
			s.log.DebugContext(ctx, "a preview could not be shown", "chat", st.route.ChatID, "err", err)
			return
		}
	}
	st.dirty = false
}

// showPart makes part i of a stream say text.
func (s *slot) showPart(ctx context.Context, c *chat, i int, text string, final bool) error {
	st := c.stream
	if i < len(st.shown) {
		p := &st.shown[i]
		err := s.edit(ctx, st.route, p.id, text, final)
		if err == nil {
			*p = shownPart{id: p.id, text: text, final: final}
			return nil
		}
		if !p.found || !IsPermanent(err) {
			return err
		}
		s.log.DebugContext(ctx, "a message of an earlier process cannot be changed; it is sent again", "chat", st.route.ChatID, "err", err)
		s.takeBack(ctx, c, st, i)
	}
	out := bus.Outbound{Kind: bus.Delta, Route: st.route, StreamID: st.id, Text: text}
	if final {
		out.Kind = bus.Message
	}
	if i == 0 {
		out.ReplyTo = st.route.MessageID
	}
	c.rate.take(time.Now())
	id, err := s.try(ctx, out)
	if err != nil {
		return err
	}
	if id == "" { // it cannot be changed, so no more is shown before the end
		st.shown, st.blind = nil, true
		return nil
	}
	st.shown = append(st.shown, shownPart{id: id, text: text, final: final})
	s.noteShown(ctx, st)
	return nil
}

// takeBack removes the messages of a stream from one on, where a platform can.
// Elsewhere they stay.
func (s *slot) takeBack(ctx context.Context, c *chat, st *stream, from int) {
	gone := st.shown[from:]
	st.shown = st.shown[:from]
	for _, p := range gone {
		if s.eraser == nil {
			return
		}
		err := s.persist(ctx, c, func() error { return s.erase(ctx, st.route, p.id) })
		if err != nil {
			s.log.DebugContext(ctx, "a message that says nothing any more cannot be removed", "chat", st.route.ChatID, "err", err)
		}
	}
}

// persist does something that is worth a few tries.
func (s *slot) persist(ctx context.Context, c *chat, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil {
			return nil
		}
		s.patience(c, err)
		failures := try - 1
		if IsPermanent(err) || try >= s.m.o.MaxRetries || !s.pause(ctx, err, &failures) {
			return err
		}
	}
}

// endStream ends a segment. If the turn goes on, its text stays as a message
// of its own; else the final reply will say whether it is right. One that
// broke off leaves its messages to the one that says it all again.
func (s *slot) endStream(ctx context.Context, c *chat, out bus.Outbound) {
	if out.Text != "" {
		s.grow(ctx, c, bus.Outbound{Kind: bus.Delta, Route: out.Route, StreamID: out.StreamID, Text: out.Text}, true)
	}
	if !out.Resuming {
		s.rest(c.key)
	}
	if c.stream == nil || c.stream.id != out.StreamID {
		return
	}
	if out.Void && !c.stream.blind {
		c.stream.restart()
		return
	}
	s.closeStream(ctx, c)
	st := c.stream
	if n := len(st.parts(s)); out.Resuming && n > 0 && len(st.shown) > 0 {
		s.takeBack(ctx, c, st, min(n, len(st.shown)))
		st.shown = nil
		s.noteShown(ctx, st) // they say all they had to
	}
	if out.Resuming || len(st.shown) == 0 {
		c.stream = nil
	}
}

// restart makes the messages of a stream ready for another text.
func (st *stream) restart() {
	st.void, st.dirty = true, false
	st.text.Reset()
	for i := range st.shown {
		st.shown[i].final = false
	}
}

// closeStream shows the whole text of a stream with its formatting. It tries a
// few times: the final reply, which is tried for long, comes after it.
func (s *slot) closeStream(ctx context.Context, c *chat) {
	st := c.stream
	st.ended = true
	if st.blind {
		return
	}
	for i, text := range st.parts(s) {
		if i < len(st.shown) && st.shown[i].final && st.shown[i].text == text {
			continue
		}
		if err := s.persist(ctx, c, func() error { return s.showPart(ctx, c, i, text, true) }); err != nil {
			s.log.DebugContext(ctx, "the end of a text could not be shown", "chat", st.route.ChatID, "err", err)
			return
		}
	}
	st.dirty = false
}

// settleStream makes what was streamed, perhaps by an earlier process, say what
// the final reply says, and returns how many parts of it are shown by that.
// False means that ctx ended.
func (s *slot) settleStream(ctx context.Context, c *chat, d bus.Delivery, parts []bus.Outbound) (from int, ok bool) {
	st := c.stream
	if st == nil || st.route.MessageID != d.Route.MessageID {
		st = s.findStream(ctx, d.Route)
		st.ended = true
	} else {
		defer func() { c.stream = nil }()
	}
	texts := 0
	for texts < len(parts) && parts[texts].Text != "" && len(parts[texts].Media) == 0 {
		texts++
	}
	// What was read already is not wiped out by an error, nor by other words
	// that are not the model's.
	other := d.Plain || d.Turn != nil && d.Turn.Error != ""
	if len(st.shown) == 0 || d.Parts > 0 || other || texts == 0 {
		if len(st.shown) > 0 && !st.ended {
			s.closeStream(ctx, c)
		}
		return d.Parts, ctx.Err() == nil
	}
	from = min(texts, len(st.shown))
	for i, p := range st.shown[:from] {
		text := parts[i].Text
		if p.final && p.text == text {
			continue
		}
		err := s.insist(ctx, c, st.route, func() error { return s.edit(ctx, st.route, p.id, text, true) })
		if err != nil && ctx.Err() != nil {
			return 0, false
		}
		if err != nil { // it cannot be changed any more: say the rest anew
			s.log.WarnContext(ctx, "a streamed message cannot be changed; it is sent again", "chat", st.route.ChatID, "err", s.m.o.Redact(err.Error()))
			from = i
			break
		}
	}
	s.takeBack(ctx, c, st, from) // no more of them than of the answer
	return from, true
}
