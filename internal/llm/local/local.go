// Package local finds model servers on this machine: Ollama, LM Studio,
// llama.cpp and vLLM. It hides how each of them lists its models. A server is
// believed only by the shape of its answers, never by its port, because the
// usual ports are popular with everything else too.
//
// Only loopback addresses are asked, except for an Ollama host that the user
// named in OLLAMA_HOST. Discovery sends nothing but GET requests without
// credentials. Windows asks a server the user has chosen how much of a prompt
// it will really read.
package local

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// Kind says which program a server is; the values are the names of its
// catalog rows.
type Kind string

// The kinds of server that are recognised.
const (
	Ollama   Kind = "ollama"
	LMStudio Kind = "lm_studio"
	LlamaCPP Kind = "llamacpp"
	VLLM     Kind = "vllm"
)

// DefaultTimeout is how long a whole discovery may take.
const DefaultTimeout = 300 * time.Millisecond

// namedTimeout is how long it may take if OLLAMA_HOST names a server: the
// user expects it to be there, so a busy one gets time to answer.
const namedTimeout = 3 * time.Second

// Server is a model server that answered.
type Server struct {
	Kind   Kind
	Base   string // base URL of its OpenAI-compatible API, ending in /v1
	Models []Model
}

// Model is something a server can run. Models that only embed are left out.
type Model struct {
	ID string
	// Context is the window in tokens that the server will really use; 0 if it
	// does not tell before the model is loaded.
	Context int
}

// Endpoint is an address to ask. Kind is only the first guess.
type Endpoint struct {
	Kind    Kind
	URL     string        // without a path
	timeout time.Duration // 0 means DefaultTimeout
}

// Options configure a discovery.
type Options struct {
	Timeout   time.Duration       // 0 means DefaultTimeout, and more for a server that OLLAMA_HOST names
	Getenv    func(string) string // for OLLAMA_HOST; nil means an empty environment
	Client    *http.Client        // nil makes one that uses no proxy
	Endpoints []Endpoint          // nil means the usual ports of each kind
}

// Discover asks all endpoints at the same time and returns those that are
// model servers, in the order of the endpoints. A server without models is
// listed too, so that the user can be told to load one. Nothing listening
// anywhere is the normal case and costs no waiting; trouble of any kind just
// means that a server is not listed.
func Discover(ctx context.Context, o Options) []Server {
	endpoints := o.Endpoints
	if endpoints == nil {
		endpoints = usual(o.Getenv)
	}

	client := o.Client
	if client == nil {
		c, err := httpsafe.Client(httpsafe.Options{Direct: true})
		if err != nil {
			return nil
		}
		defer c.CloseIdleConnections()
		client = c
	}

	found := make([]*Server, len(endpoints))
	var wg sync.WaitGroup
	for i, e := range endpoints {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.Timeout, e.timeout, DefaultTimeout))
			defer cancel()
			found[i] = probe{client: client, base: strings.TrimRight(e.URL, "/")}.identify(ctx, e.Kind)
		})
	}

	wg.Wait()
	var servers []Server
	for _, s := range found {
		if s != nil {
			servers = append(servers, *s)
		}
	}
	return servers
}

// usual lists where the servers listen unless told otherwise.
func usual(getenv func(string) string) []Endpoint {
	ollama := Endpoint{Kind: Ollama, URL: "http://127.0.0.1:11434"}
	if getenv != nil {
		if u := ollamaURL(getenv("OLLAMA_HOST")); u != "" {
			ollama.URL, ollama.timeout = u, namedTimeout
		}
	}
	return []Endpoint{
		ollama,
		{Kind: LMStudio, URL: "http://127.0.0.1:1234"},
		{Kind: LlamaCPP, URL: "http://127.0.0.1:8080"},
		{Kind: VLLM, URL: "http://127.0.0.1:8000"},
	}
}

// ollamaURL reads OLLAMA_HOST, which may be a host, host:port, :port or URL.
// An address to listen on everywhere means this machine. "" means that the
// value cannot be used.
func ollamaURL(host string) string {
	host = strings.Trim(strings.TrimSpace(host), `"'`)
	if host == "" {
		return ""
	}

	port := "11434"
	if !strings.Contains(host, "://") {
		host = "http://" + host
	} else {
		port = ""
	}

	u, err := url.Parse(host)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}

	name := u.Hostname()
	switch name {
	case "", "0.0.0.0":
		name = "127.0.0.1"
	case "::":
		name = "::1"
	}

	if p := u.Port(); p != "" {
		port = p
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(name, port) + strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
}

// probe talks to one address.
type probe struct {
	client *http.Client
	base   string
}

// maxBody bounds what is read of an answer: a foreign server may stream for ever.
const maxBody = 1 << 20

// get fetches a path and decodes its JSON object into v. It reports whether
// there was one.
func (p probe) get(ctx context.Context, path string, v any) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return false
	}
	return p.do(req, v)
}

// do makes a request and decodes its JSON object into v.
func (p probe) do(req *http.Request, v any) bool {
	req.Header.Set("Accept", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return false
	}

	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return false
	}

	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	return err == nil && json.Unmarshal(data, v) == nil
}
