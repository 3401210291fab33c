package socket

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/web/auth"
)

const (
	apiPath    = "/api/"
	maxAnswers = 256             // of requests that are remembered
	maxKept    = 4 << 20         // bytes of all these answers
	answerAge  = 5 * time.Minute // how long
	maxAtOnce  = 4               // requests of one connection
)

// serveAPI answers the owner: with a token of the bootstrap, with
// the permanent one, or through a trusted proxy.
func (c *Channel) serveAPI(w http.ResponseWriter, r *http.Request) {
	given := auth.Bearer(r)
	if given == "" {
		given = r.URL.Query().Get("token")
	}

	switch {
	case !c.running():
		w.Header().Set("Retry-After", "5")
		refuseRead(w, http.StatusServiceUnavailable, "gateway_starting", "not running")
	case !c.originAllowed(r) || embedded(r):
		refuseRead(w, http.StatusForbidden, "origin_not_allowed", "this origin is not allowed; see allowedOrigins")
	case !c.Vouched(r) && !auth.Same(c.set.Token, given) && !c.access.Good(given, c.d.Now()):
		refuseRead(w, http.StatusUnauthorized, "unauthorized", "wrong or missing token; "+bootstrapPath+" gives one")
	default:
		c.o.API.ServeHTTP(w, r)
	}
}

// refuseRead answers as the API refuses.
func refuseRead(w http.ResponseWriter, status int, code, why string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"status": status, "code": code, "message": why}})
}

// requests remembers what was answered, so that a client that lost its
// connection can ask again without anything being done twice.
type requests struct {
	mu    sync.Mutex
	known map[string]*answer
	bytes int // of the answers
}

// answer is what a request gets.
type answer struct {
	sum   [sha256.Size]byte // of what was asked
	at    time.Time
	done  chan struct{} // closed when frame is there
	frame []byte        // nil: nothing became of it, it may be asked again
}

// begin finds the answer to a request, or begins a new one, which the caller
// has to end. Fits is false if the same id was used for something else.
func (q *requests) begin(id string, sum [sha256.Size]byte, now time.Time) (a *answer, mine, fits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if a := q.known[id]; a != nil && (a.frame == nil || now.Sub(a.at) < answerAge) {
		return a, false, a.sum == sum
	}

	if q.known == nil {
		q.known = map[string]*answer{}
	}
	if len(q.known) >= maxAnswers {
		q.forget(now)
	}

	q.drop(id)
	a = &answer{sum: sum, at: now, done: make(chan struct{})}
	q.known[id] = a
	return a, true, true
}

// forget makes room: what is too old, else the oldest.
func (q *requests) forget(now time.Time) {
	for id, a := range q.known {
		if a.frame != nil && now.Sub(a.at) >= answerAge {
			q.drop(id)
		}
	}
	if len(q.known) >= maxAnswers {
		q.drop(q.oldest())
	}
}

// oldest is the answer that can be done without best; "" if all are yet to come.
func (q *requests) oldest() (oldest string) {
	for id, a := range q.known {
		if a.frame != nil && (oldest == "" || a.at.Before(q.known[oldest].at)) {
			oldest = id
		}
	}
	return oldest
}

func (q *requests) drop(id string) {
	if a := q.known[id]; a != nil {
		q.bytes -= len(a.frame)
		delete(q.known, id)
	}
}

// resolve gives the answer to all who wait for it. Nil means that it was not carried
// out.
func (q *requests) resolve(id string, a *answer, f []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()

	a.frame = f
	close(a.done)
	if f == nil {
		q.drop(id)
		return
	}

	for q.bytes += len(f); q.bytes > maxKept && len(q.known) > 1; {
		old := q.oldest()
		if old == "" {
			return
		}
		q.drop(old)
	}
}

// webui carries out a request of the web interface, beside the other frames.
func (r *receiver) webui(ctx context.Context, e *envelope) {
	id := e.RequestID
	refuse := func(status int, code, message string) { r.reply(failed(id, status, code, message, nil)) }
	switch {
	case !validWord(id, 128, "._:-"):
		r.problem("invalid request_id", "", e)
		return
	case !validAction(e.Action):
		refuse(http.StatusBadRequest, "action_invalid", "invalid action")
		return
	case r.c.o.API == nil:
		refuse(http.StatusNotFound, "unknown_action", "unknown action")
		return
	case !r.proven:
		refuse(http.StatusForbidden, "token_missing", "this connection came without a token; set one and connect with it")
		return
	case !r.reserve():
		refuse(http.StatusTooManyRequests, "too_many_requests", "too many requests at once")
		return
	}

	payload := append(json.RawMessage(nil), e.Payload...) // the frame is not ours for long
	r.wg.Go(func() {
		defer r.give()
		r.reply(r.answered(ctx, id, e.Action, payload))
	})
}

// answered is the frame that answers a request, also one that was made before.
func (r *receiver) answered(ctx context.Context, id, action string, payload json.RawMessage) frame {
	q := &r.c.asked
	sum := sha256.Sum256(append([]byte(action+"\x00"), payload...))
	for {
		a, mine, fits := q.begin(r.client+"\x00"+id, sum, r.c.d.Now())
		switch {
		case !fits:
			return failed(id, http.StatusConflict, "request_id_reused", "this request_id was used for something else", nil)
		case mine:
			f, carried := act(ctx, r.c, id, action, payload)
			kept := []byte(f)
			if !carried {
				kept = nil
			}
			q.resolve(r.client+"\x00"+id, a, kept)
			return f
		}

		select {
		case <-a.done:
			if a.frame != nil {
				return append(frame(nil), a.frame...)
			}
		case <-ctx.Done():
			return failed(id, http.StatusServiceUnavailable, "interrupted", "interrupted, ask again", nil)
		}
	}
}

