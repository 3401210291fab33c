package whatsapp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	quoteMost = 4000 // characters of a message that is answered
	voiceText = "[Voice Message]"
)

// receiver makes messages for the agent of the frames of one Run.
type receiver struct {
	bot    *bot
	submit chat.Submit
}

// handle makes one message of a frame. An error means that it is not durable
// yet. Nothing is fetched before the gate has let the sender in.
func (rc *receiver) handle(ctx context.Context, f frame) error {
	b := rc.bot
	who := f.person()
	b.facts.complete(&who)
	v := rc.visitor(&f, who)
	pass, ok := b.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}

	chatID := ""
	if v.Direct {
		chatID = v.Route.ChatID
	}

	if err := b.facts.meet(who, chatID); err != nil {
		return err
	}

	id := f.ID
	if f.Edited {
		id += ".edit" + string(f.Timestamp)
	}

	in := pass.Inbound(v.Route.ChatID+"/"+id, "")
	in.Meta = f.meta(who, v)
	in.Text, in.Quoted, in.Media = rc.compose(ctx, &f, v)
	in.Untrusted = false // it has only what was typed
	b.words.Put(v.Route.MessageID, f.Content)
	in.Answer = rc.replied(&f)
	return pass.Submit(ctx, in, rc.submit)
}

// person returns who wrote. Older bridges do not tell that of a group.
func (f *frame) person() person {
	var p person
	for _, jid := range []string{f.Participant, f.ParticipantAlt} {
		p.add(jid)
	}
	if !f.IsGroup {
		p.add(f.PN)
		p.add(f.Sender)
	}
	return p
}

func (rc *receiver) visitor(f *frame, who person) access.Visitor {
	b := rc.bot
	v := access.Visitor{
		IDs: who.ids(), Names: who.loose(), Name: text.Speaker(f.Name), Direct: !f.IsGroup,
		Mentioned: f.WasMentioned || strings.HasPrefix(f.Content, "/") || f.ReplyTo != nil && f.ReplyTo.Ours,
		Route:     bus.Route{Channel: b.deps.Name, ChatID: f.Sender, MessageID: f.ID},
		Owner:     f.Self, // only the account itself writes there
	}
	if user, server := parseJID(f.Sender); server != groupServer {
		v.Route.ChatID = b.facts.chat(who, user+"@"+server)
	}
	if f.Participant != "" {
		v.Route.MessageID += "/" + f.Participant
	}
	if f.IsGroup && len(v.IDs) == 0 { // it is all that is known
		v.IDs = []string{f.Sender}
	}
	if s := f.seconds(); s > 0 {
		v.At = time.Unix(s, 0)
	}
	if !v.Direct {
		v.Text = strings.Join(append([]string{f.Content}, f.kinds()...), " ")
	}
	return v
}

// kinds returns what files are in a message, in words.
func (f *frame) kinds() []string {
	var out []string
	for _, a := range f.Files {
		out = append(out, "["+string(a.kind())+"]")
	}
	return out
}

func (f *frame) meta(who person, v access.Visitor) map[string]string {
	out := map[string]string{
		"message_id": f.ID, "timestamp": strconv.FormatInt(f.seconds(), 10), "is_group": strconv.FormatBool(!v.Direct),
		"is_forwarded": strconv.FormatBool(f.Forwarded), "is_reply_to_bot": strconv.FormatBool(f.ReplyTo != nil && f.ReplyTo.Ours),
	}
	for k, s := range map[string]string{"participant": f.Participant, "sender_alt": f.ParticipantAlt, "lid": who.lid, "phone": who.phone} {
		if s != "" {
			out[k] = s
		}
	}
	return out
}

// compose writes the message for the agent: what its sender typed or said, and
// apart from it what they passed on, answer or sent along.
func (rc *receiver) compose(ctx context.Context, f *frame, v access.Visitor) (string, []bus.Quote, []bus.Media) {
	files := rc.fetch(ctx, f)
	quotes := answered(f.ReplyTo)
	words := strings.TrimSpace(text.Valid(f.Content))
	if words == voiceText && len(f.Files) == 0 { // an older bridge: the words are its own
		words = ""
		if len(f.Media) == 0 {
			quotes = append(quotes, bus.Quote{About: "files", Text: "[attachment: voice message - not available]"})
		}
	}

	if f.Forwarded && words != "" {
		quotes = append(quotes, bus.Quote{About: "forwarded", Text: words})
		words = ""
	}
	if len(f.Notes) > 0 {
		quotes = append(quotes, bus.Quote{About: "sent along", Text: text.Valid(strings.Join(f.Notes, "\n"))})
	}

	if f.Forwarded { // the speaker is unknown
		for _, s := range files.Spoken {
			quotes = append(quotes, bus.Quote{About: "forwarded", Text: s})
		}
		files.Spoken = nil
	}

	quotes = append(quotes, files.Quotes()...)

	var lines []string
	if !text.Blank(words) {
		lines = append(lines, words)
	}

	lines = append(lines, files.Spoken...)
	if len(lines)+len(quotes) == 0 {
		lines = []string{"[empty message]"}
	}

	words = strings.Join(lines, "\n")
	if !v.Direct && v.Name != "" && !strings.HasPrefix(words, "/") {
		words = strings.TrimSpace(v.Name + ": " + words)
	}
	return words, quotes, files.Media
}

