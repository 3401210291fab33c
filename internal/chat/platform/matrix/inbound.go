package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

const quoteMost = 4000 // characters of a message that is answered

// content is that of a message.
type content struct {
	Type     string          `json:"msgtype"`
	Body     string          `json:"body"`
	HTML     string          `json:"formatted_body"`
	Filename string          `json:"filename"`
	URL      string          `json:"url"`
	File     *lockedFile     `json:"file"`
	Geo      string          `json:"geo_uri"`
	Voice    json.RawMessage `json:"org.matrix.msc3245.voice"`
	Info     struct {
		MIME string `json:"mimetype"`
		Size int64  `json:"size"`
	} `json:"info"`
	Mentions *struct {
		Users []string `json:"user_ids"`
		Room  bool     `json:"room"`
	} `json:"m.mentions"`
	Relates relation        `json:"m.relates_to"`
	New     json.RawMessage `json:"m.new_content"`
}

// relation is how a message belongs to another one.
type relation struct {
	Type    string    `json:"rel_type,omitempty"`
	Event   string    `json:"event_id,omitempty"`
	Answers *answered `json:"m.in_reply_to,omitempty"`
	Falling bool      `json:"is_falling_back,omitempty"`
}

type answered struct {
	Event string `json:"event_id"`
}

const (
	relThread  = "m.thread"
	relReplace = "m.replace"
)

// thread returns the root of the thread that a message belongs to.
func (c *content) thread() string {
	if c.Relates.Type == relThread {
		return c.Relates.Event
	}
	return ""
}

// answers returns the message that this one replies to. In a thread clients name
// the last one as well, for those that know no threads.
func (c *content) answers() string {
	if c.Relates.Answers == nil || c.Relates.Type == relThread && c.Relates.Falling {
		return ""
	}
	return c.Relates.Answers.Event
}

// receiver makes messages for the agent of the events that come during one Run.
type receiver struct {
	bot    *bot
	submit chat.Submit
}

// handle turns an event into a message. An error means that it is not durable
// yet.
func (rc *receiver) handle(ctx context.Context, e event) error {
	r, err := rc.bot.rooms.get(ctx, e.Room)
	if err != nil {
		if chat.IsPermanent(classify(err)) { // we are not in the room any more
			rc.bot.deps.Log.DebugContext(ctx, "a message of a room that cannot be read is passed over", "room", e.Room, "err", err)
			return nil
		}
		return err
	}

	if e.Type == "m.room.encrypted" {
		var ok bool
		if e, ok = rc.open(ctx, e, r); !ok {
			return nil
		}
	} else {
		e.weak = r.encrypted != nil
	}

	if e.Type != "m.room.message" && e.Type != "m.sticker" {
		return nil
	}

	var c content
	if err := json.Unmarshal(e.Content, &c); err != nil {
		if rc.bot.once("content:" + e.Sender) {
			rc.bot.deps.Log.WarnContext(ctx, "a message is malformed and passed over; others of this person are not told again", "room", e.Room, "sender", e.Sender, "err", err)
		}
		return nil
	}

	if c.Type == verifyRequest {
		rc.bot.decline(ctx, e, rc.visitor(e, r, &c))
		return nil
	}

	if c.Relates.Type == relReplace {
		// An edit counts where the message itself did not: perhaps it names us now.
		target := c.Relates.Event
		if !rc.bot.ignored.Has(target) || len(c.New) == 0 || json.Unmarshal(c.New, &c) != nil {
			return nil //nolint:nilerr // nothing comes of it
		}
		e.ID = target
	}

	if e.Type == "m.sticker" {
		c.Type = "m.image"
	}

	if c.Type == "" || c.Type == "m.notice" { // redacted; or written by another bot
		return nil
	}
	return rc.written(ctx, e, r, &c)
}

