package feishutest

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of the requests that create messages.
const (
	createCall = "POST /open-apis/im/v1/messages"
	replyCall  = "POST /open-apis/im/v1/messages/{id}/reply"
)

// Limits of the platform.
const (
	maxText  = 150 << 10
	maxCard  = 30 << 10
	maxImage = 10 << 20
	maxFile  = 30 << 20
	maxUUID  = 50
)

// refusal is an answer with a code that is not 0.
type refusal struct {
	code int
	msg  string
}

func (e *refusal) Error() string { return fmt.Sprintf("%d %s", e.code, e.msg) }

func refuse(code int, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// request is one that came in. The server's lock is held while it is handled.
type request struct {
	*http.Request
	body []byte
}

func (r *request) json(into any) error {
	if kind := r.Header.Get("Content-Type"); kind != "" && !strings.HasPrefix(kind, "application/json") {
		return refuse(99992402, "field validation failed: the content type is not JSON")
	}
	if json.Unmarshal(r.body, into) != nil {
		return refuse(9499, "Invalid parameter: the body is not as expected")
	}
	return nil
}

type handler func(r *request) (data any, err error)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for name, h := range map[string]handler{
		createCall:                                                       s.create,
		replyCall:                                                        s.reply,
		"GET /open-apis/bot/v3/info":                                     s.botInfo,
		"GET /open-apis/application/v6/scopes":                           s.listScopes,
		"GET /open-apis/im/v1/messages/{id}":                             s.get,
		"PATCH /open-apis/im/v1/messages/{id}":                           s.patch,
		"PUT /open-apis/im/v1/messages/{id}":                             s.update,
		"DELETE /open-apis/im/v1/messages/{id}":                          s.remove,
		"POST /open-apis/im/v1/messages/{id}/reactions":                  s.react,
		"GET /open-apis/im/v1/messages/{id}/reactions":                   s.listReactions,
		"DELETE /open-apis/im/v1/messages/{id}/reactions/{reaction}":     s.unreact,
		"POST /open-apis/im/v1/images":                                   s.uploadImage,
		"POST /open-apis/im/v1/files":                                    s.uploadFile,
		"GET /open-apis/im/v1/messages/{id}/resources/{key}":             s.resource,
		"GET /open-apis/im/v1/images/{key}":                              s.image,
		"POST /open-apis/cardkit/v1/cards":                               s.createCard,
		"POST /open-apis/cardkit/v1/cards/id_convert":                    s.convert,
		"PUT /open-apis/cardkit/v1/cards/{card}/elements/{elem}/content": s.cardContent,
		"PATCH /open-apis/cardkit/v1/cards/{card}/settings":              s.cardSettings,
	} {
		mux.HandleFunc(name, func(w http.ResponseWriter, r *http.Request) { s.handle(w, r, name, h, true) })
	}

	for name, h := range map[string]handler{
		"POST /open-apis/auth/v3/tenant_access_token/internal": s.token,
		"POST /callback/ws/endpoint":                           s.endpoint,
		"POST /oauth/v1/app/registration":                      s.registration,
	} {
		mux.HandleFunc(name, func(w http.ResponseWriter, r *http.Request) { s.handle(w, r, name, h, false) })
	}

	mux.HandleFunc("GET /ws", s.serveSocket)
	return mux
}

// file is an answer that is not JSON.
type file struct {
	name string
	data []byte
}

