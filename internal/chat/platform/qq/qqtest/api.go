package qqtest

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// refusal is an answer that says no.
type refusal struct {
	status, code int
	text         string
}

func refuse(status, code int, text string) *refusal { return &refusal{status, code, text} }

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /app/getAppAccessToken", s.giveToken)
	mux.HandleFunc("GET /websocket", s.serveSocket)
	mux.HandleFunc("GET /download/{id}", s.download)
	api := func(pattern string, do func(r *http.Request, body Object) (any, *refusal)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.api(w, r, do) })
	}
	api("GET /users/@me", func(*http.Request, Object) (any, *refusal) {
		return Object{"id": BotID, "username": BotName, "avatar": "", "union_openid": "", "union_user_account": ""}, nil
	})
	api("GET /gateway/bot", func(*http.Request, Object) (any, *refusal) {
		return Object{
			"url": "ws" + strings.TrimPrefix(s.http.URL, "http") + "/websocket", "shards": 1,
			"session_start_limit": Object{"total": 1000, "remaining": s.remaining, "reset_after": 14400000, "max_concurrency": 1},
		}, nil
	})

	for prefix, k := range map[string]Kind{"/v2/users/": Direct, "/v2/groups/": Group, "/channels/": Guild, "/dms/": GuildDirect} {
		api("POST "+prefix+"{chat}/messages", func(r *http.Request, body Object) (any, *refusal) {
			return s.post(k, r.PathValue("chat"), body)
		})
		if k == Direct || k == Group {
			api("POST "+prefix+"{chat}/files", func(r *http.Request, body Object) (any, *refusal) {
				return s.upload(k, r.PathValue("chat"), body)
			})
		}
	}

	api("PUT /interactions/{id}", func(r *http.Request, body Object) (any, *refusal) {
		id := r.PathValue("id")
		if _, ok := s.taps[id]; !ok || body["code"] == nil {
			return nil, refuse(404, 304016, "interaction not found")
		}
		s.taps[id] = true
		return Object{}, nil
	})
	return mux
}

// giveToken answers with status 200 whatever happens, as QQ does.
func (s *Server) giveToken(w http.ResponseWriter, r *http.Request) {
	var body struct {
		App    string `json:"appId"`
		Secret string `json:"clientSecret"`
	}
	data, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()

	w.Header().Set("Content-Type", "application/json")
	f := s.failure(r)
	switch {
	case f != nil && f.Status == 0:
		hijack(w)
	case f != nil:
		w.WriteHeader(f.Status)
		_, _ = w.Write(encode(Object{"code": f.Code, "message": f.Text}))
	case json.Unmarshal(data, &body) != nil || body.App != s.app || body.Secret != Secret:
		_, _ = w.Write(encode(Object{"code": 100016, "message": "invalid appid or secret"}))
	default:
		s.tokens++
		if s.token == "" {
			s.token = "token-" + strconv.Itoa(s.tokens)
		}
		_, _ = w.Write(encode(Object{"access_token": s.token, "expires_in": strconv.Itoa(s.life)}))
	}
}

func hijack(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if c, _, err := h.Hijack(); err == nil {
			_ = c.Close()
		}
	}
}

// failure is the one that a call meets. The lock is held.
func (s *Server) failure(r *http.Request) *Failure {
	for i, f := range s.failures {
		if (f.Method == "" || f.Method == r.Method) && strings.Contains(r.URL.Path, f.Path) {
			if f.Times--; f.Times == 0 {
				s.failures = slices.Delete(s.failures, i, i+1)
			}
			return f
		}
	}
	return nil
}

func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	id := r.PathValue("id")
	data, ok := s.files[id]
	slow := s.slow[id]
	s.calls = append(s.calls, Call{Method: r.Method, Path: r.URL.Path, Status: 200})
	if r.Header.Get("Authorization") != "" {
		s.broken = append(s.broken, "the token was sent to the place of files")
	}

	s.mu.Unlock()
	if slow != nil {
		select {
		case <-slow:
		case <-r.Context().Done():
			return
		}
	}

	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(data)
}

// api answers a call of the REST API.
func (s *Server) api(w http.ResponseWriter, r *http.Request, do func(r *http.Request, body Object) (any, *refusal)) {
	body, bad := read(r)
	s.mu.Lock()
	defer s.mu.Unlock()

	defer s.news()
	answer, no := any(nil), bad
	var f *Failure
	if body["msg_type"] != 6.0 { // typing is not worth a failure
		f = s.failure(r)
	}
	if no == nil && (r.Header.Get("Authorization") != "QQBot "+s.token || s.token == "" || r.Header.Get("X-Union-Appid") != s.app) {
		no = refuse(401, 11244, "token not exist or expire")
	}
	if no == nil && f != nil && !f.After {
		no = refuse(f.Status, f.Code, f.Text)
	}
	if no == nil {
		answer, no = do(r, body)
	}
	if no == nil && f != nil {
		no = refuse(f.Status, f.Code, f.Text)
	}

	c := Call{Method: r.Method, Path: r.URL.Path, Body: body, Status: 200}
	if no != nil {
		c.Status, c.Code = no.status, no.code
	}

	s.calls = append(s.calls, c)
	switch {
	case no == nil:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(encode(answer))
	case no.status == 0:
		hijack(w)
	case f != nil && f.Garbage:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(no.status)
		_, _ = io.WriteString(w, "<html>Bad gateway</html>")
	default:
		w.Header().Set("Content-Type", "application/json")
		if f != nil && f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		w.WriteHeader(no.status)
		_, _ = w.Write(encode(Object{"message": no.text, "code": no.code, "err_code": no.code, "trace_id": "0"}))
	}
}

