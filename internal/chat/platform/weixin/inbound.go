package weixin

import (
	"context"
	"crypto/md5" //nolint:gosec // the protocol marks quotes by it
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	quoteMost = 4000 // characters of a message that is answered
	aboutRef  = "the message that is answered"
)

// receiver makes messages for the agent of what came in during one Run.
type receiver struct {
	bot    *bot
	submit chat.Submit
}

// handle makes one message. An error means that it is not durable yet. Nothing
// is fetched before the gate has let the sender in.
func (rc *receiver) handle(ctx context.Context, a arrival) error {
	b := rc.bot
	var m message
	if err := json.Unmarshal(a.Message, &m); err != nil {
		return nil //nolint:nilerr // it could be read when it was held
	}

	_, account := b.account.name()
	ours := a.Account == account // else its context token is worth nothing
	group := isGroupID(m.From) || m.GroupID != ""
	if ours && !group {
		b.account.met(m.From, m.Context, m.at())
	}

	route := bus.Route{Channel: b.deps.Name, ChatID: m.From, MessageID: m.id()}
	v := access.Visitor{Route: route, IDs: []string{m.From}, Direct: !group, At: b.client.clock.Here(m.at())}
	if group {
		v.Text = m.words()
	}

	pass, ok := b.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}

	if ours {
		b.account.admit(m.From, m.Context, m.at())
	}

	in := pass.Inbound(m.id(), "")
	in.Meta = map[string]string{"message_id": m.id()}
	in.Untrusted = false // it has only what was typed or spoken
	rc.compose(ctx, &m, &in)

	if in.Text == "" && len(in.Quoted) == 0 && len(in.Media) == 0 {
		b.once.Warn(ctx, "empty", "a message has nothing that can be understood and was dropped", "id", m.id())
		return nil
	}
	return pass.Submit(ctx, in, rc.submit)
}

// words returns what a message says in texts.
func (m *message) words() string {
	var out []string
	for _, it := range m.Items {
		if it.Type == itemText && it.Text != nil && it.Text.Text != "" {
			out = append(out, it.Text.Text)
		}
	}
	return strings.Join(out, "\n")
}

// compose fills in what a message says and brings along.
func (rc *receiver) compose(ctx context.Context, m *message, in *bus.Inbound) {
	b := rc.bot
	files := kit.NewFiles(b.deps)
	var lines []string
	var quoted *item // whose file is fetched if the message itself has none
	fetched := false
	for i := range m.Items {
		it := &m.Items[i]
		if it.Type == itemText && it.Text != nil && it.Text.Text != "" {
			lines = append(lines, it.Text.Text)
		}

		if it.Type == itemVoice && it.Voice != nil && strings.TrimSpace(it.Voice.Text) != "" {
			lines = append(lines, "[voice] "+strings.TrimSpace(it.Voice.Text))
			continue
		}

		if r, ok := b.file(it); ok {
			files.Add(ctx, r)
			fetched = true
		} else if r.Kind != "" {
			lines = append(lines, "["+string(r.Kind)+"]")
		} else if it.Type > itemVideo {
			in.Quoted = append(in.Quoted, bus.Quote{About: "sent along", Text: fmt.Sprintf("[item of type %d: cannot be shown]", it.Type)})
		}

		if it.Ref != nil {
			if q := rc.quote(in.Route, it.Ref); q != "" {
				in.Quoted = append(in.Quoted, bus.Quote{About: aboutRef, Text: text.Ellipsis(q, quoteMost)})
			}
			if quoted == nil && it.Ref.Item != nil {
				quoted = it.Ref.Item
			}
		}
	}

	if quoted != nil && !fetched {
		if r, ok := b.file(quoted); ok {
			if r.Kind == kit.VoiceFile {
				r.Kind = kit.AudioFile // the speaker is unknown
			}
			files.Add(ctx, r)
		}
	}

	in.Text = strings.Join(append(lines, files.Spoken...), "\n")
	in.Media = files.Media
	in.Quoted = append(in.Quoted, files.Quotes()...)
}

// quote returns what the message said that another one answers.
func (rc *receiver) quote(route bus.Route, r *refer) string {
	var said []string
	if r.Title != "" {
		said = append(said, r.Title)
	}

	if it := r.Item; it != nil && it.Type == itemText && it.Text != nil && it.Text.Text != "" && it.Text.Text != r.Title {
		said = append(said, it.Text.Text)
	} else if it != nil && it.Type == itemVoice && it.Voice != nil && it.Voice.Text != "" {
		said = append(said, "[voice] "+it.Voice.Text)
	}

	if r.ID == "" || len(said) > 0 || r.Item != nil {
		return strings.Join(said, " | ")
	}

	known, ok := rc.bot.deps.Quoted(route, string(r.ID))
	if !ok {
		if p := r.Partial; p != nil && p.Start != "" {
			return p.Start + " … " + p.End
		}
		return "(a message that is not remembered any more)"
	}

	whole := known.Text
	if r.Partial != nil {
		if piece := r.Partial.of(whole); piece != "" {
			return piece
		}
	}

	said = append(said, whole)
	for _, m := range known.Media {
		said = append(said, fmt.Sprintf("[file: %s]", m.Path))
	}
	return strings.TrimSpace(strings.Join(said, "\n"))
}

// of finds the piece of a text that was chosen: from the n-th occurrence of its
// beginning to the m-th of its end, which some clients count from the beginning
// of the text and others from that of the piece. "" means that it is not there.
func (p *partial) of(whole string) string {
	if p.Start == "" || p.End == "" {
		return ""
	}

	begin := nth(whole, p.Start, p.StartIndex, 0)
	if begin < 0 {
		return ""
	}

	for _, from := range []int{0, begin + len(p.Start)} {
		end := nth(whole, p.End, p.EndIndex, from)
		if end < begin {
			continue
		}

		piece := whole[begin : end+len(p.End)]
		sum := md5.Sum([]byte(piece)) //nolint:gosec // see above
		if p.MD5 == "" || strings.EqualFold(p.MD5, hex.EncodeToString(sum[:])) {
			return piece
		}
	}

	return ""
}

// nth returns where a word occurs after so many others, from some place on.
func nth(s, word string, n, from int) int {
	for ; n >= 0 && from <= len(s); n-- {
		i := strings.Index(s[from:], word)
		if i < 0 {
			return -1
		}
		if n == 0 {
			return from + i
		}
		from += i + len(word)
	}
	return -1
}
