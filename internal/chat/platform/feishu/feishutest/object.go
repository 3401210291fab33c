package feishutest

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (s *Server) get(r *request) (any, error) {
	m := s.message(r.PathValue("id"))
	if m == nil || m.Deleted {
		return nil, refuse(230110, "The message is deleted or does not exist.")
	}

	items := []any{s.show(m)}
	for _, other := range s.messages {
		if other.Upper == m.ID {
			items = append(items, s.show(other))
		}
	}
	return map[string]any{"items": items}, nil
}

// patch changes a card that is not a card entity.
func (s *Server) patch(r *request) (any, error) {
	var in struct {
		Content string `json:"content"`
	}
	m, err := s.ours(r)
	if err == nil {
		err = r.json(&in)
	}

	if err != nil {
		return nil, err
	}
	if m.Type != "interactive" || m.Card != "" {
		return nil, refuse(230001, "Your request contains an invalid request parameter, ext=not a card")
	}
	if s.now().Sub(m.At) > cardFor {
		return nil, refuse(230031, "Message has expired when updating message")
	}
	return s.change(m, in.Content)
}

// update changes a text or a post.
func (s *Server) update(r *request) (any, error) {
	var in draft
	m, err := s.ours(r)
	if err == nil {
		err = r.json(&in)
	}

	if err != nil {
		return nil, err
	}
	if in.Type != m.Type || m.Type != "text" && m.Type != "post" {
		return nil, refuse(230001, "Your request contains an invalid request parameter, ext=msg_type")
	}
	if len(m.Edits) >= maxEdits {
		return nil, refuse(230072, "The message has reached the number of times it can be edited.")
	}
	return s.change(m, in.Content)
}

const (
	maxEdits = 20                  // of a text or a post
	cardFor  = 14 * 24 * time.Hour // then a card cannot be changed
)

func (s *Server) change(m *Message, content string) (any, error) {
	next := *m
	next.Content = content
	if err := s.compose(&next); err != nil {
		return nil, err
	}
	next.Edits = append(m.Edits, m.Plain)
	*m = next
	return s.show(m), nil
}

// ours is the message of a request, which must be the bot's.
func (s *Server) ours(r *request) (*Message, error) {
	m := s.message(r.PathValue("id"))
	switch {
	case m == nil || m.Deleted:
		return nil, refuse(230110, "The message is deleted or does not exist.")
	case m.Sender != BotID:
		return nil, refuse(230071, "The operator is not the sender of the message.")
	}
	return m, nil
}

func (s *Server) remove(r *request) (any, error) {
	m, err := s.ours(r)
	if err == nil {
		m.Deleted = true
	}
	return map[string]any{}, err
}

func (s *Server) react(r *request) (any, error) {
	var in struct {
		Type struct {
			Emoji string `json:"emoji_type"`
		} `json:"reaction_type"`
	}
	if err := r.json(&in); err != nil {
		return nil, err
	}
	if err := s.allowed("im:message.reactions:write_only", "im:message"); err != nil {
		return nil, err
	}

	id := r.PathValue("id")
	if s.message(id) == nil {
		return nil, refuse(231003, "The message is not found.")
	}
	if !slices.Contains([]string{"THUMBSUP", "OnIt", "DONE", "CrossMark"}, in.Type.Emoji) {
		return nil, refuse(231001, "reaction type is invalid.")
	}

	s.serial++
	reaction := "reaction" + strconv.Itoa(s.serial)
	if s.reactions[id] == nil {
		s.reactions[id] = map[string]string{}
	}

	s.reactions[id][reaction] = in.Type.Emoji
	return s.reaction(reaction, in.Type.Emoji), nil
}

func (s *Server) reaction(id, emoji string) map[string]any {
	return map[string]any{"reaction_id": id, "reaction_type": map[string]any{"emoji_type": emoji}, "operator": map[string]any{"operator_id": s.appID, "operator_type": "app"}}
}

func (s *Server) listReactions(r *request) (any, error) {
	items := []any{}
	for id, emoji := range s.reactions[r.PathValue("id")] {
		if want := r.URL.Query().Get("reaction_type"); want == "" || want == emoji {
			items = append(items, s.reaction(id, emoji))
		}
	}
	return map[string]any{"items": items, "has_more": false}, nil
}

func (s *Server) unreact(r *request) (any, error) {
	list := s.reactions[r.PathValue("id")]
	if _, ok := list[r.PathValue("reaction")]; !ok {
		return nil, refuse(231011, "reaction not found.")
	}
	delete(list, r.PathValue("reaction"))
	return map[string]any{}, nil
}

