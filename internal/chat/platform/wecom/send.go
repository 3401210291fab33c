package wecom

import (
	"context"
	"errors"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// Send implements chat.Channel.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	if len(out.Media) > 0 {
		return "", b.sendFile(ctx, out)
	}
	if q := out.Question; q != nil && len(q.Options) > 0 {
		return "", classify(b.offer(ctx, out))
	}

	s := render(out.Text)
	if s == "" {
		return "", nil
	}

	t := b.turnOf(out)
	if out.Kind != bus.Final && out.StreamID == "" || t == nil && out.Kind == bus.Final {
		return "", classify(b.push(ctx, out, s))
	}

	err := errClosed
	if t != nil {
		err = b.update(ctx, t, s, out.Kind != bus.Delta)
	}

	switch {
	case err == nil:
		return t.stream, nil
	case !errors.Is(err, errClosed):
		return "", classify(err)
	case out.Kind == bus.Final:
		return "", classify(b.push(ctx, out, t.remainder(s)))
	}

	return "", chat.Permanent(err) // the final reply says it
}

// Edit implements chat.Streamer.
func (b *bot) Edit(ctx context.Context, out bus.Outbound, id string, final bool) error {
	t := b.turnOf(out)
	s := render(out.Text)
	if t == nil || t.stream != id {
		return chat.Permanent(errClosed)
	}
	if s == "" {
		return nil
	}

	err := b.update(ctx, t, s, final)
	switch {
	case errors.Is(err, errClosed) && final:
		return classify(b.push(ctx, out, t.remainder(s)))
	case errors.Is(err, errClosed):
		return chat.Permanent(err)
	}
	return classify(err)
}

// Erase implements chat.Streamer.
func (*bot) Erase(context.Context, bus.Route, string) error { return errors.ErrUnsupported }

// push sends a text as a message of its own.
func (b *bot) push(ctx context.Context, out bus.Outbound, s string) error {
	if s == "" {
		return nil
	}
	return b.pushAs(ctx, out, "markdown", map[string]string{"content": s})
}

// pushAs sends something that answers no message.
func (b *bot) pushAs(ctx context.Context, out bus.Outbound, kind string, what any) error {
	body := map[string]any{"chatid": out.Route.ChatID, "msgtype": kind, kind: what}
	switch out.Meta["chat_type"] {
	case "single":
		body["chat_type"] = 1
	case chatGroup:
		body["chat_type"] = 2
	}
	_, err := b.call(ctx, cmdSend, newID(cmdSend), body, ackTime)
	return err
}

// render returns a text as WeCom takes it. It shows Markdown as models write it, but
// outside of code no picture is loaded from an address that a text names, and
// no member is called by name.
func render(s string) string {
	s = strings.TrimSpace(text.Valid(s))
	if !strings.Contains(s, "![") && !strings.Contains(s, "<@") {
		return s
	}

	var out strings.Builder
	code := false
	for line := range strings.Lines(s) {
		mark := strings.TrimLeft(line, " >")
		if strings.HasPrefix(mark, "```") || strings.HasPrefix(mark, "~~~") {
			code = !code
		} else if !code {
			line = strings.ReplaceAll(withoutPictures(line), "<@", "＜@")
		}
		out.WriteString(line)
	}

	return out.String()
}

// withoutPictures makes links of the pictures in a line.
func withoutPictures(line string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(line, "![")
		out.WriteString(before)
		if !found {
			return out.String()
		}

		if strings.Contains(after, "](") || strings.Contains(after, "][") {
			out.WriteByte('[')
		} else {
			out.WriteString("![")
		}

		line = after
	}
}
