package teams

import (
	"context"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

const (
	quoteMost = 4000 // characters of a message that is answered
)

// receiver makes messages for the agent of the activities that come during one
// Run.
type receiver struct {
	bot    *bot
	submit chat.Submit
}

// handle turns an activity into a message. An error means that it is not durable
// yet.
func (rc *receiver) handle(ctx context.Context, a activity) error {
	b := rc.bot
	place, _ := a.place()
	switch {
	case place == "", a.From.ID == "" && a.From.AAD == "":
		return nil // it does not say where it is from
	case a.From.ID != "" && a.From.ID == a.Recipient.ID:
		return nil // the bot wrote it
	case rc.robot(&a):
		return nil
	}

	b.facts.meet(place, a.ServiceURL)
	switch a.Type {
	case "message":
		if tap, ok := readTap(a.Value); ok {
			return rc.tapped(ctx, &a, tap)
		}
		return rc.written(ctx, &a, false)

	case "messageUpdate":
		if !b.o.EditedMessages || a.ChannelData.EventType != "" && a.ChannelData.EventType != "editMessage" {
			return nil
		}
		return rc.written(ctx, &a, true)

	case "invoke":
		return rc.consented(ctx, &a)
	}

	if v := rc.visitor(&a); b.deps.Gate.Knows(ctx, v) { // the bot was installed, or people came
		return b.facts.record(place, a.ServiceURL, v.Direct)
	}
	return nil
}

// robot reports whether another bot wrote: two that answer each other do so all
// night. One whose id is on the list may.
func (rc *receiver) robot(a *activity) bool {
	o := rc.bot.o
	return (a.From.Role == "bot" || strings.HasPrefix(a.From.ID, "28:")) && !slices.Contains(o.AllowFrom, a.From.ID) && !slices.Contains(o.Owners, a.From.ID)
}

func (rc *receiver) visitor(a *activity) access.Visitor {
	place, root := a.place()
	v := access.Visitor{
		Name: text.Speaker(a.From.Name), Direct: a.direct(), At: a.at(),
		Route: bus.Route{Channel: rc.bot.deps.Name, ChatID: place, ThreadID: root, MessageID: a.ID},
	}
	for _, id := range []string{a.From.AAD, a.From.ID} {
		if id != "" {
			v.IDs = append(v.IDs, id)
		}
	}
	return v
}

// written handles what a person wrote. Nothing is fetched before the gate has
// let the sender in.
func (rc *receiver) written(ctx context.Context, a *activity, edited bool) error {
	b := rc.bot
	said := read(a)
	if said.empty() && !edited {
		if b.o.MentionOnlyResponse == "" {
			return nil
		}
		said.text = b.o.MentionOnlyResponse
	}

	v := rc.visitor(a)
	v.Mentioned = said.named || rc.answersUs(a, &said, v.Route)
	if !v.Direct && !edited {
		v.Text = said.overheard()
	}

	pass, ok := b.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}
	if err := b.facts.record(v.Route.ChatID, a.ServiceURL, v.Direct); err != nil {
		return err
	}

	id := rc.id(a)
	if edited {
		id += ".edit" + a.Timestamp
	}

	in := pass.Inbound(id, "")
	rc.place(&in, a)
	in.Untrusted = false // it has only what was typed

	if in.Answer = rc.replied(a, &said, edited); in.Answer != nil {
		in.Text = said.text
		return rc.submit(ctx, in)
	}

	rc.compose(ctx, &in, a, &said, v)
	return pass.Submit(ctx, in, rc.submit)
}

// answersUs reports whether a message answers one of ours. Of quotes that are
// remembered it takes the whole text: Teams cuts it.
func (rc *receiver) answersUs(a *activity, said *said, route bus.Route) bool {
	ours := false
	for i := range said.quotes {
		q := &said.quotes[i]
		if m, known := rc.bot.deps.Quoted(route, q.id); known && !q.forwarded {
			q.text = m.Text
			if m.SenderID == "" {
				q.of, ours = "you", true
			}
		}
		ours = ours || q.of != "" && q.of == a.Recipient.Name
	}

	return ours
}

// id tells a message from all others. The conversation is in it, because ids
// are times.
func (rc *receiver) id(a *activity) string {
	place, _ := a.place()
	return place + "." + a.ID
}

// place completes where a message belongs: every thread is a session.
func (rc *receiver) place(in *bus.Inbound, a *activity) {
	in.WantsStream = rc.bot.o.caps().EditEvery > 0
	if in.Route.ThreadID != "" {
		in.SessionKey = in.Route.SessionKey() + ":thread:" + in.Route.ThreadID
	}
	in.Meta = map[string]string{
		"activity_id": a.ID, "conversation_id": a.Conversation.ID, "conversation_type": a.Conversation.Type, "from_name": a.From.Name,
	}
}

// compose writes the message for the agent: what its sender typed or said, and
// apart from it what they answer, passed on or sent along.
func (rc *receiver) compose(ctx context.Context, in *bus.Inbound, a *activity, said *said, v access.Visitor) {
	files := &files{bot: rc.bot}
	for _, at := range a.Attachments {
		files.add(ctx, at, v.Direct)
	}

	var lines []string
	if said.text != "" {
		lines = append(lines, said.text)
	}

	for _, q := range said.quotes {
		in.Quoted = append(in.Quoted, q.shown())
	}

	if len(files.marks) > 0 {
		in.Quoted = append(in.Quoted, bus.Quote{About: "files", Text: strings.Join(files.marks, "\n")})
	}

	in.Media = files.media
	in.Text = strings.Join(lines, "\n")
	if !v.Direct && !strings.HasPrefix(in.Text, "/") {
		in.Text = strings.TrimSpace(v.Name + ": " + in.Text)
	}
	if in.Text == "" && len(in.Quoted) == 0 {
		in.Text = "[empty message]"
	}
}

// replied returns the answer that a message gives by being a reply to a question of
// ours. Only a short word that was typed counts.
func (rc *receiver) replied(a *activity, said *said, edited bool) *bus.Answer {
	if edited || len(said.files) > 0 || len(said.quotes) > 1 {
		return nil
	}

	place, _ := a.place()
	ids := []string{a.ReplyToID}
	if len(said.quotes) == 1 {
		ids = []string{said.quotes[0].id}
	}

	q, ok := rc.bot.asked.Get(place + "/" + ids[0])
	if !ok || ids[0] == "" {
		return nil
	}

	word := strings.TrimSuffix(said.text, " "+q.Code)
	if _, remark, ok := q.Choose(word); !ok || remark != "" || strings.HasPrefix(word, "/") {
		return nil
	}
	return &bus.Answer{QuestionID: q.ID, Option: word}
}
