package image_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/image"
)

const (
	png  = "\x89PNG\r\n\x1a\n-picture"
	jpeg = "\xff\xd8\xff-picture"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// exchange is one request the fake insists on, and its answer.
type exchange struct {
	path   string
	header map[string]string
	json   string            // exact body, as JSON; "" means form or GET
	form   map[string]string // multipart fields
	status int
	answer string
}

// fake answers a fixed list of exchanges and complains about anything else.
func fake(t *testing.T, list ...exchange) string {
	t.Helper()
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := int(n.Add(1)) - 1
		if i >= len(list) {
			t.Errorf("unexpected request %s %s", r.Method, r.URL.Path)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		want := list[i]
		if got := r.Method + " " + r.URL.Path; got != want.path {
			t.Errorf("request %d = %q, want %q", i, got, want.path)
		}
		for k, v := range want.header {
			if got := r.Header.Get(k); got != v {
				t.Errorf("header %s = %q, want %q", k, got, v)
			}
		}
		switch {
		case want.json != "":
			var a, b any
			if err := json.Unmarshal([]byte(want.json), &a); err != nil {
				t.Errorf("test: %v in %s", err, want.json)
			}
			if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
				t.Errorf("body: %v", err)
			}
			if d := cmp.Diff(a, b); d != "" {
				t.Errorf("body (-want +got):\n%s", d)
			}
		case want.form != nil:
			if d := cmp.Diff(want.form, readForm(t, r)); d != "" {
				t.Errorf("form (-want +got):\n%s", d)
			}
		}
		if want.status != 0 {
			w.WriteHeader(want.status)
		}
		_, _ = io.WriteString(w, want.answer)
	}))
	t.Cleanup(func() {
		srv.Close()
		if got := int(n.Load()); got != len(list) {
			t.Errorf("the server saw %d requests, want %d", got, len(list))
		}
	})
	return srv.URL
}

func readForm(t *testing.T, r *http.Request) map[string]string {
	t.Helper()
	mr, err := r.MultipartReader()
	if err != nil {
		t.Errorf("not a form: %v", err)
		return nil
	}
	got := map[string]string{}
	for {
		p, err := mr.NextPart()
		if err != nil {
			return got
		}
		b, _ := io.ReadAll(p)
		v := string(b)
		if p.FileName() != "" {
			v = p.FileName() + "|" + p.Header.Get("Content-Type") + "|" + v
		}
		got[p.FormName()] += v
	}
}

