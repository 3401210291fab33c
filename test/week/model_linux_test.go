package week_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// call is something the model wants done.
type call struct {
	name string
	args map[string]any
}

func sh(command string) call { return call{"exec", map[string]any{"command": command}} }

func fetch(url string) call { return call{"web_fetch", map[string]any{"url": url}} }

func write(path, content string) call {
	return call{"write_file", map[string]any{"path": path, "content": content}}
}

// part is what the model does when words of the user fit: one call after the
// other, then its last words.
type part struct {
	words string // in what the user wrote last
	calls []call
	say   string
	usage int // tokens it says a request cost; 0 is what it did
	// act, if set, decides instead: by how often the user's words were in the
	// conversation, and the results since the last of them.
	act func(round int, results []string) (say string, next *call)
}

// request is one that reached the model.
type request struct {
	day      int
	part     string // its words, or the kind of work beside turns
	results  []string
	body     []byte
	messages []json.RawMessage
	system   string
}

// model is a server that speaks Chat Completions and plays its parts. It keeps
// memory as a careful model would: what the user calls a FACT.
type model struct {
	t   *testing.T
	url string

	mu       sync.Mutex
	day      int
	parts    []part
	requests []request
	calls    int
	changed  chan struct{}
	hold     string        // a part whose last request is not answered until ...
	held     chan struct{} // ... closed when that request is there
	goOn     chan struct{}
}

func newModel(t *testing.T) *model {
	t.Helper()
	m := &model{t: t, changed: make(chan struct{})}
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	m.url = srv.URL
	return m
}

// plays adds a part. The newest that fits is played.
func (m *model) plays(p part) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parts = append(m.parts, p)
}

// holds makes the model say nothing after the last call of a part, once. It
// returns when that is reached, and what lets the model go on.
func (m *model) holds(words string) (reached <-chan struct{}, goOn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold, m.held, m.goOn = words, make(chan struct{}), make(chan struct{})
	return m.held, sync.OnceFunc(func() { close(m.goOn) })
}

type wireMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

func (w wireMessage) text() string {
	var s string
	if json.Unmarshal(w.Content, &s) == nil {
		return s
	}
	var blocks []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(w.Content, &blocks) // what is neither is nothing
	var b strings.Builder
	for _, p := range blocks {
		b.WriteString(p.Text + "\n")
	}
	return b.String()
}

// ServeHTTP implements http.Handler.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var body struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(raw, &body); err != nil || len(body.Messages) == 0 {
		http.Error(w, `{"error":{"message":"not a request"}}`, http.StatusBadRequest)
		return
	}
	say, calls, usage, wait := m.think(request{body: raw, messages: body.Messages})
	if wait != nil {
		select {
		case <-wait:
		case <-r.Context().Done():
			return
		}
	}
	answer(w, say, calls, [2]int{max(usage, len(raw)/4), len(say)/4 + 20})
}

// fact is what a careful model keeps. Its end is the full stop.
var fact = regexp.MustCompile(`FACT\d+: [^.\n\\]*\.`)

