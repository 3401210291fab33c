package openai

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// Bounds of the memory that drafts may take.
const (
	maxDrafts     = 64
	maxDraftBytes = 4 << 20  // of all drafts, and of one alone
	maxFree       = 8        // spare buffers
	maxFreeBytes  = 64 << 10 // of one spare buffer
)

// draft is the encoded beginning of the last request of a session. The next
// request of that session repeats it and adds a little, so only what is new
// has to be encoded: a turn costs what it adds, not what was said before.
type draft struct {
	session string
	head    []byte        // everything before the first message
	msgs    []llm.Message // encoded in buf behind head
	buf     []byte        // head and msgs, without the end of the list
}

// drafts caches the newest few. A draft is out of the list while it is in use.
type drafts struct {
	mu   sync.Mutex
	list []*draft // newest last
	size int      // bytes of their buffers
	free [][]byte // buffers of drafts that were dropped
}

// acquire removes the draft of a session from the list, or makes an empty one.
func (ds *drafts) acquire(session string) *draft {
	ds.mu.Lock()
	defer ds.mu.Unlock()

	i := slices.IndexFunc(ds.list, func(d *draft) bool { return d.session == session })
	if i < 0 {
		d := &draft{session: session}
		if n := len(ds.free); n > 0 {
			d.buf, ds.free = ds.free[n-1][:0], ds.free[:n-1]
		}
		return d
	}

	return ds.remove(i)
}

// release puts a draft back, the newest last, unless it is too large to hold.
func (ds *drafts) release(d *draft) {
	if d == nil || cap(d.buf) > maxDraftBytes || d.session == "" {
		return
	}

	ds.mu.Lock()
	defer ds.mu.Unlock()

	for len(ds.list) >= maxDrafts || ds.size+cap(d.buf) > maxDraftBytes {
		if old := ds.remove(0); len(ds.free) < maxFree && cap(old.buf) <= maxFreeBytes {
			ds.free = append(ds.free, old.buf)
		}
	}

	ds.list = append(ds.list, d)
	ds.size += cap(d.buf)
}

// remove takes a draft out of the list. The caller holds the lock.
func (ds *drafts) remove(i int) *draft {
	d := ds.list[i]
	ds.list = slices.Delete(ds.list, i, i+1)
	ds.size -= cap(d.buf)
	return d
}

// extend encodes msgs behind head, taking over what the draft holds already,
// and returns the complete body. It fails when the list needs repair.
func (d *draft) extend(e *encoder, head []byte, msgs []llm.Message) ([]byte, bool) {
	n := d.common(head, msgs)
	if !sound(msgs, max(n-1, 0)) {
		return nil, false
	}

	if n == 0 {
		d.head = head
		d.buf = append(slices.Grow(d.buf[:0], len(head)+size(llm.Request{Messages: msgs})), head...)
	}

	for i := n; i < len(msgs); i++ {
		if d.buf[len(d.buf)-1] != '[' {
			d.buf = append(d.buf, ',')
		}
		d.buf = e.message(d.buf, msgs[i], false)
	}

	d.msgs = msgs
	body := append(d.buf, ']', '}')
	d.buf = body[:len(body)-2]
	return body, true
}

// common says how many of the messages the draft holds as they are: all of
// its own or none. Lists that grow in place are recognised by their array,
// because messages are immutable once they were sent.
func (d *draft) common(head []byte, msgs []llm.Message) int {
	n := len(d.msgs)
	if n == 0 || n > len(msgs) || !bytes.Equal(d.head, head) {
		return 0
	}
	if &d.msgs[0] == &msgs[0] {
		return n
	}

	for i := range d.msgs {
		if !sameMessage(&d.msgs[i], &msgs[i]) {
			return 0
		}
	}
	return n
}

// sameMessage compares two messages. Equal strings are nearly always the same
// string, which makes this cheap however long they are.
func sameMessage(a, b *llm.Message) bool {
	if a.Role != b.Role || a.Content.Text != b.Content.Text || a.ToolCallID != b.ToolCallID || a.Name != b.Name ||
		a.Reasoning != b.Reasoning || a.HasReasoning != b.HasReasoning || a.Origin != b.Origin ||
		len(a.ToolCalls) != len(b.ToolCalls) || len(a.Content.Blocks) != len(b.Content.Blocks) ||
		!bytes.Equal(a.ReasoningDetails, b.ReasoningDetails) {
		return false
	}

	for i := range a.ToolCalls {
		x, y := &a.ToolCalls[i], &b.ToolCalls[i]
		if x.ID != y.ID || x.Name != y.Name || x.Arguments != y.Arguments || len(x.Extra) != len(y.Extra) {
			return false
		}

		for k, v := range x.Extra {
			if !bytes.Equal(v, y.Extra[k]) {
				return false
			}
		}
	}

	for i := range a.Content.Blocks {
		x, y := &a.Content.Blocks[i], &b.Content.Blocks[i]
		if x.Type != y.Type || x.Text != y.Text || x.ImageURL != y.ImageURL || !bytes.Equal(x.Raw, y.Raw) {
			return false
		}
	}
	return true
}

// sound reports whether the messages from index from on are sound as they are:
// speakers alternate, every call is answered once and in order, ids are unique
// within a step, and results hold no pictures. What lies before from was found
// sound earlier.
func sound(msgs []llm.Message, from int) bool {
	if len(msgs) == 0 || msgs[len(msgs)-1].Role == llm.Assistant {
		return false
	}

	for from > 0 && msgs[from].Role == llm.ToolRole {
		from-- // back to the call the results belong to
	}

	var calls []llm.ToolCall // not answered yet
	prev := llm.Role("")
	if from > 0 {
		prev = msgs[from-1].Role
	}

	for i := from; i < len(msgs); i++ {
		m := &msgs[i]
		if m.Role == llm.ToolRole {
			if len(calls) == 0 || calls[0].ID != m.ToolCallID || m.Content.Blocks != nil {
				return false
			}
			calls, prev = calls[1:], m.Role
			continue
		}

		switch {
		case len(calls) > 0, m.Role == prev:
			return false
		case m.Role != llm.User && m.Role != llm.Assistant:
			return false
		case prev == "" && m.Role == llm.Assistant:
			return false
		}

		for j, c := range m.ToolCalls {
			if c.ID == "" || c.Name == "" || strings.Contains(c.ID, "|") || slices.ContainsFunc(m.ToolCalls[:j], func(o llm.ToolCall) bool { return o.ID == c.ID }) {
				return false
			}
		}

		calls, prev = m.ToolCalls, m.Role
	}

	return len(calls) == 0
}
