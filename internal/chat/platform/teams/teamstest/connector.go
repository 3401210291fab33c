package teamstest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

const (
	maxMessage = 100 << 10 // bytes of a message in UTF-16, without pictures
	maxPicture = 1 << 20   // bytes of a picture in a message
	maxActions = 6         // buttons of a row
)

// refusal is an answer that is not a success.
type refusal struct {
	status     int
	code, text string
	plain      bool // without a code, as gateways in front of the connector answer
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openid", s.openID("https://api.botframework.com", "/keys"))
	mux.HandleFunc("GET /keys", s.keys(false))
	mux.HandleFunc("GET /{tenant}/v2.0/.well-known/openid-configuration", s.openID("https://login.microsoftonline.com/"+Tenant+"/v2.0", "/entra/keys"))
	mux.HandleFunc("GET /entra/keys", s.keys(true))
	mux.HandleFunc("POST /{tenant}/oauth2/v2.0/token", s.token)
	mux.HandleFunc("POST /emea/v3/conversations/{chat}/activities", s.send)
	mux.HandleFunc("POST /emea/v3/conversations/{chat}/activities/{id}", s.send)
	mux.HandleFunc("PUT /emea/v3/conversations/{chat}/activities/{id}", s.edit)
	mux.HandleFunc("DELETE /emea/v3/conversations/{chat}/activities/{id}", s.erase)
	mux.HandleFunc("GET /emea/v3/attachments/{id}/views/{view}", s.picture)
	mux.HandleFunc("GET /files/{id}", s.file)
	mux.HandleFunc("PUT /upload/{id}", s.upload)
	return s.record(mux)
}

// record notes a call and lets it fail as it was scripted.
func (s *Server) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<20))
		if err != nil {
			panic(http.ErrAbortHandler)
		}

		r.Body = io.NopCloser(strings.NewReader(string(body)))
		c := Call{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone()}
		if json.Unmarshal(body, &c.Body) != nil {
			c.Body = Object{"raw": string(body)}
		}

		f := s.failure(c)
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			c.Status = rec.status
			s.mu.Lock()
			s.calls = append(s.calls, c)
			s.mu.Unlock()
		}()

		switch {
		case f == nil:
			next.ServeHTTP(rec, r)
		case f.After:
			next.ServeHTTP(nowhere{http.Header{}}, r)
			panic(http.ErrAbortHandler)
		case f.Status == 0:
			panic(http.ErrAbortHandler)
		case f.Garbage:
			rec.WriteHeader(f.Status)
			_, _ = io.WriteString(rec, "<html>Bad Gateway</html>")
		default:
			if f.RetryAfter > 0 {
				rec.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
			}
			reply(rec, f.Status, Object{"error": Object{"code": f.Code, "message": f.Text}})
		}
	})
}

type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// nowhere takes an answer that never arrives.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n nowhere) WriteHeader(int)             {}

// failure is the next one that was scripted for a call.
func (s *Server) failure(c Call) *Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.failures {
		if f.Times == 0 || f.Method != "" && f.Method != c.Method || !strings.Contains(c.Path, f.Part) || f.Type != "" && f.Type != c.Body["type"] {
			continue
		}
		f.Times--
		return f
	}

	return nil
}

func splitThread(id string) (chat, root string) {
	chat, root, _ = strings.Cut(id, ";messageid=")
	return chat, root
}

// enter checks who calls and for which conversation. The lock is held.
func (s *Server) enter(r *http.Request) (chat, root string, no *refusal) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || !s.tokens[token] {
		return "", "", &refusal{status: http.StatusUnauthorized, text: "Authorization has been denied for this request.", plain: true}
	}

	chat, root = splitThread(r.PathValue("chat"))
	if _, known := s.chats[chat]; !known {
		return "", "", &refusal{status: http.StatusNotFound, code: "ConversationNotFound", text: "Conversation not found."}
	}
	if root != "" && !s.threads[chat+";messageid="+root] {
		return "", "", &refusal{status: http.StatusNotFound, code: "ConversationNotFound", text: "The thread was not found."}
	}
	return chat, root, nil
}

