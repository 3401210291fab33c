// Package transcript turns the records of a session into what a model is shown
// of it: legal messages, their sizes and where they came from. It also says what
// a session knows about a message that is delivered again.
package transcript

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// View is the model's view of a session: its records as legal messages with
// their estimated sizes. It grows with the session instead of being built again,
// so a turn costs what it adds, not what is stored.
type View struct {
	First    int       // session index of the first live record
	next     int       // session index of the first record not seen yet
	born     time.Time // of the session, changes when it was started again
	Messages []llm.Message
	Tokens   []int // estimate per message
	Origin   []int // session index of each message's first record
	Total    int
	Sent     int  // leading messages that were part of a request: never changed in place
	Owed     bool // old messages were left out of the prompt before memory had taken them in
	checked  int  // leading messages known to be legal, the last of them the user's
	// outside is behind the last record that holds words from outside, as a
	// session index; 0 if there is none.
	outside int
}

// Follow takes over the records that were added since the last call. It reports
// whether it had to begin again, because older ones are no longer shown.
func (c *View) Follow(s *session.Session) (again bool) {
	recs := s.Messages()
	first := s.Len() - len(recs)
	if born := s.Created(); !c.born.Equal(born) || c.First != first || c.next > first+len(recs) {
		*c, again = View{born: born, First: first, next: first}, true
	}

	for i := c.next - first; i < len(recs); i++ {
		c.Add(first+i, &recs[i])
	}

	c.next = first + len(recs)
	c.check()
	return again
}

// Empty returns the view without its messages. It keeps where they begin, which tells
// whether they still do when they are read again.
func (c *View) Empty() View { return View{born: c.born, First: c.First, next: c.First} }

// check makes the messages legal. What was checked before is not looked at
// again: it ended with a user message, so the rest can be judged alone.
func (c *View) check() {
	from := max(c.checked-1, 0)
	if len(c.Messages) == 0 {
		return
	}

	tail := c.Messages[from:]
	if fixed := runner.Legal(tail); len(fixed) != len(tail) || &fixed[0] != &tail[0] {
		c.rebuild(runner.Legal(c.Messages))
	}

	c.checked = 0
	if n := len(c.Messages); c.Messages[n-1].Role == llm.User {
		c.checked = n
	}
}

// rebuild takes over a repaired list. Where its messages came from is only
// known by position from the start, which is close enough to drop old turns.
func (c *View) rebuild(msgs []llm.Message) {
	origin := c.Origin
	c.Messages = nil
	c.Tokens = nil
	c.Origin = nil
	c.Total = 0
	c.Sent = 0
	for i, m := range msgs {
		c.push(origin[min(i, len(origin)-1)], m)
	}
}

// Add appends one record. Commands are never shown to the model; pictures
// become a note that names the file; neighbouring user messages are joined.
func (c *View) Add(index int, r *session.Record) {
	if r.Command || r.Role == llm.System {
		return
	}

	if FromOutside(r) {
		c.outside = index + 1
	}

	m := r.Message
	if r.Mark() { // whatever it looks like in the log
		m = llm.Message{Role: llm.User, Content: llm.Text(session.TurnCut)}
	}
	if len(r.Media) > 0 && m.Role == llm.User {
		m.Content = withBreadcrumbs(m.Content, r.Media)
	}

	switch m.Role {
	case llm.User:
		if n := len(c.Messages); n > 0 && c.Messages[n-1].Role == llm.User {
			c.replace(n-1, runner.MergeUser(c.Messages[n-1], m))
			return
		}

	case llm.Assistant:
		if len(m.ToolCalls) == 0 && m.Content.Blank() {
			return
		}
	case llm.ToolRole:
		c.addResult(index, m)
		return
	}

	c.push(index, m)
}

// FromOutside reports whether a record holds words that neither the user nor
// the model wrote: a fenced result, a message of another person, a file that
// came along. A message without a note about where it came from, such as one
// that another program wrote, may be from any person.
func FromOutside(r *session.Record) bool {
	if r.Role == llm.ToolRole {
		return runner.Fenced(r.Content)
	}
	if r.Role == llm.User && r.Runtime == nil && !r.Internal && !r.Interrupted {
		return true
	}
	return r.Runtime != nil && slices.ContainsFunc(r.Runtime.Sources, func(s string) bool {
		return s == memory.SourceForeign || s == memory.SourceMedia
	})
}

// Tainted reports whether words from outside are among the messages. Old ones
// leave from the front, so the place of the last says it all.
func (c *View) Tainted() bool {
	return len(c.Origin) > 0 && c.outside > c.Origin[0]
}

func (c *View) push(index int, m llm.Message) {
	n := runner.Estimate(m)
	c.Messages = append(c.Messages, m)
	c.Tokens = append(c.Tokens, n)
	c.Origin = append(c.Origin, index)
	c.Total += n
}

func (c *View) replace(i int, m llm.Message) {
	if i < c.Sent { // a driver may still go by what it was given
		c.Messages, c.Sent = slices.Clone(c.Messages), 0
	}
	n := runner.Estimate(m)
	c.Total += n - c.Tokens[i]
	c.Messages[i], c.Tokens[i] = m, n
}

