package agent

import (
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/memory"
	"github.com/nanobot-go/nanobot/internal/runner"
	"github.com/nanobot-go/nanobot/internal/session"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// conversation is the model's view of a session: its records as legal
// messages with their estimated sizes. It grows with the session instead of
// being built anew, so a turn costs what it adds, not what is stored. It
// belongs to the session's actor.
type conversation struct {
	used  time.Time
	size  int         // messages at the end of the last turn; guarded by conversations.mu like used
	state *tool.State // what tool families remember about this session
	view
}

// view is what a conversation took over from its session.
type view struct {
	first   int       // session index of the first live record
	next    int       // session index of the first record not seen yet
	born    time.Time // of the session, changes when it was started anew
	msgs    []llm.Message
	tokens  []int // estimate per message
	origin  []int // session index of each message's first record
	total   int
	sent    int  // leading messages that were part of a request: never changed in place
	owed    bool // old messages were left out of the prompt before memory had taken them in
	checked int  // leading messages known to be legal, the last of them the user's
	// outside is behind the last record that holds words from outside, as a
	// session index; 0 if there is none.
	outside int
}

func newConversation() *conversation { return &conversation{state: &tool.State{}} }

// follow takes over the records that were added since the last call.
func (c *conversation) follow(s *session.Session) {
	recs := s.Messages()
	first := s.Len() - len(recs)
	if born := s.Created(); !c.born.Equal(born) || c.first != first || c.next > first+len(recs) {
		c.view = view{born: born, first: first, next: first}
	}
	for i := c.next - first; i < len(recs); i++ {
		c.add(first+i, &recs[i])
	}
	c.next = first + len(recs)
	c.check()
}

// check makes the messages legal. What was checked before is not looked at
// again: it ended with a user message, so the rest can be judged alone.
func (c *conversation) check() {
	from := max(c.checked-1, 0)
	if len(c.msgs) == 0 {
		return
	}
	tail := c.msgs[from:]
	if fixed := runner.Legal(tail); len(fixed) != len(tail) || &fixed[0] != &tail[0] {
		c.rebuild(runner.Legal(c.msgs))
	}
	c.checked = 0
	if n := len(c.msgs); c.msgs[n-1].Role == llm.User {
		c.checked = n
	}
}

// rebuild takes over a repaired list. Where its messages came from is only
// known by position from the start, which is close enough to drop old turns.
func (c *conversation) rebuild(msgs []llm.Message) {
	origin := c.origin
	c.msgs, c.tokens, c.origin, c.total, c.sent = nil, nil, nil, 0, 0
	for i, m := range msgs {
		c.push(origin[min(i, len(origin)-1)], m)
	}
}

// add appends one record. Commands are never shown to the model; pictures
// become a note that names the file; neighbouring user messages are joined.
func (c *conversation) add(index int, r *session.Record) {
	if r.Command || r.Role == llm.System {
		return
	}
	if fromOutside(r) {
		c.outside = index + 1
	}
	m := r.Message
	if len(r.Media) > 0 && m.Role == llm.User {
		m.Content = withBreadcrumbs(m.Content, r.Media)
	}
	switch m.Role {
	case llm.User:
		if n := len(c.msgs); n > 0 && c.msgs[n-1].Role == llm.User {
			c.replace(n-1, runner.MergeUser(c.msgs[n-1], m))
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

// fromOutside reports whether a record holds words that neither the user nor
// the model wrote: a fenced result, a message of somebody else, a file that
// came along. A message without a note about where it came from, such as one
// that another program wrote, may be anybody's.
func fromOutside(r *session.Record) bool {
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

// tainted reports whether words from outside are among the messages. Old ones
// leave from the front, so the place of the last says it all.
func (c *conversation) tainted() bool {
	return c != nil && len(c.origin) > 0 && c.outside > c.origin[0]
}

func (c *conversation) push(index int, m llm.Message) {
	n := runner.Estimate(m)
	c.msgs, c.tokens, c.origin = append(c.msgs, m), append(c.tokens, n), append(c.origin, index)
	c.total += n
}

func (c *conversation) replace(i int, m llm.Message) {
	if i < c.sent { // a driver may still go by what it was given
		c.msgs, c.sent = slices.Clone(c.msgs), 0
	}
	n := runner.Estimate(m)
	c.total += n - c.tokens[i]
	c.msgs[i], c.tokens[i] = m, n
}

// addResult puts a tool result where its call stands among its siblings: in
// the log results lie in the order they finished, in a prompt in call order.
func (c *conversation) addResult(index int, m llm.Message) {
	c.push(index, m)
	last := len(c.msgs) - 1
	call := last
	for call >= 0 && c.msgs[call].Role == llm.ToolRole {
		call--
	}
	if call < 0 {
		return
	}
	rank := func(id string) int {
		return slices.IndexFunc(c.msgs[call].ToolCalls, func(tc llm.ToolCall) bool { return tc.ID == id })
	}
	for i := last; i > call+1 && rank(c.msgs[i].ToolCallID) < rank(c.msgs[i-1].ToolCallID); i-- {
		c.msgs[i], c.msgs[i-1] = c.msgs[i-1], c.msgs[i]
		c.tokens[i], c.tokens[i-1] = c.tokens[i-1], c.tokens[i]
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

// fit leaves the oldest turns out when the conversation no longer fits, and
// returns the session index from which it is replayed now. It drops down to half of
// the budget at once, so that the prompt's prefix stays the same for many
// turns, and the choice depends on nothing but the messages.
func (c *conversation) fit(budget, head int, scale float64) (replay int, dropped bool) {
	size := func(n int) int { return int(float64(n) * scale) }
	if budget <= 0 || size(head+c.total) <= budget {
		return c.first, false
	}
	rest, cut := c.total, 0
	for i := range c.msgs {
		if c.msgs[i].Role == llm.User && i > 0 {
			cut = i
			if size(head+rest) <= budget/2 {
				break
			}
		}
		rest -= c.tokens[i]
	}
	if cut == 0 {
		return c.first, false
	}
	for _, n := range c.tokens[:cut] {
		c.total -= n
	}
	replay = c.origin[cut]
	c.msgs, c.tokens, c.origin = slices.Clone(c.msgs[cut:]), slices.Clone(c.tokens[cut:]), slices.Clone(c.origin[cut:])
	c.sent = 0
	c.checked = max(c.checked-cut, 0)
	return replay, true
}