// form reads an upload: the words of its fields, and its file.
func (r *request) form(name string) (values map[string]string, fileName string, data []byte, err error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return nil, "", nil, refuse(234001, "Invalid request param.")
	}

	values = map[string]string{}
	parts := multipart.NewReader(bytes.NewReader(r.body), params["boundary"])
	for {
		p, err := parts.NextPart()
		if err == io.EOF { //nolint:errorlint // as the package says it
			return values, fileName, data, nil
		}
		if err != nil {
			return nil, "", nil, refuse(234001, "Invalid request param.")
		}

		content, err := io.ReadAll(p)
		if err != nil {
			return nil, "", nil, refuse(234001, "Invalid request param.")
		}
		if p.FormName() == name {
			data, fileName = content, p.FileName()
			continue
		}
		values[p.FormName()] = string(content)
	}
}

func (s *Server) uploadImage(r *request) (any, error) {
	values, name, data, err := r.form("image")
	switch {
	case err != nil:
		return nil, err
	case values["image_type"] != "message":
		return nil, refuse(234001, "Invalid request param.")
	case len(data) == 0:
		return nil, refuse(234010, "File's size can't be 0.")
	case len(data) > maxImage:
		return nil, refuse(234006, "The file size exceed the max value.")
	case !strings.HasPrefix(http.DetectContentType(data), "image/"):
		return nil, refuse(234011, "Can't regonnize the image format.")
	}

	return map[string]any{"image_key": s.store(&File{Name: name, Kind: "image", Data: data}, "img_v3_")}, s.allowed("im:resource")
}

func (s *Server) uploadFile(r *request) (any, error) {
	values, _, data, err := r.form("file")
	switch {
	case err != nil:
		return nil, err
	case values["file_name"] == "" || !slices.Contains([]string{"opus", "mp4", "pdf", "doc", "xls", "ppt", "stream"}, values["file_type"]):
		return nil, refuse(234001, "Invalid request param.")
	case len(data) == 0:
		return nil, refuse(234010, "File's size can't be 0.")
	case len(data) > maxFile:
		return nil, refuse(234006, "The file size exceed the max value.")
	}

	kind := map[string]string{"opus": "audio", "mp4": "media"}[values["file_type"]]
	if kind == "" {
		kind = "file"
	}
	return map[string]any{"file_key": s.store(&File{Name: values["file_name"], Kind: kind, Data: data}, "file_v3_")}, s.allowed("im:resource")
}

func (s *Server) resource(r *request) (any, error) {
	m, f := s.message(r.PathValue("id")), s.files[r.PathValue("key")]
	kind := r.URL.Query().Get("type")
	switch {
	case m == nil || f == nil || !strings.Contains(m.Content, f.Key):
		return nil, refuse(234003, "File not in msg.")
	case kind != "image" && kind != "file":
		return nil, refuse(234001, "Invalid request param.")
	}
	return file{f.Name, f.Data}, nil
}

func (s *Server) image(r *request) (any, error) {
	f := s.files[r.PathValue("key")]
	if f == nil {
		return nil, refuse(234001, "Invalid request param.")
	}
	return file{f.Name, f.Data}, s.allowed("im:resource")
}

func (s *Server) createCard(r *request) (any, error) {
	var in struct{ Type, Data string }
	if err := r.json(&in); err != nil {
		return nil, err
	}
	if err := s.allowed("cardkit:card:write"); err != nil {
		return nil, err
	}
	if in.Type != "card_json" || len(in.Data) > maxCard {
		return nil, refuse(300301, "invalid card")
	}

	var c struct {
		Config struct {
			Streaming bool `json:"streaming_mode"`
		} `json:"config"`
	}

	seen, err := s.checkCard(in.Data, true)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(in.Data), &c); err != nil {
		return nil, refuse(300301, "invalid card")
	}

	s.serial++
	id := strconv.Itoa(7000000000000000000 + s.serial)
	s.cards[id] = &card{data: in.Data, text: seen.text(), streaming: c.Config.Streaming, began: s.now(), uuids: map[string]bool{}}
	return map[string]any{"card_id": id}, nil
}

// convert finds the card of a message.
func (s *Server) convert(r *request) (any, error) {
	var in struct {
		Message string `json:"message_id"`
	}
	if err := r.json(&in); err != nil {
		return nil, err
	}

	m := s.message(in.Message)
	if m == nil || m.Card == "" {
		return nil, refuse(300305, "the message is not a card")
	}
	return map[string]any{"card_id": m.Card}, s.allowed("cardkit:card:write")
}

// step is what every change of a card has.
type step struct {
	Sequence int    `json:"sequence"`
	UUID     string `json:"uuid"`
	Content  string `json:"content"`
	Settings string `json:"settings"`
}

// update finds the card of a request. The numbers of changes only grow; one with
// a known uuid was made already.
func (s *Server) step(r *request) (c *card, in step, done bool, err error) {
	if err := r.json(&in); err != nil {
		return nil, in, false, err
	}

	c = s.cards[r.PathValue("card")]
	switch {
	case c == nil:
		return nil, in, false, refuse(300313, "card not found")
	case in.UUID != "" && c.uuids[in.UUID]:
		return c, in, true, nil
	case in.Sequence <= c.sequence || in.Sequence > 1<<31-1:
		return nil, in, false, refuse(300317, "sequence number compare failed")
	}

	return c, in, false, s.allowed("cardkit:card:write")
}

