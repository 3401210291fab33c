package image

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// maxAnswer bounds a provider's answer, which may hold several pictures.
const maxAnswer = 64 << 20

// call is one request to a provider.
type call struct {
	path   string // appended to the base
	url    string // instead of base and path
	body   []byte // nil makes a GET
	mime   string // "" is JSON
	header map[string]string
}

// post sends v as JSON to a path below the base and decodes the answer.
func (m *maker) post(ctx context.Context, path string, v, into any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return m.send(ctx, call{path: path, body: b}, into)
}

// send makes one request. An error object in a good answer is an error.
func (m *maker) send(ctx context.Context, c call, into any) error {
	attempt, cancel := context.WithTimeout(ctx, m.o.Timeout)
	defer cancel()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if c.body != nil {
		method, body = http.MethodPost, bytes.NewReader(c.body)
	}

	url := c.url
	if url == "" {
		url = m.base + c.path
	}

	req, err := http.NewRequestWithContext(attempt, method, url, body)
	if err != nil {
		return &llm.Error{Kind: llm.Configuration, Provider: m.row.name, Message: "the provider's address is not a URL"}
	}

	m.header(req, c)
	resp, err := m.o.Client.Do(req)
	if err != nil {
		return m.classify.Transport(ctx, httpsafe.WithoutURL(err))
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return m.classify.Read(resp)
	}

	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return m.classify.Transport(ctx, err)
	}
	if len(data) > maxAnswer {
		return errTooLarge
	}
	return m.decode(data, into)
}

func (m *maker) header(req *http.Request, c call) {
	if c.body != nil {
		req.Header.Set("Content-Type", "application/json")
		if c.mime != "" {
			req.Header.Set("Content-Type", c.mime)
		}
	}

	req.Header.Set("User-Agent", "nanobot")
	switch {
	case m.o.Key.IsZero():
	case m.row.keyHeader != "":
		req.Header.Set(m.row.keyHeader, m.o.Key.Reveal())
	default:
		req.Header.Set("Authorization", "Bearer "+m.o.Key.Reveal())
	}

	for name, v := range c.header {
		req.Header.Set(name, v)
	}

	for name, v := range m.o.Headers {
		req.Header.Set(name, v.Reveal())
	}
}

func (m *maker) decode(data []byte, into any) error {
	var probe struct {
		Error json.RawMessage `json:"error"`
		Base  struct {
			Code int `json:"status_code"`
		} `json:"base_resp"`
	}
	if json.Unmarshal(data, &probe) != nil || probe.Base.Code != 0 || len(probe.Error) > 0 && string(probe.Error) != "null" && string(probe.Error) != `""` {
		return m.classify.Response(http.StatusOK, nil, data)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return &llm.Error{Kind: llm.ServerError, Provider: m.row.name, Message: "the answer is not understood", Err: err}
	}
	return nil
}
