// Package anthropic drives models over the Anthropic Messages protocol, which
// several other vendors speak too. It hides the translation of a history into
// alternating turns, the replay of signed thinking, prompt-cache markers, the
// table of thinking modes per model, and the reading of the event stream. A
// driver is safe for concurrent use and starts no goroutine that outlives a
// Stream.
//
// # Prompt cache
//
// A request carries at most four markers: the last built-in tool (so that
// built-ins stay cached when MCP tools change), the end of the system prompt
// (or the last tool without one), the last block of the newest user turn, and,
// only when that turn lies so many blocks behind the one before that the
// server's look-back would miss it, the end of the previous user turn.
//
// A marker is bytes inside the message it stands on. The vendor ignores them
// when it compares prefixes; for our own measure of repeated bytes, the newest
// marker is the last thing in the messages, so when it moves on in the next
// request only about fifty bytes at the end of the old request differ. Always
// keeping the previous position marked as well would cost the whole last turn,
// because the marker before it would vanish from the middle; hence the rule
// above. Everything that seldom changes is written before the messages.
package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

const (
	defaultName = "anthropic"
	defaultBase = "https://api.anthropic.com"
	apiVersion  = "2023-06-01"

	// maxPauses bounds how often a paused answer is continued.
	maxPauses = 5
)

// Options describe one provider that speaks the protocol.
type Options struct {
	// Name is the provider's name in errors and message origins; thinking
	// blocks go back only to the name they came from. Empty means "anthropic".
	Name string
	// BaseURL is the server; a trailing /v1 is ignored. Empty means the vendor's.
	BaseURL string
	Key     httpsafe.Secret
	// Headers are added to every request and replace our own of the same name.
	Headers map[string]httpsafe.Secret
	// ExtraBody is a JSON object merged over every request; a list under
	// "tools" is appended instead.
	ExtraBody  json.RawMessage
	ExtraQuery map[string]string
	// Betas are sent as the anthropic-beta header.
	Betas []string
	// Client makes the requests; nil makes one from BaseURL.
	Client *http.Client
	// FirstTimeout limits the wait for the first byte, IdleTimeout every later
	// silence; see wire.Silence.
	FirstTimeout time.Duration
	IdleTimeout  time.Duration
	// CacheTTL above five minutes asks for one-hour cache entries for tools
	// and system prompt. History always uses five minutes.
	CacheTTL time.Duration
	// Version is our own, for the User-Agent; empty leaves the default.
	Version string
	// Log gets repairs of illegal histories and unreadable events; nil drops them.
	Log *slog.Logger
}

type driver struct {
	name     string
	endpoint string
	extra    wire.Extra
	header   http.Header
	client   *http.Client
	classify wire.Classifier
	first    time.Duration
	idle     time.Duration
	longTTL  bool
	log      *slog.Logger

	mu      sync.Mutex
	learned map[string]adaptations // what each model refused
}

var _ llm.Model = (*driver)(nil)

// New makes a driver. It does no I/O.
func New(o Options) (llm.Model, error) {
	d := &driver{name: o.Name, client: o.Client, longTTL: o.CacheTTL > 5*time.Minute, log: o.Log, learned: map[string]adaptations{}}
	if d.name == "" {
		d.name = defaultName
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}

	base := strings.TrimRight(o.BaseURL, "/")
	if base == "" {
		base = defaultBase
	}

	base = strings.TrimSuffix(base, "/v1")
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, &llm.Error{Kind: llm.Configuration, Provider: d.name, Message: "the base URL must be an http or https address"}
	}
	if d.endpoint, err = wire.Endpoint(base+"/v1", "/messages", o.ExtraQuery); err != nil {
		return nil, err
	}
	if d.extra, err = wire.ParseExtra(o.ExtraBody, "messages"); err != nil { // the history is ours
		return nil, err
	}

	local := httpsafe.IsLocal(base)
	d.first, d.idle = wire.Silence(o.FirstTimeout, o.IdleTimeout, local)
	if d.client == nil {
		if d.client, err = httpsafe.Client(httpsafe.Options{Direct: local}); err != nil {
			return nil, err
		}
	}

	d.header = header(o)
	d.classify = wire.Classifier{Provider: d.name, BaseURL: base, Local: local, Secrets: slices.AppendSeq([]httpsafe.Secret{o.Key}, maps.Values(o.Headers))}
	return d, nil
}

