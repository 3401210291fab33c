package speech_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/speech"
)

const sound = "OggS-not-really-audio"

func recording(name string) speech.Audio {
	return speech.Audio{
		Name: name, Size: int64(len(sound)), Duration: 3 * time.Second,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(sound)), nil },
	}
}

// exchange is one request the fake insists on, and its answer.
type exchange struct {
	method, path, auth string
	form               map[string]string // multipart fields; "file" is "name|mime|content"
	json               string            // exact body, as JSON
	raw                string            // exact body
	status             int
	answer             string
}

// fake answers a fixed list of exchanges and complains about anything else.
func fake(t *testing.T, list ...exchange) string {
	t.Helper()
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n >= len(list) {
			t.Errorf("unexpected request %s %s", r.Method, r.URL.Path)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		want := list[n]
		n++
		if got := r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization"); got != want.method+" "+want.path+" "+want.auth {
			t.Errorf("request %d = %q, want %q", n, got, want.method+" "+want.path+" "+want.auth)
		}
		if r.Method == http.MethodPost && r.ContentLength <= 0 {
			t.Errorf("request %d has no length", n)
		}
		checkBody(t, r, want)
		if want.status != 0 {
			w.WriteHeader(want.status)
		}
		_, _ = io.WriteString(w, want.answer)
	}))
	t.Cleanup(func() {
		srv.Close()
		if n != len(list) {
			t.Errorf("the server saw %d requests, want %d", n, len(list))
		}
	})
	return srv.URL
}

func checkBody(t *testing.T, r *http.Request, want exchange) {
	t.Helper()
	switch {
	case want.form != nil:
		got := map[string]string{}
		mr, err := r.MultipartReader()
		if err != nil {
			t.Errorf("not a form: %v", err)
			return
		}
		for {
			p, err := mr.NextPart()
			if err != nil {
				break
			}
			b, _ := io.ReadAll(p)
			v := string(b)
			if p.FileName() != "" {
				v = p.FileName() + "|" + p.Header.Get("Content-Type") + "|" + v
			}
			got[p.FormName()] = v
		}
		if d := cmp.Diff(want.form, got); d != "" {
			t.Errorf("form (-want +got):\n%s", d)
		}
	case want.json != "":
		var a, b any
		if err := json.Unmarshal([]byte(want.json), &a); err != nil {
			t.Errorf("test: %v", err)
		}
		if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
			t.Errorf("body: %v", err)
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Errorf("body (-want +got):\n%s", d)
		}
	default:
		if b, _ := io.ReadAll(r.Body); string(b) != want.raw {
			t.Errorf("body = %q, want %q", b, want.raw)
		}
	}
}