// addResult puts a tool result where its call stands among its siblings: in
// the log results lie in the order they finished, in a prompt in call order.
func (c *View) addResult(index int, m llm.Message) {
	c.push(index, m)
	last := len(c.Messages) - 1
	call := last
	for call >= 0 && c.Messages[call].Role == llm.ToolRole {
		call--
	}

	if call < 0 {
		return
	}

	rank := func(id string) int {
		return slices.IndexFunc(c.Messages[call].ToolCalls, func(tc llm.ToolCall) bool { return tc.ID == id })
	}
	for i := last; i > call+1 && rank(c.Messages[i].ToolCallID) < rank(c.Messages[i-1].ToolCallID); i-- {
		c.Messages[i], c.Messages[i-1] = c.Messages[i-1], c.Messages[i]
		c.Tokens[i], c.Tokens[i-1] = c.Tokens[i-1], c.Tokens[i]
	}
}

// withBreadcrumbs names the files that came with a message.
func withBreadcrumbs(content llm.Content, media []string) llm.Content {
	var b strings.Builder
	for _, p := range media {
		b.WriteString("\n[image: " + p + "]")
	}
	note := b.String()
	if content.Blocks != nil {
		return llm.Content{Blocks: append(slices.Clone(content.Blocks), llm.Block{Type: "text", Text: note[1:]})}
	}
	return llm.Text(content.Text + note)
}

// Fit leaves the oldest turns out when the conversation no longer fits, and
// returns the session index from which it is replayed now. It drops down to half of
// the budget at once, so that the prompt's prefix stays the same for many
// turns, and the choice depends on nothing but the messages.
func (c *View) Fit(budget, head int, scale float64) (replay int, dropped bool) {
	size := func(n int) int { return int(float64(n) * scale) }
	if budget <= 0 || size(head+c.Total) <= budget {
		return c.First, false
	}

	rest, cut := c.Total, 0
	for i := range c.Messages {
		if c.Messages[i].Role == llm.User && i > 0 {
			cut = i
			if size(head+rest) <= budget/2 {
				break
			}
		}
		rest -= c.Tokens[i]
	}

	if cut == 0 {
		return c.First, false
	}

	for _, n := range c.Tokens[:cut] {
		c.Total -= n
	}

	replay = c.Origin[cut]
	c.Messages, c.Tokens, c.Origin = slices.Clone(c.Messages[cut:]), slices.Clone(c.Tokens[cut:]), slices.Clone(c.Origin[cut:])
	c.Sent = 0
	c.checked = max(c.checked-cut, 0)
	return replay, true
}

// WithCurrent swaps the stored form of the last user message for the one with
// pictures; earlier unanswered text that was joined to it stays in front.
func WithCurrent(stored, current llm.Message) llm.Message {
	plain := current.Content.Blocks[len(current.Content.Blocks)-1].Text
	if i := strings.LastIndex(stored.Content.Text, plain); stored.Content.Blocks == nil && i > 0 {
		return runner.MergeUser(llm.Message{Role: llm.User, Content: llm.Text(strings.TrimSpace(stored.Content.Text[:i]))}, current)
	}
	return current
}

// Storable replaces inline pictures by their name: a log is not a picture store.
func Storable(m llm.Message) llm.Message {
	if m.Content.Blocks == nil {
		return m
	}

	blocks := make([]llm.Block, len(m.Content.Blocks))
	for i, b := range m.Content.Blocks {
		if b.Type == "image_url" && strings.HasPrefix(b.ImageURL, "data:") {
			b = llm.Block{Type: "text", Text: llm.Content{Blocks: []llm.Block{b}}.String()}
		}
		blocks[i] = b
	}

	m.Content = llm.Content{Blocks: blocks}
	return m
}

// Past holds what a session knows about a message.
type Past struct {
	Tries    int
	Turn     string
	Answered bool
	Reply    *string // nil if it was answered together with another message, or it is not known any more
	Failed   bool    // the turn failed; Reply says why
}

// FindPast looks for a message in a history that was recovered.
func FindPast(recs []session.Record, id string) Past {
	var p Past
	at, first := -1, false
	for i, r := range recs {
		if r.InboundID == id {
			p.Tries++
			at, p.Turn = i, r.TurnID
			first = r.TurnID == "" || i == 0 || recs[i-1].TurnID != r.TurnID
		}
	}

	if at < 0 {
		p.Answered = true // it left the live part long ago
		return p
	}

	if recs[at].Command { // a command and its reply are written together
		p.Answered = true
		if at+1 < len(recs) && recs[at+1].Command && recs[at+1].Role == llm.Assistant {
			p.Reply = &recs[at+1].Content.Text
		}
		return p
	}

	for _, r := range recs[at+1:] {
		reply := r.Role == llm.Assistant && len(r.ToolCalls) == 0 && !r.Mark() && !r.Command
		switch {
		case !first: // it joined a turn: whatever was answered later, answered it too
			p.Answered = p.Answered || reply
		case r.TurnID == p.Turn && reply:
			text := cmp.Or(r.Failure, r.Content.String())
			p.Answered = true
			p.Reply = &text
			p.Failed = r.Failure != ""

		case r.TurnID == p.Turn && !r.Command:
			// that was not the end of it
			p.Answered = false
			p.Reply = nil
			p.Failed = false
		}
	}

	if p.Reply != nil && !p.Failed && sentByTool(recs[at+1:], p.Turn) {
		p.Reply = new(string) // it was said already, by the message tool
	}
	return p
}

func sentByTool(recs []session.Record, turn string) bool {
	return slices.ContainsFunc(recs, func(r session.Record) bool {
		return r.TurnID == turn && slices.ContainsFunc(r.ToolCalls, func(c llm.ToolCall) bool { return c.Name == "message" })
	})
}
