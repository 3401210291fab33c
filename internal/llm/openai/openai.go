// Package openai speaks the Chat Completions protocol, which some forty
// vendors and local servers share and each of them bends a little. It hides
// the bending: histories are repaired before they are sent, parameters a
// server refuses are dropped and remembered, and answers are read in every
// known shape. Vendor differences are wire.Quirks; there is no code for single
// brands.
//
// Requests are encoded so that everything that stays the same between turns
// comes before the messages: a request repeats the bytes of the one before it
// as a prefix, which is what prompt caches reward.
package openai

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// Options describe one endpoint.
type Options struct {
	Name    string // becomes Message.Origin and Error.Provider
	BaseURL string // e.g. https://api.openai.com/v1
	Local   bool   // the server runs on this machine or network
	Key     httpsafe.Secret
	// Signer puts the credentials on each request in place of Key. After a 401
	// it is asked for new ones, and the request is sent once more.
	Signer  wire.Signer
	Quirks  wire.Quirks
	Headers map[string]httpsafe.Secret // replace the driver's own
	// ExtraBody is a JSON object merged over every request; a list under
	// "tools" is appended instead.
	ExtraBody  json.RawMessage
	ExtraQuery map[string]string
	// CacheTTL above five minutes asks for one-hour cache entries for tools and
	// system prompt, where cache markers are sent.
	CacheTTL time.Duration
	Client   *http.Client // nil: one from httpsafe
	// FirstTimeout limits the wait for the first byte, IdleTimeout every later
	// silence; see wire.Silence.
	FirstTimeout time.Duration
	IdleTimeout  time.Duration
	Log          *slog.Logger // nil: no log
}

// attributionURL is how gateways that rank applications know us.
const attributionURL = "https://github.com/nanobot-go/nanobot"

type driver struct {
	o        Options
	url      string
	affinity string
	extra    wire.Extra
	classify wire.Classifier

	drafts drafts
	opened atomic.Pointer[opened]

	mu      sync.Mutex
	learned map[string]adaptations // what each model refused
	schemas map[string]json.RawMessage
}

var _ llm.Model = (*driver)(nil)

// New makes a model that talks to one endpoint. It does no I/O.
func New(o Options) (llm.Model, error) {
	u, err := wire.Endpoint(o.BaseURL, "/chat/completions", o.ExtraQuery)
	if err != nil {
		return nil, err
	}

	local := o.Local || httpsafe.IsLocal(o.BaseURL)
	if o.Client == nil {
		if o.Client, err = httpsafe.Client(httpsafe.Options{Direct: local}); err != nil {
			return nil, err
		}
	}

	o.FirstTimeout, o.IdleTimeout = wire.Silence(o.FirstTimeout, o.IdleTimeout, local)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	extra, err := wire.ParseExtra(o.ExtraBody)
	if err != nil {
		return nil, err
	}

	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	secrets := slices.AppendSeq([]httpsafe.Secret{o.Key}, maps.Values(o.Headers))
	return &driver{
		o: o, url: u, affinity: hex.EncodeToString(id[:]), extra: extra,
		classify: wire.Classifier{Provider: o.Name, BaseURL: o.BaseURL, Local: local, Secrets: secrets},
		learned:  map[string]adaptations{}, schemas: map[string]json.RawMessage{},
	}, nil
}

// maxAdaptations bounds how often one request is sent again because the server
// named a parameter it does not take.
const maxAdaptations = 4

// Stream implements llm.Model.
func (d *driver) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return wire.Streamed(
		func(emit func(llm.Event) error) error { return d.exchange(ctx, req, emit) },
		func(n int, e *llm.Error) bool { return n < maxAdaptations && d.adapt(ctx, req.Model, e) })
}

// exchange makes one HTTP request and plays its answer.
func (d *driver) exchange(parent context.Context, req llm.Request, emit func(llm.Event) error) error {
	if err := parent.Err(); err != nil {
		return err
	}

	ctx, idle := wire.WatchIdle(parent, d.o.FirstTimeout, d.o.IdleTimeout)
	defer idle.Stop()
	body, draft := d.encode(ctx, req)
	shared := func() { draft = nil } // a second reader: the buffer is not ours alone any more
	resp, sent, err := d.send(ctx, body, shared)
	if err == nil && resp.StatusCode == http.StatusUnauthorized && d.o.Signer != nil && d.o.Signer.Refused(ctx) {
		_ = resp.Body.Close()
		shared()
		resp, sent, err = d.send(ctx, body, shared) //nolint:bodyclose // closed by classify.Read or with the stream
	}

	if err != nil {
		return d.classify.Transport(ctx, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return d.classify.Read(resp)
	}

	stream := idle.Body(ctx, resp.Body)
	defer func() { _ = stream.Close() }()
	a := &assembler{d: d, req: req, emit: emit, sent: len(body), idle: idle, header: resp.Header}
	if len(req.Tools) > 0 {
		a.filter = wire.NewCallText(func(name string) bool {
			return slices.ContainsFunc(req.Tools, func(t llm.ToolDef) bool { return t.Name == name })
		})
	}

	a.emit = func(ev llm.Event) error {
		if ev.Kind == llm.Done && sent.Load() { // only then is the buffer ours again
			d.drafts.release(draft)
		}
		return emit(ev)
	}
	if req.ToolDeltas {
		a.calls.show = a.emit
	}
	return a.read(ctx, resp.Header.Get("Content-Type"), stream)
}

// send makes one signed HTTP request. shared is called when body gets a second
// reader; sent becomes true when the first one is done.
func (d *driver) send(ctx context.Context, body []byte, shared func()) (_ *http.Response, sent *atomic.Bool, _ error) {
	sent = &atomic.Bool{}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(w httptrace.WroteRequestInfo) { sent.Store(w.Err == nil) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(body)) // of a type that leaves with the headers
	if err != nil {
		return nil, nil, fmt.Errorf("make request: %w", err)
	}

	req.GetBody = func() (io.ReadCloser, error) {
		shared()
		return io.NopCloser(bytes.NewReader(body)), nil
	}
	wire.Resendable(req.Header)
	d.headers(req.Header)

	if d.o.Signer != nil {
		if err := d.o.Signer.Sign(ctx, req, body); err != nil {
			return nil, nil, err
		}
	}

	resp, err := d.o.Client.Do(req)
	return resp, sent, err
}

func (d *driver) headers(h http.Header) {
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "text/event-stream")
	h.Set("User-Agent", "nanobot")
	h.Set("X-Session-Affinity", d.affinity)

	if d.o.Signer == nil {
		key := d.o.Key.Reveal()
		if key == "" {
			key = "no-key" // local servers ignore it, some insist on any
		}
		h.Set("Authorization", "Bearer "+key)
	}

	if d.o.Quirks.Attribution {
		h.Set("HTTP-Referer", attributionURL)
		h.Set("X-OpenRouter-Title", "nanobot")
		h.Set("X-OpenRouter-Categories", "cli-agent,personal-agent")
	}

	for k, v := range d.o.Headers {
		h.Set(k, v.Reveal())
	}
}
