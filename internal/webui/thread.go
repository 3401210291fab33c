package webui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/runner"
	"github.com/nanobot-go/nanobot/internal/session"
)

// Bounds of a page of a conversation.
const (
	pageDefault = 100
	pageMax     = 500
	pageBytes   = 4 << 20   // of all texts; one message is always shown
	saidBytes   = 256 << 10 // of one message
	callBytes   = 16 << 10  // of the arguments and of the result of one call
	// secretBytes is kept behind a cut until credentials are taken out, because
	// one may lie across it.
	secretBytes = 4 << 10
)

// said is a message as people see it.
type said struct {
	Index       int       `json:"index"` // in the whole conversation, invisible records included
	Role        llm.Role  `json:"role"`
	Content     string    `json:"content"`
	At          string    `json:"at,omitempty"`
	TurnID      string    `json:"turn_id,omitempty"`
	SenderID    string    `json:"sender_id,omitempty"`
	Reasoning   string    `json:"reasoning,omitempty"`
	ToolCalls   []*called `json:"tool_calls,omitempty"`
	Media       []string  `json:"media,omitempty"` // names of files
	LatencyMS   int64     `json:"latency_ms,omitempty"`
	Command     bool      `json:"command,omitempty"`     // a slash command or its reply
	Delivery    bool      `json:"delivery,omitempty"`    // sent outside of a turn
	Interrupted bool      `json:"interrupted,omitempty"` // stands for what never came

	size int
	kept bool // on the page
}

// called is a call of a tool and what came of it. Without a result it is still
// running, or was left behind.
type called struct {
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // an object, or a text when it is cut or none
	Result    *string         `json:"result,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Untrusted bool            `json:"untrusted,omitempty"` // the result is somebody else's words

	args string
}

// thread is one page of a conversation, the newest by default, or the one that
// ends before an index.
func (d *API) thread(ctx context.Context, r *http.Request) (any, error) {
	limit, err := number(r, "limit", pageDefault)
	if err != nil {
		return nil, err
	}
	before, err := number(r, "before", -1)
	if err != nil {
		return nil, err
	}
	if way := r.URL.Query().Get("direction"); way != "" && way != "latest" {
		return nil, Refuse(http.StatusBadRequest, "direction can only be latest, not %.40q", way)
	}
	h, err := d.Backend(ctx)
	if err != nil {
		return nil, err
	}
	p := page{limit: min(max(limit, 1), pageMax), before: before, key: r.PathValue("key")}
	if err := p.read(ctx, h.Sessions); err != nil {
		return nil, err
	}
	out := map[string]any{"messages": p.finish(&h), "has_more": p.more, "before": nil}
	if len(p.messages) > 0 {
		out["before"] = p.messages[0].Index
	}
	return out, nil
}

// page goes through a conversation and keeps the last messages it was shown,
// however long the conversation is.
type page struct {
	limit, before int // before is -1: up to the end
	messages      []*said
	bytes         int
	more          bool               // something came before messages
	pending       map[string]*called // calls of the last message that made some
	owner         *said              // which that is
	key           string
	turn, client  string // the last turn, and what its client calls it
}

func (p *page) read(ctx context.Context, st *session.Store) error {
	index := -1
	for rec, err := range st.Records(ctx, p.key) {
		if err != nil {
			return err
		}
		index++
		if rec.Role == llm.ToolRole {
			p.result(&rec)
			continue
		}
		if p.before >= 0 && index >= p.before && (len(p.pending) == 0 || rec.Role == llm.Assistant) {
			return nil // the results of the last calls may come behind the end of the page
		}
		if p.before < 0 || index < p.before {
			p.take(index, &rec)
		}
	}
	return nil
}

func (p *page) take(index int, r *session.Record) {
	if r.Role != llm.User && r.Role != llm.Assistant {
		return
	}
	m := &said{
		Index: index, Role: r.Role, Content: head(r.Display(), saidBytes), At: stamp(r.Time), TurnID: p.turnOf(r), SenderID: r.SenderID,
		Reasoning: head(r.Reasoning, saidBytes), LatencyMS: r.LatencyMS, Command: r.Command, Delivery: r.Delivery, Interrupted: r.Interrupted,
	}
	if r.Mark() { // in the place of an answer
		m.Role, m.Interrupted = llm.Assistant, true
	}
	for _, file := range r.Media {
		m.Media = append(m.Media, filepath.Base(file))
	}
	if len(r.ToolCalls) > 0 {
		p.pending, p.owner = map[string]*called{}, m
	}
	for _, c := range r.ToolCalls {
		call := &called{CallID: c.ID, Name: c.Name, args: head(c.Arguments, callBytes)}
		m.ToolCalls, p.pending[c.ID] = append(m.ToolCalls, call), call
		m.size += len(call.args)
	}
	if r.Internal || r.Hidden || strings.TrimSpace(m.Content) == "" && m.Reasoning == "" && len(m.ToolCalls) == 0 && len(m.Media) == 0 {
		return
	}
	m.size += len(m.Content) + len(m.Reasoning)
	m.kept, p.messages = true, append(p.messages, m)
	p.bytes += m.size
	p.shrink()
}

// turnOf names the turn of a record as the events of the socket do: by what its
// client called the message, if it did.
func (p *page) turnOf(r *session.Record) string {
	if id, ok := strings.CutPrefix(r.InboundID, p.key+"/"); ok && !strings.HasPrefix(id, "~") {
		p.turn, p.client = r.TurnID, id
	}
	if r.TurnID == p.turn && p.client != "" {
		return p.client
	}
	return r.TurnID
}

// result joins what a tool returned to its call.
func (p *page) result(r *session.Record) {
	call := p.pending[r.ToolCallID]
	if call == nil || call.Result != nil {
		return
	}
	delete(p.pending, r.ToolCallID)
	said, fenced := runner.Unfence(r.Content)
	said = head(said, callBytes)
	call.Result, call.IsError, call.Untrusted = &said, r.IsError, fenced
	p.owner.size += len(said)
	if p.owner.kept {
		p.bytes += len(said)
		p.shrink()
	}
}

// shrink lets go of the oldest messages that are too many.
func (p *page) shrink() {
	for len(p.messages) > p.limit || p.bytes > pageBytes && len(p.messages) > 1 {
		p.bytes -= p.messages[0].size
		p.messages[0].kept, p.messages[0] = false, nil
		p.messages, p.more = p.messages[1:], true
	}
}

// finish takes credentials out and cuts what is long.
func (p *page) finish(h *Backend) []*said {
	for _, m := range p.messages {
		m.Content, m.Reasoning = clip(h.redact(m.Content), saidBytes), clip(h.redact(m.Reasoning), saidBytes)
		for _, c := range m.ToolCalls {
			c.Arguments = arguments(h.redact(c.args))
			if c.Result != nil {
				*c.Result = clip(h.redact(*c.Result), callBytes)
			}
		}
	}
	if p.messages == nil {
		p.messages = []*said{}
	}
	return p.messages
}

// arguments are those of a call: the object itself unless it is cut or broken.
func arguments(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	if len(s) <= callBytes && object([]byte(s)) {
		return json.RawMessage(s)
	}
	out, err := json.Marshal(clip(s, callBytes))
	if err != nil {
		return nil // texts can always be written
	}
	return out
}

// head is the beginning of a long text, without holding on to the rest.
func head(s string, most int) string {
	if len(s) <= most+secretBytes {
		return s
	}
	return strings.Clone(s[:most+secretBytes])
}

// clip cuts a text between two characters and says so.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n := most
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + fmt.Sprintf("\n[cut here: only the first %d KiB are shown]", most>>10)
}
