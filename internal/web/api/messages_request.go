package api

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// messagesRequest is what we read of a request to /v1/messages. Settings of the
// model, such as max_tokens and stop_sequences, are the agent's and are ignored.
type messagesRequest struct {
	Model        string            `json:"model"`
	System       blocks            `json:"system"`
	Messages     []messagesEntry   `json:"messages"`
	Stream       bool              `json:"stream"`
	Thinking     thinking          `json:"thinking"`
	ToolChoice   toolChoice        `json:"tool_choice"`
	Tools        []json.RawMessage `json:"tools"`
	MCPServers   []json.RawMessage `json:"mcp_servers"`
	OutputFormat *struct{}         `json:"output_format"`
	OutputConfig struct {
		Format *struct{} `json:"format"`
	} `json:"output_config"`
	SessionID string    `json:"session_id"`
	Nanobot   extension `json:"nanobot"`
}

func (r messagesRequest) check() error {
	switch {
	case r.OutputFormat != nil || r.OutputConfig.Format != nil:
		return badRequest("output_config.format", "Answers are text: leave the output format out and ask for it in words.")
	case !r.ToolChoice.none && len(r.MCPServers) > 0:
		return badRequest("mcp_servers", "The agent uses its own MCP servers: leave mcp_servers out.")
	}
	return unsupported{Tools: r.Tools}.check(r.ToolChoice)
}

// thinking is whether a client wants to see what the model thinks. How much it
// thinks is a setting of the agent.
type thinking struct {
	Type    string `json:"type"`
	Display string `json:"display"`
}

func (t thinking) shown() bool {
	return (t.Type == "enabled" || t.Type == "adaptive") && t.Display != "omitted"
}

// messagesEntry is one message of a request.
type messagesEntry struct {
	Role    string `json:"role"`
	Content blocks `json:"content"`
}

// plain brings a message into our words. Results of tools are messages of their
// own, before what the user says beside them.
func (m messagesEntry) plain(i int) ([]message, error) {
	said := message{}
	switch m.Role {
	case "user":
		said.role = bus.RoleUser
	case "assistant":
		said.role = bus.RoleAssistant
	case "system":
		said.role = bus.RoleSystem
	default:
		return nil, badRequest(fmt.Sprintf("messages[%d].role", i), fmt.Sprintf("There is no role %q.", m.Role))
	}

	var out []message
	for _, b := range m.Content {
		switch b.Type {
		case "thinking", "redacted_thinking": // the agent keeps its own
		case "tool_use":
			said.parts = append(said.parts, textOf(called(b.Name, string(b.Input))))
		case "tool_result":
			result := message{role: bus.RoleTool}
			if b.IsError {
				result.text = "[the tool failed]"
			}

			inner, err := readBlocks(b.Content)
			if err != nil {
				return nil, err
			}
			if result.parts, err = inner.parts(); err != nil {
				return nil, err
			}
			out = append(out, result)

		default:
			more, err := b.parts()
			if err != nil {
				return nil, err
			}
			said.parts = append(said.parts, more...)
		}
	}

	if len(said.parts) > 0 {
		out = append(out, said)
	}
	return out, nil
}

// blocks is the content of a message: a text or a list of blocks.
type blocks []block

// block is one piece of a content. What may contain blocks itself is read only
// where the protocol has it: reading all of it at once would take time that grows
// with the square of its depth.
type block struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Title   string `json:"title"`
	Context string `json:"context"`
	Source  source `json:"source"`

	Name    string          `json:"name"`     // of a tool
	Input   json.RawMessage `json:"input"`    // of a tool
	Content json.RawMessage `json:"content"`  // blocks of a result
	IsError bool            `json:"is_error"` // of a result
}

// source is where a picture or a document is.
type source struct {
	Type      string          `json:"type"`
	MediaType string          `json:"media_type"`
	Data      string          `json:"data"`
	URL       string          `json:"url"`
	Content   json.RawMessage `json:"content"` // blocks
}

