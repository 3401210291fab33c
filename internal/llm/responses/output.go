package responses

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// output is one item of the answer while it is being put together.
type output struct {
	index     int // place in the output, or nowhere
	id        string
	kind      string
	callID    string
	name      string
	args      strings.Builder
	parts     map[int]*partText
	thoughts  map[int]*partText
	raw       json.RawMessage // the item as it came, if it is to be sent back
	announced string          // phase of a hosted tool that was told
}

// partText holds what was shown of one part of an item.
type partText struct{ shown strings.Builder }

// add takes a piece, or the whole, of a part and returns what is new. Where
// the whole contradicts the pieces, what was shown counts.
func (p *partText) add(s string, whole bool) string {
	if whole {
		rest, ok := strings.CutPrefix(s, p.shown.String())
		if !ok {
			return ""
		}
		s = rest
	}
	p.shown.WriteString(s)
	return s
}

func (o *output) part(i int) *partText { return partOf(&o.parts, i) }

func (o *output) thought(i int) *partText { return partOf(&o.thoughts, i) }

func partOf(m *map[int]*partText, i int) *partText {
	if *m == nil {
		*m = map[int]*partText{}
	}
	p := (*m)[i]
	if p == nil {
		p = &partText{}
		(*m)[i] = p
	}
	return p
}

// merge takes over what an item says about itself.
func (o *output) merge(raw json.RawMessage) item {
	var it item
	_ = decode(raw, &it)
	for _, f := range []struct {
		to   *string
		from string
	}{{&o.id, it.ID}, {&o.kind, it.Type}, {&o.callID, it.CallID}, {&o.name, it.Name}} {
		if f.from != "" {
			*f.to = f.from
		}
	}

	return it
}

// setArguments replaces the pieces by the whole. Servers that repeat nothing
// in the last event leave the pieces.
func (o *output) setArguments(raw json.RawMessage) {
	if s := textOf(raw); s != "" {
		o.args.Reset()
		o.args.WriteString(s)
	}
}

// hold stores an item that its model wants back. Reasoning without its
// encrypted form would be a reference to something the server did not store.
func (o *output) hold(it item, raw json.RawMessage) {
	switch it.Type {
	case "", "message", "function_call", "image_generation_call":
		return
	case "reasoning":
		if it.Encrypted == "" {
			return
		}
	}
	if len(raw) <= maxHidden && json.Valid(raw) {
		o.raw = bytes.Clone(raw)
	}
}

// outputs holds the items of an answer in the order in which they began.
type outputs struct{ list []*output }

func itemID(raw json.RawMessage) string {
	var w struct {
		ID string `json:"id"`
	}
	_ = decode(raw, &w)
	return w.ID
}

// open starts an item. A place that is taken by an item of another id belongs
// to a server that does not count.
func (os *outputs) open(index int, raw json.RawMessage) *output {
	id := itemID(raw)
	for _, o := range os.list {
		sameID := id != "" && o.id == id
		samePlace := index != nowhere && o.index == index
		if sameID || samePlace && (o.id == "" || id == "") {
			return o
		}
	}
	return os.add(index, id)
}

func (os *outputs) add(index int, id string) *output {
	o := &output{index: index, id: id}
	os.list = append(os.list, o)
	return o
}

// find gives the item an event belongs to: by id, else by place (some servers
// change ids between events), else the newest if the event names neither. An
// item that was never announced is started.
func (os *outputs) find(index int, id string) *output {
	for _, o := range slices.Backward(os.list) {
		if id != "" && o.id == id {
			return o
		}
	}

	for _, o := range slices.Backward(os.list) {
		if index != nowhere && o.index == index {
			return o
		}
	}

	if n := len(os.list); index == nowhere && id == "" && n > 0 {
		return os.list[n-1]
	}
	return os.add(index, id)
}

// match finds the item of the final output that stands at a place.
func (os *outputs) match(place int, raw json.RawMessage) *output {
	var it item
	_ = decode(raw, &it)
	same := func(o *output) bool {
		switch {
		case it.ID != "" && o.id == it.ID, it.CallID != "" && o.callID == it.CallID:
			return true
		case it.CallID != "" && o.callID != "":
			return false
		}
		return o.index == place && (o.kind == it.Type || o.kind == "")
	}
	if i := slices.IndexFunc(os.list, same); i >= 0 {
		return os.list[i]
	}

	// Without places and ids the order must do.
	if place < len(os.list) && it.ID == "" {
		o := os.list[place]
		if o.index == nowhere && o.id == "" && (o.kind == it.Type || o.kind == "") {
			return o
		}
	}
	return os.add(place, it.ID)
}

// ordered gives the items in the order of their places; those without one
// stay where they came.
func (os *outputs) ordered() []*output {
	list := slices.Clone(os.list)
	if !slices.ContainsFunc(list, func(o *output) bool { return o.index == nowhere }) {
		slices.SortStableFunc(list, func(x, y *output) int { return x.index - y.index })
	}
	return list
}

// calls returns the finished calls. Those without a name are dropped; missing
// and repeated ids are replaced.
func (os *outputs) calls() []llm.ToolCall {
	var calls []llm.ToolCall
	seen := map[string]bool{}
	for _, o := range os.ordered() {
		if !o.isCall() {
			continue
		}

		id := o.callID
		if id == "" || seen[id] {
			id = "call_" + rand.Text()[:16]
		}

		seen[id] = true
		if o.id != "" {
			id += "|" + o.id
		}
		calls = append(calls, llm.ToolCall{ID: id, Name: strings.TrimSpace(o.name), Arguments: o.args.String()})
	}

	return calls
}

func (o *output) isCall() bool {
	return o.kind == "function_call" && strings.TrimSpace(o.name) != ""
}

// hidden returns the items to be sent back, with their places in the turn.
func (os *outputs) hidden(model string, plain bool) []json.RawMessage {
	var out []json.RawMessage
	at, calls := 0, 0
	for _, o := range os.ordered() {
		switch {
		case o.isCall():
			calls++
			at = calls + 1
		case o.kind == "message":
			at = calls + 1
		case o.raw != nil && !plain:
			out = append(out, hiddenItem{Model: model, At: at, Item: o.raw}.block())
		}
	}

	return out
}
