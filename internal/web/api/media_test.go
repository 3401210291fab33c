package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// TestMedia: pictures, files and recordings reach the agent as files, and go
// away with a request that is not kept.
func TestMedia(t *testing.T) {
	t.Parallel()
	picture := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/dot" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "GIF89a-not-much-of-one")
	}))
	t.Cleanup(picture.Close)
	var dir string
	h := open(t, func(_ context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
		said := []string{in.Text}
		for _, m := range in.Media {
			b, err := os.ReadFile(m.Path)
			if err != nil {
				t.Error(err)
			}
			said = append(said, m.Name+" "+m.MIME+" "+string(b[:min(5, len(b))]))
		}
		yield(final(strings.Join(said, "|"), bus.Turn{}), nil)
	}, func(o *api.Options) {
		dir = o.Media.Dir
		o.Media.Fetch = picture.Client()
		o.Media.Transcribe = func(_ context.Context, path string) (string, error) {
			if b, err := os.ReadFile(path); err != nil || string(b) != "hallo" {
				return "", errors.New("broken")
			}
			return "spoken", nil
		}
	})
	content := `[{"type":"text","text":"see"},
		{"type":"image_url","image_url":{"url":"data:image/png;base64,` + dot + `"}},
		{"type":"image_url","image_url":{"url":"` + picture.URL + `/dot"}},
		{"type":"input_audio","input_audio":{"data":"aGFsbG8=","format":"wav"}},
		{"type":"file","file":{"filename":"../../no tes.txt","file_data":"data:text/plain;base64,aGFsbG8="}}]`
	want := "see\nspoken|image.png image/png \x89PNG\r|image.gif image/gif GIF89|no_tes.txt  hallo"
	for _, c := range []struct {
		session string
		left    int
	}{{"", 0}, {`"session_id":"s",`, 4}} {
		_, _, body := h.post(t, "/v1/chat/completions", `{`+c.session+`"messages":[{"role":"user","content":`+content+`}]}`)
		got, _ := parse(t, body)["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)["content"].(string)
		if got != strings.ToValidUTF8(want, "\uFFFD") {
			t.Errorf("got %q, want %q", got, want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != c.left {
			t.Errorf("%d files left, want %d", len(left), c.left)
		}
	}
	status, _, body := h.post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"`+picture.URL+`/no"}}]}]}`)
	if status != 400 || strings.Contains(body, picture.URL) {
		t.Errorf("missing picture: %d %s", status, body)
	}
	guarded, err := httpsafe.Guarded(httpsafe.GuardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guarded.CloseIdleConnections)
	strict := open(t, says(), func(o *api.Options) { o.Media.Fetch = guarded })
	if status, _, body := strict.post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"`+picture.URL+`/dot"}}]}]}`); status != 400 || !strings.Contains(body, "cannot be fetched") {
		t.Errorf("private address: %d %s", status, body)
	}
}

// TestForm: requests in the form of a web page, as older clients send them.
func TestForm(t *testing.T) {
	t.Parallel()
	h := open(t, says(final("ok", bus.Turn{})), func(o *api.Options) { o.Media.MaxFile = 10 })
	form := func(files map[string]string, fields ...string) (string, string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for i := 0; i < len(fields); i += 2 {
			_ = w.WriteField(fields[i], fields[i+1])
		}
		for name, data := range files {
			p, err := w.CreateFormFile("files", name)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(p, data)
		}
		_ = w.Close()
		return b.String(), w.FormDataContentType()
	}
	body, kind := form(map[string]string{"a.txt": "hello"}, "message", "read it", "session_id", "s")
	if status, _, body := h.send(t, http.MethodPost, "/v1/chat/completions", body, "Content-Type", kind); status != 200 {
		t.Fatalf("status %d: %s", status, body)
	}
	in := h.last(t)
	if in.Text != "read it" || in.SessionKey != "api:s" || len(in.Media) != 1 || in.Media[0].Name != "a.txt" || in.Media[0].Size != 5 {
		t.Errorf("inbound %+v", in)
	}
	body, kind = form(map[string]string{"a.txt": "hello"})
	if status, _, _ := h.send(t, http.MethodPost, "/v1/chat/completions", body, "Content-Type", kind); status != 200 || h.last(t).Text == "" {
		t.Errorf("files alone: %d %q", status, h.last(t).Text)
	}
	body, kind = form(map[string]string{"a.txt": "more than ten"}, "message", "x")
	if status, _, _ := h.send(t, http.MethodPost, "/v1/chat/completions", body, "Content-Type", kind); status != 413 {
		t.Errorf("too large: %d", status)
	}
	if status, _, _ := h.send(t, http.MethodPost, "/v1/responses", body, "Content-Type", kind); status != 415 {
		t.Errorf("a form for responses: %d", status)
	}
	if status, _, _ := h.send(t, http.MethodPost, "/v1/chat/completions", "broken", "Content-Type", kind); status != 400 {
		t.Errorf("broken form: %d", status)
	}
}

