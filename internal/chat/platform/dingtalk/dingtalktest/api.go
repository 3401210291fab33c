package dingtalktest

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// refusal is an answer that says no.
type refusal struct {
	status  int
	code    string
	errcode int
	text    string
	scopes  []string // permissions that the app lacks
	garbage bool     // a proxy answers with HTML
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(path string, token bool, do func(r *http.Request, body Object) (any, *refusal)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, token, do) })
	}
	handle("/v1.0/gateway/connections/open", false, s.open)
	handle("/v1.0/oauth2/accessToken", false, s.giveToken)
	handle("/v1.0/robot/groupMessages/send", true, func(_ *http.Request, b Object) (any, *refusal) { return s.push(b, true) })
	handle("/v1.0/robot/oToMessages/batchSend", true, func(_ *http.Request, b Object) (any, *refusal) { return s.push(b, false) })
	handle("/v1.0/robot/messageFiles/download", true, func(_ *http.Request, b Object) (any, *refusal) {
		code, _ := b["downloadCode"].(string)
		if s.files[code] == nil || b["robotCode"] != s.client {
			return nil, &refusal{status: 400, code: "invalidParameter.downloadCode", text: "no such file"}
		}
		return Object{"downloadUrl": s.http.URL + "/download/" + code}, nil
	})

	handle("/v1.0/robot/emotion/reply", true, func(_ *http.Request, b Object) (any, *refusal) { return s.react(b, true) })
	handle("/v1.0/robot/emotion/recall", true, func(_ *http.Request, b Object) (any, *refusal) { return s.react(b, false) })
	handle("/robot/sendBySession", false, s.bySession)
	plain := func(token bool) func(string, func(b Object) (any, *refusal)) {
		return func(pattern string, do func(b Object) (any, *refusal)) {
			mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
				s.serve(w, r, token, func(_ *http.Request, b Object) (any, *refusal) { return do(b) })
			})
		}
	}

	s.cardRoutes(plain(true))
	s.registrationRoutes(plain(false))
	mux.HandleFunc("POST /media/upload", s.upload)
	mux.HandleFunc("GET /download/{code}", s.download)
	mux.HandleFunc("GET /connect", s.serveSocket)
	return mux
}

// failure is the one that a call meets. The lock is held.
func (s *Server) failure(r *http.Request) *Failure {
	for i, f := range s.failures {
		if strings.Contains(r.URL.Path, f.Path) {
			if f.Times--; f.Times == 0 {
				s.failures = slices.Delete(s.failures, i, i+1)
			}
			return f
		}
	}
	return nil
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, token bool, do func(r *http.Request, body Object) (any, *refusal)) {
	body := Object{}
	data, _ := io.ReadAll(r.Body)
	bad := json.Unmarshal(data, &body) != nil
	s.mu.Lock()
	defer s.mu.Unlock()

	defer s.news()
	var answer any
	var no *refusal
	f := s.failure(r)
	switch {
	case bad || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
		no = &refusal{status: 400, code: "invalidParameter", text: "the body is not JSON"}
	case token && (s.token == "" || r.Header.Get("x-acs-dingtalk-access-token") != s.token):
		no = &refusal{status: 401, code: "InvalidAuthentication", text: "invalid access token"}
	case f != nil:
		no = &refusal{status: f.Status, code: f.Code, errcode: f.ErrCode, text: f.Text, garbage: f.Garbage}
	default:
		answer, no = do(r, body)
	}

	s.reply(w, r, body, answer, no)
}

