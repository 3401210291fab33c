package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// Server is what a gateway does for commands.
type Server struct {
	Gateway  Gateway
	Channels Channels
	Pages    Pages
	Redact   func(string) string // takes credentials out of errors of platforms
}

// Gateway is the gateway as a whole.
type Gateway interface {
	Status(ctx context.Context) Status
	Reload(ctx context.Context) error
	Restart()
}

// Channels are its accounts.
type Channels interface {
	Probe(ctx context.Context, name string) (chat.Report, error)
	Restart(ctx context.Context, name string) error
	Logout(ctx context.Context, name string) error
	Address(ctx context.Context, to bus.Route) (bus.Route, error)
	Send(ctx context.Context, out bus.Outbound) (bus.Route, error)
	Login(ctx context.Context, name string, d chat.Dialog, force bool) (chat.Result, error)
}

// Pages are its web interface.
type Pages interface {
	Link(want WantedLink) (Link, error)
	Devices(ctx context.Context) (Devices, error)
	Decide(ctx context.Context, d Decision) error
}

// Handler answers the calls of a Client.
func (s Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) { answer(w, s.Gateway.Status(r.Context()), nil) })
	mux.HandleFunc("POST /reload", func(w http.ResponseWriter, r *http.Request) { answer(w, struct{}{}, s.Gateway.Reload(r.Context())) })
	mux.HandleFunc("POST /restart", func(w http.ResponseWriter, _ *http.Request) {
		s.Gateway.Restart()
		answer(w, struct{}{}, nil)
	})
	s.pages(mux)
	s.channels(mux)
	return mux
}

func (s Server) pages(mux *http.ServeMux) {
	mux.HandleFunc("POST /web/link", func(w http.ResponseWriter, r *http.Request) {
		var want WantedLink
		var link Link
		err := decode(r, &want)
		if err == nil {
			link, err = s.Pages.Link(want)
		}
		answer(w, link, err)
	})

	mux.HandleFunc("GET /web/devices", func(w http.ResponseWriter, r *http.Request) {
		list, err := s.Pages.Devices(r.Context())
		answer(w, list, err)
	})
	mux.HandleFunc("POST /web/devices", func(w http.ResponseWriter, r *http.Request) {
		var d Decision
		err := decode(r, &d)
		if err == nil {
			err = s.Pages.Decide(r.Context(), d)
		}
		answer(w, struct{}{}, err)
	})
}

func (s Server) channels(mux *http.ServeMux) {
	mux.HandleFunc("POST /channels/{name}/test", func(w http.ResponseWriter, r *http.Request) {
		report, err := s.Channels.Probe(r.Context(), r.PathValue("name"))
		answer(w, report, s.hidden(err))
	})
	mux.HandleFunc("POST /channels/{name}/restart", func(w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, s.hidden(s.Channels.Restart(r.Context(), r.PathValue("name"))))
	})
	mux.HandleFunc("POST /channels/{name}/logout", func(w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, s.hidden(s.Channels.Logout(r.Context(), r.PathValue("name"))))
	})
	mux.HandleFunc("POST /channels/{name}/address", func(w http.ResponseWriter, r *http.Request) {
		var to bus.Route
		err := decode(r, &to)
		if err == nil {
			to.Channel = r.PathValue("name")
			to, err = s.Channels.Address(r.Context(), to)
		}
		answer(w, to, s.hidden(err))
	})

	mux.HandleFunc("POST /channels/{name}/send", func(w http.ResponseWriter, r *http.Request) {
		var out bus.Outbound
		err := decode(r, &out)
		if err == nil {
			out.Route.Channel = r.PathValue("name")
			out.Route, err = s.Channels.Send(r.Context(), out)
		}
		answer(w, out.Route, s.hidden(err))
	})

	logins := &logins{channels: s.Channels, redact: s.Redact, dialogs: map[string]*remoteDialog{}}
	mux.HandleFunc("POST /channels/{name}/login", logins.begin)
	mux.HandleFunc("POST /channels/{name}/answer", logins.answer)
}

func (s Server) hidden(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(s.Redact(err.Error()))
}

func decode(r *http.Request, into any) error {
	if err := json.NewDecoder(io.LimitReader(r.Body, answerMost)).Decode(into); err != nil {
		return fmt.Errorf("the request cannot be read: %w", err)
	}
	return nil
}

func answer(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		v = map[string]string{"error": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(v) // the command may be gone
}
