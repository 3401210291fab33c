package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
)

// Read answers a GET request with something that becomes JSON.
type Read func(ctx context.Context, r *http.Request) (any, error)

// Action changes something and says what it did. The payload is an object, or nil.
type Action func(ctx context.Context, payload json.RawMessage) (Done, error)

// Routes are reads by path below /api/, in the form of http.ServeMux, and actions by name.
type Routes struct {
	Reads   map[string]Read
	Actions map[string]Action
}

// Routes implements Subject, for a subject that consists of functions.
func (r Routes) Routes() Routes { return r }

// Subject is one thing that web clients read and change, such as memory. Its reads and
// actions may run concurrently.
type Subject interface{ Routes() Routes }

// Feed tells the clients that subscribe to a topic that something of it has changed. It
// does not wait for them.
type Feed interface{ Publish(topic string, data any) }

// Desk answers web clients about its subjects. It is safe for concurrent use once
// all subjects are there.
type Desk struct {
	log     *slog.Logger
	actions map[string]Action
	reads   *http.ServeMux
	paths   map[string]bool // paths of reads
}

// NewDesk makes a desk. More subjects may follow; see Add.
func NewDesk(log *slog.Logger, subjects ...Subject) (*Desk, error) {
	d := &Desk{log: log, actions: map[string]Action{}, reads: http.NewServeMux(), paths: map[string]bool{}}
	d.reads.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET")
			refuse(w, Refuse(http.StatusMethodNotAllowed, "nothing is changed by HTTP; send a webui_request over the socket"))
			return
		}
		refuse(w, Refuse(http.StatusNotFound, "there is nothing at %s", r.URL.Path))
	})
	return d, d.Add(subjects...)
}

// Add takes in subjects before the first request. A path or an action that two
// subjects have is an error.
func (d *Desk) Add(subjects ...Subject) error {
	for _, s := range subjects {
		routes := s.Routes()
		for path, read := range routes.Reads {
			if d.paths[path] {
				return fmt.Errorf("two web subjects have the read %q", path)
			}
			d.paths[path] = true
			d.reads.HandleFunc("GET /api/"+path, d.answer(read))
		}

		for name, act := range routes.Actions {
			if d.actions[name] != nil {
				return fmt.Errorf("two web subjects have the action %q", name)
			}
			d.actions[name] = act
		}
	}
	return nil
}

// ServeHTTP answers requests below /api/.
func (d *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.reads.ServeHTTP(w, r) }

// answer makes a handler of a Read.
func (d *Desk) answer(read Read) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := read(r.Context(), r)
		var body []byte
		if file, ok := v.(Download); ok && err == nil {
			if err := file.serve(w); err != nil && r.Context().Err() == nil {
				d.log.WarnContext(r.Context(), "a download broke off", "what", r.URL.Path, "err", err)
			}
			return
		}

		if err == nil {
			body, err = json.Marshal(v)
		}

		if err != nil {
			d.logFailure(r.Context(), r.URL.Path, err)
			refuse(w, err)
			return
		}

		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(body) // the peer may be gone
	}
}

// Do carries out an action. It returns what the client is told and the topics that
// have changed. The error is an *Error.
func (d *Desk) Do(ctx context.Context, name string, payload json.RawMessage) (result json.RawMessage, changed []string, err error) {
	act, ok := d.actions[name]
	if !ok {
		return nil, nil, Refuse(http.StatusNotFound, "there is no action %q", name)
	}

	done, err := act(ctx, payload)
	if err == nil {
		result, err = json.Marshal(done.Result)
	}

	if err != nil {
		d.logFailure(ctx, name, err)
		return nil, nil, Refusal(err)
	}
	return result, done.Changed, nil
}

// logFailure logs what is not the client's fault.
func (d *Desk) logFailure(ctx context.Context, what string, err error) {
	if Refusal(err).Status >= http.StatusInternalServerError && ctx.Err() == nil {
		d.log.ErrorContext(ctx, "web interface", "what", what, "err", err)
	}
}

// Download is a file that a Read answers with instead of JSON.
type Download struct {
	Name  string
	MIME  string
	Write func(w io.Writer) error
}

// serve writes the file. What fails after its beginning can only be logged.
func (f Download) serve(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", f.MIME)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Name}))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	return f.Write(w)
}
