package matrixtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	maxEvent = 65536 // bytes of an event with what the server adds
	overhead = 400
)

// request is one call of a person who is logged in.
type request struct {
	h    *Home
	r    *http.Request
	who  session
	body []byte
	data Object
}

type handler func(q *request) (status int, body any)

func bad(status int, code, text string) (int, any) {
	return status, Object{"errcode": code, "error": text}
}

func (h *Home) routes() http.Handler {
	mux := http.NewServeMux()
	add := func(pattern string, f handler) {
		method, path, _ := strings.Cut(pattern, " ")
		for _, base := range []string{"/_matrix/client/v3", "/_matrix/client/r0"} {
			mux.HandleFunc(method+" "+base+path, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, f) })
		}
	}

	mux.HandleFunc("GET /_matrix/client/versions", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, Object{"versions": []string{"v1.1", "v1.11"}})
	})
	mux.HandleFunc("POST /_matrix/client/v3/login", h.login)
	mux.HandleFunc("GET /_matrix/client/v3/sync", h.sync)
	mux.HandleFunc("POST /_matrix/media/v3/upload", func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, upload) })
	mux.HandleFunc("GET /_matrix/client/v1/media/config", func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, limits) })
	mux.HandleFunc("GET /_matrix/client/v1/media/download/{server}/{id}", h.download)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "M_UNRECOGNIZED", "Unrecognized request")
	})

	add("GET /account/whoami", func(q *request) (int, any) {
		return http.StatusOK, Object{"user_id": q.who.user, "device_id": q.who.device}
	})
	add("POST /logout", logout)
	add("PUT /rooms/{room}/send/{type}/{txn}", send)
	add("PUT /rooms/{room}/redact/{event}/{txn}", redact)
	add("GET /rooms/{room}/state", state)
	add("GET /rooms/{room}/event/{event}", event)
	add("GET /rooms/{room}/messages", messages)
	add("GET /rooms/{room}/joined_members", joined)
	add("PUT /rooms/{room}/typing/{user}", typing)
	add("POST /rooms/{room}/receipt/{kind}/{event}", receipt)
	add("POST /rooms/{room}/leave", func(q *request) (int, any) { return move(q, "leave") })
	add("POST /rooms/{room}/join", func(q *request) (int, any) { return move(q, "join") })
	add("POST /join/{room}", func(q *request) (int, any) { return move(q, "join") })
	add("POST /rooms/{room}/invite", invite)
	add("POST /createRoom", create)
	add("GET /directory/room/{alias}", alias)
	add("PUT /user/{user}/account_data/{type}", setData)
	add("GET /user/{user}/account_data/{type}", data)
	add("POST /user/{user}/filter", func(*request) (int, any) { return http.StatusOK, Object{"filter_id": "1"} })
	add("POST /keys/upload", keysUpload)
	add("POST /keys/query", keysQuery)
	add("POST /keys/claim", keysClaim)
	add("PUT /sendToDevice/{type}/{txn}", toDevice)
	add("POST /keys/device_signing/upload", signingUpload)
	add("POST /keys/signatures/upload", signaturesUpload)
	add("GET /room_keys/version", backupVersion)
	add("POST /room_keys/version", backupMake)
	add("PUT /room_keys/keys", backupPut)
	add("GET /room_keys/keys/{room}/{session}", backupGet)
	return h.record(mux)
}

