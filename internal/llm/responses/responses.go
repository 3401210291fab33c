// Package responses speaks the Responses protocol of OpenAI, which Azure, the
// ChatGPT subscription backend and a few other vendors share. It hides the
// translation of a history into input items, the replay of encrypted reasoning
// to the model it came from, the event stream with its several ways to say the
// same thing, and what servers refuse: such parameters are dropped and
// remembered.
//
// Nothing is stored on the server: every request carries the whole history,
// with everything that stays the same between turns before it, so a request
// repeats the bytes of the one before it as a prefix.
package responses

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
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
	Path    string // appended to BaseURL; "" means /responses
	Key     httpsafe.Secret
	// KeyHeader is the header that carries the bare key, such as api-key. ""
	// means Authorization with a bearer token.
	KeyHeader string
	// Signer puts the credentials on each request in place of Key. After a 401
	// it is asked for new ones, and the request is sent once more.
	Signer  wire.Signer
	Headers map[string]httpsafe.Secret // replace the driver's own
	// ExtraBody is a JSON object merged over every request, objects key by
	// key; a list under "tools" is appended and one under "include" is added.
	// A hosted web search among the tools takes the place of a function called
	// web_search.
	ExtraBody  json.RawMessage
	ExtraQuery map[string]string
	Quirks     wire.Quirks
	// Codex follows the rules of the subscription backend: it takes no
	// sampling parameters and no item ids, and insists on instructions.
	Codex bool
	// PlainReasoning is for vendors that want reasoning back as text and know
	// no encrypted form of it.
	PlainReasoning bool
	Client         *http.Client // nil: one from httpsafe
	// FirstTimeout limits the wait for the first byte, IdleTimeout every later
	// silence; see wire.Silence.
	FirstTimeout time.Duration
	IdleTimeout  time.Duration
	Version      string       // our own, for the User-Agent
	Log          *slog.Logger // nil: no log
}

type driver struct {
	o        Options
	url      string
	affinity string
	extra    []field
	classify wire.Classifier

	mu      sync.Mutex
	learned map[string]adaptations // what each model refused
}

var _ llm.Model = (*driver)(nil)

// New makes a model that talks to one endpoint. It does no I/O.
func New(o Options) (llm.Model, error) {
	u, err := wire.Endpoint(o.BaseURL, "/"+cmp.Or(strings.Trim(o.Path, "/"), "responses"), o.ExtraQuery)
	if err != nil {
		e := llm.AsError(err)
		e.Provider = o.Name
		return nil, e
	}

	extra, err := parseExtra(o)
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

	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	secrets := slices.AppendSeq([]httpsafe.Secret{o.Key}, maps.Values(o.Headers))
	return &driver{
		o: o, url: u, affinity: hex.EncodeToString(id[:]), extra: extra, learned: map[string]adaptations{},
		classify: wire.Classifier{Provider: o.Name, BaseURL: o.BaseURL, Local: local, Secrets: secrets},
	}, nil
}

// maxAdaptations bounds how often one request is sent again because the server
// named something it does not take.
const maxAdaptations = 5

// Stream implements llm.Model.
func (d *driver) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return wire.Streamed(
		func(emit func(llm.Event) error) error { return d.exchange(ctx, req, emit) },
		func(n int, e *llm.Error) bool { return n < maxAdaptations && d.adapt(ctx, req, e) })
}

// exchange makes one request and plays its answer.
func (d *driver) exchange(parent context.Context, req llm.Request, emit func(llm.Event) error) error {
	if err := parent.Err(); err != nil {
		return err
	}

	ctx, idle := wire.WatchIdle(parent, d.o.FirstTimeout, d.o.IdleTimeout)
	defer idle.Stop()
	body := d.encode(ctx, req)
	resp, err := d.send(ctx, body)
	if err == nil && resp.StatusCode == http.StatusUnauthorized && d.o.Signer != nil && d.o.Signer.Refused(ctx) {
		_ = resp.Body.Close()
		resp, err = d.send(ctx, body)
	}

	if err != nil {
		return d.classify.Transport(ctx, err)
	}

	defer func() { _ = resp.Body.Close() }()
	stream := idle.Body(ctx, resp.Body)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return d.refusal(resp, stream)
	}

	a := &assembler{d: d, req: req, emit: emit, sent: len(body), idle: idle, header: resp.Header}
	return a.read(ctx, resp.Header.Get("Content-Type"), stream)
}

// send makes one signed HTTP request.
func (d *driver) send(ctx context.Context, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(body))
	if err != nil {
		return nil, &llm.Error{Kind: llm.Configuration, Message: "the address of the server is not usable", Err: err}
	}

	wire.Resendable(req.Header)
	d.headers(req.Header)
	if d.o.Signer != nil {
		if err := d.o.Signer.Sign(ctx, req, body); err != nil {
			if _, ok := errors.AsType[*llm.Error](err); ok || ctx.Err() != nil {
				return nil, err
			}
			return nil, &llm.Error{Kind: llm.Auth, Message: "cannot sign in: " + err.Error(), Err: err}
		}
	}

	return d.o.Client.Do(req)
}

func (d *driver) headers(h http.Header) {
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "text/event-stream")
	h.Set("User-Agent", strings.TrimSuffix("nanobot/"+d.o.Version, "/"))

	if d.o.Codex {
		h.Set("OpenAI-Beta", "responses=experimental")
		h.Set("Originator", "nanobot")
	} else {
		h.Set("X-Session-Affinity", d.affinity)
	}

	key := d.o.Key.Reveal()
	switch {
	case d.o.Signer != nil:
	case d.o.KeyHeader != "" && !strings.EqualFold(d.o.KeyHeader, "Authorization"):
		h.Set(d.o.KeyHeader, key)
	case key == "":
		h.Set("Authorization", "Bearer no-key") // local servers ignore it, some insist on any
	default:
		h.Set("Authorization", "Bearer "+key)
	}

	for k, v := range d.o.Headers {
		h.Set(k, v.Reveal())
	}
}

// maxErrorBody is how much of an error answer is read.
const maxErrorBody = 64 << 10

// refusal classifies an answer that is an error. The subscription backend
// says in a way of its own that the plan's share is used up.
func (d *driver) refusal(resp *http.Response, body io.Reader) *llm.Error {
	data, _ := io.ReadAll(io.LimitReader(body, maxErrorBody))
	e := d.classify.Response(resp.StatusCode, resp.Header, data)
	if !d.o.Codex || e.Status != http.StatusTooManyRequests {
		return e
	}

	var w struct {
		Error struct {
			ResetsIn float64 `json:"resets_in_seconds"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &w) == nil && w.Error.ResetsIn > 0 && e.RetryAfter == 0 {
		e.RetryAfter = time.Duration(w.Error.ResetsIn * float64(time.Second))
	}

	e.Message = "the limit of the ChatGPT plan is reached: " + e.Message
	return e
}
