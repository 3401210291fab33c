package subject

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Bounds of a page of a conversation.
const (
	pageDefault  = 100
	pageMax      = 500
	pageBytes    = 4 << 20  // of all texts; one message is always shown
	messageBytes = 2 << 20  // of one message
	callBytes    = 16 << 10 // of the arguments and of the result of one call

	rawBytes = 16 << 20 // of records that are read for a page
	tailMost = 1000     // records behind a page that are looked at for results
	leadMost = 1000     // records before it, for the name of its first turn
)

// said is a message as people see it.
type said struct {
	Index       int          `json:"index"` // in the whole conversation, invisible records included
	Role        llm.Role     `json:"role"`
	Content     string       `json:"content"`
	At          string       `json:"at,omitempty"`
	TurnID      string       `json:"turn_id,omitempty"`
	SenderID    string       `json:"sender_id,omitempty"`
	Reasoning   string       `json:"reasoning,omitempty"`
	ToolCalls   []*called    `json:"tool_calls,omitempty"`
	Media       []string     `json:"media,omitempty"`       // names of files
	Attachments []Attachment `json:"attachments,omitempty"` // the same
	LatencyMS   int64        `json:"latency_ms,omitempty"`
	Event       string       `json:"event,omitempty"`       // question, answer, subagent_result and others
	TaskID      string       `json:"task_id,omitempty"`     // of the subagent that found it
	Command     bool         `json:"command,omitempty"`     // a slash command or its reply
	Plain       bool         `json:"plain,omitempty"`       // without Markdown
	Delivery    bool         `json:"delivery,omitempty"`    // sent outside of a turn
	Interrupted bool         `json:"interrupted,omitempty"` // stands for what never came

	turn      string // as the log names it
	files     []string
	documents []string
}

// called is a call of a tool and what came of it. Without a result it is still
// running, or was left behind.
type called struct {
	CallID     string          `json:"call_id"`
	Name       string          `json:"name"`
	Arguments  json.RawMessage `json:"arguments,omitempty"` // an object, or a text when it is cut or none
	Result     *string         `json:"result,omitempty"`
	IsError    bool            `json:"is_error,omitempty"`
	Denied     bool            `json:"denied,omitempty"`    // it was not allowed
	Untrusted  bool            `json:"untrusted,omitempty"` // the result is outside content
	StartedAt  string          `json:"started_at,omitempty"`
	DurationMS int64           `json:"duration_ms,omitempty"`

	args string
}

// Attachment is a file of a message.
type Attachment struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty"` // MIME
	Size int64  `json:"size,omitempty"`
	URL  string `json:"url,omitempty"` // "" if it cannot be had
}

// Thread is what was said in a conversation.
type Thread struct {
	Now Source
	// Seq is the number of the last event of a conversation on the socket, if it
	// has one there.
	Seq func(key string) (int64, bool)
	// Attachment describes a file of a message.
	Attachment func(path string) Attachment
	Log        *slog.Logger
}

// Routes implements web.Subject.
func (t Thread) Routes() web.Routes {
	return web.Routes{Reads: map[string]web.Read{"sessions/{key}/webui-thread": t.read}}
}

// read returns one page of a conversation: the newest by default, the one that ends
// before an index, the one behind an index, or the one around it.
func (t Thread) read(ctx context.Context, r *http.Request) (any, error) {
	p, err := pageOf(r)
	if err != nil {
		return nil, err
	}

	now, err := t.Now(ctx)
	if err != nil {
		return nil, err
	}

	out := map[string]any{}
	if seq, ok := t.Seq(p.key); ok { // what comes after it is in later events, if not in the log already
		out["seq"] = seq
	}

	out["subagents"] = now.Agent.Subagents(p.key)
	v, err := session.OpenView(ctx, now.Sessions, p.key)
	if err != nil {
		return nil, err
	}

	defer v.Close() //nolint:errcheck // only read from
	if err := p.read(ctx, v); err != nil {
		return nil, err
	}

	turns, err := p.turns(ctx, now)
	if err != nil && ctx.Err() == nil {
		t.Log.WarnContext(ctx, "the record of file changes cannot be read", "session", p.key, "err", err)
	}

	messages := p.redact(now.Secrets)
	for _, m := range messages {
		t.attach(m)
	}

	out["messages"] = messages
	out["turns"] = turns
	out["total"] = v.Len()
	out["has_more"] = p.more
	out["before"] = nil
	out["has_newer"] = p.newer
	out["after"] = nil
	if n := len(p.messages); n > 0 {
		out["before"], out["after"] = p.messages[0].Index, p.messages[n-1].Index
	}
	return out, nil
}

