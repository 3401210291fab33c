package socket

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/guard"
)

const (
	maxText      = 64 << 10 // bytes of a message in the newer protocol
	maxPlainText = 1 << 20  // and in the older one
	maxTurnID    = 128
	lastAccepted = 16 // messages of a chat that are known to be repeated
)

// envelope is everything a client can say. Members of a wrong type count as
// missing.
type envelope struct {
	Type    any    `json:"type"`
	Content string `json:"content"`
	Text    string `json:"text"`
	Message string `json:"message"`

	ChatID    string          `json:"chat_id"`
	TurnID    string          `json:"turn_id"`
	Media     json.RawMessage `json:"media"`
	LastSeq   *int64          `json:"last_seq"`
	UserShell bool            `json:"user_shell"`
	Quoted    string          `json:"quoted_context"` // what the message is about, chosen from the conversation
	Scope     json.RawMessage `json:"workspace_scope"`

	SourceChatID string `json:"source_chat_id"`
	BeforeUser   *int   `json:"before_user_index"`
	BeforeIndex  *int   `json:"before_index"`
	Title        string `json:"title"`

	Language string `json:"language"` // that the person reads, a tag such as "zh-CN"

	RequestID  string          `json:"request_id"`
	Action     string          `json:"action"`
	Payload    json.RawMessage `json:"payload"`
	State      json.RawMessage `json:"state"`
	Topics     json.RawMessage `json:"topics"`
	DataURL    string          `json:"data_url"`
	DurationMS float64         `json:"duration_ms"`

	Key    string `json:"key"` // of a conversation of any channel
	Model  string `json:"model"`
	Preset string `json:"preset"`

	reply

	Mentions json.RawMessage `json:"session_mentions"` // conversations the message speaks of
	Servers  json.RawMessage `json:"mcp_presets"`      // MCP servers it wants used
}

// reply is the answer to a question.
type reply struct {
	QuestionID string `json:"question_id"`
	Option     string `json:"option"`
	Remark     string `json:"remark"`
}

// receiver handles the frames of one connection, one after the other.
type receiver struct {
	*socket
	wg *sync.WaitGroup // of what goes on beside

	// Guarded by hub.mu.
	busy   bool // a transcription goes on
	asking int  // requests that go on
}

// problem answers something that could not be done. The connection stays.
func (r *receiver) problem(detail, reason string, e *envelope) {
	f := newFrame(evError, "", 128)
	if e != nil && validChatID(e.ChatID) {
		f = f.text("chat_id", e.ChatID)
	}
	f = f.text("code", strings.ReplaceAll(strings.ReplaceAll(detail, " ", "_"), "-", "_")).text("detail", detail).text("reason", reason)
	if e != nil && len(e.TurnID) <= maxTurnID {
		f = f.text("turn_id", e.TurnID)
	}
	r.reply(f)
}

// contained is frame for what may break the program: the others of this
// connection need not suffer for it.
func (r *receiver) contained(ctx context.Context, data []byte) {
	defer func() {
		if p := recover(); p != nil {
			r.c.d.Log.ErrorContext(ctx, "a frame was given up, please report this", "channel", r.c.d.Name, "panic", p, "stack", string(debug.Stack()))
			r.problem("internal error", "", nil)
		}
	}()
	r.frame(ctx, data)
}

// frame handles what came in: plain text, an object with a text, or an object
// with a type.
func (r *receiver) frame(ctx context.Context, data []byte) {
	if !utf8.Valid(data) {
		r.problem("invalid utf-8", "", nil)
		return
	}

	text := strings.TrimSpace(string(data))
	if !strings.HasPrefix(text, "{") {
		r.plain(ctx, text)
		return
	}

	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
			r.plain(ctx, text)
			return
		}
	}

	if t, ok := e.Type.(string); ok {
		r.speaksModern()
		r.typed(ctx, t, &e)
		return
	}

	for _, s := range []string{e.Content, e.Text, e.Message} {
		if s := strings.TrimSpace(s); s != "" {
			r.plain(ctx, s)
			return
		}
	}

	r.problem("missing content", "", nil)
}

// plain is a message of the older protocol.
func (r *receiver) plain(ctx context.Context, text string) {
	switch {
	case text == "":
		r.problem("missing content", "", nil)
	case len(text) > maxPlainText:
		r.problem("message_rejected", "text_too_large", nil)
	default:
		r.hand(ctx, message{chat: r.home, text: text}, &envelope{})
	}
}

