// Package bedrock drives models over the Converse protocol of Amazon Bedrock.
// It hides the search for credentials and region, the signature of requests,
// the binary event stream, the translation of a history into alternating
// turns, and what single models of the many vendors behind the protocol do not
// take. A driver is safe for concurrent use and starts no goroutine that
// outlives a Stream.
//
// # Credentials
//
// A bearer key from the configuration or AWS_BEARER_TOKEN_BEDROCK is used as
// it is. Otherwise requests are signed with a key pair from the environment,
// a web identity, the shared files of the AWS tools (keys, assumed roles,
// IAM Identity Center, credential_process), the container's or the machine's
// metadata service, kept until shortly before it expires. All of it is our own:
// the vendor's modules do work at every start of the program. Tests compare our
// signatures, addresses and reading of files with theirs (decision 150).
//
// # Prompt cache
//
// Models that can cache get at most four cache points, placed as in the
// Messages protocol: behind the last built-in tool, behind the system prompt,
// and at the end of the newest (and, far back, the previous) user turn.
package bedrock

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
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
	defaultName = "bedrock"

	// trailing is how long the counts may take after the answer's end.
	trailing = 5 * time.Second
)

// Options describe one way to the service.
type Options struct {
	// Name is the provider's name in errors and message origins; thinking
	// blocks go back only to the name they came from. Empty means "bedrock".
	Name string
	// Region, else AWS_REGION, AWS_DEFAULT_REGION, the profile's, the one in
	// BaseURL or in the model's ARN, or the machine's own.
	Region string
	// Profile of the shared AWS files. If set, key pairs in the environment
	// are not used.
	Profile string
	// BaseURL replaces the regional endpoint, as do the variables
	// AWS_ENDPOINT_URL_BEDROCK_RUNTIME and AWS_ENDPOINT_URL.
	BaseURL string
	// Key is a Bedrock API key; empty means AWS_BEARER_TOKEN_BEDROCK, and
	// without that the request is signed.
	Key httpsafe.Secret
	// Headers are added to every request and replace our own of the same name.
	Headers map[string]httpsafe.Secret
	// ExtraBody is a JSON object. Keys that Converse knows at its top level
	// (guardrailConfig, performanceConfig, ...) go there, all others into
	// additionalModelRequestFields.
	ExtraBody  json.RawMessage
	ExtraQuery map[string]string
	// Betas are sent to the model as anthropic_beta.
	Betas []string
	// Getenv reads the environment; nil means an empty one.
	Getenv func(string) string
	// Home is the user's home folder, where .aws is; "" means that there is none.
	Home string
	// Client makes the requests to models; nil makes one from BaseURL.
	Client *http.Client
	// MetadataClient asks the container and machine endpoints for
	// credentials; nil makes one that uses no proxy.
	MetadataClient *http.Client
	// FirstTimeout limits the wait for the first byte, IdleTimeout every later
	// silence; see wire.Silence.
	FirstTimeout time.Duration
	IdleTimeout  time.Duration
	// CacheTTL above five minutes asks for one-hour cache entries for tools
	// and system prompt, where the model knows them.
	CacheTTL time.Duration
	// Version is our own, for the User-Agent; empty leaves the default.
	Version string
	// Log gets repairs of illegal histories and adaptations; nil drops them.
	Log *slog.Logger
}

type driver struct {
	name     string
	base     string // "" until the region is known
	bearer   httpsafe.Secret
	header   http.Header
	extra    extra
	query    string
	client   *http.Client
	classify wire.Classifier
	first    time.Duration
	idle     time.Duration
	longTTL  bool
	keys     *keyring
	log      *slog.Logger

	mu     sync.Mutex
	region string            // "" until it was looked for
	limits map[string]limits // by model: what it turned out not to take
}

var _ llm.Model = (*driver)(nil)