func (no *refusal) write(w http.ResponseWriter) {
	if no.plain {
		reply(w, no.status, Object{"message": no.text})
		return
	}
	reply(w, no.status, Object{"error": Object{"code": no.code, "message": no.text}})
}

func bad(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, code: "BadSyntax", text: fmt.Sprintf(format, args...)}
}

// send takes a new activity.
func (s *Server) send(w http.ResponseWriter, r *http.Request) {
	var a Object
	err := json.NewDecoder(r.Body).Decode(&a)
	s.mu.Lock()
	defer s.mu.Unlock()

	chat, root, no := s.enter(r)
	if no == nil && err != nil {
		no = bad("the body is not JSON: %v", err)
	}
	if no == nil {
		no = s.check(chat, a)
	}

	if no != nil {
		no.write(w)
		return
	}
	if info := streamInfo(a); info != nil {
		s.stream(w, chat, a, info)
		return
	}

	id := s.now()
	if a["type"] == "message" {
		m := &Message{ID: id, Chat: chat, Thread: root}
		m.take(a)
		s.messages = append(s.messages, m)
		if root == "" && s.chats[chat] == Channel { // a post of its own, which begins a thread
			s.threads[chat+";messageid="+id] = true
		}
		s.attached(m, a)
	}

	reply(w, http.StatusCreated, Object{"id": id})
}

// take makes a message say what an activity says.
func (m *Message) take(a Object) {
	m.Text, _ = a["text"].(string)
	m.Format, _ = a["textFormat"].(string)
	m.Activity = a
}

// check refuses what Teams refuses. The lock is held.
func (s *Server) check(chat string, a Object) *refusal {
	list := attachments(a)
	text, _ := a["text"].(string)
	switch a["type"] {
	case "typing":
		return nil
	case "message":
	default:
		return bad("Activity type %v is not known", a["type"])
	}

	if text == "" && len(list) == 0 {
		return bad("Activity resulted into multiple skype activities or none: no text and no attachments")
	}
	if f, _ := a["textFormat"].(string); !slices.Contains([]string{"", "plain", "markdown", "xml", "extendedmarkdown"}, f) {
		return bad("Unknown text format %q", f)
	}

	size := len(utf16.Encode([]rune(text))) * 2
	for _, at := range list {
		no, n := s.checkAttachment(chat, at)
		if no != nil {
			return no
		}
		size += n
	}

	if size > maxMessage {
		return &refusal{status: http.StatusRequestEntityTooLarge, code: "MessageSizeTooBig", text: "Message size too large."}
	}
	return nil
}

func attachments(a Object) (out []Object) {
	list, _ := a["attachments"].([]any)
	for _, x := range list {
		o, _ := x.(Object)
		out = append(out, o)
	}
	return out
}

// checkAttachment refuses what cannot be shown, and says how much it adds to a
// message.
func (s *Server) checkAttachment(chat string, at Object) (no *refusal, size int) {
	kind, _ := at["contentType"].(string)
	url, _ := at["contentUrl"].(string)
	content, _ := at["content"].(Object)
	switch {
	case strings.HasPrefix(kind, "image/"):
		data, inline := strings.CutPrefix(url, "data:"+kind+";base64,")
		if !inline {
			if !strings.HasPrefix(url, "https://") {
				return bad("contentUrl of a picture: %.40q", url), 0
			}
			return nil, len(url)
		}

		raw, err := base64.StdEncoding.DecodeString(data)
		if err != nil || len(raw) > maxPicture {
			return bad("Invalid image: %d bytes, %v", len(raw), err), 0
		}
		return nil, 0

	case kind == "application/vnd.microsoft.card.adaptive":
		return checkCard(content), 2 * jsonSize(content)
	case kind == "application/vnd.microsoft.teams.card.file.consent":
		if s.chats[chat] != Personal {
			return &refusal{status: http.StatusForbidden, code: "Forbidden", text: "File consent cards are for personal chats."}, 0
		}
		if at["name"] == "" || content["acceptContext"] == nil || content["declineContext"] == nil || content["sizeInBytes"] == nil {
			return bad("Invalid file consent card"), 0
		}
		return nil, 2 * jsonSize(content)

	case kind == "application/vnd.microsoft.teams.card.file.info":
		if url == "" || at["name"] == "" || content["uniqueId"] == nil {
			return bad("Invalid file info card"), 0
		}
		return nil, 2 * jsonSize(content)
	}

	return bad("Unknown attachment type %q", kind), 0
}

