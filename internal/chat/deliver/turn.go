package deliver

import (
	"context"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// On platforms with Caps.OneMessage the stream of an answer is all that its turn
// says. What is sealed stays; behind it grows the segment that the final reply
// replaces.

// seal makes what a stream says so far stay.
func (st *stream) seal() {
	whole := strings.TrimSpace(st.text.String())
	st.text.Reset()
	st.text.WriteString(whole)
	st.sealed = len(whole)
}

// write adds text to a stream.
func (st *stream) write(text string) {
	if st.sealed > 0 && st.text.Len() == st.sealed {
		st.text.WriteString("\n\n")
	}
	st.text.WriteString(text)
	st.dirty = st.dirty || strings.TrimSpace(text) != ""
}

// cutUnsealed takes the last segment away.
func (st *stream) cutUnsealed() {
	whole := st.text.String()[:st.sealed]
	st.text.Reset()
	st.text.WriteString(whole)
}

// turnOf returns the stream that progress belongs to, nil if it is a message of its
// own: on other platforms, and for a notice outside of a turn.
func (c *conversation) turnOf(ctx context.Context, out bus.Outbound) *stream {
	if !c.w.a.caps.OneMessage || c.w.a.streamer == nil || out.Kind == bus.Reasoning || out.Kind == bus.Gone {
		return nil
	}

	st := c.streamTo(out.Route)
	if st == nil && out.Kind != bus.Notice && out.Route.MessageID != "" {
		st = c.findStream(ctx, out.Route)
		st.meta = out.Meta
		c.streams = append(c.streams, st)
	}
	return st
}

// progress adds what only shows progress to the message of a turn.
func (st *stream) progress(ctx context.Context, text string) {
	st.seal()
	st.write(text)
	st.seal()
	if st.due() && !time.Now().Before(st.next) {
		st.preview(ctx)
	}
}

// endTurn closes the message of a turn that ended without a reply.
func (c *conversation) endTurn(ctx context.Context, to bus.Route) {
	st := c.streamTo(to)
	if !c.w.a.caps.OneMessage || st == nil {
		return
	}
	st.close(ctx)
	c.drop(st)
}

// completeTurn makes the message of a turn say all of it, with the final reply at
// the end. An error stands behind what was said, the model's reply in place of
// the last segment.
func (c *conversation) completeTurn(ctx context.Context, st *stream, d bus.Delivery, parts []bus.Outbound) (from int, ok bool) {
	if texts(parts) == 0 || d.Parts > 0 { // nothing to add
		st.close(ctx)
		return d.Parts, ctx.Err() == nil
	}

	if d.Plain || d.Turn != nil && d.Turn.Error != "" {
		st.seal()
	}

	st.cutUnsealed()
	st.write(d.Text)
	whole := d.Outbound
	whole.Text = st.text.String()
	all, err := c.w.a.plan(whole)
	if err != nil {
		return 0, true
	}

	n := texts(all)
	for i, part := range all[:n] {
		if part.Media = nil; i < n-1 && st.shows(i, part.Text) {
			continue
		}

		err := c.retry(ctx, st.route, func() error { return st.showAs(ctx, i, part, true, 0) })
		switch {
		case err != nil && ctx.Err() != nil:
			return 0, false
		case err != nil: // it cannot be changed any more: the reply is a message of its own
			c.w.log.WarnContext(ctx, "the message of a turn cannot be changed; the answer is sent again", "chat", st.route.ChatID, "err", c.w.redact(err.Error()))
			return 0, true
		}
	}

	st.eraseFrom(ctx, min(n, len(st.shown)))
	return shown(parts), true
}
