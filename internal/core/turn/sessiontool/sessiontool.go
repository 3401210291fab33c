// Package sessiontool offers the owner's agent the other conversations: listing,
// searching and reading them, and sending a message into one. Guests are refused.
//
// A conversation that holds words from outside, or those of a guest, makes what
// is read of it untrusted. The list names such conversations by their handles
// only, so that listing never brings in words of others.
package sessiontool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Bounds of what is shown and sent.
const (
	listed       = 50
	foundMost    = 5
	excerptChars = 360
	shownMost    = 8
	shownChars   = 4000
	replyWait    = 30 * time.Second // if the call names none
)

// Options say which tools there are.
type Options struct {
	Offer bool
	// PerMinute is how many messages one conversation may send to others.
	PerMinute int
	// Search finds words in conversations of the owner, the best hit first. nil:
	// they cannot be searched.
	Search func(ctx context.Context, query string) ([]Hit, error)
	// Reachable says why a chat cannot be written to. nil: there are no chats but
	// the one of the turn.
	Reachable func(chat bus.Route) error
}

// Hit is a place where words were found.
type Hit struct {
	Session string
	Time    time.Time
	Excerpt string
	Tainted bool
}

// Message is sent from one conversation into another.
type Message struct {
	From    string    // handle of the conversation it comes from
	To      string    // handle of the one it goes to
	Key     string    // of that one
	Chat    bus.Route // where that one takes place
	Text    string
	Tainted bool          // words from outside were before the model that wrote it
	Wait    time.Duration // for the reply
	Reply   bool          // the reply is wanted
}

// Host is the agent whose conversations these are.
type Host struct {
	Sessions *session.Store
	// Outside reports whether a record holds words from outside.
	Outside func(r *session.Record) bool
	// Send starts the turn of a message and waits for its final reply for as long
	// as the message says, if it is wanted. Refused says why it was not sent.
	Send func(ctx context.Context, c tool.Call, m Message) (reply *bus.Outbound, refused string, err error)
	Now  func() time.Time
}

// sessions are the tools at work.
type sessions struct {
	Options
	host Host

	mu   sync.Mutex
	sent map[string][]time.Time // in the last minute, by the conversation they came from
}

// Tools are none if they are not offered.
func Tools(o Options, h Host) []tool.Tool {
	if !o.Offer {
		return nil
	}

	s := &sessions{Options: o, host: h, sent: map[string][]time.Time{}}
	list := []tool.Tool{
		tool.Func(tool.Tool{Name: "list_sessions", ReadOnly: true, Trusted: true, Description: "List the user's conversations by @handle."}, owned(s.list)),
		tool.Func(tool.Tool{Name: "read_session", ReadOnly: true, Trusted: true, Description: "Read the last messages of another conversation."}, owned(s.read)),
		tool.Func(tool.Tool{
			Name: "send_session_message", Sink: tool.SinkSpawn, Trusted: true,
			Description: "Send a message to the agent of another conversation. Its answer is also shown in that chat.",
		}, owned(s.send)),
	}
	if s.Search != nil {
		list = append(list, tool.Func(tool.Tool{Name: "search_sessions", ReadOnly: true, Trusted: true, Description: "Find conversations by words in them."}, owned(s.search)))
	}
	return list
}

// owned refuses guests.
func owned[In any](f func(ctx context.Context, c tool.Call, in In) (tool.Result, error)) func(ctx context.Context, c tool.Call, in In) (tool.Result, error) {
	return func(ctx context.Context, c tool.Call, in In) (tool.Result, error) {
		if c.Scope != "" {
			return tool.Fail(tool.DeniedPolicy, "only the owner's conversations can use other conversations"), nil
		}

		res, err := f(ctx, c, in)
		switch {
		case err != nil && ctx.Err() != nil:
			return tool.Result{}, context.Cause(ctx)
		case err != nil:
			return tool.Fail(tool.Internal, "the conversations cannot be read: %v", err), nil
		}
		return res, nil
	}
}

// entry describes a conversation to the model.
type entry struct {
	Handle   string `json:"handle"`
	Key      string `json:"session_key,omitempty"`
	Ref      string `json:"session_ref,omitempty"`
	Updated  string `json:"updated,omitempty"`
	Messages int    `json:"messages,omitempty"`
	Current  bool   `json:"current,omitempty"`
	Outside  bool   `json:"begun_by_others,omitempty"` // so its words and its key are not shown
	Begins   string `json:"begins,omitempty"`
	Excerpts []said `json:"excerpts,omitempty"`
}