func options(t *testing.T, o image.Options) image.Options {
	t.Helper()
	client, err := httpsafe.Client(httpsafe.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	guarded, err := httpsafe.Guarded(httpsafe.GuardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	o.Client, o.Media, o.Key = client, t.TempDir(), httpsafe.NewSecret("k-test-secret")
	if o.Download == nil {
		o.Download = guarded
	}
	o.Now = func() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }
	o.Read = func(p string) ([]byte, error) {
		switch p {
		case "ref.png":
			return []byte(png), nil
		case "notes.txt":
			return []byte("words"), nil
		case "huge.png":
			return []byte(png + strings.Repeat("x", 10<<20)), nil
		}
		return nil, fs.ErrNotExist
	}
	return o
}

func run(t *testing.T, o image.Options, args string) (tool.Result, string) {
	t.Helper()
	tl, err := image.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return runTool(t, tl, args, tool.Call{})
}

func runTool(t *testing.T, tl tool.Tool, args string, c tool.Call) (tool.Result, string) {
	t.Helper()
	set, err := tool.NewSet(tl)
	if err != nil {
		t.Fatal(err)
	}
	tl, in, bad := set.Prepare("generate_image", args)
	if bad != nil {
		return *bad, bad.Content.String()
	}
	c.Input = in
	r, err := tl.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r, r.Content.String()
}

type made struct {
	Artifacts []struct {
		ID, Path, MIME, Prompt, Model, Provider string
		Sources                                 []string `json:"source_images"`
		Created                                 string   `json:"created_at"`
	}
	Text     string
	NextStep string `json:"next_step"`
}

func TestProviders(t *testing.T) {
	t.Parallel()
	bearer := map[string]string{"Authorization": "Bearer k-test-secret", "User-Agent": "nanobot"}
	google := map[string]string{"X-Goog-Api-Key": "k-test-secret", "Authorization": ""}
	for _, tt := range []struct {
		name, provider, model, base, args string
		exchanges                         []exchange
		text                              string
	}{
		{
			name: "openrouter", provider: "openrouter", model: "openai/gpt-5.4-image-2", base: "/api/v1", args: `{"prompt":"a cat"}`, text: "Here.",
			exchanges: []exchange{{
				path: "POST /api/v1/chat/completions", header: bearer,
				json:   `{"model":"openai/gpt-5.4-image-2","messages":[{"role":"user","content":"a cat"}],"modalities":["image","text"],"image_config":{"aspect_ratio":"1:1","image_size":"1K"}}`,
				answer: `{"choices":[{"message":{"content":"Here.","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + b64(png) + `"}}]}}]}`,
			}},
		},
		{
			name: "openrouter with a reference", provider: "openrouter", model: "m", base: "/chat/completions", args: `{"prompt":"a cat","reference_images":["ref.png"],"aspect_ratio":"16:9","image_size":"2K"}`,
			exchanges: []exchange{{
				path: "POST /chat/completions", header: bearer,
				json: `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a cat"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + b64(png) + `"}}]}],
					"modalities":["image","text"],"image_config":{"aspect_ratio":"16:9","image_size":"2K"}}`,
				answer: `{"choices":[{"message":{"content":null,"images":[{"image_url":{"url":"data:image/png;base64,` + b64(png) + `"}}]}}]}`,
			}},
		},
		{
			name: "openai", provider: "openai", model: "gpt-image-1", base: "/v1", args: `{"prompt":"a cat","aspect_ratio":"16:9"}`,
			exchanges: []exchange{{
				path: "POST /v1/images/generations", header: bearer,
				json: `{"model":"gpt-image-1","prompt":"a cat","n":1,"size":"1536x1024"}`, answer: `{"data":[{"b64_json":"` + b64(png) + `"}]}`,
			}},
		},
		{
			name: "dall-e, two pictures", provider: "openai", model: "dall-e-3", base: "/v1", args: `{"prompt":"a cat","aspect_ratio":"9:16","count":2}`,
			exchanges: []exchange{
				{path: "POST /v1/images/generations", json: `{"model":"dall-e-3","prompt":"a cat","n":1,"size":"1024x1792","response_format":"b64_json"}`, answer: `{"data":[{"b64_json":"` + b64(png) + `"}]}`},
				{path: "POST /v1/images/generations", json: `{"model":"dall-e-3","prompt":"a cat","n":1,"size":"1024x1792","response_format":"b64_json"}`, answer: `{"data":[{"b64_json":"` + b64(png) + `"}]}`},
			},
		},
		{
			name: "openai edit", provider: "openai", model: "gpt-image-1", base: "/v1", args: `{"prompt":"a hat","reference_images":["ref.png"],"aspect_ratio":"2:3"}`,
			exchanges: []exchange{{
				path: "POST /v1/images/edits", header: bearer, answer: `{"data":[{"b64_json":"` + b64(png) + `"}]}`,
				form: map[string]string{"model": "gpt-image-1", "prompt": "a hat", "n": "1", "size": "1024x1536", "image[]": "image1.png|image/png|" + png},
			}},
		},
		{
			name: "gemini through the compatible base", provider: "gemini", model: "gemini-3-pro-image", base: "/v1beta/openai", args: `{"prompt":"a cat","reference_images":["ref.png"]}`, text: "Done",
			exchanges: []exchange{{
				path: "POST /v1beta/models/gemini-3-pro-image:generateContent", header: google,
				json: `{"contents":[{"role":"user","parts":[{"text":"a cat"},{"inlineData":{"mimeType":"image/png","data":"` + b64(png) + `"}}]}],
					"generationConfig":{"responseModalities":["TEXT","IMAGE"],"imageConfig":{"aspectRatio":"1:1","imageSize":"1K"}}}`,
				answer: `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"Done"},{"inlineData":{"mimeType":"image/png","data":"` + b64(png) + `"}}]}}]}`,
			}},
		},
		{
			name: "gemini 2.5", provider: "gemini", model: "gemini/gemini-2.5-flash-image", base: "/v1beta", args: `{"prompt":"a cat"}`,
			exchanges: []exchange{{
				path:   "POST /v1beta/models/gemini-2.5-flash-image:generateContent",
				json:   `{"contents":[{"role":"user","parts":[{"text":"a cat"}]}],"generationConfig":{"responseModalities":["TEXT","IMAGE"],"imageConfig":{"aspectRatio":"1:1"}}}`,
				answer: `{"candidates":[{"content":{"parts":[{"inlineData":{"data":"` + b64(png) + `"}}]}}]}`,
			}},
		},
		{
			name: "imagen", provider: "gemini", model: "imagen-4.0-generate-001", base: "/v1beta", args: `{"prompt":"a cat","aspect_ratio":"3:4"}`,
			exchanges: []exchange{{
				path: "POST /v1beta/models/imagen-4.0-generate-001:predict", header: google,
				json:   `{"instances":[{"prompt":"a cat"}],"parameters":{"sampleCount":1,"aspectRatio":"3:4"}}`,
				answer: `{"predictions":[{"mimeType":"image/png","bytesBase64Encoded":"` + b64(png) + `"}]}`,
			}},
		},
		{
			name: "custom", provider: "custom", model: "sdxl", base: "/v1", args: `{"prompt":"a cat","aspect_ratio":"16:9"}`,
			exchanges: []exchange{{
				path: "POST /v1/images/generations", header: bearer,
				json: `{"model":"sdxl","prompt":"a cat","n":1,"size":"1024x576"}`, answer: `{"data":[{"b64_json":"` + b64(png) + `"}]}`,
			}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := options(t, image.Options{Provider: tt.provider, Model: tt.model, Base: fake(t, tt.exchanges...) + tt.base})
			r, out := run(t, o, tt.args)
			var got made
			if err := json.Unmarshal([]byte(out), &got); r.IsError || err != nil {
				t.Fatalf("result = %s", out)
			}
			if len(got.Artifacts) != len(tt.exchanges) || got.Text != tt.text || got.NextStep == "" {
				t.Errorf("result = %s", out)
			}
			for _, a := range got.Artifacts {
				b, err := os.ReadFile(a.Path)
				if err != nil || string(b) != png || a.MIME != "image/png" {
					t.Errorf("stored %q, %v", b, err)
				}
			}
		})
	}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	base := fake(t, exchange{path: "POST /images/generations", answer: `{"data":[{"b64_json":"` + b64(jpeg) + `"}]}`})
	o := options(t, image.Options{Provider: "custom", Model: "m", Base: base, SaveDir: "pictures/ai"})
	_, out := run(t, o, `{"prompt":" a cat "}`)
	var got made
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Artifacts) != 1 {
		t.Fatalf("result = %s", out)
	}
	a := got.Artifacts[0]
	rel, err := filepath.Rel(o.Media, a.Path)
	if err != nil || !regexp.MustCompile(`^pictures/ai/2026-03-04/img_[0-9a-f]{12}\.jpg$`).MatchString(filepath.ToSlash(rel)) {
		t.Errorf("path = %s", a.Path)
	}
	side, err := os.ReadFile(strings.TrimSuffix(a.Path, ".jpg") + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(side, &m); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"id": a.ID, "path": a.Path, "mime": "image/jpeg", "prompt": "a cat", "model": "m", "provider": "custom",
		"source_images": []any{}, "created_at": "2026-03-04T05:06:07Z",
	}
	if d := cmp.Diff(want, m); d != "" {
		t.Errorf("sidecar (-want +got):\n%s", d)
	}
}

func TestDownload(t *testing.T) {
	t.Parallel()
	var leaked atomic.Bool
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			leaked.Store(true)
		}
		switch r.URL.Path {
		case "/good":
			_, _ = io.WriteString(w, png)
		case "/page":
			_, _ = io.WriteString(w, "<html>")
		case "/huge":
			_, _ = io.WriteString(w, png+strings.Repeat("x", 10<<20))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(func() {
		files.Close()
		if leaked.Load() {
			t.Error("the key went to the download")
		}
	})
	allowed, err := httpsafe.Guarded(httpsafe.GuardOptions{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(allowed.CloseIdleConnections)
	for _, tt := range []struct {
		name, path string
		client     *http.Client
		code       tool.Code // "" is success
		want       string
	}{
		{"good", "/good", allowed, "", "artifacts"},
		{"a page", "/page", allowed, tool.Internal, "not a PNG"},
		{"too large", "/huge", allowed, tool.TooLarge, "10 MB"},
		{"gone", "/gone", allowed, tool.Internal, "HTTP 404"},
		{"a private address", "/good?token=hidden", nil, tool.DeniedSSRF, "private"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base := fake(t, exchange{path: "POST /images/generations", answer: `{"data":[{"url":"` + files.URL + tt.path + `"}]}`})
			r, out := run(t, options(t, image.Options{Provider: "custom", Model: "m", Base: base, Download: tt.client}), `{"prompt":"x"}`)
			if r.Code != tt.code || !strings.Contains(out, tt.want) || strings.Contains(out, "hidden") {
				t.Errorf("code %q, result %s", r.Code, out)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	at := func(status int, answer string) exchange {
		return exchange{path: "POST /images/generations", status: status, answer: answer}
	}
	good := at(0, `{"data":[{"b64_json":"`+b64(png)+`"}]}`)
	for _, tt := range []struct {
		name      string
		args      string
		exchanges []exchange
		code      tool.Code
		want      string
	}{
		{"wrong key", `{"prompt":"x"}`, []exchange{at(401, `{"error":{"message":"bad key k-test-secret"}}`)}, tool.DeniedPolicy, "user must fix"},
		{"refused prompt", `{"prompt":"x"}`, []exchange{at(400, `{"error":{"message":"blocked by safety system","code":"content_policy_violation"}}`)}, tool.InvalidArgs, "safety"},
		{"error in a good answer", `{"prompt":"x"}`, []exchange{at(0, `{"error":{"message":"invalid size","type":"invalid_request_error"}}`)}, tool.InvalidArgs, "invalid size"},
		{"never a picture", `{"prompt":"x"}`, []exchange{at(0, `{"data":[]}`), at(0, `{"data":[]}`), at(0, `{"data":[]}`)}, tool.Internal, "without a picture"},
		{"not a picture", `{"prompt":"x"}`, []exchange{at(0, `{"data":[{"b64_json":"`+b64("text")+`"}]}`)}, tool.Internal, "not a PNG"},
		{"not base64", `{"prompt":"x"}`, []exchange{at(0, `{"data":[{"b64_json":"%%%"}]}`)}, tool.Internal, "not a PNG"},
		{"too large", `{"prompt":"x"}`, []exchange{at(0, `{"data":[{"b64_json":"`+strings.Repeat("A", 14<<20)+`"}]}`)}, tool.TooLarge, "10 MB"},
		{"one of two", `{"prompt":"x","count":2}`, []exchange{good, at(400, `{"error":{"message":"no more"}}`)}, "", "1 fewer than asked for"},
		{"two at once", `{"prompt":"x","count":2}`, []exchange{at(0, `{"data":[{"b64_json":"`+b64(png)+`"},{"b64_json":"`+b64(png)+`"},{"b64_json":"`+b64(png)+`"}]}`)}, "", "artifacts"},
		{"too many", `{"prompt":"x","count":5}`, nil, tool.DeniedPolicy, "maxImagesPerTurn"},
		{"far too many", `{"prompt":"x","count":9}`, nil, tool.InvalidArgs, "count"},
		{"no prompt", `{"prompt":"  "}`, nil, tool.InvalidArgs, "prompt"},
		{"ratio", `{"prompt":"x","aspect_ratio":"wide"}`, nil, tool.InvalidArgs, "16:9"},
		{"references not possible", `{"prompt":"x","reference_images":["ref.png"]}`, nil, tool.Unsupported, "reference_images"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := options(t, image.Options{Provider: "custom", Model: "m", Base: fake(t, tt.exchanges...)})
			r, out := run(t, o, tt.args)
			if r.Code != tt.code || !strings.Contains(out, tt.want) || strings.Contains(out, "k-test-secret") {
				t.Errorf("code %q, result %.300s", r.Code, out)
			}
		})
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	o := options(t, image.Options{Provider: "openrouter", Model: "m", Base: fake(t)})
	for path, want := range map[string]tool.Code{"notes.txt": tool.InvalidArgs, "gone.png": tool.NotFound, "huge.png": tool.TooLarge} {
		if r, out := run(t, o, `{"prompt":"x","reference_images":["`+path+`"]}`); r.Code != want {
			t.Errorf("%s: code %q, want %q: %s", path, r.Code, want, out)
		}
	}
}

func TestAllowanceOfATurn(t *testing.T) {
	t.Parallel()
	good := exchange{path: "POST /images/generations", answer: `{"data":[{"b64_json":"` + b64(png) + `"}]}`}
	bad := exchange{path: "POST /images/generations", status: 400, answer: `{"error":"no"}`}
	o := options(t, image.Options{Provider: "custom", Model: "m", Base: fake(t, good, bad, good, good), MaxPerTurn: 2})
	tl, err := image.New(o)
	if err != nil {
		t.Fatal(err)
	}
	state := &tool.State{}
	for i, step := range []struct {
		turn  string
		fails bool
	}{{"a", false}, {"a", true}, {"a", false}, {"a", true}, {"b", false}} {
		r, out := runTool(t, tl, `{"prompt":"x"}`, tool.Call{TurnID: step.turn, State: state})
		if r.IsError != step.fails {
			t.Errorf("step %d: %s", i, out)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*image.Options)
		want   string
	}{
		"unknown provider": {func(o *image.Options) { o.Provider = "easel" }, "openrouter, openai"},
		"no model":         {func(o *image.Options) { o.Model = "" }, "model"},
		"no key":           {func(o *image.Options) { o.Key = httpsafe.Secret{} }, "apiKey"},
		"no base":          {func(o *image.Options) { o.Provider = "custom" }, "apiBase"},
		"escaping folder":  {func(o *image.Options) { o.SaveDir = "../x" }, "saveDir"},
	} {
		o := options(t, image.Options{Provider: "openrouter", Model: "m"})
		tt.change(&o)
		if _, err := image.New(o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want mention of %q", name, err, tt.want)
		}
	}
}

// A server of the user's own network may hand out addresses on itself, and
// only there.
func TestDownloadFromTheLocalServer(t *testing.T) {
	t.Parallel()
	var srv *httptest.Server
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/files/1.png":
			if r.Header.Get("Authorization") != "" {
				t.Error("the key went to the download")
			}
			_, _ = io.WriteString(w, png)
		default:
			_, _ = io.WriteString(w, `{"data":[{"url":"`+srv.URL+`/files/1.png"}]}`)
		}
	}))
	t.Cleanup(srv.Close)
	r, out := run(t, options(t, image.Options{Provider: "custom", Model: "m", Base: srv.URL + "/v1"}), `{"prompt":"x"}`)
	if r.IsError || !strings.Contains(out, "artifacts") {
		t.Errorf("result = %s", out)
	}
}
