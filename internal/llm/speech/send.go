package speech

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// maxAnswer bounds what a service may answer.
const maxAnswer = 8 << 20

// retries is how often a request is repeated, after 1, 2 and 4 seconds.
const retries = 3

// maxWait is the longest wait a server may ask for; a user is waiting too.
const maxWait = time.Minute

// body is a request body that can be made again for a repetition.
type body struct {
	mime string
	size int64
	open func() (io.ReadCloser, error)
}

func jsonBody(v any) (body, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return body{}, err
	}
	return body{"application/json", int64(len(b)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}, nil
}

// send makes a request and returns the body of the 2xx answer. Failures that
// may pass are repeated. A zero body makes a GET.
func (s *service) send(ctx context.Context, url string, b body) ([]byte, error) {
	for attempt := 0; ; attempt++ {
		data, err := s.once(ctx, url, b)
		if err == nil {
			return data, nil
		}

		e, ok := errors.AsType[*llm.Error](err)
		if !ok || !e.Retryable() || attempt == retries || e.RetryAfter > maxWait {
			return nil, err
		}
		if err := wait.For(ctx, max(time.Second<<attempt, e.RetryAfter)); err != nil {
			return nil, err
		}
	}
}

func (s *service) once(ctx context.Context, url string, b body) ([]byte, error) {
	attempt, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	req, err := s.request(attempt, url, b)
	if err != nil {
		return nil, err
	}

	resp, err := s.o.Client.Do(req)
	if err != nil {
		return nil, s.classify.Transport(ctx, httpsafe.WithoutURL(err))
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, s.classify.Read(resp)
	}

	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, s.classify.Transport(ctx, err)
	}
	if len(data) > maxAnswer {
		return nil, fault(Unreadable, "%s answered with more than %d MB", s.row.name, maxAnswer>>20)
	}
	return data, nil
}

func (s *service) request(ctx context.Context, url string, b body) (*http.Request, error) {
	method, content := http.MethodGet, io.ReadCloser(http.NoBody)
	if b.open != nil {
		r, err := b.open()
		if err != nil {
			return nil, &Error{Code: Unreadable, Message: "the recording cannot be read", Err: err}
		}
		method, content = http.MethodPost, r
	}

	req, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		_ = content.Close()
		return nil, fault(NotConfigured, "the address of %s is not a URL", s.row.name)
	}

	if b.open != nil {
		req.ContentLength = b.size
		req.Header.Set("Content-Type", b.mime)
	}

	req.Header.Set("User-Agent", "nanobot")
	if !s.o.Key.IsZero() {
		scheme := "Bearer "
		if s.row.name == "assemblyai" {
			scheme = ""
		}
		req.Header.Set("Authorization", scheme+s.o.Key.Reveal())
	}

	for name, v := range s.o.Headers {
		req.Header.Set(name, v.Reveal())
	}
	return req, nil
}

// decode reads a JSON answer. What is not JSON, or is an error in spite of its
// status, becomes the error it stands for.
func (s *service) decode(data []byte, into any) error {
	var probe struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &probe) != nil || len(probe.Error) > 0 && string(probe.Error) != "null" && string(probe.Error) != `""` {
		return s.classify.Response(http.StatusOK, nil, data)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return &Error{Code: Unreadable, Message: s.row.name + " answered in a form that is not understood", Err: err}
	}
	return nil
}
