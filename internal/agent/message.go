package agent

import (
	"context"
	"errors"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/text"
	"github.com/nanobot-go/nanobot/internal/tool"
)

type messageInput struct {
	Content string   `json:"content" desc:"text"`
	Media   []string `json:"media,omitempty" max:"10" desc:"paths of files to attach"`
	Channel string   `json:"channel,omitempty" desc:"default: this chat"`
	ChatID  string   `json:"chat_id,omitempty"`
}

// messageTool lets the model send something besides its answer. Where it goes
// comes with the call, so parallel sessions cannot get in each other's way.
func messageTool(media func(c tool.Call, path string) (bus.Media, error)) tool.Tool {
	return tool.Func(tool.Tool{
		Name: "message", Sink: tool.SinkMessage,
		Description: "Send a message or files to the user right now. For a normal answer just reply; this is the only way to deliver files.",
	}, func(ctx context.Context, c tool.Call, in messageInput) (tool.Result, error) {
		to := c.Route
		if (in.Channel != "" && in.Channel != to.Channel) || (in.ChatID != "" && in.ChatID != to.ChatID) {
			return tool.Fail(tool.DeniedPolicy, "only the current chat (%s %s) can be written to", to.Channel, to.ChatID), nil
		}
		if c.Publish == nil {
			return tool.Fail(tool.Unsupported, "nobody is listening; put it into your answer"), nil
		}
		if c.SessionKey == eventHeartbeat {
			return tool.Fail(tool.DeniedPolicy, "not during a heartbeat; put it into your answer, which is delivered if it matters"), nil
		}
		out := bus.Outbound{Kind: bus.Message, Route: to, ReplyTo: to.MessageID, Text: text.StripThink(in.Content)}
		for _, p := range in.Media {
			if media == nil {
				return tool.Fail(tool.Unsupported, "files cannot be sent here"), nil
			}
			m, err := media(c, p)
			if err != nil {
				return tool.Fail(tool.DeniedPolicy, "cannot attach %s: %v", p, err), nil
			}
			out.Media = append(out.Media, m)
		}
		if out.Text == "" && len(out.Media) == 0 {
			return tool.Fail(tool.InvalidArgs, "content is empty"), nil
		}
		if err := c.Publish(ctx, out); err != nil {
			if errors.Is(err, context.Canceled) {
				return tool.Result{}, err
			}
			return tool.Fail(tool.Internal, "not sent: %v", err), nil
		}
		return tool.Textf("sent to %s %s with %d attachments", to.Channel, to.ChatID, len(out.Media)), nil
	})
}
