package discord

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

const (
	replyTime   = 3 * time.Second // in which an interaction must be answered
	buttonsMost = 25              // of a message
	rowMost     = 5               // buttons in a row
	labelMost   = 80              // characters of a button

	// askMark begins the id of buttons that answer a question a turn waits on:
	// the mark, the id of the question, a dot, the number of the option.
	askMark = "?"
	// tapMark begins the id that stands for an interaction where a message is
	// expected.
	tapMark = "i"
)

// The answers to an interaction.
const (
	replyMessage  = 4
	replyDeferred = 6 // of a button: nothing is shown
)

// used accepts a command or a button: it is held, then answered in time, beside
// the reader.
func (rc *receiver) used(ctx context.Context, i *interaction) {
	who := i.User
	if i.Member != nil && i.Member.User != nil {
		who = i.Member.User
	}

	if who == nil || i.ID == "" || i.Type != interactionCommand && i.Type != interactionButton || rc.bot.me.Load() == nil {
		return
	}

	i.User = who
	token := i.Token
	i.Token = "" // it is of no use later

	if i.Context != nil && *i.Context == contextPrivate {
		rc.side.Go(func() {
			rc.reply(ctx, i, token, phrase.In(rc.language(i), "I only work in servers and in direct chats with me."))
		})
		return
	}

	v := rc.visitor(bus.Route{Channel: rc.bot.deps.Name, ChatID: i.ChannelID}, i.GuildID, who, i.Member.nick())
	v.Mentioned, v.Language = true, i.Locale
	if !rc.admits(ctx, v) {
		rc.side.Go(func() {
			rc.reply(ctx, i, token, phrase.In(rc.language(i), "You are not allowed to use this bot."))
			if v.Direct {
				rc.bot.deps.Gate.Admit(ctx, v) // which sends a code, if it can
			}
		})
		return
	}

	if err := rc.in.Hold(ctx, i.ChannelID, "i"+i.ID, event{Interaction: i}); err != nil {
		rc.trouble.Warn(ctx, "cannot hold an interaction", "a command cannot be held", "err", err)
		rc.side.Go(func() {
			rc.reply(ctx, i, token, phrase.In(rc.language(i), "I have too much to do right now. Please try again in a minute."))
		})
		return
	}

	rc.side.Go(func() {
		if i.Type == interactionButton {
			rc.reply(ctx, i, token, "")
			return
		}
		rc.reply(ctx, i, token, phrase.In(rc.language(i), "Working on /%s.", i.Data.Name))
	})
}

// language returns the one of the person who used a command or a button.
func (rc *receiver) language(i *interaction) string {
	return cmp.Or(string(rc.bot.o.Language), phrase.Language(i.Locale))
}

// admits asks the gate without any effect. A thread is judged by its channel.
func (rc *receiver) admits(ctx context.Context, v access.Visitor) bool {
	if c, ok := rc.bot.places.known.Get(v.Route.ChatID); ok {
		v.Route = rc.bot.routeIn(c)
	}
	return (v.Direct || rc.bot.o.answersIn(v.Route)) && rc.bot.deps.Gate.Knows(ctx, v)
}

// reply answers an interaction: with words that only this person sees, or with
// nothing.
func (rc *receiver) reply(ctx context.Context, i *interaction, token, words string) {
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	body := map[string]any{"type": replyDeferred}
	if words != "" {
		body = map[string]any{"type": replyMessage, "data": map[string]any{"content": words, "flags": flagSecret, "allowed_mentions": noMentions()}}
	}

	err := rc.bot.calls.do(ctx, call{method: http.MethodPost, path: "/interactions/" + i.ID + "/" + token + "/callback", body: body}, nil)
	if err != nil {
		rc.bot.deps.Log.DebugContext(ctx, "answer an interaction", "err", err)
	}
}

// admit lets a person in who used a command or a button.
func (rc *receiver) admit(ctx context.Context, i *interaction) (pass access.Pass, v access.Visitor, ok bool, err error) {
	route, err := rc.bot.route(ctx, i.GuildID, i.ChannelID)
	if err != nil {
		return pass, v, false, err
	}
	route.MessageID = tapMark + i.ID
	v = rc.visitor(route, i.GuildID, i.User, i.Member.nick())
	v.Mentioned, v.Language = true, i.Locale
	pass, ok = rc.bot.deps.Gate.Admit(ctx, v)
	return pass, v, ok, nil
}

func interactionMeta(i *interaction) map[string]string {
	out := map[string]string{"interaction_id": i.ID}
	if i.GuildID != "" {
		out["guild_id"] = i.GuildID
	}
	return out
}

