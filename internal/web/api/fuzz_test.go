package api_test

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

// FuzzRequest: whatever is sent, the answer is JSON or a stream, an accepted
// message says something, and no file is left of a request that is not kept.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"messages":[{"role":"user","content":"x"}]}`,
		`{"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":"data:image/png;base64,` + dot + `"}]}]}`,
		`{"input":[{"role":"user","content":[{"type":"input_file","filename":"../x","file_data":"aGFsbG8="}]},{"type":"function_call_output","output":{}}]}`,
		`{"conversation":{"id":"a"},"input":"x","user":null,"tools":null,"messages":null}`,
		`{"messages":[{"role":"tool","content":null},{"role":"user","content":["x"]}],"n":null}`,
		`{"stream":true,"thinking":{"type":"enabled"},"system":"x","messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + dot + `"}},{"type":"text","text":"x"}]}]}`,
		`{"system":[{"type":"text","text":"x"}],"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","is_error":true,"content":[{"type":"text","text":"r"}]},{"type":"document","title":"../x","source":{"type":"text","data":"x"}}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"document","source":{"type":"content","content":5}}]}}]}],"tool_choice":{"type":"none"}}`,
		`[]`, `{`, `null`,
	} {
		f.Add("/v1/chat/completions", s)
		f.Add("/v1/responses", s)
		f.Add("/v1/messages", s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, path, body string) {
		if path != "/v1/responses" && path != "/v1/messages" {
			path = "/v1/chat/completions"
		}
		var got []bus.Inbound
		a, err := api.New(api.Options{Media: api.Uploads{Dir: dir, MaxFile: 1000}, Ask: func(_ context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
			got = append(got, in)
			return func(yield func(bus.Outbound, error) bool) { yield(final("ok", bus.Turn{}), nil) }
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r)
		stream := strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream")
		if !stream && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %q", w.Code, w.Body)
		}
		if (w.Code == http.StatusOK) != (len(got) == 1) || w.Code >= http.StatusInternalServerError {
			t.Errorf("%d with %d messages", w.Code, len(got))
		}
		for _, in := range got {
			for _, m := range in.Media {
				if _, err := os.Stat(m.Path); in.Stateless && err == nil {
					t.Errorf("%s is left", m.Path)
				}
			}
			if in.Text == "" || in.Stateless && !strings.HasPrefix(in.SessionKey, "api:") {
				t.Errorf("inbound %+v", in)
			}
		}
	})
}