func header(o Options) http.Header {
	h := http.Header{
		"Content-Type":      {"application/json"},
		"Accept":            {"text/event-stream"},
		"Anthropic-Version": {apiVersion},
	}

	wire.Resendable(h)
	if !o.Key.IsZero() {
		h.Set("X-Api-Key", o.Key.Reveal())
	}
	if len(o.Betas) > 0 {
		h.Set("Anthropic-Beta", strings.Join(o.Betas, ","))
	}
	if o.Version != "" {
		h.Set("User-Agent", "nanobot/"+o.Version)
	}

	for k, v := range o.Headers {
		h.Set(k, v.Reveal())
	}
	return h
}

// Stream implements llm.Model.
func (d *driver) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return wire.Streamed(func(emit func(llm.Event) error) error {
		resp, err := d.run(ctx, req, &answer{classify: d.classify, log: d.log, deltas: req.ToolDeltas}, emit)
		if err != nil {
			return err
		}
		return emit(llm.Event{Kind: llm.Done, Response: resp})
	}, func(n int, e *llm.Error) bool { return n < maxAdaptations && d.adapt(ctx, req.Model, e) })
}

// run exchanges requests until the answer is complete; more than one is needed
// only when the server pauses a long turn and wants it sent back as it is.
func (d *driver) run(ctx context.Context, req llm.Request, a *answer, emit func(llm.Event) error) (*llm.Response, error) {
	p := wire.ArrangeTurns(req, d.name)
	if p.Orphans > 0 || p.Missing > 0 {
		d.log.WarnContext(ctx, "history repaired for the request", "session", req.SessionKey,
			"orphan_results", p.Orphans, "missing_results", p.Missing)
	}

	size := 0
	for range maxPauses + 1 {
		body := d.encode(req, p, a.blocks)
		size = len(body)
		a.begin()
		if err := d.exchange(ctx, body, a, emit); err != nil {
			return nil, err
		}
		if a.stop != "pause_turn" {
			break
		}
	}

	return a.response(size)
}

// exchange makes one request and reads its answer into a.
func (d *driver) exchange(parent context.Context, body []byte, a *answer, emit func(llm.Event) error) error {
	ctx, idle := wire.WatchIdle(parent, d.first, d.idle)
	defer idle.Stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.endpoint, bytes.NewReader(body))
	if err != nil {
		return &llm.Error{Kind: llm.Configuration, Provider: d.name, Message: err.Error(), Err: err}
	}

	r.Header = d.header.Clone()
	resp, err := d.client.Do(r) //nolint:bodyclose // closed by classify.Read or with the stream
	if err != nil {
		return d.classify.Transport(ctx, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		idle.Alive()
		return d.classify.Read(resp)
	}

	stream := idle.Body(ctx, resp.Body)
	defer func() { _ = stream.Close() }()
	err = a.read(ctx, stream, resp.Header, emit)
	if err == nil {
		idle.Drain(stream)
		return nil
	}
	if errors.Is(err, wire.ErrStopped) {
		return err
	}
	return d.broken(ctx, err)
}

// broken classifies an error in the middle of an answer. A connection that
// breaks there is a truncated stream, whatever the transport calls it.
func (d *driver) broken(ctx context.Context, err error) error {
	err = d.classify.Transport(ctx, err)
	if e, ok := errors.AsType[*llm.Error](err); ok && e.Kind == llm.Connection {
		cut := *e
		cut.Kind = llm.StreamTruncated
		return &cut
	}
	return err
}