// TestResponses: input as text and as items, and the order of events.
func TestResponses(t *testing.T) {
	t.Parallel()
	o := final("Hello", bus.Turn{Usage: bus.Usage{Prompt: 7, Completion: 2, Cached: 3}})
	o.Streamed = true
	h := open(t, says(
		bus.Outbound{Kind: bus.Delta, Text: "Hel"}, bus.Outbound{Kind: bus.ToolEvent, Tool: &bus.Tool{Name: "x"}},
		bus.Outbound{Kind: bus.Delta, Text: "lo"}, o,
	))
	status, _, body := h.post(t, "/v1/responses", `{"conversation":{"id":"s"},"instructions":"be brief","input":[
		{"role":"user","content":[{"type":"input_text","text":"old"}]},
		{"type":"function_call","name":"f","arguments":"{}"},{"type":"function_call_output","output":"{\"a\":1}"},{"type":"reasoning"},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"yes"}]},
		{"role":"user","content":"new"}]}`)
	v := parse(t, body)
	if status != 200 || v["status"] != "completed" || v["object"] != "response" || v["usage"].(map[string]any)["total_tokens"] != 9.0 {
		t.Errorf("status %d: %s", status, body)
	}
	in := h.last(t)
	if in.SessionKey != "api:s" || in.Text != "new" || len(in.History) != 1 || in.History[0].Text != "be brief" {
		t.Errorf("inbound %+v", in)
	}
	h.post(t, "/v1/responses", `{"input":[{"role":"user","content":"a"},{"type":"function_call","name":"f","arguments":"{}"},{"type":"function_call_output","output":"r"},{"role":"user","content":"b"}]}`)
	wantHistory := []bus.Said{{Role: "user", Text: "a", Clean: true}, {Role: "assistant", Text: "[called f with {}]"}, {Role: "tool", Text: "r"}}
	if in := h.last(t); !in.Stateless || !cmp.Equal(in.History, wantHistory) || in.Text != "b" {
		t.Errorf("inbound %+v", in)
	}
	_, _, body = h.post(t, "/v1/responses", `{"stream":true,"input":"hi"}`, "X-Nanobot-Events", "true")
	var kinds []string
	n := 0.0
	for frame := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
		name, data, _ := strings.Cut(frame, "\ndata: ")
		e := parse(t, data)
		if "event: "+e["type"].(string) != name || e["sequence_number"] != n {
			t.Errorf("event %v in frame %q, number %v", e["type"], name, e["sequence_number"])
		}
		n++
		kinds = append(kinds, strings.TrimPrefix(e["type"].(string), "response."))
	}
	want := "created in_progress output_item.added content_part.added output_text.delta nanobot.event output_text.delta output_text.done content_part.done output_item.done completed"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("events %q, want %q", got, want)
	}
}

// TestManyFiles: one request does not fill the disk with files, nor ask for
// pictures without end.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	asked := 0
	picture := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = io.WriteString(w, "GIF89a-not-much-of-one")
	}))
	t.Cleanup(picture.Close)
	var dir string
	h := open(t, says(final("x", bus.Turn{})), func(o *api.Options) { dir, o.Media.Fetch = o.Media.Dir, picture.Client() })
	one := `{"type":"image_url","image_url":{"url":"` + picture.URL + `"}},`
	body := `{"messages":[{"role":"user","content":[` + strings.Repeat(one, 500) + `{"type":"text","text":"x"}]}]}`
	status, _, _ := h.send(t, http.MethodPost, "/v1/chat/completions", body, "Content-Type", "application/json")
	left, err := os.ReadDir(dir)
	if status != http.StatusRequestEntityTooLarge || asked > 100 || len(left) > 0 || err != nil && !os.IsNotExist(err) {
		t.Errorf("status %d, %d requests, %d files left, %v", status, asked, len(left), err)
	}
}
