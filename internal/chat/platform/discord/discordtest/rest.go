package discordtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxText    = 2000 // characters of a message
	maxNonce   = 25
	maxFiles   = 10
	maxRequest = 200 << 20
)

// refusal is an error of the REST API.
type refusal struct {
	status, code int
	text         string
	errors       Object
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /gateway", s.serveGateway)
	mux.HandleFunc("GET /gateway/", s.serveGateway) // clients may add a slash
	mux.HandleFunc("GET /attachments/{id}", s.serveFile)

	for pattern, do := range map[string]func(*http.Request, *Call) (any, *refusal){
		"GET /gateway":                                            s.getGateway,
		"GET /gateway/bot":                                        s.getGateway,
		"GET /users/@me":                                          s.getMe,
		"GET /oauth2/applications/@me":                            s.getApplication,
		"GET /applications/@me":                                   s.getApplication,
		"GET /applications/{app}/commands":                        s.getCommands,
		"PUT /applications/{app}/commands":                        s.putCommands,
		"POST /users/@me/channels":                                s.postDM,
		"GET /channels/{c}":                                       s.getChannel,
		"PATCH /channels/{c}":                                     s.patchChannel,
		"POST /channels/{c}/typing":                               s.postTyping,
		"GET /channels/{c}/messages":                              s.getMessages,
		"GET /channels/{c}/messages/{m}":                          s.getMessage,
		"POST /channels/{c}/messages":                             s.postMessage,
		"PATCH /channels/{c}/messages/{m}":                        s.patchMessage,
		"DELETE /channels/{c}/messages/{m}":                       s.deleteMessage,
		"POST /interactions/{i}/{token}/callback":                 s.postCallback,
		"PUT /channels/{c}/messages/{m}/reactions/{emoji}/@me":    s.putReaction,
		"DELETE /channels/{c}/messages/{m}/reactions/{emoji}/@me": s.deleteReaction,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /api/v10"+path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, do) })
	}

	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusNotFound, Object{"message": "404: Not Found", "code": 0})
	})
	return mux
}

func answer(w http.ResponseWriter, status int, v any) {
	if v == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(v))
}

// serve checks what all calls have in common, and keeps a record.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, do func(*http.Request, *Call) (any, *refusal)) {
	c := &Call{Method: r.Method, Path: strings.TrimPrefix(r.URL.Path, "/api/v10"), Query: r.URL.RawQuery, At: time.Now()}
	wrong := readBody(r, c)
	if r.Method != http.MethodGet && strings.HasPrefix(c.Path, "/channels/") {
		s.Pass(r.Context())
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	f := s.failure(c)
	open := strings.HasPrefix(c.Path, "/interactions/") // the token in the address is enough
	var result any
	switch {
	case f != nil && !f.After:
		c.Status = f.Status
	case wrong != nil:
	case !strings.HasPrefix(r.UserAgent(), "DiscordBot (") && !open:
		wrong = &refusal{status: 403, code: 40333, text: "internal network error"}
	case r.Header.Get("Authorization") != "Bot "+Token && !open:
		wrong = &refusal{status: 401, text: "401: Unauthorized"}
	default:
		if wait := s.spend(w, c); wait > 0 {
			s.calls = append(s.calls, record(*c, 429))
			limited(w, wait.Seconds(), false)
			return
		}
		result, wrong = do(r, c)
	}

	switch {
	case f != nil:
		s.calls = append(s.calls, record(*c, f.Status))
		fail(w, f)
	case wrong != nil:
		s.calls = append(s.calls, record(*c, wrong.status))
		body := Object{"message": wrong.text, "code": wrong.code}
		if wrong.errors != nil {
			body["errors"] = wrong.errors
		}
		answer(w, wrong.status, body)

	case result == nil:
		s.calls = append(s.calls, record(*c, 204))
		answer(w, http.StatusNoContent, nil)
	default:
		s.calls = append(s.calls, record(*c, 200))
		answer(w, http.StatusOK, result)
	}
}

func record(c Call, status int) Call { c.Status = status; return c }

// failure is the scripted one for a call, nil if there is none.
func (s *Server) failure(c *Call) *Failure {
	for i, f := range s.failures {
		if (f.Method == "" || f.Method == c.Method) && strings.HasPrefix(c.Path, f.Path) {
			if f.Times--; f.Times == 0 {
				s.failures = slices.Delete(s.failures, i, i+1)
			}
			return f
		}
	}
	return nil
}

