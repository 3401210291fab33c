package socket

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// The events.
const (
	evReady         = "ready"
	evMessage       = "message"
	evDelta         = "delta"
	evStreamEnd     = "stream_end"
	evReasoning     = "reasoning_delta"
	evReasoningEnd  = "reasoning_end"
	evToolDelta     = "tool_delta"
	evTurnEnd       = "turn_end"
	evStatus        = "goal_status"
	evUser          = "user_message"
	evModel         = "turn_model_updated"
	evAccepted      = "message_accepted"
	evAttached      = "attached"
	evUpdated       = "session_updated"
	evError         = "error"
	evRestarting    = "server_restarting"
	evTranscript    = "transcription_result"
	evNoTranscript  = "transcription_error"
	evWebuiResponse = "webui_response"
	evGoal          = "goal_state"
	evEdit          = "file_edit"
	evSidebar       = "sidebar_state_updated"
	evUsualModel    = "runtime_model_updated"
	evGone          = "question_gone"
	evAnswered      = "question_answered"
	evExpired       = "question_expired"
	evToolOutput    = "tool_output"
	evUsage         = "usage"
)

// metaTurn is the key under which a message carries the turn id of its client.
const metaTurn = "turn_id"

// ownID begins the ids of messages whose client gave none; no client sees them.
const ownID = "~"

// opensTurn reports whether an event of this kind shows that its turn has begun.
func opensTurn(k bus.Kind) bool {
	switch k {
	case bus.Notice, bus.Gone, bus.Final, bus.Message, bus.Ended:
		return false // these also come between turns
	}
	return true
}

// show turns an Outbound into events of a chat. It returns the one that stands
// for it when it must be delivered.
func (c *conversation) show(out bus.Outbound, m *shownFiles, h *hub) *event {
	if out.Kind != bus.Reasoning && out.Kind != bus.ToolOutput && c.thinking {
		c.thinking = false
		c.ring.add(&event{to: modern}, newFrame(evReasoningEnd, c.id, 0))
	}
	if id := out.Route.MessageID; id != "" && id != c.turn && opensTurn(out.Kind) {
		c.begin(id, h.now()) // its message waited for the turn before it
	}

	switch out.Kind {
	case bus.Delta:
		c.streams(out.Route.MessageID, h)
		c.ring.stream(evDelta, out.StreamID, out.Text, allClients)
	case bus.Reasoning:
		c.thinking = true
		c.ring.stream(evReasoning, out.StreamID, out.Text, modern)
	case bus.DeltaEnd:
		if out.Text != "" {
			c.ring.stream(evDelta, out.StreamID, out.Text, allClients)
		}

		f := newFrame(evStreamEnd, c.id, len(out.StreamID)).text("stream_id", out.StreamID)
		if out.Resuming {
			f = f.flag("resuming", true)
		}
		if out.Void { // what it said comes again in the next stream
			f = f.flag("void", true)
		}
		c.ring.add(&event{keep: true}, f)

	case bus.ToolEvent:
		if out.Tool != nil {
			c.called(out.Tool, out.Text)
		}
	case bus.ToolDelta:
		if t := out.Tool; t != nil {
			f := newFrame(evToolDelta, c.id, len(t.Arguments)+128).text("call_id", t.CallID).text("name", t.Name)
			c.ring.add(&event{to: modern}, f.number("index", int64(t.Index)).must("arguments", t.Arguments))
		}

	case bus.ToolOutput:
		if out.Tool != nil {
			c.ring.stream(evToolOutput, out.Tool.CallID, out.Text, modern)
		}
	case bus.Progress, bus.ToolHint, bus.Notice:
		c.ring.add(&event{to: h.audience(out.Kind)}, newFrame(evMessage, c.id, len(out.Text)).must("text", out.Text).text("kind", string(out.Kind)))
	case bus.Gone:
		if q := out.Question; q != nil {
			c.closed(q)
			c.asked = slices.DeleteFunc(c.asked, func(a asked) bool { return a.id == q.ID })
			c.ring.add(&event{to: modern}, newFrame(evGone, c.id, len(q.ID)+len(out.Text)+32).must("question_id", q.ID).text("text", out.Text))
		}

	case bus.GoalState:
		c.ring.add(&event{to: modern}, goalFrame(c.id, out.Goal))
	case bus.FileEdit:
		c.edited = out.Route.MessageID
		c.ring.add(&event{to: modern}, newFrame(evEdit, c.id, 1024).text("turn_id", visible(out.Route.MessageID)).raw("edits", editList(out.Edits)))
	case bus.Used:
		if out.Turn != nil {
			f := withUsage(newFrame(evUsage, c.id, 256).text("turn_id", visible(out.Route.MessageID)), out.Turn)
			c.used = slices.Clone(f)
			c.ring.add(&event{to: modern}, f)
		}

	case bus.Ended:
		if c.turn != "" && c.turn == out.Route.MessageID { // without a reply: it was stopped
			return c.final(out, m)
		}
	case bus.Final:
		delete(h.cut, c.id)
		return c.final(out, m)
	case bus.Message, bus.Ask:
		f := c.message(out, m)
		if q := out.Question; out.Kind == bus.Ask && q != nil {
			c.asked = append(c.asked, asked{id: q.ID, seq: c.ring.last + 1, expires: q.Expires, frame: slices.Clone(f)})
		}
		return c.ring.add(&event{id: out.ID, keep: true}, f)
	}

	return nil
}