func client(t *testing.T) *http.Client {
	t.Helper()
	c, err := httpsafe.Client(httpsafe.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

const sound64 = "T2dnUy1ub3QtcmVhbGx5LWF1ZGlv"

func TestProviders(t *testing.T) {
	t.Parallel()
	form := func(model, lang string) map[string]string {
		m := map[string]string{"model": model, "file": "voice.ogg|audio/ogg|" + sound}
		if lang != "" {
			m["language"] = lang
		}
		return m
	}
	for _, tt := range []struct {
		name      string
		o         speech.Options
		base      string
		exchanges []exchange
		model     string
	}{
		{
			name: "groq", o: speech.Options{}, base: "/openai/v1", model: "whisper-large-v3",
			exchanges: []exchange{{method: "POST", path: "/openai/v1/audio/transcriptions", auth: "Bearer k-test", form: form("whisper-large-v3", ""), answer: `{"text":" hello "}`}},
		},
		{
			name: "openai with a chat URL", o: speech.Options{Provider: "openai", Language: "de", Model: "gpt-4o-transcribe"}, base: "/v1/chat/completions", model: "gpt-4o-transcribe",
			exchanges: []exchange{{method: "POST", path: "/v1/audio/transcriptions", auth: "Bearer k-test", form: form("gpt-4o-transcribe", "de"), answer: `{"text":"hello","usage":{}}`}},
		},
		{
			name: "openai with a full URL", o: speech.Options{Provider: "openai"}, base: "/v1/audio/transcriptions/", model: "whisper-1",
			exchanges: []exchange{{method: "POST", path: "/v1/audio/transcriptions", auth: "Bearer k-test", form: form("whisper-1", ""), answer: `{"text":"hello"}`}},
		},
		{
			name: "local server that answers with bare words", o: speech.Options{Provider: "openai"}, base: "/inference", model: "whisper-1",
			exchanges: []exchange{{method: "POST", path: "/inference", auth: "Bearer k-test", form: form("whisper-1", ""), answer: "hello\n"}},
		},
		{
			name: "siliconflow by its other name", o: speech.Options{Provider: "silicon"}, base: "/v1", model: "FunAudioLLM/SenseVoiceSmall",
			exchanges: []exchange{{method: "POST", path: "/v1/audio/transcriptions", auth: "Bearer k-test", form: form("FunAudioLLM/SenseVoiceSmall", ""), answer: `{"text":"hello"}`}},
		},
		{
			name: "openrouter", o: speech.Options{Provider: "openrouter", Language: "en"}, base: "/api/v1", model: "openai/whisper-1",
			exchanges: []exchange{{
				method: "POST", path: "/api/v1/audio/transcriptions", auth: "Bearer k-test", answer: `{"text":"hello"}`,
				json: `{"model":"openai/whisper-1","language":"en","input_audio":{"data":"` + sound64 + `","format":"ogg"}}`,
			}},
		},
		{
			name: "xiaomi", o: speech.Options{Provider: "mimo", Language: "zh"}, base: "/v1", model: "mimo-v2.5-asr",
			exchanges: []exchange{{
				method: "POST", path: "/v1/chat/completions", auth: "Bearer k-test", answer: `{"choices":[{"message":{"content":"hello"}}]}`,
				json: `{"model":"mimo-v2.5-asr","asr_options":{"language":"zh"},"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"data:audio/ogg;base64,` + sound64 + `"}}]}]}`,
			}},
		},
		{
			name: "stepfun", o: speech.Options{Provider: "stepfun", Language: "zh"}, base: "/v1", model: "stepaudio-2.5-asr",
			exchanges: []exchange{{
				method: "POST", path: "/v1/audio/asr/sse", auth: "Bearer k-test",
				json:   `{"audio":{"data":"` + sound64 + `","input":{"transcription":{"model":"stepaudio-2.5-asr","enable_itn":true,"language":"zh"},"format":{"type":"ogg"}}}}`,
				answer: "data: {\"type\":\"transcript.text.delta\",\"delta\":\"hel\"}\n\ndata: {\"type\":\"transcript.text.done\",\"text\":\"hello\"}\n\n",
			}},
		},
		{
			name: "assemblyai at once", o: speech.Options{Provider: "assemblyai", Language: "en"}, base: "/v2", model: "universal-3-pro,universal-2",
			exchanges: []exchange{
				{method: "POST", path: "/v2/upload", auth: "k-test", raw: sound, answer: `{"upload_url":"https://cdn.example.com/1"}`},
				{
					method: "POST", path: "/v2/transcript", auth: "k-test", answer: `{"id":"t1","status":"completed","text":"hello","error":null}`,
					json: `{"audio_url":"https://cdn.example.com/1","speech_models":["universal-3-pro","universal-2"],"language_code":"en"}`,
				},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.o.Key, tt.o.Client = httpsafe.NewSecret("k-test"), client(t)
			tt.o.Base = fake(t, tt.exchanges...) + tt.base
			s, err := speech.New(tt.o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Transcribe(t.Context(), recording("voice.oga"))
			if err != nil || got.Text != "hello" || got.Model != tt.model {
				t.Errorf("Transcribe = %+v, %v", got, err)
			}
		})
	}
}

func TestProviderFailures(t *testing.T) {
	t.Parallel()
	form := map[string]string{"model": "whisper-large-v3", "file": "voice.ogg|audio/ogg|" + sound}
	for _, tt := range []struct {
		name   string
		status int
		answer string
		kind   llm.Kind
		code   speech.Code
	}{
		{name: "wrong key", status: 401, answer: `{"error":{"message":"bad key k-secret-key"}}`, kind: llm.Auth},
		{name: "error in a good answer", answer: `{"error":{"message":"invalid model","code":"model_not_found"}}`, kind: llm.NotFound},
		{name: "web page", answer: "<!doctype html><title>Login</title>", kind: llm.ServerError},
		{name: "no text", answer: `{"language":"en"}`, code: speech.Unreadable},
		{name: "wrong type", answer: `{"text":{"a":1}}`, code: speech.Unreadable},
		{name: "silence", answer: `{"text":"  "}`, code: speech.Empty},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base := fake(t, exchange{method: "POST", path: "/audio/transcriptions", auth: "Bearer k-secret-key", form: form, status: tt.status, answer: tt.answer})
			s, err := speech.New(speech.Options{Key: httpsafe.NewSecret("k-secret-key"), Base: base, Client: client(t)})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Transcribe(t.Context(), recording("voice.ogg"))
			if err == nil || strings.Contains(err.Error(), "k-secret-key") {
				t.Fatalf("err = %v", err)
			}
			if e, ok := errors.AsType[*llm.Error](err); ok != (tt.kind != "") || ok && e.Kind != tt.kind {
				t.Errorf("err = %#v, want kind %q", err, tt.kind)
			}
			if e, ok := errors.AsType[*speech.Error](err); ok != (tt.code != "") || ok && e.Code != tt.code {
				t.Errorf("err = %#v, want code %q", err, tt.code)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	s, err := speech.New(speech.Options{Key: httpsafe.NewSecret("k"), Client: client(t), Base: fake(t), MaxUpload: 30, MaxDuration: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*speech.Audio)) speech.Audio {
		a := recording("voice.ogg")
		change(&a)
		return a
	}
	opens := func(s string, err error) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), err }
	}
	for _, tt := range []struct {
		name string
		a    speech.Audio
		want speech.Code
	}{
		{"nothing", speech.Audio{}, speech.MissingAudio},
		{"long", with(func(a *speech.Audio) { a.Duration = 61 * time.Second }), speech.TooLong},
		{"large", with(func(a *speech.Audio) { a.Size = 31 }), speech.TooLarge},
		{"large without saying so", with(func(a *speech.Audio) { a.Size, a.Open = 0, opens(strings.Repeat("x", 31), nil) }), speech.TooLarge},
		{"no bytes", with(func(a *speech.Audio) { a.Size, a.Open = 0, opens("", nil) }), speech.MissingAudio},
		{"not audio", with(func(a *speech.Audio) { a.Name, a.MIME = "cat.png", "image/png" }), speech.BadMIME},
		{"no format", with(func(a *speech.Audio) { a.Name = "voice" }), speech.BadMIME},
		{"unreadable", with(func(a *speech.Audio) { a.Open = opens("", errors.New("gone")) }), speech.Unreadable},
	} {
		_, err := s.Transcribe(t.Context(), tt.a)
		if e, ok := errors.AsType[*speech.Error](err); !ok || e.Code != tt.want {
			t.Errorf("%s: %v, want code %s", tt.name, err, tt.want)
		}
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, mime, want string }{
		{"a.m4a", "", "a.m4a|audio/mp4|"},
		{"a.MP3", "text/plain", "a.mp3|audio/mpeg|"},
		{"a.mpga", "", "a.mpga|audio/mpeg|"},
		{"a.opus", "", "a.ogg|audio/ogg|"},
		{"a.weba", "", "a.webm|audio/webm|"},
		{"a.webm", "video/webm", "a.webm|audio/webm|"},
		{"", "audio/ogg; codecs=opus", "audio.ogg|audio/ogg|"},
		{"AwAC.bin", "audio/x-wav", "AwAC.wav|audio/wav|"},
		{"../../x/y.flac", "", "y.flac|audio/flac|"},
	} {
		base := fake(t, exchange{
			method: "POST", path: "/audio/transcriptions", auth: "Bearer k",
			form: map[string]string{"model": "whisper-1", "file": tt.want + sound}, answer: `{"text":"x"}`,
		})
		s, err := speech.New(speech.Options{Provider: "openai", Key: httpsafe.NewSecret("k"), Client: client(t), Base: base})
		if err != nil {
			t.Fatal(err)
		}
		a := recording(tt.name)
		a.MIME = tt.mime
		if _, err := s.Transcribe(t.Context(), a); err != nil {
			t.Errorf("%q %q: %v", tt.name, tt.mime, err)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	env := func(k string) string { return map[string]string{"GROQ_API_KEY": "k"}[k] }
	for _, tt := range []struct {
		name string
		o    speech.Options
		want speech.Code
	}{
		{"key from the environment", speech.Options{Getenv: env}, ""},
		{"local server without a key", speech.Options{Provider: "openai", Base: "http://127.0.0.1:8000/v1"}, ""},
		{"switched off", speech.Options{Disabled: true, Getenv: env}, speech.Disabled},
		{"no key", speech.Options{Provider: "openai", Getenv: env}, speech.NotConfigured},
		{"unknown", speech.Options{Provider: "parrot", Getenv: env}, speech.NotConfigured},
		{"language", speech.Options{Language: "English", Getenv: env}, speech.NotConfigured},
	} {
		tt.o.Client = client(t)
		_, err := speech.New(tt.o)
		e, ok := errors.AsType[*speech.Error](err)
		if ok != (tt.want != "") || ok && e.Code != tt.want || !ok && err != nil {
			t.Errorf("%s: %v, want code %q", tt.name, err, tt.want)
		}
	}
}