// record notes every request and lets those fail that shall.
func (h *Home) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 200<<20))
		if err != nil {
			return
		}

		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/rooms/") {
			h.Pass(r.Context())
		}

		h.mu.Lock()
		h.calls = append(h.calls, Call{r.Method, r.URL.Path, h.tokens[bearer(r)].user, body})
		i := slices.IndexFunc(h.failures, func(f Failure) bool {
			return (f.Method == "" || f.Method == r.Method) && strings.Contains(r.URL.Path, f.Path)
		})
		var f Failure
		if i >= 0 {
			f = h.failures[i]
			h.failures = slices.Delete(h.failures, i, i+1)
		}

		h.mu.Unlock()

		switch {
		case i < 0:
			next.ServeHTTP(w, r)
		case f.Status == 0:
			panic(http.ErrAbortHandler)
		case f.Body != "":
			w.WriteHeader(f.Status)
			_, _ = io.WriteString(w, f.Body)
		default:
			out := Object{"errcode": f.Code, "error": "told to fail"}
			if f.Wait > 0 {
				out["retry_after_ms"] = f.Wait.Milliseconds()
			}
			answer(w, f.Status, out)
		}
	})
}

func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// serve runs a handler for a person who is logged in.
func (h *Home) serve(w http.ResponseWriter, r *http.Request, f handler) {
	h.mu.Lock()
	who, ok := h.tokens[bearer(r)]
	h.mu.Unlock()

	if !ok {
		refuse(w, http.StatusUnauthorized, "M_UNKNOWN_TOKEN", "Invalid access token passed.")
		return
	}

	q := &request{h: h, r: r, who: who}
	q.body, _ = io.ReadAll(r.Body)
	if r.Method != http.MethodGet && (!strings.HasSuffix(r.URL.Path, "/upload") || strings.Contains(r.URL.Path, "/keys/")) {
		if len(q.body) == 0 && strings.Contains(r.URL.Path, "/join") { // as Synapse does; others refuse it
			q.body = []byte("{}")
		}
		if json.Unmarshal(q.body, &q.data) != nil {
			refuse(w, http.StatusBadRequest, "M_NOT_JSON", "Content not JSON.")
			return
		}
	}

	h.mu.Lock()
	status, body := f(q)
	h.mu.Unlock()
	answer(w, status, body)
}

func (h *Home) login(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Type, Password string
		Identifier     struct{ User string }
	}
	raw, _ := io.ReadAll(r.Body)
	var more struct {
		Device string `json:"device_id"`
	}
	if json.Unmarshal(raw, &in) != nil || json.Unmarshal(raw, &more) != nil {
		refuse(w, http.StatusBadRequest, "M_NOT_JSON", "Content not JSON.")
		return
	}

	user := in.Identifier.User
	if !strings.HasPrefix(user, "@") {
		user = "@" + user + ":" + Server
	}

	h.mu.Lock()
	defer h.mu.Unlock()

	a := h.accounts[user]
	if in.Type != "m.login.password" || a == nil || a.password != in.Password {
		refuse(w, http.StatusForbidden, "M_FORBIDDEN", "Invalid username or password")
		return
	}

	dev := more.Device
	if dev == "" {
		dev = fmt.Sprintf("DEV%d", h.next())
	}
	answer(w, http.StatusOK, Object{"user_id": user, "access_token": h.token(user, dev), "device_id": dev, "home_server": Server})
}

func logout(q *request) (int, any) {
	delete(q.h.tokens, bearer(q.r))
	return http.StatusOK, Object{}
}

// inside is the room of a request if its sender is in it.
func (q *request) inside() *room {
	if r := q.h.rooms[q.r.PathValue("room")]; r != nil && r.member(q.who.user) == "join" {
		return r
	}
	return nil
}

func notInside() (int, any) {
	return bad(http.StatusForbidden, "M_FORBIDDEN", "User not in room")
}

// once runs something for a transaction, or answers as the first time.
func (q *request) once(do func() string) (int, any) {
	key := q.who.user + "/" + q.who.device + q.r.URL.Path
	id, ok := q.h.sent[key]
	if !ok {
		id = do()
		q.h.sent[key] = id
	}
	return http.StatusOK, Object{"event_id": id}
}