func jsonSize(v any) int {
	data, _ := json.Marshal(v)
	return len(data)
}

func checkCard(card Object) *refusal {
	if card["type"] != "AdaptiveCard" || card["version"] == nil {
		return bad("Invalid adaptive card")
	}

	body, _ := card["body"].([]any)
	for _, x := range body {
		block, _ := x.(Object)
		actions, _ := block["actions"].([]any)
		if block["type"] == "ActionSet" && (len(actions) == 0 || len(actions) > maxActions) {
			return bad("An ActionSet has %d actions", len(actions))
		}

		for _, y := range actions {
			if act, _ := y.(Object); act["type"] != "Action.Submit" || act["title"] == "" {
				return bad("Invalid action")
			}
		}
	}

	return nil
}

// attached does what comes of attachments. The lock is held.
func (s *Server) attached(m *Message, a Object) {
	for _, at := range attachments(a) {
		kind, _ := at["contentType"].(string)
		name, _ := at["name"].(string)
		content, _ := at["content"].(Object)
		switch {
		case strings.HasPrefix(kind, "image/"):
			url, _ := at["contentUrl"].(string)
			_, data, _ := strings.Cut(url, ";base64,")
			raw, _ := base64.StdEncoding.DecodeString(data)
			m.Files = append(m.Files, File{name, raw})

		case strings.HasSuffix(kind, "file.consent"):
			s.consent(m, at)
		case strings.HasSuffix(kind, "file.info"):
			id, _ := content["uniqueId"].(string)
			if f := s.uploads[id]; f != nil {
				m.Files = append(m.Files, File{name, f.Data})
			}
		}
	}
}

func streamInfo(a Object) Object {
	list, _ := a["entities"].([]any)
	for _, x := range list {
		if e, _ := x.(Object); e["type"] == "streaminfo" {
			return e
		}
	}
	return nil
}

func notAllowed(text string) *refusal {
	return &refusal{status: http.StatusForbidden, code: "ContentStreamNotAllowed", text: text}
}

// stream takes a piece of a text that grows. The lock is held.
func (s *Server) stream(w http.ResponseWriter, chat string, a, info Object) {
	text, _ := a["text"].(string)
	id, _ := info["streamId"].(string)
	seq, _ := info["streamSequence"].(float64)
	kind, _ := info["streamType"].(string)
	end := kind == "final"
	if no := s.checkStream(chat, id, text, int(seq), end, a["type"] == "message"); no != nil {
		no.write(w)
		return
	}

	if id == "" {
		m := &Message{ID: s.now(), Chat: chat, Stream: true, Streamed: 1}
		m.take(a)
		s.messages = append(s.messages, m)
		reply(w, http.StatusCreated, Object{"id": m.ID})
		return
	}

	m := s.find(chat, id)
	if m.Text == text && !end {
		s.idle++
	}

	m.take(a)
	m.Edits = append(m.Edits, text)
	m.Streamed++

	if end {
		m.Stream = false
		s.attached(m, a)
	}
	reply(w, http.StatusAccepted, Object{})
}

