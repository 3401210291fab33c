package slack

import (
	"context"
	"fmt"
	"strings"

	api "github.com/slack-go/slack"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	maxBlock   = 12_000 // characters of the Markdown blocks of a message
	maxSection = 3000   // characters of a section
	maxWords   = 39_000 // characters of a text, which Slack cuts or refuses beyond 40,000
	maxChanged = 4000   // characters of the text of a message that is changed
)

// Send implements chat.Channel.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	if len(out.Media) == 0 && strings.TrimSpace(out.Text) == "" {
		return "", nil
	}

	chatID, err := b.web.chat(ctx, out.Route.ChatID)
	if err != nil {
		return "", err
	}
	if len(out.Media) > 0 {
		return "", b.upload(ctx, chatID, out)
	}

	var ts string
	thread := out.Route.ThreadID
	post := func(content api.MsgOption) (err error) {
		options := []api.MsgOption{content, api.MsgOptionDisableLinkUnfurl(), api.MsgOptionDisableMediaUnfurl()}
		if thread != "" {
			options = append(options, api.MsgOptionTS(thread))
		}

		ts, err = call(ctx, func(ctx context.Context) (string, error) {
			_, ts, err := b.api.PostMessageContext(ctx, chatID, options...)
			return ts, err
		})
		return err
	}

	err = b.formatted(out, maxWords, post)
	if thread != "" && hasCode(err, "thread_not_found") { // it was removed
		thread = ""
		err = b.formatted(out, maxWords, post)
	}

	if err != nil {
		return "", b.web.classify(err)
	}

	if out.Question != nil && out.Question.Clean {
		b.clean.Put(chatID+"/"+ts, true)
	}
	return ts, nil
}

// formatted tries with blocks, and with the text alone if Slack does not take
// them. Buttons are blocks in any case. The text has at most so many characters.
func (b *bot) formatted(out bus.Outbound, most int, try func(content api.MsgOption) error) error {
	err := try(b.content(out, most, true))
	if hasCode(err, "invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "block_mismatch") {
		err = try(b.content(out, most, false))
	}
	return err
}

// content returns what a message says. Beside blocks, the text is what notifications
// and clients without blocks show, and may be cut; without them it is what
// people read, and Slack's answer decides whether it is too long.
func (b *bot) content(out bus.Outbound, most int, rich bool) api.MsgOption {
	buttons := b.buttons(out)
	if out.Plain || out.Kind == bus.ToolHint {
		var blocks []api.Block
		if len(buttons) > 0 {
			blocks = append(sections(api.PlainTextType, out.Text), buttons...)
		}

		words := escaper().Replace(out.Text)
		if len(blocks) > 0 {
			words = shorten(words, most)
		}
		return api.MsgOptionCompose(api.MsgOptionText(words, false), api.MsgOptionDisableMarkdown(), api.MsgOptionBlocks(blocks...))
	}

	tree := markdown.Parse(out.Text)
	words := toMrkdwn(tree)
	var blocks []api.Block
	if s := toMarkdown(tree); rich && s != "" && markdown.UTF16.Length(s) <= maxBlock {
		blocks = []api.Block{api.NewMarkdownBlock("", s)}
	} else if len(buttons) > 0 {
		blocks = sections(api.MarkdownType, words)
	}

	if strings.TrimSpace(words) == "" { // Slack refuses a message without text
		words = escaper().Replace(out.Text)
	}
	if len(blocks) > 0 {
		words = shorten(words, most)
	}
	return api.MsgOptionCompose(api.MsgOptionText(shorten(words, maxWords), false), api.MsgOptionBlocks(append(blocks, buttons...)...))
}

// shorten cuts a text to so many characters. Slack counts units of UTF-16, or fewer.
func shorten(s string, most int) string {
	if markdown.UTF16.Length(s) <= most {
		return s
	}
	return markdown.UTF16.Cut(s, most-1) + "…"
}

// sections returns a text as blocks, for a message that has other blocks as well.
func sections(kind, words string) []api.Block {
	var out []api.Block
	for _, part := range markdown.Split(words, maxSection, markdown.UTF16) {
		out = append(out, api.NewSectionBlock(api.NewTextBlockObject(kind, part, false, false), nil, nil))
	}
	return out
}

// Edit implements chat.Streamer.
func (b *bot) Edit(ctx context.Context, out bus.Outbound, id string, _ bool) error {
	if strings.TrimSpace(out.Text) == "" {
		return nil
	}

	chatID, err := b.web.chat(ctx, out.Route.ChatID)
	if err != nil {
		return err
	}

	err = b.formatted(out, maxChanged, func(content api.MsgOption) error {
		_, err := call(ctx, func(ctx context.Context) (string, error) {
			_, ts, _, err := b.api.UpdateMessageContext(ctx, chatID, id, content)
			return ts, err
		})
		return err
	})
	return b.web.classify(err)
}

// Erase implements chat.Streamer.
func (b *bot) Erase(ctx context.Context, route bus.Route, id string) error {
	chatID, err := b.web.chat(ctx, route.ChatID)
	if err != nil {
		return err
	}

	_, err = call(ctx, func(ctx context.Context) (string, error) {
		_, ts, err := b.api.DeleteMessageContext(ctx, chatID, id)
		return ts, err
	})
	if hasCode(err, "message_not_found") {
		return nil
	}
	return b.web.classify(err)
}

// Signal implements chat.Signaller.
func (b *bot) Signal(ctx context.Context, route bus.Route, phase chat.Phase) error {
	switch phase {
	case chat.Working:
		return b.status(ctx, route, "is working on it...")
	case chat.Seen:
		return b.mark(ctx, route, b.o.ReactEmoji, b.api.AddReactionContext)
	}

	err := b.mark(ctx, route, b.o.ReactEmoji, b.api.RemoveReactionContext)
	if phase == chat.Answered && err == nil {
		err = b.mark(ctx, route, b.o.DoneEmoji, b.api.AddReactionContext)
	}
	if phase != chat.Answered { // an answer takes it away by itself
		_ = b.status(ctx, route, "") // cosmetic
	}
	return err
}

// mark changes a reaction on a message.
func (b *bot) mark(ctx context.Context, route bus.Route, name string, change func(ctx context.Context, name string, item api.ItemRef) error) error {
	if name == "" || route.MessageID == "" || b.noMarks.Load() {
		return nil
	}

	err := change(ctx, name, api.NewRefToMessage(route.ChatID, route.MessageID))
	switch {
	case hasCode(err, "already_reacted", "no_reaction", "message_not_found", "too_many_reactions"):
		return nil
	case hasCode(err, "invalid_name", "missing_scope"):
		b.noMarks.Store(true)
		return fmt.Errorf("reactEmoji and doneEmoji need the scope reactions:write and the names of emoji without colons: %w", err)
	}

	return b.web.classify(err)
}

// status shows in a thread that the bot works. Only apps with the scope
// assistant:write can.
func (b *bot) status(ctx context.Context, route bus.Route, words string) error {
	if route.ThreadID == "" || b.noStatus.Load() {
		return nil
	}

	err := b.api.SetAssistantThreadsStatusContext(ctx, api.AssistantThreadsSetStatusParameters{ChannelID: route.ChatID, ThreadTS: route.ThreadID, Status: words})
	if hasCode(err, "missing_scope", "unknown_method", "not_allowed_token_type", "method_not_supported_for_channel_type", "feature_not_enabled") {
		b.noStatus.Store(true)
		return nil
	}
	if refusal(err) != "" {
		return nil // not a thread of an assistant
	}
	return b.web.classify(err)
}
