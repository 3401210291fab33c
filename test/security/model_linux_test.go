package security_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// call is something a model wants done.
type call struct{ name, args string }

// order is what an injected text makes the model do.
type order struct {
	name  string
	words string // what a person would read
	calls []call
	// clean names changes that are within the policy when the text is the
	// owner's own (a file of the workspace); knows says that the model has the
	// key from elsewhere, so its own words contain it.
	clean []string
	knows bool
	mcp   bool // needs the MCP server
}

// model is a server that speaks Chat Completions for a model that obeys: after
// its opening calls it does whatever follows the word INJECTED: in anything it
// is shown, one call after the other, and at last repeats what it saw.
type model struct {
	t     *testing.T
	house *house
	url   string

	mu             sync.Mutex
	opening        []call // what the user asked for
	orders         map[string]order
	queue          map[string][]call // by conversation
	obeyed         []string          // names of the orders it found
	done           map[string]bool   // conversation and order
	made           int               // calls of orders it made
	heard          int               // orders it found, in all turns
	turns          int               // that were begun with a mark
	mark           string            // in its last words
	beside         string            // what it says in work beside the turns, such as a summary
	repeated       int               // how often it said that
	usage          [2]int            // tokens it says it used
	report         string            // JSON that it says instead, if set
	prompt, answer int               // tokens of all calls
	ended          []string          // marks of turns that are over
	n              int
	requests       [][]byte
	results        []string
	session        string // of the command that goes on
	// script, if set, decides instead of all that: by what the user wrote last
	// and by the results of the turn so far.
	script func(user string, results []string) (say string, calls []call)
}

func newModel(t *testing.T, h *house) *model {
	t.Helper()
	m := &model{t: t, house: h, orders: map[string]order{}, queue: map[string][]call{}, done: map[string]bool{}}
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	m.url = srv.URL + "/v1"
	return m
}

// block is a piece of a message on the wire.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	ImageURL struct {
		URL string `json:"url"`
	} `json:"image_url"`
}

type wireMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// read is everything a model sees in a message, words in pictures included.
func (m wireMessage) read() string {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text
	}
	var blocks []block
	_ = json.Unmarshal(m.Content, &blocks) // what is neither is nothing
	var b strings.Builder
	for _, part := range blocks {
		b.WriteString(part.Text + "\n")
		if _, data, ok := strings.Cut(part.ImageURL.URL, ";base64,"); ok {
			picture, _ := base64.StdEncoding.DecodeString(data)
			b.Write(picture)
		}
	}
	return b.String()
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var body struct {
		Messages []wireMessage   `json:"messages"`
		Tools    json.RawMessage `json:"tools"`
		Most     int             `json:"max_tokens"`
		Most2    int             `json:"max_completion_tokens"`
	}
	if err := json.Unmarshal(raw, &body); err != nil || len(body.Messages) == 0 {
		http.Error(w, `{"error":{"message":"not a request"}}`, http.StatusBadRequest)
		return
	}
	say, calls := m.think(raw, body.Messages, string(body.Tools))
	usage := m.usage
	if most := cmp.Or(body.Most, body.Most2); most > 0 {
		usage[1] = min(usage[1], most) // as a real one would
	}
	m.mu.Lock()
	m.prompt, m.answer = m.prompt+usage[0], m.answer+usage[1]
	m.mu.Unlock()
	var report any = map[string]any{"prompt_tokens": max(usage[0], 10), "completion_tokens": max(usage[1], 5)}
	if m.report != "" {
		report = json.RawMessage(m.report)
	}
	reply(w, say, calls, report)
}