// UnmarshalJSON takes both forms of a content.
func (b *blocks) UnmarshalJSON(data []byte) error {
	switch {
	case bytes.Equal(data, []byte("null")):
		return nil
	case len(data) > 0 && data[0] == '[':
		return json.Unmarshal(data, (*[]block)(b))
	case len(data) > 0 && data[0] == '"':
		*b = blocks{{Type: "text"}}
		return json.Unmarshal(data, &(*b)[0].Text)
	}
	return badRequest("content", "The content of a message is a text or a list of blocks.")
}

// readBlocks reads blocks that another block contains.
func readBlocks(data json.RawMessage) (blocks, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var b blocks
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, jsonFault(err)
	}
	return b, nil
}

// parts brings blocks into the words that the protocols share.
func (b blocks) parts() (parts, error) {
	var out parts
	for _, one := range b {
		more, err := one.parts()
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

func (b block) parts() (parts, error) {
	switch b.Type {
	case "text":
		return parts{textOf(b.Text)}, nil
	case "image":
		return b.picture()
	case "document":
		return b.document()
	}
	return nil, badRequest("content", fmt.Sprintf("Content blocks of type %q are not supported.", b.Type))
}

func textOf(s string) part { return part{Type: "text", Text: s} }

func (b block) picture() (parts, error) {
	p := part{Type: "image_url"}
	switch b.Source.Type {
	case "base64":
		p.ImageURL.URL = "data:" + b.Source.MediaType + ";base64," + b.Source.Data
	case "url":
		p.ImageURL.URL = b.Source.URL
	default:
		return nil, badRequest("source", "Send pictures as base64 or as an http(s) address; other sources are not supported.")
	}

	return parts{p}, nil
}

func (b block) document() (parts, error) {
	var out parts
	if b.Context != "" {
		out = append(out, textOf(b.Context))
	}

	p := part{Type: "file"}
	p.File.Filename = b.fileName()
	switch b.Source.Type {
	case "base64":
		p.File.FileData = b.Source.Data
	case "text":
		p.File.FileData = base64.StdEncoding.EncodeToString([]byte(b.Source.Data))
	case "content":
		inner, err := readBlocks(b.Source.Content)
		if err != nil {
			return nil, err
		}

		for _, piece := range inner {
			if piece.Type == "document" {
				return nil, badRequest("source", "A document cannot contain documents.")
			}
		}

		more, err := inner.parts()
		return append(out, more...), err

	default:
		return nil, badRequest("source", "Send documents as base64, text or content; other sources are not supported.")
	}

	return append(out, p), nil
}

// fileName returns the title of a document, with the ending of its kind: readers of
// files go by it.
func (b block) fileName() string {
	name := cmp.Or(b.Title, "document")
	ext := map[string]string{"application/pdf": ".pdf", "text/plain": ".txt"}[b.Source.MediaType]
	if strings.HasSuffix(strings.ToLower(name), ext) {
		return name
	}
	return name + ext
}

// readMessages reads a request to /v1/messages. The call is there also when an
// error is, for its files.
func (a *API) readMessages(w http.ResponseWriter, r *http.Request) (*call, error) {
	c := &call{events: r.Header.Get(headerEvents) == "true"}
	var req messagesRequest
	if err := decode(w, r, &req); err != nil {
		return c, err
	}
	if err := req.check(); err != nil {
		return c, err
	}
	if len(req.Messages) == 0 {
		return c, badRequest("messages", "There are no messages.")
	}

	session, err := a.session(r, req.SessionID)
	if err != nil {
		return c, err
	}
	if c.model, err = a.model(req.Model); err != nil {
		return c, err
	}

	c.stream = req.Stream
	c.events = c.events || req.Nanobot.Events
	c.thinking = req.Thinking.shown()
	c.in.NoTools = req.ToolChoice.none

	var msgs []message
	if len(req.System) > 0 {
		system, err := req.System.parts()
		if err != nil {
			return c, err
		}
		msgs = append(msgs, message{role: bus.RoleSystem, parts: system})
	}

	for i, m := range req.Messages {
		more, err := m.plain(i)
		if err != nil {
			return c, err
		}
		msgs = append(msgs, more...)
	}

	return c, a.fill(r.Context(), c, session, msgs)
}