// reply writes an answer. The lock is held.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, body Object, answer any, no *refusal) {
	c := Call{Method: r.Method, Path: r.URL.Path, Body: body, Status: 200}
	if no != nil {
		c.Status = no.status
		answer = Object{"code": no.code, "message": no.text, "requestid": "0", "accessdenieddetail": Object{"requiredScopes": no.scopes}}
		if no.errcode != 0 {
			answer = Object{"errcode": no.errcode, "errmsg": no.text}
		}
	}

	s.calls = append(s.calls, c)
	switch {
	case c.Status == 0:
		if h, ok := w.(http.Hijacker); ok {
			if conn, _, err := h.Hijack(); err == nil {
				_ = conn.Close()
			}
		}
		return
	case no != nil && no.garbage:
		w.WriteHeader(c.Status)
		_, _ = io.WriteString(w, "<html>Bad gateway</html>")
		return
	}

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(c.Status)
	_, _ = w.Write(encode(answer))
}

// open gives a ticket for the stream.
func (s *Server) open(r *http.Request, body Object) (any, *refusal) {
	subscriptions, _ := body["subscriptions"].([]any)
	switch {
	case body["clientId"] != s.client || body["clientSecret"] != ClientSecret:
		return nil, &refusal{status: 401, code: "authFailed", text: "wrong clientId or clientSecret"}
	case len(subscriptions) == 0 || body["ua"] == nil || !strings.Contains(r.Header.Get("Accept"), "json"):
		return nil, &refusal{status: 400, code: "invalidParameter", text: "subscriptions"}
	}

	ticket := "ticket/=" + s.number()
	s.tickets[ticket] = true
	return Object{"endpoint": "ws" + strings.TrimPrefix(s.http.URL, "http") + "/connect", "ticket": ticket}, nil
}

func (s *Server) giveToken(_ *http.Request, body Object) (any, *refusal) {
	if body["appKey"] != s.client || body["appSecret"] != ClientSecret {
		return nil, &refusal{status: 400, code: "invalidClientIdOrSecret", text: "wrong appKey or appSecret"}
	}
	if s.tokens++; s.token == "" {
		s.token = "token-" + strconv.Itoa(s.tokens)
	}
	return Object{"accessToken": s.token, "expireIn": 7200}, nil
}

// push takes a message by the API.
func (s *Server) push(body Object, group bool) (any, *refusal) {
	m := Message{Way: "api", Param: Object{}}
	m.Key, _ = body["msgKey"].(string)
	param, _ := body["msgParam"].(string)
	invalid := []string{}
	switch {
	case s.denied:
		return nil, &refusal{status: 403, code: "Forbidden.AccessDenied.AccessTokenPermissionDenied", text: "qyapi_robot_sendmsg"}
	case body["robotCode"] != s.client:
		return nil, &refusal{status: 400, code: "invalidParameter.robotCode", text: "robotCode"}
	case len(param) > 15000 || json.Unmarshal([]byte(param), &m.Param) != nil:
		return nil, &refusal{status: 400, code: "invalidParameter.msgParam", text: "msgParam is not JSON, or too long"}
	case group:
		id, _ := body["openConversationId"].(string)
		if m.Chat = "group:" + id; id == "" {
			return nil, &refusal{status: 400, code: "invalidParameter.openConversationId", text: "openConversationId"}
		}

	default:
		ids, _ := body["userIds"].([]any)
		if len(ids) == 0 || len(ids) > 20 {
			return nil, &refusal{status: 400, code: "invalidParameter.userIds", text: "userIds"}
		}
		if m.Chat, _ = ids[0].(string); !s.people[m.Chat] {
			invalid = append(invalid, m.Chat)
		}
	}

	if no := s.check(&m); no != nil {
		return nil, no
	}

	if len(invalid) == 0 {
		s.own = append(s.own, m)
	}
	return Object{"processQueryKey": "key" + s.number(), "invalidStaffIdList": invalid, "flowControlledStaffIdList": []string{}}, nil
}

