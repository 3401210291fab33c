package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// sessionPrefix begins the keys of all conversations of the API, so that
// clients cannot reach those of others.
const sessionPrefix = channelName + ":"

const (
	channelName = "api"
	maxSession  = 128 // bytes of a name
)

// call is one request, whatever protocol it came in.
type call struct {
	in     bus.Inbound
	model  Model
	stream bool
	usage  bool // the stream tells what it cost

	// What the client wants to see.
	events   bool // the work
	thinking bool // what the model thinks, as a part of the answer

	files []string // that were saved for it
	keep  bool     // they belong to a conversation that goes on
}

// drop removes the files of a request that no later one asks about.
func (c *call) drop() {
	if c.keep {
		return
	}
	for _, f := range c.files {
		_ = os.Remove(f) //nolint:gosec // save made the name; the file may be gone already
	}
}

// extension is what a request may say to us beyond the protocol.
type extension struct {
	Events bool `json:"events"`
}

// message is one entry of a conversation as a client sent it. The content is
// read only if it is needed: files of a history that we ignore are not saved.
type message struct {
	role  string // of bus.Said
	text  string // said besides the content
	parts []part
}

// decode reads a JSON body into v.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	rc := http.NewResponseController(w)
	defer slowBody(rc)()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return bodyFault(err)
	}
	if trimmed := bytes.TrimSpace(body); len(trimmed) == 0 || trimmed[0] != '{' {
		return badRequest("", "The body must be a JSON object.")
	}
	if err := json.Unmarshal(body, v); err != nil {
		return jsonFault(err)
	}
	return nil
}

// jsonFault makes a fault of an error of decoding.
func jsonFault(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return badRequest(e.Field, fmt.Sprintf("%s must not be a %s.", e.Field, e.Value))
	}
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	return badRequest("", "The body is not valid JSON: "+err.Error())
}

func bodyFault(err error) error {
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &fault{status: http.StatusRequestEntityTooLarge, code: "request_too_large", message: fmt.Sprintf("A request may have at most %d bytes.", e.Limit)}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &fault{status: http.StatusRequestTimeout, code: "request_timeout", message: "The request took too long to arrive."}
	}
	return badRequest("", "The body broke off.")
}

// session returns the conversation a request names; "" if it names none.
func (a *API) session(r *http.Request, named string) (string, error) {
	id := r.Header.Get(headerSession)
	if id == "" {
		id = named
	}

	if a.o.History == historyClient {
		if id != "" {
			return "", badRequest("session_id", "Conversations are kept by the client here (api.history): send all messages and no session.")
		}
		return "", nil
	}

	if id == "" {
		return "", nil
	}
	return id, checkSession(id)
}

// pythons returns the conversation that a message without a session name continues.
func (a *API) pythons(session string, msgs []message) string {
	if session == "" && a.o.History == historyDefault && len(msgs) == 1 && msgs[0].role == bus.RoleUser {
		return "default"
	}
	return session
}

func checkSession(id string) error {
	bad := strings.ContainsFunc(id, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError })
	if id == "" || len(id) > maxSession || bad || strings.TrimSpace(id) != id {
		return badRequest("session_id", fmt.Sprintf("The name of a session has 1 to %d bytes, without control characters or spaces around it.", maxSession))
	}
	return nil
}

// fill makes the message for the agent: of a conversation that is kept here
// only what is new, otherwise all of it.
func (a *API) fill(ctx context.Context, c *call, session string, msgs []message) error {
	last := len(msgs)
	for last > 0 && (msgs[last-1].role == bus.RoleUser || msgs[last-1].role == bus.RoleSystem) {
		last--
	}

	current := msgs[last:]
	id := session
	if c.in.Stateless = session == ""; c.in.Stateless {
		id = randomHex(16)
	}

	c.in.ID = sessionPrefix + randomHex(24)
	c.in.SessionKey, c.in.Route = sessionPrefix+id, bus.Route{Channel: channelName, ChatID: id}
	c.in.SenderID = channelName
	c.in.OwnTurn = true
	c.in.At = a.o.Now()
	c.in.Preset, c.in.WantsStream = c.model.Preset, c.stream

	for _, m := range msgs[:last] {
		if m.role != bus.RoleSystem && !c.in.Stateless {
			continue
		}

		text, media, err := a.o.Media.content(ctx, c, m)
		if err != nil {
			return err
		}

		// Who has the key speaks for the owner, in the words of a user and in
		// instructions. What a model or a tool is said to have answered is data.
		clean := m.role == bus.RoleUser || m.role == bus.RoleSystem
		c.in.History = append(c.in.History, bus.Said{Role: m.role, Text: text, Media: media, Clean: clean})
	}

	var said []string
	for _, m := range current {
		text, media, err := a.o.Media.content(ctx, c, m)
		if err != nil {
			return err
		}
		if m.role == bus.RoleSystem {
			c.in.History = append(c.in.History, bus.Said{Role: m.role, Text: text, Clean: true})
			continue
		}

		if strings.TrimSpace(text) != "" {
			said = append(said, text)
		}
		c.in.Media = append(c.in.Media, media...)
	}

	c.in.Text = strings.Join(said, "\n\n")
	switch {
	case c.in.Text == "" && len(c.in.Media) == 0:
		return badRequest("messages", "The last message must be the user's and must say something.")
	case c.in.Text == "":
		c.in.Text = "Look at the attached files."
	}
	return nil
}