// flat is an answer without an envelope.
type flat struct {
	status int
	body   any
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request, name string, h handler, authorized bool) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	defer s.news()
	w.Header().Set("Date", time.Now().Add(s.skew).UTC().Format(http.TimeFormat))
	w.Header().Set("X-Tt-Logid", "log1")
	call := Call{Name: name, Path: r.URL.Path, Query: r.URL.RawQuery, Body: string(body)}
	defer func() { s.calls = append(s.calls, call) }()

	fail := s.failure(name)
	if fail != nil && !fail.After {
		call.Code = fail.Code
		failed(w, fail)
		return
	}

	var data any
	if authorized && !s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] {
		err = refuse(99991663, "Invalid access token for authorization. Please make a request with token attached.")
	} else {
		data, err = h(&request{r, body})
	}

	if fail != nil {
		failed(w, fail)
		return
	}

	switch v := data.(type) {
	case file:
		w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": v.name}))
		_, _ = w.Write(v.data)
		return
	case flat:
		answer(w, v.status, v.body)
		return
	}

	if err != nil {
		e, ok := err.(*refusal) //nolint:errorlint // made here
		if !ok {
			e = &refusal{2200, err.Error()}
		}
		call.Code = e.code
		answer(w, http.StatusBadRequest, map[string]any{"code": e.code, "msg": e.msg, "error": map[string]any{"log_id": "log1"}})
		return
	}

	answer(w, http.StatusOK, map[string]any{"code": 0, "msg": "success", "data": data})
}