// New makes a driver. It does no I/O: credentials and region are looked for
// when the first request is made.
func New(o Options) (llm.Model, error) {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}

	d := &driver{
		name: cmp.Or(o.Name, defaultName), client: o.Client, log: o.Log, longTTL: o.CacheTTL > 5*time.Minute,
		region: cmp.Or(o.Region, o.Getenv("AWS_REGION"), o.Getenv("AWS_DEFAULT_REGION")), limits: map[string]limits{},
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}

	d.bearer = o.Key
	if d.bearer.IsZero() && o.Profile == "" {
		d.bearer = httpsafe.NewSecret(strings.TrimSpace(o.Getenv("AWS_BEARER_TOKEN_BEDROCK")))
	}

	d.base = strings.TrimRight(cmp.Or(o.BaseURL, o.Getenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME"), o.Getenv("AWS_ENDPOINT_URL")), "/")
	if d.base != "" {
		u, err := url.Parse(d.base)
		if err != nil || u.Host == "" || u.RawQuery != "" || (u.Scheme != "https" && u.Scheme != "http") {
			return nil, d.misconfigured("the base URL must be an http or https address")
		}
		d.region = cmp.Or(o.Region, regionOfHost(u.Hostname()), d.region)
	}

	if !isRegion(d.region) && d.region != "" {
		return nil, d.misconfigured("the AWS region must look like us-east-1")
	}

	var err error
	if d.extra, err = parseExtra(o.ExtraBody); err != nil {
		return nil, d.misconfigured(err.Error())
	}

	if len(o.Betas) > 0 && d.extra.fields["anthropic_beta"] == nil {
		d.extra.fields["anthropic_beta"], _ = json.Marshal(o.Betas) // texts always can be
	}

	query := url.Values{}
	for k, v := range o.ExtraQuery {
		query.Set(k, v)
	}

	d.query = query.Encode()
	local := httpsafe.IsLocal(d.base)
	d.first, d.idle = wire.Silence(o.FirstTimeout, o.IdleTimeout, local)

	if d.client == nil {
		if d.client, err = httpsafe.Client(httpsafe.Options{Direct: local}); err != nil {
			return nil, err
		}
	}

	d.header = header(o)
	d.keys = &keyring{
		getenv:  o.Getenv,
		home:    o.Home,
		profile: o.Profile,
		region:  d.region,
		client:  o.MetadataClient,
		public:  d.client,
		log:     d.log,
		turn:    make(chan struct{}, 1),
	}

	d.keys.turn <- struct{}{}
	d.classify = wire.Classifier{Provider: d.name, BaseURL: d.base, Local: local, Secrets: slices.AppendSeq([]httpsafe.Secret{d.bearer}, maps.Values(o.Headers))}
	return d, nil
}

func header(o Options) http.Header {
	h := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/vnd.amazon.eventstream, application/json"},
	}
	wire.Resendable(h)
	if o.Version != "" {
		h.Set("User-Agent", "nanobot/"+o.Version)
	}

	for k, v := range o.Headers {
		h.Set(k, v.Reveal())
	}
	return h
}

func (d *driver) misconfigured(text string) *llm.Error {
	return &llm.Error{Kind: llm.Configuration, Provider: d.name, Message: httpsafe.RedactSecrets(text)}
}

// Stream implements llm.Model.
func (d *driver) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return wire.Streamed(func(emit func(llm.Event) error) error {
		resp, err := d.run(ctx, req, emit)
		if err != nil {
			return err
		}
		return emit(llm.Event{Kind: llm.Done, Response: resp})
	}, nil)
}