func (m *model) think(q request) (say string, calls []map[string]any, usage int, wait chan struct{}) {
	user, all := "", ""
	for i, raw := range q.messages {
		var w wireMessage
		_ = json.Unmarshal(raw, &w) // what is none says nothing
		text := w.text()
		switch {
		case i == 0 && w.Role == "system":
			q.system = text
			continue
		case w.Role == "user":
			user, q.results = text, nil
		case w.Role == "tool":
			q.results = append(q.results, text)
		}
		all += text + "\n"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() {
		q.day = m.day
		m.requests = append(m.requests, q)
		close(m.changed)
		m.changed = make(chan struct{})
	}()
	done := len(q.results) > 0
	switch {
	case strings.Contains(user, "about to leave the conversation") || strings.HasPrefix(q.system, "You keep the memory"):
		q.part = "summary"
		return facts(all, "- [permanent] ", "(nothing)"), nil, 0, nil
	case strings.HasPrefix(q.system, "You look after the long-term memory"):
		q.part = "dream: find"
		history, files, _ := strings.Cut(user, "## Current Date")
		return findings(history, files), nil, 0, nil
	case strings.HasPrefix(q.system, "You carry out findings"):
		q.part = "dream: edit"
		if done {
			return "Done.", nil, 0, nil
		}
		_, found, _ := strings.Cut(user, "## Analysis Result")
		found, _, _ = strings.Cut(found, "\n## ")
		return "", m.wire(call{"edit_file", map[string]any{"path": "memory/MEMORY.md", "old_text": "", "new_text": facts(found, "- ", "") + "\n"}}), 0, nil
	case strings.HasPrefix(q.system, "You read notes") || strings.HasPrefix(q.system, "You keep notes"):
		q.part = "dream: others"
		return "[SKIP]", nil, 0, nil
	case strings.HasPrefix(q.system, "An assistant did a regular check"):
		q.part = "judge"
		return "", m.wire(call{"evaluate_notification", map[string]any{"should_notify": true}}), 0, nil
	}
	for _, p := range slices.Backward(m.parts) {
		if !strings.Contains(user, p.words) {
			continue
		}
		q.part = p.words
		if p.act != nil {
			say, next := p.act(strings.Count(all, p.words), q.results)
			if next != nil {
				return "", m.wire(*next), p.usage, nil
			}
			return say, nil, p.usage, nil
		}
		if n := len(q.results); n < len(p.calls) {
			return "", m.wire(p.calls[n]), p.usage, nil
		}
		if m.hold == p.words {
			m.hold = ""
			close(m.held)
			wait = m.goOn
		}
		return p.say, nil, p.usage, wait
	}
	q.part = "unknown"
	return "I do not know what to do.", nil, 0, nil
}

func (m *model) wire(c call) []map[string]any {
	m.calls++
	b, _ := json.Marshal(c.args) // plain maps
	return []map[string]any{{
		"index": 0, "id": fmt.Sprintf("c%d", m.calls), "type": "function",
		"function": map[string]any{"name": c.name, "arguments": string(b)},
	}}
}

// facts are those of a text, once each.
func facts(text, bullet, none string) string {
	var lines []string
	for _, f := range fact.FindAllString(text, -1) {
		if line := bullet + f; !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return none
	}
	return strings.Join(lines, "\n")
}

// findings are the facts of the history that the files lack.
func findings(history, files string) string {
	var lines []string
	for line := range strings.Lines(history) {
		for _, f := range fact.FindAllString(line, -1) {
			if line := "[MEMORY] " + f; !strings.Contains(files, f) && !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) == 0 {
		return "[SKIP]"
	}
	return strings.Join(lines, "\n")
}

// answer streams a reply. usage is what it says it used, prompt and answer.
func answer(w http.ResponseWriter, say string, calls []map[string]any, usage [2]int) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(v any) {
		b, _ := json.Marshal(v) // plain maps
		fmt.Fprintf(w, "data: %s\n\n", b)
	}
	delta := map[string]any{"role": "assistant", "content": say}
	finish := "stop"
	if len(calls) > 0 {
		finish, delta["tool_calls"] = "tool_calls", calls
	}
	send(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": nil}}})
	send(map[string]any{
		"choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": finish}},
		"usage":   map[string]any{"prompt_tokens": usage[0], "completion_tokens": usage[1]},
	})
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// seen are the requests so far that fit.
func (m *model) seen(fits func(q request) bool) (list []request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.requests {
		if fits(q) {
			list = append(list, q)
		}
	}
	return list
}

// of are the requests of a part on a day, 0 for every day.
func (m *model) of(day int, words string) []request {
	return m.seen(func(q request) bool { return q.part == words && (day == 0 || q.day == day) })
}