func fail(w http.ResponseWriter, f *Failure) {
	switch {
	case f.Garbage:
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, "<html>bad gateway</html>")
	case f.Status == 0:
		panic(http.ErrAbortHandler)
	case f.Status == http.StatusTooManyRequests:
		limited(w, f.RetryAfter, f.Global)
	default:
		answer(w, f.Status, Object{"message": f.Text, "code": f.Code})
	}
}

func limited(w http.ResponseWriter, after float64, global bool) {
	h := w.Header()
	h.Set("Retry-After", strconv.Itoa(int(math.Ceil(after))))
	h.Set("X-RateLimit-Scope", "user")
	if global {
		h.Set("X-RateLimit-Global", "true")
		h.Set("X-RateLimit-Scope", "global")
	}
	answer(w, http.StatusTooManyRequests, Object{"message": "You are being rate limited.", "retry_after": after, "global": global})
}

// spend takes a call out of its bucket, and says how long to wait if it is empty.
func (s *Server) spend(w http.ResponseWriter, c *Call) time.Duration {
	parts := strings.Split(strings.Trim(c.Path, "/"), "/")
	word, major := "", ""
	if len(parts) > 2 && parts[0] == "channels" {
		word, major = parts[2], parts[1]
	}
	if len(parts) > 4 {
		word = parts[4]
	}
	if word == "reactions" && c.Method == http.MethodDelete {
		c = &Call{Method: http.MethodPut}
	}

	l, ok := s.limits[c.Method+" "+word]
	if !ok {
		return 0
	}

	now := time.Now()
	b := s.buckets[c.Method+word+major]
	if b == nil || !now.Before(b.reset) {
		b = &bucket{left: l.count, reset: now.Add(l.per)}
		s.buckets[c.Method+word+major] = b
	}

	over := b.left == 0
	b.left = max(b.left-1, 0)
	wait := b.reset.Sub(now)
	h := w.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(l.count))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(b.left))
	h.Set("X-RateLimit-Reset", strconv.FormatFloat(float64(b.reset.UnixMilli())/1000, 'f', 3, 64))
	h.Set("X-RateLimit-Reset-After", strconv.FormatFloat(wait.Seconds(), 'f', 3, 64))
	h.Set("X-RateLimit-Bucket", "bucket-"+strings.ToLower(c.Method)+"-"+word)
	if over {
		return wait
	}
	return 0
}

// readBody reads JSON, or a form with payload_json and files.
func readBody(r *http.Request, c *Call) *refusal {
	broken := &refusal{status: 400, code: 50109, text: "The request body contains invalid JSON."}
	body := http.MaxBytesReader(nil, r.Body, maxRequest)
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "multipart/form-data" {
		m := multipart.NewReader(body, params["boundary"])
		for {
			p, err := m.NextPart()
			if err == io.EOF { //nolint:errorlint // what NextPart returns
				return nil
			}
			if err != nil {
				return &refusal{status: 400, text: "400: Bad Request"}
			}

			data, err := io.ReadAll(p)
			switch name := p.FormName(); {
			case err != nil:
				return &refusal{status: 400, text: "400: Bad Request"}
			case name == "payload_json" && decode(data, &c.Body) != nil:
				return broken
			case strings.HasPrefix(name, "files["):
				c.Files = append(c.Files, File{p.FileName(), data})
			}
		}
	}

	data, err := io.ReadAll(body)
	if err != nil {
		return &refusal{status: 413, code: 40005, text: "Request entity too large"}
	}
	if len(data) == 0 {
		return nil
	}
	if kind != "application/json" {
		return &refusal{status: 400, code: 50035, text: "Invalid Form Body"}
	}

	var v any
	if decode(data, &v) != nil {
		return broken
	}

	if list, ok := v.([]any); ok {
		v = Object{"list": list}
	}

	c.Body, _ = v.(Object)
	return nil
}

// decode reads JSON whose numbers keep all their digits: clients may send ids as
// numbers.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}

func invalid(field, code, text string) *refusal {
	return &refusal{status: 400, code: 50035, text: "Invalid Form Body", errors: Object{field: Object{"_errors": []Object{{"code": code, "message": text}}}}}
}

func (s *Server) getGateway(*http.Request, *Call) (any, *refusal) {
	return Object{"url": s.gatewayURL(), "shards": 1, "session_start_limit": Object{"total": 1000, "remaining": 1000 - s.identifies, "reset_after": 1000, "max_concurrency": 1}}, nil
}

func (s *Server) getMe(*http.Request, *Call) (any, *refusal) { return s.bot(), nil }

func (s *Server) getCommands(r *http.Request, _ *Call) (any, *refusal) {
	if r.PathValue("app") != s.botID {
		return nil, foreignApp()
	}
	return s.commands, nil
}