// read is the body of a request: JSON, or a form with a picture.
func read(r *http.Request) (Object, *refusal) {
	if r.Method == http.MethodGet {
		return nil, nil
	}

	body := Object{}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		if r.ParseMultipartForm(32<<20) != nil { //nolint:gosec // of a test
			return nil, refuse(400, 10001, "bad form")
		}

		for k, v := range r.MultipartForm.Value {
			body[k] = v[0]
		}

		file, _, err := r.FormFile("file_image")
		if err != nil {
			return nil, refuse(400, 50006, "no picture")
		}

		data, _ := io.ReadAll(file)
		body["file_image"] = string(data)
		return body, nil
	}

	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") || json.NewDecoder(r.Body).Decode(&body) != nil {
		return nil, refuse(400, 40011000, "the body is not JSON")
	}
	return body, nil
}

// post takes a message of the bot. The lock is held.
func (s *Server) post(k Kind, chat string, body Object) (any, *refusal) {
	m := Message{Kind: k, Chat: chat, Body: body}
	m.ReplyTo, _ = body["msg_id"].(string)
	seq, _ := body["msg_seq"].(float64)
	if m.Seq = int(seq); m.Seq == 0 {
		m.Seq = 1
	}

	what, _ := body["msg_type"].(float64)
	if no := s.check(&m, int(what)); no != nil {
		return nil, no
	}
	if no := s.answer(&m, int(what) == 6); no != nil {
		return nil, no
	}

	m.ID = "ROBOT1.0_" + s.number()
	if what != 6 {
		s.own = append(s.own, m)
	}
	return Object{"id": m.ID, "timestamp": s.now().Format(time.RFC3339)}, nil
}

// check looks at what a message says.
func (s *Server) check(m *Message, what int) *refusal {
	guild := m.Kind == Guild || m.Kind == GuildDirect
	if picture, ok := m.Body["file_image"].(string); ok && guild {
		m.File, m.Data = "picture", []byte(picture)
		return nil
	}
	if m.Body["keyboard"] != nil && (what != 2 || !s.markdown) {
		return refuse(400, 304036, "no permission for keyboards")
	}

	switch {
	case guild, what == 0:
		if strings.TrimSpace(m.Text()) == "" {
			return refuse(400, 50006, "the message is empty")
		}
	case what == 2:
		if !s.markdown {
			return refuse(400, 40034127, "no permission for markdown")
		}
	case what == 6:
		if m.Kind != Direct || m.Body["input_notify"] == nil {
			return refuse(400, 40034010, "input_notify")
		}
		return nil

	case what == 7:
		media, _ := m.Body["media"].(Object)
		info, _ := media["file_info"].(string)
		up, ok := s.uploads[info]
		if !ok || up.kind != m.Kind {
			return refuse(400, 40034006, "file_info")
		}
		m.File, m.Data = up.name, up.data
		return nil

	default:
		return refuse(400, 40034011, "msg_type")
	}

	if utf8.RuneCountInString(m.Text()) > s.longest {
		return refuse(400, 40054007, "the message is too long")
	}

	if !s.addresses && (strings.Contains(m.Text(), "http://") || strings.Contains(m.Text(), "https://")) && !strings.Contains(m.Text(), "。") {
		if guild {
			return refuse(403, 304003, "url not allowed")
		}
		return refuse(400, 40054010, "url not allowed")
	}
	return nil
}

// answer judges a message as a reply.
func (s *Server) answer(m *Message, typing bool) *refusal {
	if m.ReplyTo == "" {
		if !s.proactive {
			return refuse(400, 40034102, "no permission for proactive messages")
		}
		return nil
	}

	to := s.persons[m.ReplyTo]
	window := 5 * time.Minute
	if m.Kind == Direct {
		window = time.Hour
	}

	switch {
	case to == nil || to.kind != m.Kind || to.chat != m.Chat:
		return refuse(400, 40034024, "msg_id is invalid")
	case s.now().Sub(to.at) > window:
		s.broken = append(s.broken, "a reply after its time")
		return refuse(400, 40034128, "msg_id is over")
	case to.seqs[m.Seq] && m.Kind != Guild && m.Kind != GuildDirect:
		s.broken = append(s.broken, "the number "+strconv.Itoa(m.Seq)+" again")
		return refuse(400, 40054005, "the message was deduplicated")
	case typing:
	case to.replies >= repliesMost:
		s.broken = append(s.broken, "more than five replies")
		return refuse(400, 40034128, "too many replies")
	default:
		to.replies++
	}

	to.seqs[m.Seq] = true
	return nil
}

// upload takes a file. The lock is held.
func (s *Server) upload(k Kind, chat string, body Object) (any, *refusal) {
	what, _ := body["file_type"].(float64)
	encoded, _ := body["file_data"].(string)
	address, _ := body["url"].(string)
	name, _ := body["file_name"].(string)
	data, err := base64.StdEncoding.DecodeString(encoded)
	switch {
	case what < 1 || what > 4:
		return nil, refuse(400, 304080, "file_type")
	case err != nil || len(data) == 0 && address == "":
		return nil, refuse(400, 304082, "upload media info fail")
	case len(encoded) > 20<<20:
		return nil, refuse(400, 304083, "the file is too large")
	case what == 4 && name == "" && address == "":
		return nil, refuse(400, 304081, "file_name")
	}

	id := "info-" + s.number()
	if name == "" {
		name = "type" + strconv.Itoa(int(what))
	}

	s.uploads[id] = stored{kind: k, chat: chat, name: name, data: data}
	return Object{"file_uuid": "uuid-" + id, "file_info": id, "ttl": 3600}, nil
}
