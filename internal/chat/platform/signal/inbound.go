package signal

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	quoteMost = 4000 // characters of a message that is answered
)

// receiver makes messages for the agent of the events of one Run.
type receiver struct {
	bot    *bot
	submit chat.Submit
}

// letter is a message on its way to the agent.
type letter struct {
	*dataMessage
	ids    []string // of the sender
	name   string
	edited bool
	words  string // what was typed, without our own name
}

// messageID tells a message from all others: a person writes one at a time.
func messageID(ids []string, m *dataMessage, edited bool) string {
	id := ids[0]
	if i := slices.IndexFunc(ids, isUUID); i >= 0 {
		id = ids[i]
	}
	id += "." + strconv.FormatInt(m.Timestamp, 10)
	if edited {
		id += ".edit"
	}
	return id
}

// handle makes one message of an event. An error means that it is not durable
// yet. Nothing is fetched before the gate has let the sender in.
func (rc *receiver) handle(ctx context.Context, ev event) error {
	m, edited := ev.Envelope.message()
	l := &letter{dataMessage: m, ids: ev.Envelope.senders(), edited: edited}
	l.name = text.Speaker(ev.Envelope.SourceName)
	v := rc.visitor(l)
	if v.Direct && !rc.bot.o.DM.Enabled {
		return nil
	}

	pass, ok := rc.bot.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}

	if v.Direct {
		if err := rc.bot.facts.meet(l.ids, v.Route.ChatID); err != nil {
			return err
		}
	}

	in := pass.Inbound(messageID(l.ids, m, edited), "")
	in.Meta = rc.meta(l, v)
	in.Text, in.Quoted, in.Media = rc.compose(ctx, l, v)
	in.Untrusted = false // it has only what was typed
	if in.Answer = rc.replied(l); in.Answer != nil {
		return rc.submit(ctx, in)
	}

	command := strings.HasPrefix(in.Text, "/")
	vanishes := m.ExpiresInSeconds > 0 && !rc.bot.o.KeepDisappearing && !command
	if vanishes {
		rc.bot.vanish.prepare(&in, m.ExpiresInSeconds)
	}
	return pass.Submit(ctx, in, func(ctx context.Context, in bus.Inbound) error {
		if err := rc.submit(ctx, in); err != nil {
			return err
		}
		if vanishes {
			rc.bot.vanish.heard(in)
		}
		return nil
	})
}

func (rc *receiver) visitor(l *letter) access.Visitor {
	b := rc.bot
	words, mentioned := rc.withoutUs(l.dataMessage)
	l.words = words
	v := access.Visitor{IDs: l.ids, Name: l.name, Direct: l.group() == "", Route: bus.Route{Channel: b.deps.Name}}
	author := b.facts.chat(l.ids)
	v.Route.MessageID = strconv.FormatInt(l.Timestamp, 10) + "/" + author
	if l.Timestamp > 0 {
		v.At = time.UnixMilli(l.Timestamp)
	}

	if v.Direct {
		v.Route.ChatID = author
		v.Owner = len(b.o.Owners) == 0 && b.dm.has(l.ids)
		return v
	}

	v.Route.ChatID = l.group()
	v.Mentioned = mentioned || strings.HasPrefix(words, "/") || l.Quote != nil && b.facts.us(l.Quote.authors()...)
	said := []string{words}
	for _, a := range l.Attachments {
		said = append(said, "["+string(a.kind())+"]")
	}

	v.Name, v.Text = rc.who(l), strings.Join(said, " ")
	return v
}

// who returns the name of the sender for others.
func (rc *receiver) who(l *letter) string {
	if l.name != "" {
		return l.name
	}
	return text.Speaker(l.ids[0])
}

func (rc *receiver) speaker(l *letter, words string) string { return rc.who(l) + ": " + words }

func (rc *receiver) meta(l *letter, v access.Visitor) map[string]string {
	out := map[string]string{
		"timestamp": strconv.FormatInt(l.Timestamp, 10), "sender_name": l.name, "sender_number": rc.bot.facts.chat(l.ids),
		"is_group": strconv.FormatBool(!v.Direct),
	}
	if !v.Direct {
		out["group_id"] = v.Route.ChatID
	}
	return out
}

// placeholder stands for a mention in a text.
const placeholder = '\uFFFC'

// withoutUs returns the text of a message with the names of others for their
// mentions and without our own; it reports whether we are mentioned.
func (rc *receiver) withoutUs(m *dataMessage) (words string, mentioned bool) {
	words = m.Message
	list := slices.Clone(m.Mentions)
	sort.Slice(list, func(i, j int) bool { return list[i].Start > list[j].Start }) // from the end

	for _, n := range list {
		from, to, ok := span(words, n.Start, n.Length)
		if !ok {
			continue
		}

		name := "@" + text.Speaker(n.Name)
		if ids := n.ids(); rc.bot.facts.us(ids...) || len(ids) == 0 && strings.TrimSpace(words[:from]) == "" {
			name, mentioned = "", true // some clients leave out whom they mean at the beginning
		} else if n.Name == "" && len(ids) > 0 {
			name = "@" + text.Speaker(ids[0])
		}

		words = words[:from] + name + words[to:]
	}

	words = strings.TrimSpace(words)
	if rest, ok := leadingMark(words); ok && len(m.Mentions) == 0 {
		words, mentioned = rest, true
	}

	number := rc.bot.o.PhoneNumber
	return text.Valid(words), mentioned || strings.Contains(words, strings.TrimPrefix(number, "+"))
}

