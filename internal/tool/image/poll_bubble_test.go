package image_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/image"
)

// turns answers requests in turn, the last one for ever; "503" is a status.
type turns struct {
	answers []string
	seen    []string
}

func (s *turns) RoundTrip(r *http.Request) (*http.Response, error) {
	s.seen = append(s.seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Modelscope-Async-Mode")+r.Header.Get("X-Modelscope-Task-Type"))
	a := s.answers[min(len(s.seen), len(s.answers))-1]
	status := http.StatusOK
	if a == "503" {
		status = http.StatusServiceUnavailable
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a)), Request: r}, nil
}

func TestModelScopeTasks(t *testing.T) {
	t.Parallel()
	const accepted, running = `{"task_id":"t1"}`, `{"task_status":"PROCESSING"}`
	for _, tt := range []struct {
		name    string
		answers []string
		code    tool.Code
		took    time.Duration
		want    string
	}{
		{"done", []string{accepted, running, "503", `{"task_status":"SUCCEED","output_images":["data:image/png;base64,` + b64(png) + `"]}`}, "", 15 * time.Second, "artifacts"},
		{"failed", []string{accepted, `{"task_status":"FAILED","errors":{"message":"x"},"message":"bad prompt"}`}, "", 5 * time.Second, "bad prompt"},
		{"never done", []string{accepted, running}, tool.TimedOut, 5 * time.Minute, "no picture after 5m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := options(t, image.Options{Provider: "modelscope", Model: "m"})
				script := &turns{answers: tt.answers}
				o.Client = &http.Client{Transport: script}
				began := time.Now()
				r, out := run(t, o, `{"prompt":"x"}`)
				if !strings.Contains(out, tt.want) || tt.code != "" && r.Code != tt.code || time.Since(began) != tt.took {
					t.Errorf("code %q after %s: %s", r.Code, time.Since(began), out)
				}
				if script.seen[0] != "POST /v1/images/generations true" || script.seen[1] != "GET /v1/tasks/t1 image_generation" {
					t.Errorf("requests = %q", script.seen[:2])
				}
			})
		})
	}
}

func TestBusyProviderIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := options(t, image.Options{Provider: "custom", Model: "m", Base: "https://images.example.com/v1"})
		script := &turns{answers: []string{"503"}}
		o.Client = &http.Client{Transport: script}
		began := time.Now()
		if r, out := run(t, o, `{"prompt":"x"}`); !r.IsError || len(script.seen) != 3 || time.Since(began) != 4*time.Second {
			t.Errorf("%d requests in %s: %s", len(script.seen), time.Since(began), out)
		}
		script.answers, script.seen = []string{"503", `{"data":[{"b64_json":"` + b64(png) + `"}]}`}, nil
		if r, out := run(t, o, `{"prompt":"x"}`); r.IsError {
			t.Errorf("second try: %s", out)
		}
	})
}