// typed is a frame of the newer protocol.
func (r *receiver) typed(ctx context.Context, kind string, e *envelope) {
	switch kind {
	case "new_chat":
		r.newChat(ctx, e)
	case "attach", "resume":
		r.attach(ctx, kind, e)
	case "message":
		r.message(ctx, e)
	case "answer":
		r.answer(ctx, e)
	case "new_temporary_chat":
		r.openPrivate()
	case "discard_temporary_chat":
		r.discard(e)
	case "fork_chat":
		r.fork(ctx, e)
	case "transcribe_audio":
		r.transcribe(ctx, e)
	case "webui_request":
		r.webui(ctx, e)
	case "stop":
		stopTurn(ctx, r, e)
	case "watch":
		watch(r, e)
	case "set_model":
		setModel(ctx, r, e)
	case "subscribe":
		subscribe(r, e)
	case "set_sidebar_state":
		r.setSidebar(ctx, e)
	case "set_workspace_scope":
		if !validChatID(e.ChatID) {
			r.problem("invalid chat_id", "", e)
		} else {
			r.setScope(ctx, e.ChatID, e)
		}

	default:
		r.problem("unknown type", text.CutBytes(kind, 64), e)
	}
}

// newChat begins a chat, perhaps in a folder of its own.
func (r *receiver) newChat(ctx context.Context, e *envelope) {
	id := newChatID()
	if !e.scoped() {
		r.open(id, nil)
	} else if got, ok := r.scope(ctx, id, e); ok {
		r.open(id, &got)
	}
}

// open attaches a new chat and says so.
func (r *receiver) open(id string, scope *guard.Scope) {
	a, ok := r.c.hub.attach(r.socket, id, 0, false)
	if !ok {
		r.denied(nil)
		return
	}

	r.reply(newFrame(evAttached, id, 64).number("seq", a.seq))
	f := newFrame(evUpdated, id, 64)
	if scope != nil {
		f = f.text("scope", "workspace").raw("workspace_scope", mustJSON(scope))
	}
	r.reply(f)
}

// denied answers who may not listen to a chat.
func (r *receiver) denied(e *envelope) {
	reason := ""
	if r.c.hub.crowded(r.socket) {
		reason = "too many chats on one connection"
	}
	r.problem("access_denied", reason, e)
}

// attach joins a chat, with last_seq from where the client left off, and tells
// how it stands.
func (r *receiver) attach(ctx context.Context, kind string, e *envelope) {
	resume := e.LastSeq != nil
	switch {
	case !validChatID(e.ChatID):
		r.problem("invalid chat_id", "", e)
		return
	case kind == "resume" && !resume:
		r.problem("missing last_seq", "", e)
		return
	}

	after := *cmp.Or(e.LastSeq, new(int64))
	defer r.hold(e.ChatID)()
	a, ok := r.c.hub.attach(r.socket, e.ChatID, after, resume)
	if !ok {
		r.denied(e)
		return
	}

	f := newFrame(evAttached, e.ChatID, 96).number("seq", a.seq)
	if resume {
		f = f.flag("resumed", true).flag("complete", a.complete)
	}

	stand := chatState(ctx, r.c, e.ChatID)
	if r.c.o.Model != nil {
		f = f.text("model_name", r.c.o.Model())
	}

	f = f.text("model_preset", stand.Preset).text("title", stand.Title).text("session", stand.Kept)
	if stand.Scope != nil {
		f = f.raw("workspace_scope", mustJSON(stand.Scope))
	}

	r.reply(f)
	if stand.Goal != nil {
		r.reply(goalFrame(e.ChatID, stand.Goal))
	}

	if r.proven {
		for _, q := range a.asked {
			r.reply(q)
		}
	}

	if a.turn != "" {
		r.reply(runningFrame(e.ChatID, a.turn, a.since))
		if a.used != nil {
			r.reply(a.used)
		}
	}
}

// chatState returns what is kept about a chat.
func chatState(ctx context.Context, c *Channel, chatID string) ChatState {
	if c.o.ChatState == nil || strings.HasPrefix(chatID, privatePrefix) {
		return ChatState{}
	}
	return c.o.ChatState(ctx, bus.Route{Channel: c.d.Name, ChatID: chatID})
}