// called tells that a call began or ended.
func (c *conversation) called(t *bus.Tool, text string) {
	if t.Phase != "start" {
		c.ring.over(t.CallID)
	}
	f := newFrame(evMessage, c.id, len(t.Arguments)+len(t.Detail)+128).must("text", text).text("kind", "progress")
	c.ring.add(&event{to: modern}, f.raw("tool_events", toolEvents(t)))
}

// streams notes that text of a turn comes in. The caller holds the lock of the hub.
func (c *conversation) streams(turn string, h *hub) {
	if c.stream.open && c.stream.turn == turn {
		return
	}
	c.stream = streaming{open: true, turn: turn, before: c.ring.last}
	if h.cut[c.id] {
		c.stream.before = -1
	}
}

// audience says who gets something that is not an answer. Clients of the older
// generation take every message for one, so they get only what is wanted.
func (h *hub) audience(k bus.Kind) audience {
	if k == bus.Progress && !h.older.SendProgress || k == bus.ToolHint && !h.older.SendToolHints {
		return modern
	}
	return allClients
}

// final shows the answer, to those who have not got all of it as a stream, and
// the end of the turn.
func (c *conversation) final(out bus.Outbound, m *shownFiles) *event {
	if c.private != nil {
		c.private.record(bus.RoleAssistant, out.Text, out.Turn != nil && out.Turn.Clean)
	}

	stream := c.stream
	c.stream = streaming{}
	c.ring.over("")
	var e *event
	if out.Text != "" || len(out.Media) > 0 {
		e = &event{id: out.ID, keep: true}
		if out.Streamed && stream.open && stream.turn == out.Route.MessageID {
			e.streamed, e.whole = true, stream.before
		}
		c.ring.add(e, c.message(out, m))
	}

	if e != nil && e.streamed && len(out.Media) > 0 {
		out.Text = ""
		e.rest = c.message(out, m).numbered(e.last)
	}

	if out.Turn == nil {
		return e
	}

	turn := out.Route.MessageID
	if c.stop != "" && turn == c.stop { // the turn it stopped says nothing any more
		c.stop, turn = "", c.turn
	}

	if model := cmp.Or(out.Turn.Fallback, out.Turn.Model); model != "" && model != c.model {
		c.model = model
		f := newFrame(evModel, c.id, len(model)+64).text("model_name", model).text("model_preset", out.Turn.Preset).
			number("context_window_tokens", int64(out.Turn.Window)).flag("fallback", out.Turn.Fallback != "")
		c.ring.add(&event{to: modern}, f.text("turn_id", visible(turn)))
	}

	f := turnEnd(c.id, turn, out)
	if c.edited != "" && c.edited == turn {
		f = f.text("undo_id", out.Turn.ID)
	}

	end := c.ring.add(&event{to: modern}, f)
	if e == nil {
		end.id, end.keep, e = out.ID, true, end
	}
	if turn == c.turn && turn != "" {
		c.turn, c.used = "", nil
		c.ring.add(&event{to: modern}, newFrame(evStatus, c.id, 64).text("status", "idle").text("turn_id", visible(turn)))
	}
	return e
}

// closed tells how a question was answered, or that it was not.
func (c *conversation) closed(q *bus.Question) {
	switch o := q.Outcome; {
	case o == nil:
	case o.Option != "":
		f := newFrame(evAnswered, c.id, len(q.ID)+len(o.Option)+len(o.Remark)+48)
		c.ring.add(&event{to: modern}, f.must("question_id", q.ID).must("option", o.Option).text("remark", o.Remark))
	case o.Expired:
		c.ring.add(&event{to: modern}, newFrame(evExpired, c.id, len(q.ID)+32).must("question_id", q.ID))
	}
}

// begin notes which message is being worked on.
func (c *conversation) begin(id string, now time.Time) {
	c.turn, c.since, c.used = id, now, nil
	c.ring.add(&event{to: modern}, runningFrame(c.id, id, now))
}