func send(q *request) (int, any) {
	r := q.inside()
	if r == nil {
		return notInside()
	}
	if len(q.body)+overhead > maxEvent {
		return bad(http.StatusRequestEntityTooLarge, "M_TOO_LARGE", "event too large")
	}

	kind := q.r.PathValue("type")
	if body, ok := q.data["body"].(string); kind == "m.room.message" && (!ok || body == "" && q.data["msgtype"] == "m.text") {
		return bad(http.StatusBadRequest, "M_BAD_JSON", "'body' not in content")
	}

	if rel, ok := q.data["m.relates_to"].(Object); ok {
		target, _ := rel["event_id"].(string)
		if target != "" && !slices.ContainsFunc(r.events, func(e placed) bool { return e.ID == target }) {
			return bad(http.StatusBadRequest, "M_UNKNOWN", "Can't send relation to an unknown event")
		}
	}
	return q.once(func() string {
		if body, ok := q.data["body"].(string); ok {
			q.h.Show(r.id, body)
		}
		return q.h.put(Event{Type: kind, Room: r.id, Sender: q.who.user, Content: q.body, Unsigned: Object{"transaction_id": q.r.PathValue("txn")}})
	})
}

func redact(q *request) (int, any) {
	r := q.inside()
	if r == nil {
		return notInside()
	}

	target := q.r.PathValue("event")
	if !slices.ContainsFunc(r.events, func(e placed) bool { return e.ID == target }) {
		return bad(http.StatusNotFound, "M_NOT_FOUND", "Could not find event")
	}
	return q.once(func() string {
		return q.h.put(Event{Type: "m.room.redaction", Room: r.id, Sender: q.who.user, Content: encode(Object{"redacts": target}), Redacts: target})
	})
}

func state(q *request) (int, any) {
	r := q.inside()
	if r == nil {
		return notInside()
	}
	return http.StatusOK, r.current()
}

func (r *room) current() []Event {
	out := []Event{}
	for _, e := range r.state {
		out = append(out, e.Event)
	}
	return out
}

func event(q *request) (int, any) {
	r := q.inside()
	if r == nil {
		return notInside()
	}

	for _, e := range r.events {
		if e.ID == q.r.PathValue("event") {
			return http.StatusOK, e.Event
		}
	}
	return bad(http.StatusNotFound, "M_NOT_FOUND", "Event not found.")
}

// messages pages backwards from a token of sync.
func messages(q *request) (int, any) {
	r := q.inside()
	if r == nil {
		return notInside()
	}

	from, to, limit := number(q.r.URL.Query().Get("from")), number(q.r.URL.Query().Get("to")), number(q.r.URL.Query().Get("limit"))
	if limit == 0 {
		limit = 10
	}

	chunk := []Event{}
	end := ""
	for _, e := range slices.Backward(r.events) {
		if e.seq > from || e.seq <= to {
			continue
		}
		if len(chunk) == limit {
			end = position(e.seq)
			break
		}
		chunk = append(chunk, e.Event)
	}

	out := Object{"chunk": chunk, "start": q.r.URL.Query().Get("from")}
	if end != "" {
		out["end"] = end
	}
	return http.StatusOK, out
}

func joined(q *request) (int, any) {
	r := q.inside()
	if r == nil {
		return notInside()
	}

	out := Object{}
	for _, e := range r.state {
		if e.Type == "m.room.member" && membership(e.Content) == "join" {
			out[*e.StateKey] = Object{"display_name": localpart(*e.StateKey)}
		}
	}
	return http.StatusOK, Object{"joined": out}
}

func typing(q *request) (int, any) {
	r := q.inside()
	if r == nil || q.r.PathValue("user") != q.who.user {
		return notInside()
	}
	r.typing[q.who.user], _ = q.data["typing"].(bool)
	return http.StatusOK, Object{}
}

func receipt(q *request) (int, any) {
	if q.inside() == nil {
		return notInside()
	}
	return http.StatusOK, Object{}
}