// reply streams an answer. usage is what it says it used.
func reply(w http.ResponseWriter, say string, calls []llmtest.StreamCall, usage any) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(v any) {
		b, _ := json.Marshal(v) // plain maps
		fmt.Fprintf(w, "data: %s\n\n", b)
	}
	delta := map[string]any{"role": "assistant", "content": say}
	finish := "stop"
	if len(calls) > 0 {
		finish = "tool_calls"
		var list []any
		for i, c := range calls {
			list = append(list, map[string]any{"index": i, "id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": strings.Join(c.Args, "")}})
		}
		delta["tool_calls"] = list
	}
	send(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": nil}}})
	send(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": finish}}, "usage": usage})
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// sessionWord is how a result names a command that goes on; calls name it as
// {{session}}.
var sessionWord = regexp.MustCompile(`session_id ([0-9a-z]+)`)

var orderWord = regexp.MustCompile(`INJECTED:([a-z0-9-]+)`)

func (m *model) think(raw []byte, msgs []wireMessage, tools string) (string, []llmtest.StreamCall) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, raw)
	m.n++
	last := ""
	user, texts, whose, said := "", []string{tools}, "", ""
	var results []string
	for _, msg := range msgs {
		text := msg.read()
		switch msg.Role {
		case string(llm.Assistant):
			said += text
			continue
		case string(llm.User):
			user, results = text, nil
			whose = cmp.Or(whose, text)
		case string(llm.ToolRole):
			last = text
			results = append(results, text)
		}
		texts = append(texts, text)
		if found := sessionWord.FindStringSubmatch(text); msg.Role == string(llm.ToolRole) && found != nil {
			m.session = found[1]
		}
	}
	m.results = results
	if m.script != nil {
		say, calls := m.script(user, results)
		return say, m.wire(calls, last)
	}
	for _, text := range texts {
		for _, found := range orderWord.FindAllStringSubmatch(text, -1) {
			if o, ok := m.orders[found[1]]; ok && !m.done[whose+"\n"+o.name] {
				m.done[whose+"\n"+o.name] = true
				m.obeyed = append(m.obeyed, o.name)
				m.heard++
				m.queue[whose] = append(m.queue[whose], o.calls...)
			}
		}
	}
	switch {
	case !strings.Contains(tools, `"exec"`):
		// Work beside the turns, such as a summary: it repeats what it was told.
		if m.beside != "" && strings.Contains(strings.Join(texts, "\n")+said, "INJECTED:") {
			m.repeated++
			return m.beside, nil
		}
		return "nothing", nil
	case len(m.opening) > 0:
		next := m.opening[0]
		m.opening = m.opening[1:]
		return "", m.wire([]call{next}, last)
	case len(m.queue[whose]) > 0:
		next := m.queue[whose][0]
		m.queue[whose] = m.queue[whose][1:]
		m.made++
		return "", m.wire([]call{next}, last)
	}
	m.ended = append(m.ended, m.mark)
	return "All done. " + m.mark + " I saw: " + strings.Join(m.results, "\n"), nil
}

// begin starts a turn: the model does what the owner wants, and obeys again
// what it has obeyed in turns before.
func (m *model) begin(opening []call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opening, m.obeyed = opening, nil
	clear(m.queue)
	clear(m.done)
}

// beginMarked starts a turn whose last words contain the mark it returns.
func (m *model) beginMarked(opening []call) string {
	m.begin(opening)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turns++
	m.mark = fmt.Sprintf("end-of-turn-%d.", m.turns)
	return m.mark
}

func (m *model) wire(calls []call, last string) []llmtest.StreamCall {
	if len(last) > 400 {
		last = last[:400]
	}
	fill := m.house.values(url.QueryEscape(last))
	var out []llmtest.StreamCall
	for i, c := range calls {
		args := strings.ReplaceAll(fill.Replace(c.args), "{{session}}", m.session)
		out = append(out, llmtest.StreamCall{ID: fmt.Sprintf("c%d_%d", m.n, i), Name: c.name, Args: []string{args}})
	}
	return out
}

func (m *model) bodies() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// lastResults are the tool results of the last request.
func (m *model) lastResults() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.results)
}

// order adds what an injected text makes the model do.
func (m *model) order(o order) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.orders[o.name] = o
}

// has tells whether an order reached the model since the turn was begun.
func (m *model) has(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.obeyed, name)
}

// said tells whether the model has ended the turn with this mark.
func (m *model) said(mark string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.ended, mark)
}

// followed says which orders reached the model and how many calls it made for them.
func (m *model) followed() (orders []string, calls int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.obeyed), m.made
}