// message is the frame of something that was said as a whole.
func (c *conversation) message(out bus.Outbound, m *shownFiles) frame {
	f := newFrame(evMessage, c.id, len(out.Text)+len(out.ID)+128).must("text", out.Text)
	f = f.text("id", out.ID).text("reply_to", visible(out.ReplyTo)).text("turn_id", visible(out.Route.MessageID))
	if out.Plain {
		f = f.flag("plain", true)
	}
	if m != nil {
		f = m.append(f)
	}
	if out.Turn != nil {
		f = f.number("latency_ms", out.Turn.DurationMS)
	}

	if q := out.Question; q != nil {
		qf := frame(text.AppendJSON([]byte(`{"id":`), q.ID)).text("code", q.Code).list("options", q.Options)
		if !q.Expires.IsZero() { // an ordinary question stays open until the next message
			qf = qf.text("expires", q.Expires.UTC().Format(time.RFC3339))
		}
		if detail, err := json.Marshal(q.Detail); err == nil && q.Detail != nil {
			qf = qf.raw("detail", detail)
		}

		f = f.raw("question", qf.end())
		if len(q.Options) > 0 {
			f = append(appendList(append(f.key("buttons"), '['), labels(out.Kind, q)), ']')
		}
	}

	return f
}

// labels returns what stands on the buttons of a message. Clients that know no
// answers send a label back as a message, so on those of a question the code
// stands as well.
func labels(k bus.Kind, q *bus.Question) []string {
	if k != bus.Ask || q.Code == "" {
		return q.Options
	}
	out := make([]string, len(q.Options))
	for i, o := range q.Options {
		out[i] = o + " " + q.Code
	}
	return out
}

// visible hides ids that no client knows.
func visible(id string) string {
	if strings.HasPrefix(id, ownID) {
		return ""
	}
	return id
}

func turnEnd(chat, turn string, out bus.Outbound) frame {
	t := out.Turn
	f := newFrame(evTurnEnd, chat, 256).text("turn_id", visible(turn)).text("id", out.ID).number("latency_ms", t.DurationMS).
		text("stop_reason", t.StopReason).text("model", cmp.Or(t.Fallback, t.Model)).text("error", t.Error)
	if t.Fallback != "" {
		f = f.flag("fallback", true)
	}
	if t.Window > 0 {
		f = f.number("context_window_tokens", int64(t.Window))
	}
	if t.Goal != nil {
		f = f.raw("goal_state", goalJSON(t.Goal))
	}
	return withUsage(f, t)
}

func withUsage(f frame, t *bus.Turn) frame {
	usage, err := json.Marshal(t.Usage)
	if err != nil { // a cost that is not a number
		return f
	}
	return f.raw("usage", usage)
}

// runningFrame says that a chat is being worked on.
func runningFrame(chat, turn string, since time.Time) frame {
	return newFrame(evStatus, chat, 64).text("status", "running").text("turn_id", visible(turn)).raw("started_at", seconds(since))
}

// goalFrame tells how the goal of a chat stands.
func goalFrame(chat string, g *bus.Goal) frame {
	return newFrame(evGoal, chat, 512).raw("goal_state", goalJSON(g))
}

// goalJSON is a goal as clients get it; nil means that there is none.
func goalJSON(g *bus.Goal) []byte {
	if g == nil {
		return []byte(`{"active":false}`)
	}

	b, err := json.Marshal(struct {
		Active bool `json:"active"`
		*bus.Goal
	}{g.Open(), g})
	if err != nil { // a time that no calendar has
		return []byte(`{"active":false}`)
	}
	return b
}

// editList returns what was done to files.
func editList(edits []bus.Edit) []byte {
	b := []byte{'['}
	for i, e := range edits {
		if i > 0 {
			b = append(b, ',')
		}
		f := frame(text.AppendJSON(append(b, `{"call_id":`...), e.CallID)).text("path", e.Path).text("status", "done").text("operation", e.What)
		if e.Lines {
			f = f.number("added", int64(e.Added)).number("deleted", int64(e.Deleted))
		}
		b = f.text("diff", e.Diff).end()
	}

	return append(b, ']')
}

// seconds is a time as a number of seconds with a fraction.
func seconds(t time.Time) []byte {
	b, _ := json.Marshal(float64(t.UnixMilli()) / 1000) // a finite number
	return b
}

// toolEvents is the list with the one event of a tool call.
func toolEvents(t *bus.Tool) []byte {
	f := frame(`[{"version":1`).text("phase", t.Phase).text("call_id", t.CallID).text("name", t.Name)
	if t.Arguments != "" {
		if json.Valid([]byte(t.Arguments)) {
			f = f.raw("arguments", []byte(t.Arguments))
		} else {
			f = f.text("arguments", t.Arguments)
		}
	}

	if t.Hosted {
		f = f.flag("hosted", true)
	}

	switch t.Phase {
	case "error":
		f = f.text("error", cmp.Or(t.Result, t.Detail))
	case "end":
		f = f.must("result", cmp.Or(t.Result, t.Detail))
	}

	if t.Untrusted {
		f = f.flag("untrusted", true)
	}
	if t.Denied {
		f = f.flag("denied", true)
	}
	if t.Phase != "start" {
		f = f.number("duration_ms", t.DurationMS)
	}
	return append(f, '}', ']')
}