// commanded makes of a slash command the text that a person would have typed.
func (rc *receiver) commanded(ctx context.Context, i *interaction) error {
	pass, v, ok, err := rc.admit(ctx, i)
	if err != nil || !ok {
		return err
	}

	words := []string{"/" + rc.bot.commandName(i.Data.Name)}
	for _, o := range i.Data.Options {
		if s := o.text(); s != "" {
			words = append(words, s)
		}
	}

	in := pass.Inbound("cmd."+i.ID, strings.Join(words, " "))
	in.Untrusted = false
	in.Meta = interactionMeta(i)
	rc.place(&in)
	in.Meta["is_slash_command"] = "true"
	if v.Direct {
		rc.read.direct(ctx, i.ChannelID, i.ID)
	}
	return rc.submit(ctx, in)
}

// tapped makes of a button a message with the label as its text.
func (rc *receiver) tapped(ctx context.Context, i *interaction) error {
	pass, v, ok, err := rc.admit(ctx, i)
	if err != nil || !ok {
		return err
	}

	btn, there := i.button()
	if !there || !rc.ours(i.Message) {
		rc.bot.deps.Log.WarnContext(ctx, "a button that the message does not have is ignored", "sender", i.User.ID)
		return nil
	}

	in := pass.Inbound("tap."+i.ID, btn.Label)
	// The model wrote the label, perhaps after it had read a stranger's words.
	in.Untrusted = !rc.bot.clean.Has(i.Message.ID)
	if id := btn.question(); id != "" {
		in.Answer = &bus.Answer{QuestionID: id, Option: btn.Label}
		in.Untrusted = false // the program wrote it
	}

	in.Meta = interactionMeta(i)
	rc.place(&in)
	in.Meta["button_label"] = btn.Label
	if err := rc.submit(ctx, in); err != nil {
		return err
	}
	if in.Answer != nil && !v.Direct {
		return nil // whether the right person tapped, only the agent knows
	}

	gone := call{method: http.MethodPatch, path: "/channels/" + i.ChannelID + "/messages/" + i.Message.ID, body: map[string]any{"components": []component{}}, patience: 5 * time.Second}
	if err := rc.bot.calls.do(ctx, gone, nil); err != nil {
		rc.bot.deps.Log.DebugContext(ctx, "remove buttons", "err", err)
	}
	return nil
}

// button returns the one that an interaction names, if its message has such a one.
func (i *interaction) button() (component, bool) {
	if i.Message == nil {
		return component{}, false
	}

	for _, row := range i.Message.Components {
		for _, c := range row.Components {
			if c.Type == componentButton && c.CustomID == i.Data.CustomID && c.CustomID != "" {
				return c, true
			}
		}
	}

	return component{}, false
}

// question returns the id of the question that a button answers, "" if it answers
// none.
func (c component) question() string {
	data, ok := strings.CutPrefix(c.CustomID, askMark)
	if !ok {
		return ""
	}
	if i := strings.LastIndexByte(data, '.'); i > 0 {
		return data[:i]
	}
	return ""
}

// buttons returns the answers to a question, five in a row. If one does not fit on a
// button, the buttons have numbers and the text lists the answers.
func buttons(out bus.Outbound) (rows []component, list string) {
	q := out.Question
	if q == nil || len(q.Options) == 0 {
		return nil, ""
	}

	long := slices.ContainsFunc(q.Options, func(s string) bool { return markdown.UTF16.Length(s) > labelMost || strings.TrimSpace(s) == "" })
	for i, label := range q.Options[:min(len(q.Options), buttonsMost)] {
		if long {
			list += "\n" + strconv.Itoa(i+1) + ". " + label
			label = strconv.Itoa(i + 1)
		}

		id := "#" + strconv.Itoa(i)
		if out.Kind == bus.Ask {
			id = askMark + q.ID + "." + strconv.Itoa(i)
		}
		if i%rowMost == 0 {
			rows = append(rows, component{Type: componentRow})
		}

		row := &rows[len(rows)-1]
		row.Components = append(row.Components, component{Type: componentButton, Style: styleSecondary, Label: label, CustomID: id})
	}

	return rows, list
}

// replied returns the answer that a message gives by being a reply to a question.
// Only a short word that was typed counts, and only in a message without
// anything else.
func (rc *receiver) replied(m *message, edited bool) *bus.Answer {
	asked := m.Referenced
	if edited || !rc.answersUs(m) || m.Author.Bot || len(m.Snapshots)+len(m.Attachments)+len(m.notes()) > 0 {
		return nil
	}

	q := asked.question()
	word := strings.TrimSuffix(rc.words(m), " "+q.Code)
	if _, remark, ok := q.Choose(word); q.ID == "" || !ok || remark != "" || strings.HasPrefix(word, "/") {
		return nil
	}
	return &bus.Answer{QuestionID: q.ID, Option: word}
}

// question returns what a message of ours asks, as far as it shows: by its buttons
// or by its last line.
func (m *message) question() (q bus.Question) {
	for _, row := range m.Components {
		for _, c := range row.Components {
			if id := c.question(); id != "" {
				q.ID = id
				q.Options = append(q.Options, c.Label)
			}
		}
	}

	if q.ID != "" {
		return q
	}
	if q, ok := chat.AskedIn(unescape(m.Content)); ok {
		q.ID = q.Code
		return q
	}
	return q
}