// words returns what is said, and apart from it what it is said about: that was
// chosen from what others or the model wrote.
func (e *envelope) words() (text string, about []bus.Quote) {
	text = strings.TrimSpace(e.Content)
	if text == "" || strings.HasPrefix(text, "/") || e.UserShell {
		return text, nil
	}

	for _, q := range []bus.Quote{{About: "about", Text: strings.TrimSpace(e.Quoted)}, {About: "conversations", Text: named(e.Mentions)}} {
		if q.Text != "" {
			about = append(about, q)
		}
	}

	if s := named(e.Servers); s != "" {
		text = "[use the MCP servers: " + s + "]\n" + text
	}
	return text, about
}

// maxNamed is how many things a message can name.
const maxNamed = 16

// named reads a list of names, or of objects that have one.
func named(list json.RawMessage) string {
	var items []json.RawMessage
	if json.Unmarshal(list, &items) != nil {
		return ""
	}

	var out []string
	for _, item := range items[:min(len(items), maxNamed)] {
		var name string
		if json.Unmarshal(item, &name) != nil {
			var o struct{ Key, Name, ID string }
			_ = json.Unmarshal(item, &o) // what is none of these names nothing
			name = cmp.Or(o.Key, o.Name, o.ID)
		}

		if name = text.CutBytes(strings.Join(strings.Fields(name), " "), 128); name != "" {
			out = append(out, name)
		}
	}

	return strings.Join(out, ", ")
}

// message is something said, in the newer protocol.
func (r *receiver) message(ctx context.Context, e *envelope) {
	text, about := e.words()
	size := len(text)
	for _, q := range about {
		size += len(q.Text)
	}

	switch {
	case !validChatID(e.ChatID):
		r.problem("invalid chat_id", "", e)
		return
	case len(e.TurnID) > maxTurnID || strings.HasPrefix(e.TurnID, ownID):
		r.problem("invalid turn_id", "", e)
		return
	case size > maxText:
		r.problem("message_rejected", "text_too_large", e)
		return
	case e.UserShell && (!r.local || !r.proven):
		r.problem("message_rejected", "commands are taken only from a client on the same machine that has the token", e)
		return
	case e.UserShell && strings.HasPrefix(e.ChatID, privatePrefix):
		r.problem("message_rejected", "a temporary chat runs no commands", e)
		return
	}

	files, reason := parseAttachments(e.Media)
	switch {
	case reason != "":
		r.problem("attachment_rejected", reason, e)
		return
	case text == "" && len(files) == 0:
		r.problem("missing content", "", e)
		return
	}

	if _, ok := r.c.hub.attach(r.socket, e.ChatID, 0, false); !ok {
		r.denied(e)
		return
	}
	if e.scoped() && !r.setScope(ctx, e.ChatID, e) {
		return
	}
	r.hand(ctx, message{chat: e.ChatID, turn: e.TurnID, text: text, about: about, files: files, modern: true, shell: e.UserShell}, e)
}

// message is something for the agent.
type message struct {
	chat, turn, text string
	about            []bus.Quote
	files            []attachment
	modern           bool
	shell            bool // the text is a command line
}