// pageOf reads which page is wanted.
func pageOf(r *http.Request) (*page, error) {
	p := &page{key: r.PathValue("key")}
	var before, after, around int
	for _, in := range []struct {
		name string
		to   *int
		def  int
	}{{"limit", &p.limit, pageDefault}, {"before", &before, -1}, {"after", &after, -1}, {"around", &around, -1}} {
		n, err := number(r, in.name, in.def)
		if err != nil {
			return nil, err
		}
		*in.to = n
	}

	if way := r.URL.Query().Get("direction"); way != "" && way != "latest" {
		return nil, web.Refuse(http.StatusBadRequest, "direction can only be latest, not %.40q", way)
	}
	if min(before, after) >= 0 || min(before, around) >= 0 || min(after, around) >= 0 {
		return nil, web.Refuse(http.StatusBadRequest, "only one of before, after and around can be given")
	}

	p.limit = min(max(p.limit, 1), pageMax)
	p.at, p.back = math.MaxInt, p.limit
	switch {
	case before >= 0:
		p.at = before
	case after >= 0:
		p.at, p.back, p.ahead = min(after, math.MaxInt-1)+1, 0, true
	case around >= 0:
		p.at, p.back, p.ahead = around, p.limit/2, true
	}

	return p, nil
}

// page is what is shown of a conversation: so many messages back from a place,
// and then on from it until there are enough.
type page struct {
	key             string
	limit, at, back int
	ahead           bool // the page goes on behind the place
	from            int  // index of the first record

	records     []session.Item
	bytes       int
	count       int
	more, newer bool // messages are before, or behind

	messages     []*said
	notes        map[string]*session.TurnNote
	pending      map[string]*called // calls of the last message that made some
	asked        map[string]bool    // the inbound ids that turnOf has seen
	turn, client string             // the last turn, and what its client calls it
}

func (p *page) read(ctx context.Context, v *session.View) error {
	p.at = min(p.at, v.Len())
	p.from = p.at
	if err := p.backward(ctx, v); err != nil {
		return err
	}

	slices.Reverse(p.records)
	lead, err := p.lead(ctx, v)
	if err != nil {
		return err
	}
	if err := p.forward(ctx, v); err != nil {
		return err
	}

	p.notes, p.asked = map[string]*session.TurnNote{}, map[string]bool{}
	for i := range lead {
		p.turnOf(&lead[i].Record)
	}

	for i := range p.records {
		p.addRecord(&p.records[i])
	}

	p.records = nil
	return nil
}

// backward collects what is before the place.
func (p *page) backward(ctx context.Context, v *session.View) error {
	for it, err := range v.Backward(ctx, p.at) {
		if err != nil {
			return err
		}

		seen := shown(&it)
		if seen && p.full(&it, p.back) {
			p.more = true
			return nil
		}
		if p.back == 0 {
			continue // only whether there is something
		}

		p.add(it, seen)
		p.from = it.Index
		if p.bytes > rawBytes {
			p.more = it.Index > 0
			return nil
		}
	}
	return nil
}

// forward collects what is behind the place, and the results of the last calls,
// which may be behind the page.
func (p *page) forward(ctx context.Context, v *session.View) error {
	full := !p.ahead || p.count >= p.limit
	behind := 0
	for it, err := range v.Forward(ctx, p.at) {
		if err != nil {
			return err
		}

		seen := shown(&it)
		if !full && seen && p.full(&it, p.limit) {
			full = true
		}

		if !full {
			p.add(it, seen)
			continue
		}

		p.newer = p.newer || seen
		if behind++; it.Record.Role == llm.Assistant && p.newer || behind > tailMost {
			return nil
		}

		if it.Note != nil || it.Record.Role == llm.ToolRole {
			p.add(it, false)
		}
	}

	return nil
}

// full reports whether a message does not fit on the page any more.
func (p *page) full(it *session.Item, most int) bool {
	return p.count >= most || p.count > 0 && p.bytes+size(it) > pageBytes
}

func (p *page) add(it session.Item, seen bool) {
	p.records = append(p.records, it)
	p.bytes += size(&it)
	if seen {
		p.count++
	}
}

// size is about what a record takes on a page.
func size(it *session.Item) int {
	n := len(it.Note)
	if it.Record.Role == llm.ToolRole {
		return n + min(len(it.Record.Content.String()), callBytes)
	}
	n += min(len(it.Record.Content.String()), messageBytes) + min(len(it.Record.Reasoning), messageBytes)
	for _, c := range it.Record.ToolCalls {
		n += min(len(c.Arguments), callBytes)
	}
	return n
}

// shown reports whether a record is on a page. What a subagent found is there for
// the call that started it.
func shown(it *session.Item) bool {
	return visible(it) || it.Note == nil && it.Record.Event == bus.SubagentResult && !it.Record.Hidden
}

// resultOf returns the result of a subagent, without our words to the model around it.
func resultOf(r *session.Record) string {
	if r.Runtime == nil {
		return ""
	}

	const fence = "<untrusted id="
	_, said, _ := strings.Cut(r.Runtime.Suffix, fence)
	said, _ = runner.Unfence(llm.Text(fence + said))
	if _, result, ok := strings.Cut(said, "\nResult:\n"); ok {
		return result
	}
	return said
}