// open decrypts an event. What cannot be read is told once per room, to people
// who may be here, and comes again if its keys do.
func (rc *receiver) open(ctx context.Context, e event, r *room) (event, bool) {
	c, err := rc.bot.keys()
	v := rc.visitor(e, r, &content{})
	if err != nil {
		if rc.bot.deps.Gate.Knows(ctx, v) && rc.bot.once("locked:"+e.Room) {
			rc.bot.deps.Log.WarnContext(ctx, "a message is encrypted and cannot be read", "room", e.Room, "sender", e.Sender, "err", err)
		}
		return e, false
	}

	got, err := c.decrypt(ctx, e)
	if errors.Is(err, errNoKeys) && rc.bot.deps.Gate.Knows(ctx, v) && c.await(ctx, e) {
		got, err = c.decrypt(ctx, e)
	}

	if err == nil {
		return got, true
	}

	if errors.Is(err, errNoKeys) {
		rc.bot.vault.park(e)
	}

	if !rc.bot.deps.Gate.Knows(ctx, v) || !rc.bot.once("keys:"+e.Room) {
		return e, false
	}

	rc.bot.deps.Log.WarnContext(ctx, "a message cannot be decrypted; others of this room are not told again", "room", e.Room, "sender", e.Sender, "err", err)
	rc.bot.sendNotice(ctx, v.Route, phrase.In(string(rc.bot.o.Language), "I cannot decrypt a message in this room: its key has not reached me. I have asked for the key and will answer when it arrives. If I stay silent, please send the message again."))
	return e, false
}

func (rc *receiver) visitor(e event, r *room, c *content) access.Visitor {
	v := access.Visitor{
		Route: bus.Route{Channel: rc.bot.deps.Name, ChatID: e.Room, ThreadID: c.thread(), MessageID: e.ID},
		IDs:   []string{e.Sender}, Name: r.name(e.Sender), Direct: r.direct(), At: e.time(),
	}
	if now := rc.bot.deps.Now(); v.At.After(now) { // its server says when it was written
		v.At = now
	}
	v.Backlog = !v.At.IsZero() && v.At.Before(rc.bot.began)
	return v
}

// written handles what a person wrote. Nothing is fetched before the gate has
// let the sender in.
func (rc *receiver) written(ctx context.Context, e event, r *room, c *content) error {
	words, named := rc.words(c, r)
	v := rc.visitor(e, r, c)
	v.Mentioned = named
	if !v.Direct {
		v.Text = strings.TrimSpace(words + " " + c.mark())
	}

	pass, ok := rc.bot.deps.Gate.Admit(ctx, v)
	if !ok {
		if pass.Verdict() == access.NotForUs {
			rc.bot.ignored.Put(e.ID, true)
		}
		return nil
	}

	rc.bot.ignored.Delete(e.ID)

	in := pass.Inbound(e.ID, "")
	in.WantsStream = rc.bot.o.caps().EditEvery > 0
	if t := v.Route.ThreadID; t != "" {
		in.SessionKey = in.Route.SessionKey() + ":thread:" + t
	}

	in.Meta = rc.meta(e, c)
	asked, quotes := rc.quoted(ctx, e, r, c)
	files := rc.fetch(ctx, e, c)
	in.Quoted, in.Media = append(quotes, files.quotes...), files.media
	in.Text = rc.compose(words, files.spoken, v, len(in.Quoted) > 0)
	// Whoever has power over the homeserver could have written what is not
	// encrypted, or encrypted with keys of a backup.
	in.Untrusted = e.weak
	in.Answer = answerTo(asked, words, c)
	return pass.Submit(ctx, in, rc.submit)
}

// meta keeps the names that the Python nanobot used.
func (rc *receiver) meta(e event, c *content) map[string]string {
	out := map[string]string{"room": e.Room, "event_id": e.ID}
	if t := c.thread(); t != "" {
		out["thread_root_event_id"], out["thread_reply_to_event_id"] = t, e.ID
	}
	return out
}

// compose writes the message for the agent: what its sender typed or said.
func (rc *receiver) compose(words string, spoken []string, v access.Visitor, more bool) string {
	words = rc.command(words)
	lines := spoken
	if words != "" {
		lines = append([]string{words}, spoken...)
	}
	if len(lines) == 0 && !more { // only our name: the person waits for an answer
		lines = []string{"[empty message]"}
	}

	s := strings.Join(lines, "\n")
	if !v.Direct && !strings.HasPrefix(s, "/") {
		s = strings.TrimSpace(v.Name + " (" + v.IDs[0] + "): " + s)
	}
	return s
}

// command makes a slash command of one that begins with an exclamation mark:
// clients keep slash commands to themselves.
func (rc *receiver) command(s string) string {
	rest, ok := strings.CutPrefix(s, "!")
	if !ok {
		return s
	}

	name, _, _ := strings.Cut(rest, " ")
	if strings.EqualFold(name, access.PairingCommand) {
		return "/" + rest
	}

	for _, c := range rc.bot.deps.Commands {
		if strings.EqualFold(c.Name, name) {
			return "/" + rest
		}
	}
	return s
}