// leadingMark cuts off the sign of a mention that nothing else tells of.
func leadingMark(s string) (string, bool) {
	for _, mark := range []string{string(placeholder), "\uFFFD", "\x1b"} {
		if rest, ok := strings.CutPrefix(s, mark); ok && (rest == "" || strings.TrimSpace(rest[:1]) == "") {
			return strings.TrimSpace(rest), true
		}
	}
	return s, false
}

// span returns where UTF-16 units stand in a text, in bytes.
func span(s string, start, length int) (from, to int, ok bool) {
	if start < 0 || length <= 0 {
		return 0, 0, false
	}

	from, to = -1, -1
	n := 0
	for i, r := range s {
		if n == start {
			from = i
		}
		if n == start+length {
			to = i
		}
		n += utf16.RuneLen(r)
	}

	if n == start+length {
		to = len(s)
	}
	return from, to, from >= 0 && to > from
}

// compose writes the message for the agent: what its sender typed or said, and
// apart from it what they answer or sent along.
func (rc *receiver) compose(ctx context.Context, l *letter, v access.Visitor) (string, []bus.Quote, []bus.Media) {
	files := kit.NewFiles(rc.bot.deps)
	for _, a := range l.Attachments {
		files.Add(ctx, kit.Received{
			Kind: a.kind(), Name: a.name(), Size: a.Size,
			Open: func(ctx context.Context) (io.ReadCloser, error) { return rc.bot.open(ctx, a, l) },
		})
	}

	quotes := rc.answered(l.Quote)
	if notes := l.notes(); len(notes) > 0 {
		quotes = append(quotes, bus.Quote{About: "sent along", Text: text.Valid(strings.Join(notes, "\n"))})
	}

	quotes = append(quotes, files.Quotes()...)

	var lines []string
	if !text.Blank(l.words) {
		lines = append(lines, l.words)
	}

	lines = append(lines, files.Spoken...)
	if len(lines)+len(quotes) == 0 { // only our name: a person waits for an answer
		lines = []string{"[empty message]"}
	}

	words := strings.Join(lines, "\n")
	if !v.Direct && !strings.HasPrefix(words, "/") {
		words = strings.TrimSpace(rc.speaker(l, words))
	}
	return words, quotes, files.Media
}

// answered quotes the message that is answered, whoever wrote it: our own may
// repeat what a stranger said.
func (rc *receiver) answered(q *quote) []bus.Quote {
	if q == nil {
		return nil
	}

	to := "a message"
	switch authors := q.authors(); {
	case rc.bot.facts.us(authors...):
		to = "you"
	case len(authors) > 0:
		to = text.Speaker(authors[0])
	}

	said := []string{strings.TrimSpace(text.Ellipsis(text.Valid(q.Text), quoteMost))}
	for _, a := range q.Attachments {
		said = append(said, "["+string(a.kind())+"]")
	}
	return []bus.Quote{{About: "what this answers", Text: fmt.Sprintf("[answers %s: %s]", to, strings.TrimSpace(strings.Join(said, " ")))}}
}

// replied returns the answer that a message gives by being a reply to a question.
// Only a short word that was typed counts.
func (rc *receiver) replied(l *letter) *bus.Answer {
	if l.Quote == nil || l.edited || !rc.bot.facts.us(l.Quote.authors()...) || len(l.Attachments) > 0 || len(l.notes()) > 0 {
		return nil
	}

	q, ok := chat.AskedIn(l.Quote.Text)
	if !ok {
		return nil
	}

	word := strings.TrimSuffix(l.words, " "+q.Code)
	if _, remark, ok := q.Choose(word); !ok || remark != "" || strings.HasPrefix(word, "/") {
		return nil
	}
	return &bus.Answer{QuestionID: q.Code, Option: word}
}

// kind returns what a chat shows a file as. Voice messages are sounds without a name.
func (a attachment) kind() kit.FileKind {
	kind, _, _ := strings.Cut(a.ContentType, "/")
	switch kind {
	case "image":
		return kit.ImageFile
	case "video":
		return kit.VideoFile
	case "audio":
		if a.Filename == "" {
			return kit.VoiceFile
		}
		return kit.AudioFile
	}

	return kit.OtherFile
}

func (a attachment) name() string {
	if a.Filename != "" {
		return a.Filename
	}
	return a.ID
}

// open reads a file where signal-cli stored it, or asks for it.
func (b *bot) open(ctx context.Context, a attachment, l *letter) (io.ReadCloser, error) {
	if f := b.stored(a.ID); f != nil {
		return f, nil
	}

	params := map[string]any{"id": a.ID}
	if g := l.group(); g != "" {
		params["groupId"] = g
	} else {
		params["recipient"] = l.ids[0]
	}

	var got struct {
		Data string `json:"data"`
	}
	if err := b.rpc.callMost(ctx, "getAttachment", params, &got, b.deps.Media.Max/3*4+4096); err != nil {
		return nil, err
	}
	return io.NopCloser(base64.NewDecoder(base64.StdEncoding, bytes.NewReader([]byte(got.Data)))), nil
}

// stored opens a file in the folder of signal-cli, nil if it is not there.
// Links do not lead out of it.
func (b *bot) stored(id string) io.ReadCloser {
	if b.dir == "" || id == "" || strings.ContainsAny(id, `/\`) {
		return nil
	}

	root, err := os.OpenRoot(b.dir)
	if err != nil {
		return nil
	}

	defer root.Close() //nolint:errcheck // read only
	if info, err := root.Lstat(id); err != nil || !info.Mode().IsRegular() {
		return nil
	}

	f, err := root.Open(id)
	if err != nil {
		return nil
	}
	return f
}
