package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

// Who keeps the conversations of the API.
const (
	// historyServer keeps conversations that have a name here; requests
	// without a name are answered over the messages they bring.
	historyServer = "server"
	// historyDefault is historyServer for requests with a name; a single message
	// without one continues the conversation api:default, as in Python nanobot.
	historyDefault = "default"
	// historyClient keeps none: every request brings its own messages.
	historyClient = "client"
)

// Model is a name that clients may choose.
type Model struct {
	ID     string // as clients name it
	Preset string // model preset of the turn; "" is the default one
}

// Options of an API. All may be left out: without Ask there are only health
// and metrics.
type Options struct {
	// Ask sends a message to the agent and yields what it says. Leaving the
	// loop, or the end of the context, stops the turn. Requests do not go
	// through the durable queue: their client waits, notices a failure and
	// asks again by itself.
	Ask func(context.Context, bus.Inbound) iter.Seq2[bus.Outbound, error]
	// Fault turns an error of Ask into an HTTP status and words for the
	// client. nil, or status 0, says 500 and hides the words in the log.
	Fault func(error) (status int, message string)
	// Models lists what clients may choose, the default first.
	Models func() []Model
	// DeleteSession ends a conversation and reports whether there was one.
	// nil means that clients cannot.
	DeleteSession func(ctx context.Context, key string) (found bool, err error)
	// Trigger keeps a message for the chat of a trigger and returns what to
	// call it by. It must be on disk when Trigger returns. Fault should tell
	// 404 for one that there is not, 409 for one that is switched off and 413
	// for a message that is too long. nil means that there are no triggers.
	Trigger func(ctx context.Context, id, message string, untrusted bool) (delivery string, err error)

	// TriggerKey is what requests to a trigger may be signed with instead of
	// bringing the token; nil, or an empty key, means that they cannot.
	TriggerKey func(id string) []byte
	// Nonces remembers signed requests; it is needed with TriggerKey.
	Nonces *Nonces

	// Token must come with every request to the API, as a bearer token or in the
	// header X-Api-Key. Without one only requests that reach a loopback address
	// are served.
	Token httpsafe.Secret
	// Hosts are further names the listener may be called by; see Gate.
	Hosts []string
	// Origins are web pages, such as https://chat.example.org, that may call
	// the API from a browser. None by default.
	Origins []string

	History       string        // historyServer, historyDefault or historyClient; "" is historyServer
	MaxConcurrent int           // turns at once; more wait; 0 is 8
	Timeout       time.Duration // of one turn; 0 is no limit
	MaxBody       int64         // bytes of a request; 0 is 20 MiB
	Media         Uploads

	// Health says how the program is. It should answer within HealthWait;
	// nil is always ready.
	Health func(context.Context) Report
	// Metrics are shown at MetricsPath, which is /metrics when empty, to those
	// on this machine and those with the key; nil shows none.
	Metrics     *Metrics
	MetricsPath string

	Log *slog.Logger
	Now func() time.Time
}

// API speaks the protocols of OpenAI and Anthropic for the agent and tells how it is. It is safe
// for concurrent use and starts nothing by itself.
type API struct {
	o     Options
	gate  Gate
	slots chan struct{} // capacity is the number of turns at once
	queue chan struct{} // capacity is the number of requests that may wait for a slot
	probe probe
	ping  time.Duration // between signs of life in a stream
}

const (
	defaultTurns = 8
	maxWaiting   = 128 // requests for a turn; more are refused
	defaultBody  = 20 << 20
	defaultFile  = 10 << 20
	pingEvery    = 15 * time.Second
	bodyTime     = time.Minute      // to send a request
	writeTime    = 30 * time.Second // to take a piece of an answer
	shutdownTime = 10 * time.Second // to finish what was begun
)

// New makes an API.
func New(o Options) (*API, error) {
	switch o.History {
	case "":
		o.History = historyServer
	case historyServer, historyDefault, historyClient:
	default:
		return nil, fmt.Errorf("api history %q is not %s, %s or %s", o.History, historyServer, historyDefault, historyClient)
	}

	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = defaultTurns
	}
	if o.MaxBody <= 0 {
		o.MaxBody = defaultBody
	}
	if o.Media.MaxFile <= 0 {
		o.Media.MaxFile = defaultFile
	}
	if o.MetricsPath == "" {
		o.MetricsPath = "/metrics"
	}

	if !strings.HasPrefix(o.MetricsPath, "/") || strings.ContainsAny(o.MetricsPath, "{} ") {
		return nil, fmt.Errorf("the path of the metrics %q must begin with a slash and have no braces or spaces", o.MetricsPath)
	}

	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Models == nil {
		o.Models = func() []Model { return []Model{{ID: "nanobot"}} }
	}
	return &API{
		o:     o,
		gate:  Gate{Token: o.Token, Hosts: o.Hosts},
		slots: make(chan struct{}, o.MaxConcurrent),
		queue: make(chan struct{}, maxWaiting),
		probe: probe{check: o.Health, now: o.Now},
		ping:  pingEvery,
	}, nil
}