// streamingFor is how long the streaming mode of a card lasts after it was set.
const streamingFor = 10 * time.Minute

func (s *Server) cardContent(r *request) (any, error) {
	c, in, done, err := s.step(r)
	switch {
	case err != nil || done:
		return map[string]any{}, err
	case c.streaming && s.now().Sub(c.began) >= streamingFor && s.silent:
		c.sequence = in.Sequence
		return map[string]any{}, nil
	case c.streaming && s.now().Sub(c.began) >= streamingFor:
		c.streaming = false
		return nil, refuse(200850, "card streaming timeout")
	case !c.streaming:
		return nil, refuse(300309, "streaming mode is closed")
	case r.PathValue("elem") == "" || !strings.Contains(c.data, `"element_id":"`+r.PathValue("elem")+`"`):
		return nil, refuse(300314, "element not found")
	case in.Content == "" || len(object(in.Content)) > maxCard:
		return nil, refuse(300301, "the content is empty or too long")
	}

	if err := s.checkMarkdown(in.Content); err != nil {
		return nil, refuse(300315, "%s", err.Error())
	}

	if c.text == seenMarkdown(in.Content) {
		s.idle++
	}

	c.edits = append(c.edits, c.text)
	c.text, c.sequence = seenMarkdown(in.Content), in.Sequence
	c.uuids[in.UUID] = true
	return map[string]any{}, nil
}

func (s *Server) cardSettings(r *request) (any, error) {
	c, in, done, err := s.step(r)
	if err != nil || done {
		return map[string]any{}, err
	}

	var set struct {
		Config struct {
			Streaming *bool `json:"streaming_mode"`
		} `json:"config"`
	}
	if json.Unmarshal([]byte(in.Settings), &set) != nil || set.Config.Streaming == nil {
		return nil, refuse(300301, "invalid settings")
	}

	c.streaming, c.sequence, c.began = *set.Config.Streaming, in.Sequence, s.now()
	c.uuids[in.UUID] = true
	return map[string]any{}, nil
}

// registration is an app that is being made by a QR code.
type registration struct {
	polls   int
	codes   int
	answers []map[string]any // of the polls after that; the last one stays
}

// Register says what the registration of an app answers after so many polls that
// are pending: client_id and client_secret, or error. An app that is made takes
// the place of the one that the server knew.
func (s *Server) Register(pending int, answers ...map[string]any) {
	s.locked(func() { s.register.polls, s.register.answers = pending, answers })
}

// Polls is how often the registration was asked for its result.
func (s *Server) Polls() (n int) {
	for _, c := range s.Calls("POST /oauth/v1/app/registration") {
		if strings.Contains(c.Body, "action=poll") {
			n++
		}
	}
	return n
}

func (s *Server) registration(r *request) (any, error) {
	form, err := url.ParseQuery(string(r.body))
	wrong := func(word string) flat {
		return flat{http.StatusBadRequest, map[string]any{"error": word, "error_description": word}}
	}
	if err != nil || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		return wrong("invalid_request"), nil //nolint:nilerr // an answer
	}

	switch form.Get("action") {
	case "init":
		return flat{http.StatusOK, map[string]any{"nonce": "n1", "supported_auth_methods": []string{"client_secret"}}}, nil
	case "begin":
		if form.Get("archetype") != "PersonalAgent" || form.Get("auth_method") != "client_secret" || form.Get("request_user_info") != "open_id" {
			return wrong("invalid_request"), nil
		}

		s.register.codes++
		n := strconv.Itoa(s.register.codes)
		return flat{http.StatusOK, map[string]any{
			"device_code": "device-" + n, "user_code": "ABCD", "verification_uri": "https://accounts.feishu.cn/oauth/v1/device",
			"verification_uri_complete": "https://accounts.feishu.cn/oauth/v1/device?code=ABCD" + n, "interval": 1, "expire_in": 600, "expires_in": 600,
		}}, nil

	case "poll":
		if !strings.HasPrefix(form.Get("device_code"), "device-") {
			return wrong("invalid_request"), nil
		}
		if s.register.polls > 0 || len(s.register.answers) == 0 {
			s.register.polls--
			return wrong("authorization_pending"), nil
		}

		status, answer := http.StatusOK, s.register.answers[0]
		if len(s.register.answers) > 1 {
			s.register.answers = s.register.answers[1:]
		}
		if answer["error"] != nil {
			status = http.StatusBadRequest
		}
		if id, ok := answer["client_id"].(string); ok && answer["client_secret"] == AppSecret {
			s.appID = id
		}
		return flat{status, answer}, nil
	}

	return wrong("unsupported_action"), nil
}