// check looks at what a message of the API says.
func (s *Server) check(m *Message) *refusal {
	need := map[string][]string{
		"sampleText": {"content"}, "sampleMarkdown": {"title", "text"}, "sampleImageMsg": {"photoURL"}, "sampleFile": {"mediaId", "fileName", "fileType"},
	}[m.Key]
	if need == nil {
		return &refusal{status: 400, code: "invalidParameter.msgKey", text: m.Key}
	}

	for _, k := range need {
		if v, _ := m.Param[k].(string); strings.TrimSpace(v) == "" {
			return &refusal{status: 400, code: "invalidParameter.msgParam", text: k}
		}
	}

	for _, k := range []string{"photoURL", "mediaId"} {
		id, _ := m.Param[k].(string)
		if id == "" {
			continue
		}

		up, ok := s.uploads[id]
		if !ok || (k == "photoURL") != (up.kind == "image") {
			return &refusal{status: 400, code: "invalidParameter.mediaId", text: id}
		}
		m.File, m.Data = up.name, up.data
	}

	return nil
}

// bySession takes an answer by a session webhook.
func (s *Server) bySession(r *http.Request, body Object) (any, *refusal) {
	hook, ok := s.webhooks[r.URL.Query().Get("session")]
	if !ok || time.Now().After(hook.expires) {
		return nil, &refusal{status: 200, errcode: 300001, text: "session is over"}
	}

	m := Message{Way: "webhook", Chat: hook.chat}
	m.Key, _ = body["msgtype"].(string)
	m.Param, _ = body[m.Key].(Object)
	if m.Key != "text" && m.Key != "markdown" || strings.TrimSpace(m.Text()) == "" || m.Key == "markdown" && m.Param["title"] == nil {
		return nil, &refusal{status: 200, errcode: 40035, text: "msgtype"}
	}

	at, _ := body["at"].(Object)
	ids, _ := at["atUserIds"].([]any)
	for _, id := range ids {
		if who, _ := id.(string); strings.Contains(m.Text(), "@"+who) {
			m.At = append(m.At, who)
		}
	}

	s.own = append(s.own, m)
	return Object{"errcode": 0, "errmsg": "ok"}, nil
}

func (s *Server) react(body Object, set bool) (any, *refusal) {
	id, _ := body["openMsgId"].(string)
	name, _ := body["emotionName"].(string)
	if id == "" || name == "" || body["openConversationId"] == nil || body["robotCode"] != s.client || body["textEmotion"] == nil {
		return nil, &refusal{status: 400, code: "invalidParameter", text: "emotion"}
	}

	if set {
		s.reactions[id+"/"+name] = true
	} else {
		delete(s.reactions, id+"/"+name)
	}
	return Object{"success": true}, nil
}

func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	file, head, err := r.FormFile("media")
	var data []byte
	if err == nil {
		data, _ = io.ReadAll(file)
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	f := s.failure(r)
	kind := r.FormValue("type")
	var no *refusal
	switch {
	case s.token == "" || r.FormValue("access_token") != s.token:
		no = &refusal{status: 200, errcode: 40014, text: "invalid access_token"}
	case f != nil:
		no = &refusal{status: f.Status, code: f.Code, errcode: f.ErrCode, text: f.Text, garbage: f.Garbage}
	case err != nil || len(data) == 0 || len(data) > 20<<20 || !slices.Contains([]string{"image", "voice", "video", "file"}, kind):
		no = &refusal{status: 200, errcode: 40035, text: "media"}
	case strings.Contains(strings.ToLower(head.Filename), ".htm"):
		no = &refusal{status: 200, errcode: 40006, text: "this type of file is not allowed"}
	}

	var answer any
	if no == nil {
		id := "@" + s.number()
		s.uploads[id] = stored{head.Filename, kind, data}
		answer = Object{"errcode": 0, "errmsg": "ok", "type": kind, "media_id": id, "created_at": 1}
	}

	s.reply(w, r, nil, answer, no)
}

func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	code := r.PathValue("code")
	s.mu.Lock()
	data, slow := s.files[code], s.slow[code]
	s.calls = append(s.calls, Call{Path: r.URL.Path, Status: 200})
	s.mu.Unlock()

	if slow != nil {
		select {
		case <-slow:
		case <-r.Context().Done():
			return
		}
	}

	_, _ = w.Write(data)
}