// run makes the request, again only if the server refused it before answering
// anything for a reason that can be taken away: a setting the model does not
// take, or credentials that have been replaced.
func (d *driver) run(ctx context.Context, req llm.Request, emit func(llm.Event) error) (*llm.Response, error) {
	turns := wire.ArrangeTurns(req, d.name)
	if turns.Orphans > 0 || turns.Missing > 0 {
		d.log.WarnContext(ctx, "history repaired for the request", "session", req.SessionKey,
			"orphan_results", turns.Orphans, "missing_results", turns.Missing)
	}

	renewed := false
	for {
		lim := d.limitsOf(req.Model)
		body := d.encode(req, turns, lim)
		a := &answer{classify: d.classify, known: toolNames(req), deltas: req.ToolDeltas}
		cred, err := d.exchange(ctx, call{model: req.Model, body: body, whole: lim.noStream}, a, emit)
		if err == nil {
			return a.response(len(body))
		}

		e, ok := errors.AsType[*llm.Error](err)
		switch {
		case !ok || a.begun || ctx.Err() != nil:
			return nil, err
		case e.Kind == llm.Auth && cred.complete() && !renewed && d.keys.refused(ctx, cred):
			renewed = true
		case !d.adaptLimits(ctx, req.Model, lim, e):
			return nil, err
		}
	}
}

// call is one HTTP request.
type call struct {
	model string
	body  []byte
	whole bool // ask for the whole answer at once
}

// exchange makes one request and reads its answer into a. It tells which key
// pair it used.
func (d *driver) exchange(parent context.Context, c call, a *answer, emit func(llm.Event) error) (credentials, error) {
	region, err := d.findRegion(parent, c.model)
	if err != nil {
		return credentials{}, err
	}

	var cred credentials
	if d.bearer.IsZero() {
		if cred, err = d.keys.get(parent); err != nil {
			if parent.Err() != nil {
				return cred, parent.Err()
			}
			return cred, &llm.Error{Kind: llm.Configuration, Provider: d.name, Message: httpsafe.RedactSecrets(err.Error()), Err: err}
		}
	}

	ctx, idle := wire.WatchIdle(parent, d.first, d.idle)
	defer idle.Stop()
	r, err := d.request(ctx, c, region, cred)
	if err != nil {
		return cred, d.misconfigured(err.Error())
	}

	resp, err := d.client.Do(r)
	if err != nil {
		return cred, d.classify.Transport(ctx, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		idle.Alive()
		return cred, d.refusal(resp, cred)
	}

	stream := idle.Body(ctx, resp.Body)
	defer func() { _ = stream.Close() }()
	switch err = a.read(stream, idle, resp.Header, emit); {
	case err == nil:
		idle.Drain(stream)
		return cred, nil
	case errors.Is(err, wire.ErrStopped):
		return cred, err
	}

	return cred, d.broken(ctx, err)
}

// request builds and signs the HTTP request.
func (d *driver) request(ctx context.Context, c call, region string, cred credentials) (*http.Request, error) {
	base := d.base
	if base == "" {
		base = "https://bedrock-runtime." + region + "." + dnsSuffix(region)
	}

	method := "converse-stream"
	if c.whole {
		method = "converse"
	}

	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/model/"+escape(c.model)+"/"+method, bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}

	r.URL.RawQuery = d.query // before it is signed
	r.Header = d.header.Clone()
	if !d.bearer.IsZero() {
		if r.Header.Get("Authorization") == "" {
			r.Header.Set("Authorization", "Bearer "+d.bearer.Reveal())
		}
		return r, nil
	}

	scope{region: region, service: service, at: time.Now()}.sign(r, c.body, cred)
	return r, nil
}

// broken classifies an error in the middle of an answer. A connection that
// breaks there, or garbles, is a truncated stream, whatever the transport
// calls it.
func (d *driver) broken(ctx context.Context, err error) error {
	if errors.Is(err, errDamaged) {
		return &llm.Error{Kind: llm.StreamTruncated, Provider: d.name, Message: err.Error(), Err: err}
	}

	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}

	err = d.classify.Transport(ctx, err)
	if e, ok := errors.AsType[*llm.Error](err); ok && e.Kind == llm.Connection {
		cut := *e
		cut.Kind = llm.StreamTruncated
		return &cut
	}
	return err
}

func toolNames(req llm.Request) map[string]bool {
	names := make(map[string]bool, len(req.Tools))
	for _, t := range req.Tools {
		names[t.Name] = true
	}
	return names
}