// act carries out an action and tells others what changed. carried is false
// when it was interrupted.
func act(ctx context.Context, c *Channel, id, action string, payload json.RawMessage) (f frame, carried bool) {
	defer func() {
		if p := recover(); p != nil {
			c.d.Log.ErrorContext(ctx, "an action was given up, please report this", "action", action, "panic", p, "stack", string(debug.Stack()))
			f, carried = failed(id, http.StatusInternalServerError, "internal", "internal error", nil), true
		}
	}()

	result, changed, err := c.o.API.Do(ctx, action, payload)
	if err != nil {
		if ctx.Err() != nil {
			return failed(id, http.StatusServiceUnavailable, "interrupted", "interrupted, ask again", nil), false
		}
		status, code, params := detailOf(err)
		return failed(id, status, code, err.Error(), params), true
	}

	publishChange(c, action, payload, result, changed)
	return newFrame(evWebuiResponse, "", len(result)+64).text("request_id", id).flag("ok", true).raw("result", result), true
}

// publishChange notifies all clients of what one of them changed for all.
func publishChange(c *Channel, action string, payload, result json.RawMessage, changed []string) {
	for _, topic := range changed {
		c.Publish(topic, nil)
	}
	switch kind, _, _ := strings.Cut(action, "."); kind {
	case "sidebar":
		c.hub.broadcast(newFrame(evSidebar, "", len(result)+32).raw("state", result), true)
	case "session":
		var in struct {
			Key string `json:"key"`
		}
		_ = json.Unmarshal(payload, &in) // it was understood before
		chat, _ := strings.CutPrefix(in.Key, c.d.Name+":")
		if !validChatID(chat) {
			chat = ""
		}

		switch action {
		case "session.delete", "session.archive", "session.erase":
			c.hub.forget(chat)
		}
		c.hub.broadcast(newFrame(evUpdated, chat, 64).text("scope", action), true)
	}
}

// UsualModel tells all clients that another model answers from now on.
func (c *Channel) UsualModel(model, preset string) {
	c.hub.broadcast(newFrame(evUsualModel, "", len(model)+64).text("model_name", model).text("model_preset", preset), false)
}

// setSidebar keeps the state of the interface's list of chats.
func (r *receiver) setSidebar(ctx context.Context, e *envelope) {
	switch {
	case r.c.o.API == nil:
		r.problem("unsupported", "set_sidebar_state", e)
		return
	case !r.proven:
		r.problem("access_denied", "this connection came without a token", e)
		return
	}

	state := e.State
	if len(state) == 0 {
		state = json.RawMessage("null")
	}

	payload := append(append([]byte(`{"state":`), state...), '}')
	result, changed, err := r.c.o.API.Do(ctx, "sidebar.update", payload)
	if err != nil {
		r.problem("sidebar_state_rejected", err.Error(), e)
		return
	}
	publishChange(r.c, "sidebar.update", payload, result, changed)
}

func failed(id string, status int, code, message string, params map[string]any) frame {
	e := mustJSON(struct {
		Status  int            `json:"status"`
		Code    string         `json:"code"`
		Params  map[string]any `json:"params,omitempty"`
		Message string         `json:"message"`
	}{status, code, params, message})
	return newFrame(evWebuiResponse, "", len(message)+96).text("request_id", id).flag("ok", false).raw("error", e)
}

// mustJSON is for values that cannot fail.
func mustJSON(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

// detailOf returns what an error of the API says besides its words.
func detailOf(err error) (status int, code string, params map[string]any) {
	var e interface {
		HTTPStatus() int
		Detail() (code string, params map[string]any)
	}
	if errors.As(err, &e) {
		code, params = e.Detail()
		return e.HTTPStatus(), code, params
	}
	return http.StatusInternalServerError, "internal", nil
}

// validAction reports whether a name is one an action could have.
func validAction(s string) bool {
	return validWord(s, 128, "_.") && s[0] >= 'a' && s[0] <= 'z' && strings.ToLower(s) == s
}

// reserve counts a request that begins, and reports false if the connection has too many.
func (r *receiver) reserve() bool {
	r.c.hub.mu.Lock()
	defer r.c.hub.mu.Unlock()
	if r.asking >= maxAtOnce {
		return false
	}
	r.asking++
	return true
}

func (r *receiver) give() {
	r.c.hub.mu.Lock()
	defer r.c.hub.mu.Unlock()
	r.asking--
}

// broadcast sends a frame to the clients of the newer generation, or to those
// that proved who they are. It belongs to no chat, so a client that is away
// learns it otherwise.
func (h *hub) broadcast(f frame, proven bool) {
	data := f.end()
	h.mu.Lock()
	defer h.mu.Unlock()

	for s := range h.peers {
		if !s.modern || proven && !s.proven {
			continue
		}

		if len(s.replies) >= replyRoom {
			s.flooded = true
		} else {
			s.replies = append(s.replies, data)
		}

		s.poke()
	}
}