func failed(w http.ResponseWriter, f *Failure) {
	switch {
	case f.Garbage:
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<html>bad gateway</html>")
	case f.Code == 0 && f.Status == 0:
		panic(http.ErrAbortHandler)
	case f.Code == 0:
		w.WriteHeader(f.Status)
	default:
		status := f.Status
		if status == 0 {
			status = http.StatusBadRequest
		}
		answer(w, status, map[string]any{"code": f.Code, "msg": f.Msg})
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// allowed refuses what needs a scope that the app does not have.
func (s *Server) allowed(oneOf ...string) error {
	for _, scope := range oneOf {
		if slices.Contains(s.scopes, scope) {
			return nil
		}
	}
	return refuse(99991672, "Access denied. One of the following scopes is required: [%s].", strings.Join(oneOf, ", "))
}

func (s *Server) token(r *request) (any, error) {
	var in struct {
		ID     string `json:"app_id"`
		Secret string `json:"app_secret"`
	}
	if err := r.json(&in); err != nil {
		return nil, err
	}

	switch {
	case in.ID != s.appID:
		return flat{http.StatusOK, map[string]any{"code": 10003, "msg": "invalid param"}}, nil
	case in.Secret != AppSecret:
		return flat{http.StatusOK, map[string]any{"code": 10014, "msg": "app secret invalid"}}, nil
	}

	s.serial++
	token := "t-" + strconv.Itoa(s.serial)
	s.tokens[token] = true
	return flat{http.StatusOK, map[string]any{"code": 0, "msg": "ok", "tenant_access_token": token, "expire": 7200}}, nil
}

func (s *Server) endpoint(r *request) (any, error) {
	var in struct{ AppID, AppSecret string }
	if err := r.json(&in); err != nil {
		return nil, err
	}
	if in.AppID != s.appID || in.AppSecret != AppSecret {
		return flat{http.StatusOK, map[string]any{"code": 10003, "msg": "invalid app_id or app_secret"}}, nil
	}

	s.tickets++
	return map[string]any{
		"URL":          fmt.Sprintf("ws%s/ws?device_id=%d&service_id=%d&ticket=ticket-%d", strings.TrimPrefix(s.http.URL, "http"), s.tickets, service, s.tickets),
		"ClientConfig": map[string]any{"ReconnectCount": -1, "ReconnectInterval": 120, "ReconnectNonce": 30, "PingInterval": 120},
	}, nil
}

func (s *Server) botInfo(*request) (any, error) {
	return flat{http.StatusOK, map[string]any{
		"code": 0, "msg": "ok",
		"bot": map[string]any{"activate_status": 2, "app_name": BotName, "avatar_url": "https://example.com/a.png", "ip_white_list": []string{}, "open_id": BotID},
	}}, nil
}

func (s *Server) listScopes(*request) (any, error) {
	var list []any
	for _, scope := range s.scopes {
		list = append(list, map[string]any{"scope_name": scope, "grant_status": 1, "scope_type": "tenant"})
	}
	return map[string]any{"scopes": list}, nil
}

// draft is the body of a new message.
type draft struct {
	To       string `json:"receive_id"`
	Type     string `json:"msg_type"`
	Content  string `json:"content"`
	UUID     string `json:"uuid"`
	InThread bool   `json:"reply_in_thread"`
}

func (s *Server) create(r *request) (any, error) {
	var d draft
	if err := r.json(&d); err != nil {
		return nil, err
	}

	prefix := map[string]string{"chat_id": "oc_", "open_id": "ou_", "union_id": "on_", "email": "", "user_id": ""}
	kind := r.URL.Query().Get("receive_id_type")
	begin, known := prefix[kind]
	if !known || !strings.HasPrefix(d.To, begin) || d.To == "" {
		return nil, refuse(230001, "Your request contains an invalid request parameter, ext=invalid receive_id")
	}

	chat := d.To
	if kind != "chat_id" {
		chat = "oc_p2p_" + d.To
	}
	return s.send(chat, d, nil)
}

func (s *Server) reply(r *request) (any, error) {
	var d draft
	if err := r.json(&d); err != nil {
		return nil, err
	}

	to := s.message(r.PathValue("id"))
	switch {
	case to == nil:
		return nil, refuse(230001, "Your request contains an invalid request parameter, ext=open_message_id")
	case to.Deleted:
		return nil, refuse(230011, "The message was withdrawn.")
	}
	return s.send(to.Chat, d, to)
}

func (s *Server) send(chat string, d draft, to *Message) (any, error) {
	if err := s.allowed("im:message", "im:message:send_as_bot"); err != nil {
		return nil, err
	}
	if len(d.UUID) > maxUUID {
		return nil, refuse(99992402, "field validation failed: uuid: the max len is 50")
	}
	if s.gone[chat] || !strings.HasPrefix(chat, "oc_p2p_") && chat != GroupID {
		return nil, refuse(230002, "Bot/User can NOT be out of the chat.")
	}
	if id := s.uuids[chat+d.UUID]; d.UUID != "" && id != "" {
		return s.show(s.message(id)), nil
	}

	m := &Message{Chat: chat, Sender: BotID, SenderType: "app", Type: d.Type, Content: d.Content, At: time.Now().Add(s.skew), uuid: d.UUID}
	if err := s.compose(m); err != nil {
		return nil, err
	}

	s.serial++
	m.ID = fmt.Sprintf("om_b%d", s.serial)
	if to != nil {
		m.Parent, m.Root = to.ID, to.Root
		if m.Root == "" {
			m.Root = to.ID
		}
		if d.InThread || to.Thread != "" {
			m.Thread = threadID(m.Root)
		}
	}

	if c := s.cards[m.Card]; c != nil {
		c.message = m.ID
	}

	s.messages = append(s.messages, m)
	if d.UUID != "" {
		s.uuids[chat+d.UUID] = m.ID
	}
	return s.show(m), nil
}

// show is a message as the API tells it.
func (s *Server) show(m *Message) map[string]any {
	kind := "open_id"
	if m.SenderType == "app" {
		kind = "app_id"
	}

	out := map[string]any{
		"message_id": m.ID, "msg_type": m.Type, "chat_id": m.Chat, "create_time": strconv.FormatInt(m.At.UnixMilli(), 10), "update_time": strconv.FormatInt(m.At.UnixMilli(), 10), "deleted": m.Deleted, "updated": len(m.Edits) > 0,
		"sender": map[string]any{"id": m.Sender, "id_type": kind, "sender_type": m.SenderType, "tenant_key": "t1"},
		"body":   map[string]any{"content": m.Content},
	}
	for key, value := range map[string]string{"root_id": m.Root, "parent_id": m.Parent, "thread_id": m.Thread, "upper_message_id": m.Upper} {
		if value != "" {
			out[key] = value
		}
	}
	return out
}

// compose checks the content of a message and finds out what people see.
func (s *Server) compose(m *Message) error {
	var c map[string]any
	if json.Unmarshal([]byte(m.Content), &c) != nil {
		return refuse(230001, "Your request contains an invalid request parameter, ext=content is not a JSON string")
	}

	limit := maxCard
	if m.Type == "text" {
		limit = maxText
	}

	if len(m.Content) > limit {
		return refuse(230025, "The length of the message content reaches its limit.")
	}

	text, _ := c["text"].(string)
	switch m.Type {
	case "text":
		if m.Plain = text; text == "" {
			return refuse(230001, "Your request contains an invalid request parameter, ext=text is empty")
		}
	case "post":
		plain, err := postText(c)
		m.Plain = plain
		return err
	case "interactive":
		if data, ok := c["data"].(map[string]any); ok && c["type"] == "card" {
			m.Card, _ = data["card_id"].(string)
			if e := s.cards[m.Card]; e == nil || e.message != "" {
				return refuse(230099, "Failed to create card content, ext=ErrCode: 11310; ErrMsg: cardid is invalid")
			}
			return nil
		}

		c, err := s.checkCard(m.Content, false)
		m.Plain, m.Buttons = c.text(), c.labels()
		return err

	case "image", "file", "audio", "media":
		key, _ := c["file_key"].(string)
		if m.Type == "image" {
			key, _ = c["image_key"].(string)
		}

		f := s.files[key]
		if f == nil || f.Kind != m.Type {
			return refuse(230001, "Your request contains an invalid request parameter, ext=invalid %s key", m.Type)
		}
		m.File = f.Name

	case "system":
		params, _ := c["params"].(map[string]any)
		words, _ := params["divider_text"].(map[string]any)
		if m.Plain, _ = words["text"].(string); c["type"] != "divider" || m.Plain == "" {
			return refuse(230001, "Your request contains an invalid request parameter, ext=system message")
		}

	default:
		return refuse(230001, "Your request contains an invalid request parameter, ext=invalid msg_type")
	}

	return nil
}

// postText is what people see of a post.
func postText(c map[string]any) (string, error) {
	var lines []string
	for _, v := range c {
		body, _ := v.(map[string]any)
		rows, ok := body["content"].([]any)
		if !ok {
			return "", refuse(230001, "Your request contains an invalid request parameter, ext=content of the post")
		}

		if title, _ := body["title"].(string); title != "" {
			lines = append(lines, title)
		}

		for _, row := range rows {
			var b strings.Builder
			list, _ := row.([]any)
			for _, el := range list {
				e, _ := el.(map[string]any)
				text, _ := e["text"].(string)
				switch e["tag"] {
				case "text", "a", "code_block":
					b.WriteString(text)
				default:
					return "", refuse(230001, "Your request contains an invalid request parameter, ext=tag of the post")
				}
			}

			lines = append(lines, b.String())
		}
	}

	return strings.Join(lines, "\n"), nil
}

// checkMarkdown refuses what a card cannot show.
func (s *Server) checkMarkdown(text string) error {
	outside := regexp.MustCompile("(?s)```.*?(```|$)").ReplaceAllString(text, "")
	if n := len(regexp.MustCompile(`(?m)^\|[\s:|-]+\|$`).FindAllString(outside, -1)); n > s.tables {
		return refuse(230099, "Failed to create card content, ext=ErrCode: 11310; ErrMsg: card table number over limit; ErrorValue: table;")
	}
	if regexp.MustCompile(`!\[[^\]]*\]\(http`).MatchString(outside) {
		return refuse(230099, "Failed to create card content, ext=ErrCode: 11310; ErrMsg: invalid image key")
	}
	return nil
}

// seenMarkdown is a text as people see it: an escaped character is that
// character.
func seenMarkdown(text string) string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&", "&#42;", "*", "&#95;", "_", "&#126;", "~", "&#96;", "`", "&#91;", "[").Replace(text)
}