// said is a piece of a conversation.
type said struct {
	Role string `json:"role,omitempty"`
	Time string `json:"time,omitempty"`
	Text string `json:"text"`
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func ref(key string) string { return "#session/" + url.QueryEscape(key) }

func result(v any, untrusted bool) (tool.Result, error) {
	b, err := json.Marshal(v)
	res := tool.Text(string(b))
	res.Untrusted = untrusted
	return res, err
}

func (s *sessions) list(ctx context.Context, c tool.Call, _ struct{}) (tool.Result, error) {
	infos, err := s.host.Sessions.List(ctx)
	if err != nil && len(infos) == 0 {
		return tool.Result{}, err
	}

	out := struct {
		Sessions []entry `json:"sessions"`
		More     int     `json:"older_ones_not_shown,omitempty"`
	}{Sessions: []entry{}, More: max(0, len(infos)-listed)}
	for _, i := range infos[:min(len(infos), listed)] {
		e := entry{Handle: "@" + i.Handle, Updated: stamp(i.Updated), Messages: i.Messages, Current: i.Key == c.SessionKey, Outside: !i.Own}
		if i.Own {
			e.Key, e.Ref, e.Begins = i.Key, ref(i.Key), i.Preview
		}
		out.Sessions = append(out.Sessions, e)
	}

	return result(out, false)
}

type searchInput struct {
	Query string `json:"query" min:"1" max:"500"`
}

func (s *sessions) search(ctx context.Context, c tool.Call, in searchInput) (tool.Result, error) {
	hits, err := s.Search(ctx, in.Query)
	if err != nil {
		return tool.Result{}, err
	}

	untrusted := false
	found := map[string]*entry{}
	var order []*entry
	for _, h := range hits {
		e := found[h.Session]
		if h.Session == "" || h.Session == c.SessionKey || e == nil && len(order) == foundMost {
			continue
		}

		if e == nil {
			info, err := s.find(ctx, h.Session)
			if errors.Is(err, session.ErrNotFound) {
				continue // its log is gone since it was indexed
			}
			if err != nil {
				return tool.Result{}, err
			}

			facts, err := s.look(ctx, info.Key, nil)
			if err != nil {
				return tool.Result{}, err
			}

			untrusted = untrusted || facts.outside || !info.Own
			e = &entry{Handle: "@" + info.Handle, Key: info.Key, Ref: ref(info.Key), Updated: stamp(info.Updated)}
			found[h.Session], order = e, append(order, e)
		}

		untrusted = untrusted || h.Tainted
		if len(e.Excerpts) < 2 {
			e.Excerpts = append(e.Excerpts, said{Time: stamp(h.Time), Text: text.Ellipsis(h.Excerpt, excerptChars)})
		}
	}

	if len(order) == 0 {
		return tool.Text("No other conversation has these words."), nil
	}
	return result(map[string]any{"sessions": order}, untrusted)
}

type readInput struct {
	Session string `json:"session_key" min:"1" max:"512" alias:"session,handle,key" desc:"key or @handle"`
	Query   string `json:"query,omitempty" max:"500" desc:"only messages with one of these words"`
}

func (s *sessions) read(ctx context.Context, _ tool.Call, in readInput) (tool.Result, error) {
	info, err := s.find(ctx, in.Session)
	if refused := unknown(in.Session, err); refused != nil {
		return *refused, nil
	} else if err != nil {
		return tool.Result{}, err
	}

	words := strings.Fields(strings.ToLower(in.Query))
	var shown []said
	facts, err := s.look(ctx, info.Key, func(r *session.Record) {
		body := strings.TrimSpace(r.Display())
		visible := !r.Command && !r.Internal && !r.Hidden && (r.Role == llm.User || r.Role == llm.Assistant)
		has := func(w string) bool { return strings.Contains(strings.ToLower(body), w) }
		if !visible || body == "" || len(words) > 0 && !slices.ContainsFunc(words, has) {
			return
		}

		if len(shown) == shownMost {
			shown = shown[1:]
		}
		shown = append(shown, said{Role: string(r.Role), Time: stamp(r.Time), Text: text.Ellipsis(body, shownChars)})
	})
	if err != nil {
		return tool.Result{}, err
	}
	return result(map[string]any{"handle": "@" + info.Handle, "session_key": info.Key, "session_ref": ref(info.Key), "messages": shown}, facts.outside || !info.Own)
}

// unknown is the refusal for a name that names no conversation, or several.
func unknown(name string, err error) *tool.Result {
	var res tool.Result
	switch {
	case errors.Is(err, session.ErrNotFound):
		res = tool.Fail(tool.NotFound, "there is no conversation %q; list_sessions names them", text.Label(name, 80))
	case errors.Is(err, errSeveral):
		res = tool.Fail(tool.Conflict, "several conversations are called %q; use the session_key", text.Label(name, 80))
	default:
		return nil
	}

	return &res
}

var errSeveral = errors.New("several conversations have this handle")

// find is the conversation that a handle or a key names.
func (s *sessions) find(ctx context.Context, name string) (found session.Info, err error) {
	infos, err := s.host.Sessions.List(ctx)
	handle, isHandle := strings.CutPrefix(name, "@")
	for _, i := range infos {
		switch {
		case i.Key == name:
			return i, nil
		case !isHandle || i.Handle != handle:
		case found.Key != "":
			return found, errSeveral
		default:
			found = i
		}
	}

	if found.Key == "" {
		return found, errors.Join(session.ErrNotFound, err)
	}
	return found, nil
}

// facts are what the log of a conversation says about it.
type facts struct {
	outside bool      // it holds words from outside or of a guest
	guest   bool      // others than the owner write there
	chat    bus.Route // of the owner's last message; zero if there is none
}

// look reads a conversation. Each record is also handed to see, if that is not nil.
func (s *sessions) look(ctx context.Context, key string, see func(r *session.Record)) (f facts, err error) {
	for r, err := range s.host.Sessions.Records(ctx, key) {
		if err != nil {
			return f, err
		}

		guest := r.Runtime != nil && slices.ContainsFunc(r.Runtime.Sources, func(src string) bool { return strings.HasPrefix(src, memory.SourceScope) })
		f.guest = f.guest || guest
		others := guest || r.Event != "" && r.Event != bus.SessionMessage || s.host.Outside(&r)
		f.outside = f.outside || others && !r.Command
		if chat, ok := prompt.ChatOf(&r); ok && r.Own() {
			f.chat = chat
		}
		if see != nil {
			see(&r)
		}
	}

	meta, err := s.host.Sessions.Metadata(ctx, key)
	if err != nil {
		return f, err
	}

	f.outside = f.outside || memory.TaintedSummary(meta)
	return f, nil
}

type sendInput struct {
	To      string `json:"to" min:"1" max:"512" desc:"@handle or key"`
	Content string `json:"content" min:"1" max:"20000"`
	Reply   bool   `json:"expect_reply" desc:"wait for the answer"`
	Timeout int    `json:"reply_timeout_seconds,omitempty" min:"5" max:"60"`
}

func (s *sessions) send(ctx context.Context, c tool.Call, in sendInput) (tool.Result, error) {
	info, err := s.find(ctx, in.To)
	if refused := unknown(in.To, err); refused != nil {
		return *refused, nil
	} else if err != nil {
		return tool.Result{}, err
	}

	if info.Key == c.SessionKey {
		return tool.Fail(tool.InvalidArgs, "that is this conversation"), nil
	}

	f, err := s.look(ctx, info.Key, nil)
	switch {
	case err != nil:
		return tool.Result{}, err
	case f.guest:
		return tool.Fail(tool.DeniedPolicy, "others than the owner take part in @%s; only conversations of the owner get messages", info.Handle), nil
	case f.chat.Channel == "":
		return tool.Fail(tool.DeniedPolicy, "the owner never wrote in @%s, so a message there would reach no chat", info.Handle), nil
	case !s.admit(c.SessionKey):
		return tool.Fail(tool.DeniedPolicy, "this conversation has sent %d messages to others within a minute, which is the limit (tools.maxSessionMessagesPerMinute)", s.PerMinute), nil
	}

	from := "a conversation that is not kept"
	if own, err := s.find(ctx, c.SessionKey); err == nil {
		from = "@" + own.Handle
	}

	wait := replyWait
	if in.Timeout > 0 {
		wait = time.Duration(in.Timeout) * time.Second
	}

	reply, refused, err := s.host.Send(ctx, c, Message{
		From: from, To: "@" + info.Handle, Key: info.Key, Chat: f.chat, Text: in.Content, Tainted: c.Tainted, Wait: wait, Reply: in.Reply,
	})
	switch {
	case err != nil && ctx.Err() == nil:
		return tool.Fail(tool.Internal, "the message to @%s was not sent: %v", info.Handle, err), nil
	case err != nil:
		return tool.Result{}, err
	case refused != "":
		return tool.Fail(tool.DeniedPolicy, "%s", refused), nil
	case !in.Reply:
		return tool.Textf("sent to @%s", info.Handle), nil
	case reply == nil:
		return tool.Textf("sent to @%s, which has not answered within %d seconds; read_session shows the answer later", info.Handle, int(wait/time.Second)), nil
	}

	res := tool.Text(cmp.Or(strings.TrimSpace(text.CutMiddle(reply.Text, shownChars)), "(an answer without text)"))
	res.Untrusted = f.outside || reply.Turn == nil || !reply.Turn.Clean
	return res, nil
}

// admit counts a message of a conversation in, unless it has sent enough.
func (s *sessions) admit(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	now := s.host.Now()
	for k, times := range s.sent {
		times = slices.DeleteFunc(times, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
		if s.sent[k] = times; len(times) == 0 {
			delete(s.sent, k)
		}
	}

	if len(s.sent[key]) >= s.PerMinute {
		return false
	}

	s.sent[key] = append(s.sent[key], now)
	return true
}

// Inbound is a message as the conversation gets it. What a turn with words from
// outside wrote is quoted, so that it carries no trust.
func (m Message) Inbound(id string, at time.Time) bus.Inbound {
	in := bus.Inbound{
		ID: "session:" + id, Route: m.Chat, SessionKey: m.Key, SenderID: "session", At: at, OwnTurn: true, Event: bus.SessionMessage,
		Text: fmt.Sprintf("[The agent of the user's conversation %s sends the message below. Answer it. The user reads the answer in this chat, and so does the other agent.]", m.From),
	}
	if m.Tainted {
		in.Quoted = []bus.Quote{{About: "the message", Text: m.Text}}
	} else {
		in.Text += "\n\n" + m.Text
	}
	return in
}
