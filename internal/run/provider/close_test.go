package provider

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// A call is counted on the day that the clock of the program shows, and Close
// leaves no connection behind that waits for another call.
func TestCloseAndClock(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 8)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`+"\n\ndata: [DONE]\n\n")
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	loaded := modelsOf(t, fmt.Sprintf(`{"agents":{"defaults":{"model":"custom/m","provider":"custom"}},"providers":{"custom":{"apiBase":"%s/v1"}}}`, srv.URL)).loaded
	m := New(Options{
		Config: loaded, Getenv: func(string) string { return "" },
		Now: func() time.Time { return time.Date(2001, 3, 4, 5, 6, 7, 0, time.UTC) },
	})
	if _, err := m.SelectDefault(t.Context()); err != nil {
		t.Fatal(err)
	}
	rt, err := m.Named(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := llm.Collect(t.Context(), rt.Model, llm.Request{Model: rt.Name, Messages: []llm.Message{{Role: llm.User, Content: llm.Text("hello")}}}); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(loaded.DataDir, "usage", "*2001-03*")); len(files) != 1 {
		all, _ := filepath.Glob(filepath.Join(loaded.DataDir, "usage", "*"))
		t.Errorf("the call was counted in %s, want March 2001", strings.Join(all, ", "))
	}
	select {
	case <-closed:
	case <-time.After(10 * time.Minute):
		t.Error("the connection to the model is still open")
	}
}