// move joins or leaves.
func move(q *request, to string) (int, any) {
	id := q.r.PathValue("room")
	if a, ok := q.h.aliases[id]; ok {
		id = a
	}

	r := q.h.rooms[id]
	if r == nil {
		return bad(http.StatusNotFound, "M_NOT_FOUND", "No known servers")
	}

	if now := r.member(q.who.user); now != to {
		if to == "join" && now != "invite" {
			return bad(http.StatusForbidden, "M_FORBIDDEN", "You are not invited to this room.")
		}
		q.h.set(id, q.who.user, "m.room.member", q.who.user, Object{"membership": to, "displayname": localpart(q.who.user)})
	}
	return http.StatusOK, Object{"room_id": id}
}

func invite(q *request) (int, any) {
	r := q.inside()
	user, _ := q.data["user_id"].(string)
	if r == nil || r.member(user) == "join" {
		return notInside()
	}
	q.h.set(r.id, q.who.user, "m.room.member", user, Object{"membership": "invite", "displayname": localpart(user)})
	return http.StatusOK, Object{}
}

func create(q *request) (int, any) {
	id := fmt.Sprintf("!room%d:%s", q.h.next(), Server)
	q.h.rooms[id] = &room{id: id, state: map[string]placed{}, typing: map[string]bool{}, invited: map[string]int{}}
	q.h.set(id, q.who.user, "m.room.create", "", Object{"creator": q.who.user})
	q.h.set(id, q.who.user, "m.room.member", q.who.user, Object{"membership": "join"})
	q.h.set(id, q.who.user, "m.room.join_rules", "", Object{"join_rule": "invite"})
	list, _ := q.data["initial_state"].([]any)
	for _, s := range list {
		if e, ok := s.(Object); ok {
			kind, _ := e["type"].(string)
			content, _ := e["content"].(Object)
			q.h.set(id, q.who.user, kind, "", content)
		}
	}

	guests, _ := q.data["invite"].([]any)
	for _, g := range guests {
		if user, ok := g.(string); ok {
			q.h.set(id, q.who.user, "m.room.member", user, Object{"membership": "invite", "is_direct": q.data["is_direct"]})
		}
	}
	return http.StatusOK, Object{"room_id": id}
}

func alias(q *request) (int, any) {
	if id, ok := q.h.aliases[q.r.PathValue("alias")]; ok {
		return http.StatusOK, Object{"room_id": id, "servers": []string{Server}}
	}
	return bad(http.StatusNotFound, "M_NOT_FOUND", "Room alias not found.")
}

func setData(q *request) (int, any) {
	if q.r.PathValue("user") != q.who.user {
		return bad(http.StatusForbidden, "M_FORBIDDEN", "Cannot add account data for other users.")
	}
	q.h.accounts[q.who.user].data[q.r.PathValue("type")] = stamped{q.h.next(), q.data}
	q.h.wake()
	return http.StatusOK, Object{}
}

func data(q *request) (int, any) {
	if d, ok := q.h.accounts[q.who.user].data[q.r.PathValue("type")]; ok && q.r.PathValue("user") == q.who.user {
		return http.StatusOK, d.Object
	}
	return bad(http.StatusNotFound, "M_NOT_FOUND", "Account data not found.")
}

func upload(q *request) (int, any) {
	if int64(len(q.body)) > q.h.MaxUpload {
		return bad(http.StatusRequestEntityTooLarge, "M_TOO_LARGE", "Upload request body is too large")
	}
	return http.StatusOK, Object{"content_uri": q.h.store(q.r.Header.Get("Content-Type"), q.body)}
}

func limits(q *request) (int, any) { return http.StatusOK, Object{"m.upload.size": q.h.MaxUpload} }

func (h *Home) download(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	_, known := h.tokens[bearer(r)]
	f, ok := h.media["mxc://"+r.PathValue("server")+"/"+r.PathValue("id")]
	h.mu.Unlock()

	switch {
	case !known:
		refuse(w, http.StatusUnauthorized, "M_MISSING_TOKEN", "Missing access token")
	case !ok:
		refuse(w, http.StatusNotFound, "M_NOT_FOUND", "Not found")
	default:
		w.Header().Set("Content-Type", f.kind)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.data))
	}
}