// chatRequest is what we read of a request to /v1/chat/completions. Settings
// of the model, such as temperature, are the agent's and are ignored.
type chatRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Stream        bool          `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	SessionID  string     `json:"session_id"`
	ToolChoice toolChoice `json:"tool_choice"`
	Nanobot    extension  `json:"nanobot"`

	unsupported
}

// toolChoice is what a client says about tools. "none" is an answer without
// them; all else is left to the agent, whose tools they are.
type toolChoice struct{ none bool }

// UnmarshalJSON takes a word or an object, whose type is the word.
func (c *toolChoice) UnmarshalJSON(b []byte) error {
	var object struct {
		Type string `json:"type"`
	}
	if len(b) > 0 && b[0] == '{' {
		_ = json.Unmarshal(b, &object) // an object without such a type is another choice
	}
	c.none = string(b) == `"none"` || object.Type == "none"
	return nil
}

// unsupported are fields that change what an answer must look like. Ignoring
// them would be a lie.
type unsupported struct {
	N              *int              `json:"n"`
	Tools          []json.RawMessage `json:"tools"`
	Functions      []json.RawMessage `json:"functions"`
	ResponseFormat struct {
		Type string `json:"type"`
	} `json:"response_format"`
	Modalities []string `json:"modalities"`
	Logprobs   bool     `json:"logprobs"`
}

func (u unsupported) check(choice toolChoice) error {
	switch {
	case u.N != nil && *u.N != 1:
		return badRequest("n", "There is one answer to a request: leave n out.")
	case !choice.none && (len(u.Tools) > 0 || len(u.Functions) > 0):
		return badRequest("tools", "The agent runs its own tools and cannot call those of a client: leave tools out, or set tool_choice to none. To see its calls, send \"nanobot\": {\"events\": true}.")
	case u.ResponseFormat.Type != "" && u.ResponseFormat.Type != "text":
		return badRequest("response_format", "Answers are text: leave response_format out and ask for the form in words.")
	case u.Logprobs:
		return badRequest("logprobs", "There are no log probabilities here.")
	}

	for _, m := range u.Modalities {
		if m != "text" {
			return badRequest("modalities", "Answers are text.")
		}
	}
	return nil
}

type chatMessage struct {
	Role      string `json:"role"`
	Content   parts  `json:"content"`
	Name      string `json:"name"`
	Refusal   string `json:"refusal"`
	ToolCalls []struct {
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// called shows a call of a client's own tool in a history.
func called(name, arguments string) string { return "[called " + name + " with " + arguments + "]" }

// plain brings a message into our words.
func (m chatMessage) plain(i int) (message, error) {
	out := message{parts: m.Content, text: m.Refusal}
	switch m.Role {
	case "system", "developer":
		out.role = bus.RoleSystem
	case "user":
		out.role = bus.RoleUser
	case "assistant":
		out.role = bus.RoleAssistant
		for _, c := range m.ToolCalls {
			out.text = strings.TrimLeft(out.text+"\n"+called(c.Function.Name, c.Function.Arguments), "\n")
		}

	case "tool", "function":
		out.role = bus.RoleTool
	default:
		return message{}, badRequest(fmt.Sprintf("messages[%d].role", i), fmt.Sprintf("There is no role %q.", m.Role))
	}

	return out, nil
}

// readChat reads a request to /v1/chat/completions. The call is there also
// when an error is, for its files.
func (a *API) readChat(w http.ResponseWriter, r *http.Request) (*call, error) {
	c := &call{events: r.Header.Get(headerEvents) == "true"}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "multipart/form-data" {
		return c, a.readForm(w, r, c)
	}

	var req chatRequest
	if err := decode(w, r, &req); err != nil {
		return c, err
	}
	if err := req.check(req.ToolChoice); err != nil {
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
	c.usage = req.StreamOptions.IncludeUsage
	c.in.NoTools = req.ToolChoice.none
	c.events = c.events || req.Nanobot.Events
	msgs := make([]message, len(req.Messages))
	for i, m := range req.Messages {
		if msgs[i], err = m.plain(i); err != nil {
			return c, err
		}
	}
	return c, a.fill(r.Context(), c, a.pythons(session, msgs), msgs)
}