func foreignApp() *refusal {
	return &refusal{status: 403, code: 20012, text: "You are not authorized to perform this action on this application"}
}

func (s *Server) getApplication(*http.Request, *Call) (any, *refusal) {
	flags := 0
	if s.intents&32768 != 0 {
		flags = 1 << 19
	}
	return Object{
		"id": s.botID, "name": "nanobot", "icon": nil, "description": "", "bot_public": true, "bot_require_code_grant": false, "verify_key": "0", "team": nil,
		"flags": flags, "owner": person("42"), "summary": "", "bot": s.bot(), "approximate_guild_count": 1, "approximate_user_install_count": 0,
	}, nil
}

func (s *Server) putCommands(r *http.Request, c *Call) (any, *refusal) {
	if r.PathValue("app") != s.botID {
		return nil, foreignApp()
	}

	list, _ := c.Body["list"].([]any)
	s.commands = []Object{}
	for i, v := range list {
		o, _ := v.(Object)
		name, _ := o["name"].(string)
		about, _ := o["description"].(string)
		switch {
		case name == "" || len(name) > 32 || strings.ToLower(name) != name || strings.ContainsAny(name, " /"):
			return nil, invalid(strconv.Itoa(i), "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
		case about == "" || utf8.RuneCountInString(about) > 100:
			return nil, invalid(strconv.Itoa(i), "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
		case slices.ContainsFunc(s.commands, func(other Object) bool { return other["name"] == name }):
			return nil, invalid(strconv.Itoa(i), "APPLICATION_COMMANDS_DUPLICATE_NAME", "Application command names must be unique")
		}

		o = maps.Clone(o)
		o["id"], o["application_id"], o["version"], o["default_member_permissions"] = s.snowflake(), s.botID, s.snowflake(), nil
		if o["type"] == nil {
			o["type"] = 1
		}
		s.commands = append(s.commands, o)
	}

	return s.commands, nil
}

func (s *Server) postDM(_ *http.Request, c *Call) (any, *refusal) {
	user := fmt.Sprint(c.Body["recipient_id"])
	if c.Body["recipient_id"] == nil || strings.HasPrefix(user, "0") {
		return nil, &refusal{status: 400, code: 50033, text: "Invalid Recipient(s)"}
	}
	return s.channels[s.dm(user)], nil
}

func (s *Server) channel(r *http.Request) (Object, *refusal) {
	c := s.channels[r.PathValue("c")]
	switch {
	case c == nil:
		return nil, &refusal{status: 404, code: 10003, text: "Unknown Channel"}
	case c["forbidden"] == true:
		return nil, &refusal{status: 403, code: 50001, text: "Missing Access"}
	}
	return c, nil
}

// Forbid takes a channel away from the bot; Remove deletes it.
func (s *Server) Forbid(channel string) { s.locked(func() { s.channels[channel]["forbidden"] = true }) }

// Remove deletes a channel or a thread.
func (s *Server) Remove(channel string) { s.locked(func() { delete(s.channels, channel) }) }

func (s *Server) getChannel(r *http.Request, _ *Call) (any, *refusal) {
	c, wrong := s.channel(r)
	if wrong != nil {
		return nil, wrong
	}
	return c, nil
}

func (s *Server) patchChannel(r *http.Request, c *Call) (any, *refusal) {
	ch, wrong := s.channel(r)
	if wrong != nil {
		return nil, wrong
	}

	meta := threadMeta(ch)
	if meta == nil || meta["locked"] == true {
		return nil, &refusal{status: 403, code: 50013, text: "Missing Permissions"}
	}

	if v, ok := c.Body["archived"].(bool); ok {
		meta["archived"] = v
	}
	return ch, nil
}

func (s *Server) postTyping(r *http.Request, _ *Call) (any, *refusal) {
	_, wrong := s.channel(r)
	return nil, wrong
}

func (s *Server) getMessages(r *http.Request, _ *Call) (any, *refusal) {
	if _, wrong := s.channel(r); wrong != nil {
		return nil, wrong
	}

	q := r.URL.Query()
	most := 50
	if v := q.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 100 {
			return nil, invalid("limit", "NUMBER_TYPE_MAX", "int value should be less than or equal to 100.")
		}
		most = n
	}

	after, _ := strconv.ParseUint(q.Get("after"), 10, 64)
	list := []Object{}
	for _, m := range s.history[r.PathValue("c")] {
		if id, _ := strconv.ParseUint(fmt.Sprint(m["id"]), 10, 64); id > after {
			m = clone(m)
			delete(m, "guild_id") // only events have it
			delete(m, "member")
			delete(m, "nonce")
			list = append(list, m)
		}
	}

	if q.Get("after") != "" {
		list = list[:min(most, len(list))]
	} else {
		list = list[max(0, len(list)-most):]
	}

	slices.Reverse(list) // newest first
	return list, nil
}

func (s *Server) find(r *http.Request) (Object, *refusal) {
	if _, wrong := s.channel(r); wrong != nil {
		return nil, wrong
	}
	for _, m := range s.history[r.PathValue("c")] {
		if m["id"] == r.PathValue("m") {
			return m, nil
		}
	}
	return nil, &refusal{status: 404, code: 10008, text: "Unknown Message"}
}

func (s *Server) getMessage(r *http.Request, _ *Call) (any, *refusal) {
	m, wrong := s.find(r)
	if wrong != nil {
		return nil, wrong
	}
	return m, nil
}

func nonceOf(c *Call) string {
	if c.Body["nonce"] == nil {
		return ""
	}
	return fmt.Sprint(c.Body["nonce"])
}

// checkBody refuses a message that Discord would refuse.
func (s *Server) checkBody(c *Call, edit bool) *refusal {
	text, _ := c.Body["content"].(string)
	parts, _ := c.Body["components"].([]any)
	nonce := nonceOf(c)
	most := map[int]int{2: 50 << 20, 3: 100 << 20}[s.tier]
	for _, f := range c.Files {
		if len(f.Data) > max(most, 10<<20) {
			return &refusal{status: 413, code: 40005, text: "Request entity too large"}
		}
	}

	switch {
	case utf8.RuneCountInString(text) > maxText:
		return invalid("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length.")
	case strings.TrimSpace(text) == "" && len(c.Files) == 0 && !edit:
		return &refusal{status: 400, code: 50006, text: "Cannot send an empty message"}
	case len(nonce) > maxNonce:
		return invalid("nonce", "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")
	case len(c.Files) > maxFiles:
		return invalid("files", "BASE_TYPE_MAX_LENGTH", "Must be 10 or fewer in length.")
	case len(parts) > 5:
		return invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
	}

	seen := map[string]bool{}
	for _, row := range parts {
		buttons, _ := row.(Object)["components"].([]any)
		if len(buttons) == 0 || len(buttons) > 5 {
			return invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
		}

		for _, v := range buttons {
			b, _ := v.(Object)
			id, _ := b["custom_id"].(string)
			label, _ := b["label"].(string)
			if id == "" || len(id) > 100 || utf8.RuneCountInString(label) > 80 || seen[id] {
				return invalid("components", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated")
			}
			seen[id] = true
		}
	}

	return nil
}

func (s *Server) postMessage(r *http.Request, c *Call) (any, *refusal) {
	ch, wrong := s.channel(r)
	if wrong != nil {
		return nil, wrong
	}

	id := r.PathValue("c")
	if meta := threadMeta(ch); meta != nil {
		if meta["locked"] == true || meta["archived"] == true {
			return nil, &refusal{status: 400, code: 50083, text: "Thread is archived"}
		}
	}

	if wrong := s.checkBody(c, false); wrong != nil {
		return nil, wrong
	}

	nonce := nonceOf(c)
	if old := s.nonces[nonce]; nonce != "" && c.Body["enforce_nonce"] == true && old != "" {
		for _, m := range s.history[id] {
			if m["id"] == old {
				return m, nil
			}
		}
	}

	text, _ := c.Body["content"].(string)
	m := s.message(s.bot(), id, text)
	if ref, ok := c.Body["message_reference"].(Object); ok {
		if wrong := s.refer(m, id, ref); wrong != nil {
			return nil, wrong
		}
	}

	for _, k := range []string{"components", "flags", "nonce"} {
		if v, ok := c.Body[k]; ok {
			m[k] = v
		}
	}

	list := []Object{}
	for _, f := range c.Files {
		list = append(list, s.store(f.Name, f.Data))
	}

	m["attachments"] = list
	m = clone(m)
	s.keep(m)
	sent := &Message{ID: fmt.Sprint(m["id"]), Channel: id, Body: m, Files: c.Files}
	s.own = append(s.own, sent)
	if nonce != "" {
		s.nonces[nonce] = sent.ID
	}

	s.dispatch("MESSAGE_CREATE", m)
	s.Show(id, text)
	return m, nil
}

// refer makes a message a reply.
func (s *Server) refer(m Object, channel string, ref Object) *refusal {
	for _, old := range s.history[channel] {
		if old["id"] == fmt.Sprint(ref["message_id"]) {
			m["type"], m["message_reference"] = 19, Object{"message_id": old["id"], "channel_id": channel, "type": 0}
			m["referenced_message"] = clone(old)
			return nil
		}
	}

	if ref["fail_if_not_exists"] != false {
		return invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
	}
	return nil
}

func (s *Server) patchMessage(r *http.Request, c *Call) (any, *refusal) {
	m, wrong := s.find(r)
	if wrong != nil {
		return nil, wrong
	}
	if a, _ := m["author"].(Object); a["id"] != s.botID {
		return nil, &refusal{status: 403, code: 50005, text: "Cannot edit a message authored by another user"}
	}
	if wrong := s.checkBody(c, true); wrong != nil {
		return nil, wrong
	}

	changed := false
	for _, k := range []string{"content", "components", "flags"} {
		if v, ok := c.Body[k]; ok {
			changed = changed || !reflect.DeepEqual(m[k], v)
			m[k] = v
		}
	}

	if !changed {
		s.Unchanged()
	}

	m["edited_timestamp"] = time.Now().UTC().Format("2006-01-02T15:04:05.000000-07:00")
	for _, own := range s.own {
		if text, ok := c.Body["content"].(string); ok && own.ID == m["id"] {
			own.Edits = append(own.Edits, text)
			s.Show(own.Channel, text)
		}
	}

	s.dispatch("MESSAGE_UPDATE", m)
	return m, nil
}

func (s *Server) deleteMessage(r *http.Request, _ *Call) (any, *refusal) {
	m, wrong := s.find(r)
	if wrong != nil {
		return nil, wrong
	}
	same := func(o Object) bool { return o["id"] == m["id"] }
	s.history[r.PathValue("c")] = slices.DeleteFunc(s.history[r.PathValue("c")], same)
	s.own = slices.DeleteFunc(s.own, func(o *Message) bool { return o.ID == m["id"] })
	s.dispatch("MESSAGE_DELETE", Object{"id": m["id"], "channel_id": m["channel_id"], "guild_id": m["guild_id"]})
	return nil, nil
}

func (s *Server) putReaction(r *http.Request, _ *Call) (any, *refusal) {
	if _, wrong := s.find(r); wrong != nil {
		return nil, wrong
	}
	if e := r.PathValue("emoji"); utf8.RuneCountInString(e) > 10 || e[0] < 0x80 && !strings.Contains(e, ":") {
		return nil, &refusal{status: 400, code: 10014, text: "Unknown Emoji"}
	}
	s.reactions[r.PathValue("c")+"/"+r.PathValue("m")+"/"+r.PathValue("emoji")] = true
	return nil, nil
}

func (s *Server) deleteReaction(r *http.Request, _ *Call) (any, *refusal) {
	if _, wrong := s.find(r); wrong != nil {
		return nil, wrong
	}
	delete(s.reactions, r.PathValue("c")+"/"+r.PathValue("m")+"/"+r.PathValue("emoji"))
	return nil, nil
}

func (s *Server) postCallback(r *http.Request, c *Call) (any, *refusal) {
	p := s.interactions[r.PathValue("token")]
	kind, _ := strconv.Atoi(fmt.Sprint(c.Body["type"]))
	switch {
	case p == nil || p.id != r.PathValue("i") || time.Now().After(p.expires):
		return nil, &refusal{status: 404, code: 10062, text: "Unknown interaction"}
	case p.reply != nil:
		return nil, &refusal{status: 400, code: 40060, text: "Interaction has already been acknowledged."}
	case kind < 4 || kind > 9:
		return nil, invalid("type", "BASE_TYPE_CHOICES", "Value must be one of {4, 5, 6, 7, 8, 9}.")
	}

	p.reply = c.Body
	if with := r.URL.Query().Get("with_response"); with != "1" && with != "true" {
		return nil, nil
	}
	return Object{
		"interaction": Object{"id": p.id, "type": 2, "response_message_id": s.snowflake(), "response_message_loading": false, "response_message_ephemeral": true},
		"resource":    Object{"type": kind},
	}, nil
}

func (s *Server) serveFile(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f, ok := s.files[r.PathValue("id")]
	s.calls = append(s.calls, Call{Method: r.Method, Path: r.URL.Path, At: time.Now()})
	until := s.slow[r.PathValue("id")]
	s.mu.Unlock()

	if until != nil {
		select {
		case <-until:
		case <-r.Context().Done():
		}
	}

	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(f.Data)
}