// Handler answers all paths of the API, health and metrics; a host program may
// mount it beside its own.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", a.health)
	mux.HandleFunc("GET /healthz", a.health)
	mux.HandleFunc("GET /livez", a.health)
	mux.HandleFunc("GET /readyz", a.readyz)
	if a.o.Metrics != nil {
		mux.HandleFunc("GET "+a.o.MetricsPath, a.metrics)
	}

	if a.o.Ask != nil {
		mux.Handle("GET /v1/models", a.guarded(a.listModels))
		mux.Handle("GET /v1/models/{id...}", a.guarded(a.getModel))
		mux.Handle("POST /v1/chat/completions", a.guarded(a.chat))
		mux.Handle("POST /v1/responses", a.guarded(a.responses))
		mux.Handle("POST /v1/messages", a.guarded(a.messages))
		mux.Handle("POST /v1/messages/count_tokens", a.guarded(a.countTokens))
		mux.Handle("DELETE /v1/sessions/{id...}", a.guarded(a.deleteSession))
		if a.o.Trigger != nil {
			mux.Handle("POST /v1/triggers/{id}", a.triggers())
		}
		mux.Handle("/v1/", a.guarded(a.unknown))
	}

	return a.observed(mux)
}

// Serve answers on l until ctx ends, then lets requests finish for a short
// time. It closes l. A listener that other machines reach needs a token.
func (a *API) Serve(ctx context.Context, l net.Listener) error {
	if a.o.Ask != nil && !Loopback(l.Addr()) && !auth.Strong(a.o.Token) {
		return errors.Join(fmt.Errorf("listening on %s needs a key of at least %d characters: set api.apiKey", l.Addr(), auth.MinSecret), l.Close())
	}
	return serve(ctx, l, a.Handler(), shutdownTime)
}

type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (m Model) object() modelObject {
	return modelObject{ID: m.ID, Object: "model", OwnedBy: "nanobot"}
}

// messagesModel is a model in Anthropic's protocol. When it was made is not
// known, which the beginning of time stands for.
type messagesModel struct {
	Type        string    `json:"type"`
	ID          string    `json:"id"`
	DisplayName string    `json:"display_name"`
	Created     time.Time `json:"created_at"`
}

func (m Model) messagesObject() messagesModel {
	return messagesModel{Type: "model", ID: m.ID, DisplayName: m.ID, Created: time.Unix(0, 0).UTC()}
}

// messagesModels is a list that is always whole.
type messagesModels struct {
	Data    []messagesModel `json:"data"`
	HasMore bool            `json:"has_more"`
	First   *string         `json:"first_id"`
	Last    *string         `json:"last_id"`
}

func (a *API) listModels(w http.ResponseWriter, r *http.Request) error {
	if speaksMessages(r) {
		out := messagesModels{Data: []messagesModel{}}
		for _, m := range a.o.Models() {
			out.Data = append(out.Data, m.messagesObject())
		}

		if n := len(out.Data); n > 0 {
			out.First = &out.Data[0].ID
			out.Last = &out.Data[n-1].ID
		}
		return sendJSON(w, http.StatusOK, out)
	}

	list := []modelObject{}
	for _, m := range a.o.Models() {
		list = append(list, m.object())
	}
	return sendJSON(w, http.StatusOK, struct {
		Object string        `json:"object"`
		Data   []modelObject `json:"data"`
	}{"list", list})
}

func (a *API) getModel(w http.ResponseWriter, r *http.Request) error {
	m, err := a.model(r.PathValue("id"))
	if err != nil {
		return err
	}
	if speaksMessages(r) {
		return sendJSON(w, http.StatusOK, m.messagesObject())
	}
	return sendJSON(w, http.StatusOK, m.object())
}

// model finds the model a client named; "" is the default one.
func (a *API) model(id string) (Model, error) {
	all := a.o.Models()
	for _, m := range all {
		if m.ID == id {
			return m, nil
		}
	}

	if id == "" && len(all) > 0 {
		return all[0], nil
	}
	return Model{}, &fault{status: http.StatusNotFound, code: "model_not_found", param: "model", message: fmt.Sprintf("There is no model %q here; GET /v1/models lists them.", id)}
}

func (a *API) deleteSession(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if a.o.DeleteSession == nil {
		return &fault{status: http.StatusNotImplemented, code: "unsupported", message: "Conversations cannot be deleted here."}
	}
	if err := checkSession(id); err != nil {
		return err
	}

	found, err := a.o.DeleteSession(r.Context(), sessionPrefix+id)
	switch {
	case err != nil:
		return a.explain(err)
	case !found:
		return &fault{status: http.StatusNotFound, code: "session_not_found", message: fmt.Sprintf("There is no conversation %q.", id)}
	}
	return sendJSON(w, http.StatusOK, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{id, "session.deleted", true})
}

func (a *API) unknown(_ http.ResponseWriter, r *http.Request) error {
	return &fault{status: http.StatusNotFound, code: "unknown_url", message: fmt.Sprintf("There is no %s %s here.", r.Method, r.URL.Path)}
}
