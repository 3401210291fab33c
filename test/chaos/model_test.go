//go:build unix

package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// word finds the names of messages: chat, number. The semicolon tells c1n1 from
// the beginning of c1n12.
var word = regexp.MustCompile(`\bc\d+n\d+;`)

// model answers every message by its name. A message counts as answered for it
// when its conversation holds a reply with that name, so the name in a reply
// proves that the program showed it the message.
type model struct {
	t    *testing.T
	luck *luck
	http *httptest.Server
	gate chan struct{} // answers wait until it is closed; nil: they do not

	mu    sync.Mutex
	calls int
	tools int
	idle  int // calls that brought nothing new
}

func newModel(t *testing.T, l *luck) *model {
	t.Helper()
	m := &model{t: t, luck: l}
	m.http = httptest.NewServer(m)
	return m
}

// ServeHTTP implements http.Handler.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		return // the program died while it was sending, or looks around
	}
	var body struct {
		Messages []llm.Message `json:"messages"`
		Stream   bool          `json:"stream"`
	}
	if err := json.Unmarshal(raw, &body); err != nil || len(body.Messages) < 2 || !body.Stream {
		m.t.Errorf("strange request (%v): %.300s", err, raw)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	msgs := body.Messages[1:] // the system prompt
	if err := llmtest.CheckLegal(llm.Request{Messages: msgs}); err != nil {
		m.t.Errorf("illegal prompt: %v", err)
	}
	what := m.luck.model()
	switch what {
	case busy:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"rate limit reached","type":"rate_limit_error"}}`)
		return
	case broken:
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"error":{"message":"internal error","type":"server_error"}}`)
		return
	case cut:
		panic(http.ErrAbortHandler)
	case slow:
		hold(r.Context(), m.luck.within(time.Second))
		panic(http.ErrAbortHandler)
	}
	if m.gate != nil {
		<-m.gate
	}
	names := open(msgs)
	w.Header().Set("Content-Type", "text/event-stream")
	s := &speaker{w: w, luck: m.luck}
	if m.wantsTool(names, msgs) {
		s.call(r.Context())
		return
	}
	m.speak(r.Context(), s, names, what == torn)
}

// open lists the names that no reply mentions yet.
func open(msgs []llm.Message) []string {
	var names []string
	said := map[string]bool{}
	for _, msg := range msgs {
		for _, n := range word.FindAllString(msg.Content.String(), -1) {
			if msg.Role == llm.Assistant {
				said[n] = true
			}
		}
	}
	for _, msg := range msgs {
		for _, n := range word.FindAllString(msg.Content.String(), -1) {
			if msg.Role == llm.User && !said[n] {
				said[n] = true
				names = append(names, n)
			}
		}
	}
	return names
}

// wantsTool makes every fifth message a turn with a tool.
func (m *model) wantsTool(names []string, msgs []llm.Message) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if len(names) == 0 {
		m.idle++
		return false
	}
	use := strings.HasSuffix(names[0], "0;") || strings.HasSuffix(names[0], "5;")
	if !use || msgs[len(msgs)-1].Role == llm.ToolRole {
		return false
	}
	m.tools++
	return true
}

func (m *model) speak(ctx context.Context, s *speaker, names []string, broken bool) {
	if len(names) == 0 {
		s.say(ctx, "there is nothing new")
		s.end("stop")
		return
	}
	s.say(ctx, "ok")
	for i, n := range names {
		if broken && i == len(names)-1 {
			if m.luck.float() < 0.5 { // sometimes all of it was shown by then
				s.say(ctx, " "+n)
			}
			hold(ctx, m.luck.within(time.Second/4))
			panic(http.ErrAbortHandler)
		}
		s.say(ctx, " "+n)
	}
	s.say(ctx, " done.")
	s.end("stop")
}

// speaker writes a stream.
type speaker struct {
	w    http.ResponseWriter
	luck *luck
	n    int
}

func (s *speaker) send(v string) {
	fmt.Fprintf(s.w, "data: %s\n\n", v)
	_ = http.NewResponseController(s.w).Flush() // nobody may be there any more
	s.n++
}

func (s *speaker) say(ctx context.Context, text string) {
	b, _ := json.Marshal(text) // a string always works
	hold(ctx, s.luck.within(100*time.Millisecond))
	s.send(`{"choices":[{"index":0,"delta":{"content":` + string(b) + `},"finish_reason":null}]}`)
}

func (s *speaker) call(ctx context.Context) {
	hold(ctx, s.luck.within(100*time.Millisecond))
	s.send(fmt.Sprintf(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_%d","type":"function","function":{"name":"list_dir","arguments":"{\"path\":\".\"}"}}]}}]}`, time.Now().UnixNano()))
	s.end("tool_calls")
}

func (s *speaker) end(reason string) {
	s.send(`{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}],"usage":{"prompt_tokens":10,"completion_tokens":2}}`)
	s.send("[DONE]")
}