func (s *Server) checkStream(chat, id, text string, seq int, end, message bool) *refusal {
	if s.chats[chat] != Personal {
		return notAllowed("Content stream is not allowed")
	}
	if end != message || text == "" {
		return bad("a stream has typing activities with a text, and one message at the end")
	}

	if id == "" {
		if seq != 1 {
			return bad("streamSequence begins with 1")
		}
		if slices.ContainsFunc(s.messages, func(m *Message) bool { return m.Chat == chat && m.Stream }) {
			return notAllowed("Content stream is not allowed: another one goes on in this chat")
		}
		return nil
	}

	m := s.find(chat, id)
	switch {
	case m == nil || m.Streamed == 0:
		return bad("streamId is not known")
	case !m.Stream && len(m.Edits) > 0 && m.Activity["type"] == "message":
		return notAllowed("Content stream is not allowed on an already completed streamed message")
	case !m.Stream:
		return notAllowed("Content stream finished due to exceeded streaming time.")
	case !strings.HasPrefix(text, m.Text):
		return &refusal{status: http.StatusForbidden, code: "ContentStreamNotAllowed", text: "Request streamed content should contain the previously streamed content"}
	case !end && seq != m.Streamed+1:
		return &refusal{status: http.StatusPreconditionFailed, code: "ContentStreamSequenceOrderPreConditionFailed", text: "streamSequence " + strconv.Itoa(seq)}
	}

	return nil
}

// find is a message by its id. The lock is held.
func (s *Server) find(chat, id string) *Message {
	for _, m := range s.messages {
		if m.Chat == chat && m.ID == id {
			return m
		}
	}
	return nil
}

// edit replaces a message.
func (s *Server) edit(w http.ResponseWriter, r *http.Request) {
	var a Object
	err := json.NewDecoder(r.Body).Decode(&a)
	s.mu.Lock()
	defer s.mu.Unlock()

	chat, _, no := s.enter(r)
	if no == nil && err != nil {
		no = bad("the body is not JSON: %v", err)
	}
	if no == nil {
		no = s.check(chat, a)
	}

	m := s.find(chat, r.PathValue("id"))
	switch {
	case no != nil:
	case m == nil:
		no = &refusal{status: http.StatusNotFound, code: "ActivityNotFoundInConversation", text: "Activity not found."}
	case m.Stream:
		no = bad("the message is being streamed")
	}

	if no != nil {
		no.write(w)
		return
	}

	if m.Text == a["text"] && m.Format == a["textFormat"] && reflect.DeepEqual(m.Activity["attachments"], a["attachments"]) {
		s.idle++
	}

	m.take(a)
	m.Edits = append(m.Edits, m.Text)
	reply(w, http.StatusOK, Object{"id": m.ID})
}

// erase removes a message.
func (s *Server) erase(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()

	chat, _, no := s.enter(r)
	if no == nil && s.find(chat, r.PathValue("id")) == nil {
		no = &refusal{status: http.StatusNotFound, code: "ActivityNotFoundInConversation", text: "Activity not found."}
	}

	if no != nil {
		no.write(w)
		return
	}

	s.messages = slices.DeleteFunc(s.messages, func(m *Message) bool { return m.Chat == chat && m.ID == r.PathValue("id") })
	w.WriteHeader(http.StatusOK)
}

// picture gives out a picture of a message to the bot.
func (s *Server) picture(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.files[r.PathValue("id")]
	switch token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); {
	case !s.tokens[token]:
		(&refusal{status: http.StatusUnauthorized, text: "Authorization has been denied for this request.", plain: true}).write(w)
	case !ok:
		(&refusal{status: http.StatusNotFound, code: "BadArgument", text: "Unknown attachment."}).write(w)
	default:
		_, _ = w.Write(f.Data)
	}
}

// foreign refuses a call that brings the bot's token to where it does not
// belong. The lock is held.
func (s *Server) foreign(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Authorization") == "" {
		return false
	}
	s.leaks++
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

// file gives out a file of a person's drive.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.foreign(w, r) {
		return
	}

	f, ok := s.files[r.PathValue("id")]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = w.Write(f.Data)
}

// upload takes a file that a person accepted.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.foreign(w, r) {
		return
	}

	f := s.uploads[r.PathValue("id")]
	want := fmt.Sprintf("bytes 0-%d/%d", len(data)-1, len(data))
	switch {
	case f == nil:
		w.WriteHeader(http.StatusNotFound)
	case err != nil || r.Header.Get("Content-Range") != want:
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
	default:
		f.Data = data
		reply(w, http.StatusCreated, Object{"id": r.PathValue("id"), "name": f.Name, "size": len(data)})
	}
}