// words returns what a person typed, without what their client put there, and
// whether it names us.
func (rc *receiver) words(c *content, r *room) (s string, named bool) {
	me := rc.bot.o.UserID
	s = text.Valid(c.Body)
	if c.fileType() && c.caption() == "" {
		s = ""
	} else if c.answers() != "" {
		s = withoutFallback(s)
	}

	if m := c.Mentions; m != nil {
		for _, u := range m.Users {
			named = named || u == me
		}
		named = named || m.Room && rc.bot.o.AllowRoomMentions
	} else {
		// Clients from before mentions had a place of their own.
		named = strings.Contains(c.HTML, "https://matrix.to/#/"+me+"\"") || hasWord(s, me) || hasWord(s, r.name(me)) || hasWord(s, localpart(me)) ||
			rc.bot.o.AllowRoomMentions && hasWord(s, "@room")
	}

	if a := c.answers(); a != "" && rc.bot.ours.Has(a) {
		named = true
	}
	return withoutName(s, me, r.name(me), localpart(me)), named
}

// withoutFallback removes the quote that clients put before a reply, for those
// that know no replies.
func withoutFallback(s string) string {
	if !strings.HasPrefix(s, "> ") {
		return s
	}
	for strings.HasPrefix(s, ">") {
		_, s, _ = strings.Cut(s, "\n")
	}
	return strings.TrimPrefix(s, "\n")
}

// withoutName removes our name where it only says that we are meant.
func withoutName(s string, names ...string) string {
	s = strings.TrimSpace(s)
	for _, n := range names {
		for _, n := range []string{n, "@" + n} {
			if n == "" || n == "@" || len(s) < len(n) || !strings.EqualFold(s[:len(n)], n) {
				continue
			}
			rest := s[len(n):]
			if t := strings.TrimLeft(rest, ":,"); rest == "" || t != rest || strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "\n") {
				return strings.TrimSpace(t)
			}
		}
	}

	return s
}

// hasWord reports whether a name stands in a text, not as a part of a word.
func hasWord(s, name string) bool {
	if name == "" {
		return false
	}

	s, name = strings.ToLower(s), strings.ToLower(name)
	letter := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
	for {
		i := strings.Index(s, name)
		if i < 0 {
			return false
		}

		before, after := []rune(s[:i]), []rune(s[i+len(name):])
		if (len(before) == 0 || !letter(before[len(before)-1])) && (len(after) == 0 || !letter(after[0])) {
			return true
		}
		s = s[i+len(name):]
	}
}

// quoted returns what a message answers, whoever wrote it: our own may repeat what a
// stranger said. If we wrote it, its text is returned as well.
func (rc *receiver) quoted(ctx context.Context, e event, r *room, c *content) (asked string, list []bus.Quote) {
	id := c.answers()
	if id == "" {
		return "", nil
	}

	var q event
	err := rc.bot.client.call(ctx, http.MethodGet, roomPath(e.Room, "event", id), nil, &q)
	if c, none := rc.bot.keys(); err == nil && q.Type == "m.room.encrypted" && none == nil {
		q.Room = e.Room
		q, err = c.decrypt(ctx, q)
	}

	var old content
	if err == nil {
		err = json.Unmarshal(q.Content, &old)
	}

	if err != nil || q.Type != "m.room.message" {
		rc.bot.deps.Log.DebugContext(ctx, "a message that is answered cannot be read", "room", e.Room, "err", err)
		return "", []bus.Quote{{About: "what this answers", Text: "[answers a message that cannot be read]"}}
	}

	s := text.Valid(old.Body)
	if old.answers() != "" {
		s = withoutFallback(s)
	}

	to := r.name(q.Sender)
	if q.Sender == rc.bot.o.UserID {
		to, asked = "you", s
	}

	s = strings.TrimSpace(text.Ellipsis(s, quoteMost))
	return asked, []bus.Quote{{About: "what this answers", Text: "[answers " + to + ": " + s + "]"}}
}

// answerTo returns the answer that a message gives by being a reply to a question of
// ours: a short word that was typed, and nothing else.
func answerTo(asked, word string, c *content) *bus.Answer {
	if asked == "" || c.Type != "m.text" {
		return nil
	}

	q, ok := chat.AskedIn(asked)
	if !ok {
		return nil
	}

	word = strings.TrimSuffix(word, " "+q.Code)
	if _, remark, ok := q.Choose(word); !ok || remark != "" || strings.HasPrefix(word, "/") {
		return nil
	}
	return &bus.Answer{QuestionID: q.Code, Option: word}
}