// answered quotes the message that is answered, whoever wrote it: our own may
// repeat what a stranger said.
func answered(r *reply) []bus.Quote {
	if r == nil {
		return nil
	}

	to := "a message"
	if user, _ := parseJID(r.Participant); r.Ours {
		to = "you"
	} else if user != "" {
		to = text.Speaker(user)
	}

	said := strings.TrimSpace(text.Ellipsis(text.Valid(r.Text), quoteMost))
	if said != "" {
		said = ": " + said
	}
	return []bus.Quote{{About: "what this answers", Text: fmt.Sprintf("[answers %s%s]", to, said)}}
}

// replied returns the answer that a message gives by being a reply to a question.
// Only a short word that was typed counts.
func (rc *receiver) replied(f *frame) *bus.Answer {
	r := f.ReplyTo
	if r == nil || !r.Ours || f.Edited || f.Forwarded || len(f.Files)+len(f.Media)+len(f.Notes) > 0 {
		return nil
	}

	q, ok := chat.AskedIn(r.Text)
	if !ok {
		return nil
	}

	word := strings.TrimSuffix(strings.TrimSpace(f.Content), " "+q.Code)
	if _, remark, ok := q.Choose(word); !ok || remark != "" || strings.HasPrefix(word, "/") {
		return nil
	}
	return &bus.Answer{QuestionID: q.Code, Option: word}
}

// kind returns what a chat shows a file as.
func (a file) kind() kit.FileKind {
	switch a.Kind {
	case "image", "sticker":
		return kit.ImageFile
	case "video":
		return kit.VideoFile
	case "audio":
		return kit.AudioFile
	case "voice":
		return kit.VoiceFile
	}
	return kit.OtherFile
}

func (rc *receiver) fetch(ctx context.Context, f *frame) *kit.Files {
	files := kit.NewFiles(rc.bot.deps)
	for _, a := range f.Files {
		files.Add(ctx, kit.Received{
			Kind: a.kind(), Name: a.Name, Size: a.Size,
			Open: func(ctx context.Context) (io.ReadCloser, error) { return rc.bot.download(ctx, a) },
		})
	}

	for _, path := range f.Media {
		kind := kit.OtherFile
		switch strings.ToLower(filepath.Ext(path)) {
		case ".jpeg", ".jpg", ".png", ".webp", ".gif":
			kind = kit.ImageFile
		case ".mp4":
			kind = kit.VideoFile
		case ".ogg", ".oga", ".opus", ".m4a", ".mp3":
			kind = kit.AudioFile
			if f.Content == voiceText {
				kind = kit.VoiceFile
			}
		}

		files.Add(ctx, kit.Received{
			Kind: kind, Name: filepath.Base(path),
			Open: func(context.Context) (io.ReadCloser, error) { return openFile(path, false) },
		})
	}

	return files
}

// download asks the other side to fetch a file.
func (b *bot) download(ctx context.Context, a file) (io.ReadCloser, error) {
	got, err := b.request(ctx, frame{Type: typeDownload, Ref: a.Ref})
	if err != nil {
		return nil, err
	}
	return openFile(got.Path, true)
}

// openFile opens a file that the other side wrote for us. One that was made for
// this purpose is removed.
func openFile(path string, remove bool) (io.ReadCloser, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return nil, errors.New("the bridge names a file that is not a clean path")
	}
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("the file of the bridge is not there")
	}

	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if !remove {
		return f, nil
	}
	return &received{Reader: f, file: f}, nil
}

// received is a file that is gone after it was read.
type received struct {
	io.Reader
	file *os.File
}

// Close implements io.Closer.
func (r *received) Close() error { return errors.Join(r.file.Close(), os.Remove(r.file.Name())) }