// visible reports whether people see a record as a message.
func visible(it *session.Item) bool {
	r := &it.Record
	if it.Note != nil || r.Role != llm.User && r.Role != llm.Assistant || r.Internal || r.Hidden {
		return false
	}
	return strings.TrimSpace(r.Display()) != "" || r.Reasoning != "" || len(r.ToolCalls) > 0 || len(r.Media) > 0 || len(documents(r)) > 0
}

// lead returns the records before the page that belong to its first turn, back to the
// message that began it, which names it.
func (p *page) lead(ctx context.Context, v *session.View) (lead []session.Item, err error) {
	first := ""
	for i := range p.records {
		if first = p.records[i].Record.TurnID; first != "" {
			break
		}
	}

	if len(p.records) > 0 && first == "" || p.from == 0 {
		return nil, nil
	}

	for it, err := range v.Backward(ctx, p.from) {
		if err != nil {
			return nil, err
		}
		if it.Note != nil {
			continue
		}

		if first == "" {
			first = it.Record.TurnID
		}

		if it.Record.TurnID != first || len(lead) == leadMost {
			break
		}
		if it.Record.InboundID == "" {
			continue
		}

		lead = append(lead, it)
		if it.Record.Role == llm.User {
			break
		}
	}

	return lead, nil
}

func (p *page) addRecord(it *session.Item) {
	r := &it.Record
	if n := len(p.messages); n > 0 && p.messages[n-1].Interrupted && r.Internal && p.asked[r.InboundID] {
		p.messages = p.messages[:n-1] // the message was taken up again
	}

	switch {
	case it.Note != nil:
		var n session.TurnNote
		if json.Unmarshal(it.Note, &n) == nil && n.ID != "" {
			p.notes[n.ID] = &n
		}
		return

	case r.Role == llm.ToolRole:
		p.result(r)
		return
	case r.Role != llm.User && r.Role != llm.Assistant:
		return
	}

	m := &said{
		Index:       it.Index,
		Role:        r.Role,
		Content:     head(r.Display(), messageBytes),
		At:          stamp(r.Time),
		TurnID:      p.turnOf(r),
		SenderID:    r.SenderID,
		Reasoning:   head(r.Reasoning, messageBytes),
		LatencyMS:   r.LatencyMS,
		Event:       r.Event,
		Command:     r.Command,
		Plain:       r.Plain,
		Delivery:    r.Delivery,
		Interrupted: r.Interrupted,
		turn:        r.TurnID,
		files:       r.Media,
		documents:   documents(r),
	}
	if r.Event == bus.SubagentResult {
		m.Content, m.TaskID = head(resultOf(r), messageBytes), r.TaskID
	}
	if r.Mark() { // instead of an answer
		m.Role, m.Interrupted = llm.Assistant, true
	}
	if len(r.ToolCalls) > 0 {
		p.pending = map[string]*called{}
	}

	for _, c := range r.ToolCalls {
		call := &called{CallID: c.ID, Name: c.Name, args: head(c.Arguments, callBytes)}
		m.ToolCalls, p.pending[c.ID] = append(m.ToolCalls, call), call
	}

	if shown(it) {
		p.messages = append(p.messages, m)
	}
}

// turnOf names the turn of a record as the events of the socket do: by what its
// client called the message that began it, if it did. A message that joined a
// turn has its own name, and the answer to a question that of its turn.
func (p *page) turnOf(r *session.Record) string {
	p.asked[r.InboundID] = r.InboundID != ""
	if id, ok := strings.CutPrefix(r.InboundID, p.key+"/"); ok && !strings.HasPrefix(id, "~") && r.Event != "answer" {
		if p.turn != r.TurnID || p.client == "" {
			p.turn, p.client = r.TurnID, id
		}
		return id
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
	said = strings.TrimSuffix(said, tool.Hint) // is for the model
	said = head(said, callBytes)
	call.Result = &said
	call.IsError = r.IsError
	call.Denied = r.Denied
	call.Untrusted = fenced
	if call.DurationMS = r.LatencyMS; call.DurationMS > 0 {
		call.StartedAt = r.Time.Add(-time.Duration(call.DurationMS) * time.Millisecond).UTC().Format(stampMilli)
	}
}

// redact takes credentials out and cuts what is long.
func (p *page) redact(secrets *httpsafe.Registry) []*said {
	for _, m := range p.messages {
		m.Content, m.Reasoning = clip(secrets.Redact(m.Content), messageBytes), clip(secrets.Redact(m.Reasoning), messageBytes)
		for _, c := range m.ToolCalls {
			c.Arguments = arguments(secrets.Redact(c.args))
			if c.Result != nil {
				*c.Result = clip(secrets.Redact(*c.Result), callBytes)
			}
		}
	}

	if p.messages == nil {
		p.messages = []*said{}
	}
	return p.messages
}

// arguments returns those of a call: the object itself unless it is cut or broken.
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
