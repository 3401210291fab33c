package openai

import (
	"context"
	"crypto/sha1" //nolint:gosec // a short stable name, not a protection
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
)

const (
	// emptyText stands where a vendor rejects an empty message.
	emptyText = "(empty)"
	// opening is said for the user when a cut history begins with the assistant.
	opening = "(The conversation goes on.)"
)

// repair makes a history that vendors accept out of any list of messages. The
// input is not modified. The result depends only on the input, so a longer
// history is repaired to a continuation of the shorter one.
func (d *driver) repair(ctx context.Context, msgs []llm.Message) []llm.Message {
	out := d.pair(ctx, msgs)
	out = alternate(out)
	out = endWithInput(out)
	if i := slices.IndexFunc(out, func(m llm.Message) bool { return m.Role != llm.System }); i >= 0 && out[i].Role == llm.Assistant {
		out = slices.Insert(out, i, llm.Message{Role: llm.User, Content: llm.Text(opening)})
	}
	return out
}

// pair keeps tool calls and results that belong together and drops the others:
// one orphan would make every later request of the session fail.
func (d *driver) pair(ctx context.Context, msgs []llm.Message) []llm.Message {
	out := make([]llm.Message, 0, len(msgs)+1)
	dropped := 0
	for i := 0; i < len(msgs); {
		m := msgs[i]
		i++
		switch {
		case m.Role == llm.ToolRole:
			dropped++
		case m.Role == llm.Assistant && len(m.ToolCalls) > 0:
			n := i
			for n < len(msgs) && msgs[n].Role == llm.ToolRole {
				n++
			}
			var lost int
			out, lost = d.step(out, m, msgs[i:n], i)
			dropped += lost
			i = n

		default:
			out = append(out, m)
		}
	}

	if dropped > 0 {
		d.o.Log.WarnContext(ctx, "dropped tool calls and results without a partner", "provider", d.o.Name, "count", dropped)
	}
	return out
}

// step appends an assistant turn with its results. at makes new ids unique.
func (d *driver) step(out []llm.Message, m llm.Message, results []llm.Message, at int) ([]llm.Message, int) {
	ids := make([]string, len(results)) // new id of each result, "" = orphan
	var calls []llm.ToolCall
	used := map[string]bool{}
	for k, c := range m.ToolCalls {
		r := -1
		for j := range results {
			if ids[j] == "" && results[j].ToolCallID == c.ID {
				r = j
				break
			}
		}

		if r < 0 || strings.TrimSpace(c.Name) == "" {
			continue
		}

		id := d.callID(c.ID)
		if id == "" || used[id] {
			id = shortID(fmt.Sprintf("%s:%d:%d", c.ID, at, k))
		}

		used[id] = true
		c.ID, ids[r] = id, id
		calls = append(calls, c)
	}

	lost := len(m.ToolCalls) - len(calls)
	m.ToolCalls = calls
	if len(calls) > 0 || !m.Content.Blank() {
		out = append(out, m)
	}

	var images []llm.Block
	for j, r := range results {
		if ids[j] == "" {
			lost++
			continue
		}
		r.ToolCallID = ids[j]
		r.Content, images = liftImages(r, images)
		out = append(out, r)
	}

	if len(images) > 0 {
		out = append(out, llm.Message{Role: llm.User, Content: llm.Content{Blocks: images}})
	}
	return out, lost
}

// liftImages takes the images out of a tool result, because the protocol
// allows them only in user messages, and adds them to the list of those that
// follow the results.
func liftImages(r llm.Message, images []llm.Block) (llm.Content, []llm.Block) {
	isImage := func(b llm.Block) bool { return b.Type == "image_url" }
	if !slices.ContainsFunc(r.Content.Blocks, isImage) {
		return r.Content, images
	}

	images = append(images, llm.Block{Type: "text", Text: "Image from the result of " + r.Name + ":"})
	var rest []llm.Block
	for _, b := range r.Content.Blocks {
		if isImage(b) {
			images = append(images, b)
		} else {
			rest = append(rest, b)
		}
	}

	if len(rest) == 0 {
		return llm.Text("(the image follows)"), images
	}
	return llm.Content{Blocks: rest}, images
}

// callID returns the id a vendor accepts for an existing one, "" if there is none.
func (d *driver) callID(id string) string {
	id, _, _ = strings.Cut(id, "|") // the Responses wire joins two ids; this one allows 40 characters
	if id == "" || !d.o.Quirks.ShortIDs || len(id) == 9 && strings.IndexFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0 {
		return id
	}
	return shortID(id)
}

func shortID(s string) string {
	sum := sha1.Sum([]byte(s)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])[:9]
}

// alternate joins neighbours with the same voice.
func alternate(msgs []llm.Message) []llm.Message {
	out := msgs[:0:0]
	for _, m := range msgs {
		if n := len(out); n > 0 && out[n-1].Role == m.Role && (m.Role == llm.User || m.Role == llm.Assistant) && len(out[n-1].ToolCalls) == 0 {
			m.Content = join(out[n-1].Content, m.Content)
			out[n-1] = m
			continue
		}
		out = append(out, m)
	}

	return out
}

func join(a, b llm.Content) llm.Content {
	switch {
	case a.Blank():
		return b
	case b.Blank():
		return a
	case a.Blocks == nil && b.Blocks == nil:
		return llm.Text(strings.TrimSpace(a.Text + "\n\n" + b.Text))
	}
	return llm.Content{Blocks: append(blocks(a), blocks(b)...)}
}

func blocks(c llm.Content) []llm.Block {
	if c.Blocks == nil {
		return []llm.Block{{Type: "text", Text: c.Text}}
	}
	return slices.Clone(c.Blocks)
}

// endWithInput removes trailing assistant turns, which vendors take for a
// prefill or refuse. If there is no turn of the user or of a tool, the last
// one becomes the input.
func endWithInput(msgs []llm.Message) []llm.Message {
	n := len(msgs)
	for n > 0 && msgs[n-1].Role == llm.Assistant {
		n--
	}

	if n == len(msgs) {
		return msgs
	}

	last := msgs[len(msgs)-1]
	msgs = msgs[:n]
	if !slices.ContainsFunc(msgs, func(m llm.Message) bool { return m.Role == llm.User || m.Role == llm.ToolRole }) {
		msgs = append(msgs, llm.Message{Role: llm.User, Content: last.Content})
	}
	return msgs
}