// hand gives a message to the agent and tells the client when it is safe.
func (r *receiver) hand(ctx context.Context, m message, e *envelope) {
	id := m.turn
	if id == "" {
		id = ownID + rand.Text()
	}

	route := bus.Route{Channel: r.c.d.Name, ChatID: m.chat, MessageID: id}
	pass, ok := r.c.d.Gate.Admit(ctx, access.Visitor{Route: route, IDs: []string{r.client}, Direct: true, Owner: true, Language: e.Language})
	if !ok {
		r.problem("access_denied", "", e)
		return
	}

	in := pass.Inbound(m.chat+"/"+id, m.text)
	r.sign(&in)
	in.Quoted, in.Untrusted = m.about, !r.proven && !r.local // else the owner's client says what the owner typed
	known := m.turn != "" && r.c.d.Known != nil && r.c.d.Known(in.ID)
	if known {
		m.files = nil // no turn will look at them
	}

	media, reason := r.store(ctx, m.files)
	if reason != "" {
		r.problem("attachment_rejected", reason, e)
		return
	}

	in.Media, in.WantsStream, in.Shell = media, r.device != "" || r.c.set.streaming(), m.shell // a page needs all of a turn
	if m.turn != "" {
		in.Meta = map[string]string{metaTurn: m.turn}
	}

	state := r.c.hub.reserve(&in, known)
	if strings.HasPrefix(m.chat, privatePrefix) && !in.Stateless { // another page of the device ended the chat just now
		r.c.hub.unreserve(in, state)
		discard(media)
		r.denied(e)
		return
	}

	if err := r.life.submit(ctx, in); err != nil {
		r.c.hub.unreserve(in, state)
		r.c.uploads.refund(m.files, media, r.device, uploadDir(r.c.d))
		switch {
		case ctx.Err() != nil:
		case m.turn != "" && errors.Is(err, chat.ErrStopping): // the client says it again after the restart
		case errors.Is(err, bus.ErrTooLarge):
			r.problem("message_rejected", "text_too_large", e)
		default:
			r.c.d.Log.WarnContext(ctx, "a message was not accepted", "channel", r.c.d.Name, "err", err)
			r.problem("message_rejected", "not accepted, try again", e)
		}

		return
	}

	shown, err := r.c.link(ctx, in.Media)
	if err != nil {
		shown = nil // the message is safe; its files are in the thread
	}

	r.c.hub.accepted(r.socket, in, state, shown)
	if m.modern {
		f := newFrame(evAccepted, m.chat, 128).text("turn_id", m.turn).flag("starts_turn", state.starts)
		if !state.starts && state.active != "" {
			f = f.text("active_turn_id", visible(state.active)).raw("started_at", seconds(state.since))
		}
		r.reply(f)
	}

	if known && r.c.o.Recall != nil && r.c.d.Settled != nil && r.c.d.Settled(in.ID) {
		r.recall(ctx, in)
	}
}

// recall gives this connection the answer to a message that it says again. It
// has the same id as the first time.
func (r *receiver) recall(ctx context.Context, in bus.Inbound) {
	out, ok := r.c.o.Recall(ctx, in)
	if !ok {
		return
	}
	if out.Text != "" {
		r.reply((&conversation{id: in.Route.ChatID}).message(out, nil))
	}
	r.reply(turnEnd(in.Route.ChatID, in.Route.MessageID, out))
}

func discard(files []bus.Media) {
	for _, f := range files {
		_ = os.Remove(f.Path)
	}
}

// fork begins a chat with the first part of another.
func (r *receiver) fork(ctx context.Context, e *envelope) {
	switch {
	case !validChatID(e.SourceChatID):
		r.problem("invalid chat_id", "source_chat_id", e)
	case e.BeforeUser == nil && e.BeforeIndex == nil || e.BeforeUser != nil && *e.BeforeUser < 0:
		r.problem("invalid before_user_index", "", e)
	case r.c.o.Fork == nil || strings.HasPrefix(e.SourceChatID, privatePrefix):
		r.problem("unsupported", "fork_chat", e)
	default:
		from, to := bus.Route{Channel: r.c.d.Name, ChatID: e.SourceChatID}, bus.Route{Channel: r.c.d.Name, ChatID: newChatID()}
		user, index := -1, -1
		if e.BeforeUser != nil {
			user = *e.BeforeUser
		} else {
			index = *e.BeforeIndex
		}

		if err := r.c.o.Fork(ctx, from, to, user, index, text.CutBytes(e.Title, 256)); err != nil {
			r.c.d.Log.WarnContext(ctx, "cannot fork a chat", "channel", r.c.d.Name, "err", err)
			r.problem("fork_rejected", "the chat could not be copied", e)
			return
		}

		r.open(to.ChatID, nil)
	}
}

// newChatID is a random UUID.
func newChatID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	const hex = "0123456789abcdef"
	out := make([]byte, 0, 36)
	for i, x := range b {
		if slices.Contains([]int{4, 6, 8, 10}, i) {
			out = append(out, '-')
		}
		out = append(out, hex[x>>4], hex[x&15])
	}
	return string(out)
}

func validChatID(id string) bool { return validWord(id, 64, "_:-") }

// validWord reports whether s is of 1 to n letters, digits and others.
func validWord(s string, n int, others string) bool {
	if s == "" || len(s) > n {
		return false
	}

	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}
