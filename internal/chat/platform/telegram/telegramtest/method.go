package telegramtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxText    = 4096
	maxCaption = 1024
	maxRich    = 32768

	maxDownload = 20 << 20 // bytes of a file that a bot can fetch
	maxButtons  = 100      // of one message
	maxEntities = 100      // further ones are left out
)

// actions are what sendChatAction takes.
func actions() []string {
	return []string{
		"typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice", "upload_document", "choose_sticker",
		"find_location", "record_video_note", "upload_video_note",
	}
}

func pair(a, b int64) string { return strconv.FormatInt(a, 10) + "/" + strconv.FormatInt(b, 10) }

func refuse(w http.ResponseWriter, f Failure) {
	w.Header().Set("Content-Type", "application/json")
	body := map[string]any{"ok": false, "error_code": f.Code, "description": f.Text}
	params := map[string]any{}
	if f.RetryAfter > 0 {
		params["retry_after"] = f.RetryAfter
		if f.Text == "" {
			body["description"] = "Too Many Requests: retry after " + strconv.Itoa(f.RetryAfter)
		}
	}

	if f.MigrateTo != 0 {
		params["migrate_to_chat_id"] = f.MigrateTo
	}
	if len(params) > 0 {
		body["parameters"] = params
	}

	w.WriteHeader(f.Code)
	_ = json.NewEncoder(w).Encode(body)
}

func bad(format string, args ...any) *Failure {
	return &Failure{Code: http.StatusBadRequest, Text: "Bad Request: " + fmt.Sprintf(format, args...)}
}

// method answers a call.
func (s *Server) method(w http.ResponseWriter, r *http.Request, name string) {
	call, err := read(r, name)
	if err != nil {
		refuse(w, *bad("%v", err))
		return
	}

	if strings.HasPrefix(name, "send") || strings.HasPrefix(name, "edit") || strings.HasPrefix(name, "set") {
		s.Pass(r.Context())
	}

	s.mu.Lock()
	script := s.failure(name)
	s.mu.Unlock()

	if script != nil && !script.After {
		s.finish(w, call, nil, script)
		return
	}

	call.lost = script != nil
	result, fail := s.run(r.Context(), call)
	if script != nil && fail == nil {
		fail = script
	}
	s.finish(w, call, result, fail)
}

// finish records a call and answers it.
func (s *Server) finish(w http.ResponseWriter, call Call, result any, f *Failure) {
	call.Code = http.StatusOK
	if f != nil {
		call.Code = f.Code
	}

	s.mu.Lock()
	if call.Method != "getUpdates" || f != nil {
		s.calls = append(s.calls, call)
		s.news()
	}

	s.mu.Unlock()
	switch {
	case f == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result})
	case f.Garbage:
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<html>bad gateway</html>")
	case f.Code == 0:
		panic(http.ErrAbortHandler)
	default:
		refuse(w, *f)
	}
}

// read takes the parameters of a call out of JSON, a form or multipart.
func read(r *http.Request, name string) (Call, error) {
	call := Call{Method: name, Params: map[string]string{}, At: time.Now()}
	if r.Method != http.MethodPost && r.Method != http.MethodGet {
		return call, fmt.Errorf("method %s", r.Method)
	}

	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil && r.Method == http.MethodPost && r.ContentLength != 0 { // a call without parameters may have no body
		return call, err
	}

	switch kind {
	case "application/json":
		var raw map[string]json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&raw); err != nil {
			return call, fmt.Errorf("can't parse JSON: %w", err)
		}

		for k, v := range raw {
			var text string
			if json.Unmarshal(v, &text) != nil {
				text = string(v)
			}
			call.Params[k] = text
		}

	case "multipart/form-data":
		return call, readMultipart(r, &call)
	default:
		if err := r.ParseForm(); err != nil {
			return call, err
		}
		for k := range r.Form {
			call.Params[k] = r.Form.Get(k)
		}
	}

	return call, nil
}

func readMultipart(r *http.Request, call *Call) error {
	if r.ContentLength < 0 {
		return errors.New("content length is missing")
	}

	m, err := r.MultipartReader()
	if err != nil {
		return err
	}

	for {
		p, err := m.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}

		data, err := io.ReadAll(p)
		if err != nil {
			return err
		}
		if p.FileName() == "" {
			call.Params[p.FormName()] = string(data)
			continue
		}
		call.File = &File{Field: p.FormName(), Name: p.FileName(), Data: data}
	}
}

// run does what a method says.
func (s *Server) run(ctx context.Context, c Call) (any, *Failure) {
	if c.Method == "getUpdates" {
		return s.getUpdates(ctx, c)
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	switch c.Method {
	case "getMe":
		return map[string]any{"id": s.id, "is_bot": true, "first_name": "Bot", "username": s.name}, nil
	case "setMyCommands":
		return s.setCommands(c)
	case "getMyCommands":
		return s.listCommands(), nil
	case "getWebhookInfo":
		return map[string]any{"url": s.webhook, "has_custom_certificate": false, "pending_update_count": len(s.updates)}, nil
	case "setWebhook":
		if !strings.HasPrefix(c.Params["url"], "https://") {
			return nil, bad("bad webhook: An HTTPS URL must be provided for webhook")
		}
		s.webhook, s.secret = c.Params["url"], c.Params["secret_token"]
		return true, s.allow(c)

	case "deleteWebhook":
		s.webhook, s.secret = "", ""
		return true, nil
	case "getFile":
		f, ok := s.files[c.Params["file_id"]]
		if !ok {
			return nil, bad("wrong file_id or the file is temporarily unavailable")
		}
		if len(f.Data) > maxDownload {
			return nil, bad("file is too big")
		}
		return map[string]any{"file_id": c.Params["file_id"], "file_unique_id": "u", "file_size": len(f.Data), "file_path": f.Name}, nil

	case "answerCallbackQuery":
		if c.Params["callback_query_id"] == "" {
			return nil, bad("query is too old and response timeout expired or query ID is invalid")
		}
		return true, nil
	}

	chat, f := s.chat(c)
	if f != nil {
		return nil, f
	}

	switch c.Method {
	case "sendChatAction":
		if !slices.Contains(actions(), c.Params["action"]) {
			return nil, bad("wrong parameter action in request")
		}
		return true, nil

	case "setMessageReaction":
		return s.react(c, chat)
	case "editMessageText":
		return s.edit(c, chat)
	case "deleteMessage":
		return s.erase(c, chat)
	case "editMessageReplyMarkup":
		return true, nil
	case "sendMessage":
		return s.send(c, chat)
	case "sendRichMessage":
		return s.sendRich(c, chat)
	case "sendPhoto", "sendVideo", "sendVoice", "sendAudio", "sendDocument", "sendAnimation":
		return s.sendMedia(c, chat)
	}

	return nil, &Failure{Code: http.StatusNotFound, Text: "Not Found: method not found"}
}

// allow notes the kinds of updates. The lock is held.
func (s *Server) allow(c Call) *Failure {
	raw, ok := c.Params["allowed_updates"]
	if !ok {
		return nil
	}

	var kinds []string
	if json.Unmarshal([]byte(raw), &kinds) != nil {
		return bad("can't parse allowed_updates JSON object")
	}

	s.allowed = kinds
	return nil
}

// getUpdates acknowledges, waits and lists.
func (s *Server) getUpdates(ctx context.Context, c Call) (any, *Failure) {
	offset, _ := strconv.ParseInt(c.Params["offset"], 10, 64)
	seconds, _ := strconv.Atoi(c.Params["timeout"])
	limit, _ := strconv.Atoi(c.Params["limit"])
	if limit < 1 || limit > 100 {
		limit = 100
	}

	timer := time.NewTimer(time.Duration(seconds) * time.Second)
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()

	if f := s.allow(c); f != nil {
		return nil, f
	}

	s.polling++
	s.polls++
	mine := s.polling
	s.news()

	for {
		switch {
		case s.webhook != "":
			return nil, &Failure{Code: http.StatusConflict, Text: "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"}
		case s.polling != mine:
			return nil, &Failure{Code: http.StatusConflict, Text: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"}
		}

		before := len(s.updates)
		if s.updates = slices.DeleteFunc(s.updates, func(u update) bool { return u.id < offset }); len(s.updates) < before {
			s.news()
		}

		if len(s.updates) > 0 || seconds == 0 || s.closed {
			out := []any{}
			for _, u := range s.updates[:min(limit, len(s.updates))] {
				out = append(out, u.body)
			}
			return out, nil
		}

		news := s.changed
		s.mu.Unlock()
		select {
		case <-news:
		case <-timer.C:
			seconds = 0
		case <-ctx.Done():
			seconds = 0
		}

		s.mu.Lock()
	}
}

// Polls counts the calls of getUpdates.
func (s *Server) Polls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.polls
}

func (s *Server) setCommands(c Call) (any, *Failure) {
	var list []struct{ Command, Description string }
	if json.Unmarshal([]byte(c.Params["commands"]), &list) != nil || len(list) > 100 {
		return nil, bad("can't parse commands JSON object")
	}

	var menu []string
	for _, l := range list {
		if l.Command == "" || len(l.Command) > 32 || strings.Trim(l.Command, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return nil, bad("BOT_COMMAND_INVALID")
		}
		if l.Description == "" || len([]rune(l.Description)) > 256 {
			return nil, bad("BOT_COMMAND_DESCRIPTION_INVALID")
		}
		menu = append(menu, l.Command+" - "+l.Description)
	}

	s.commands = menu
	return true, nil
}

func (s *Server) listCommands() any {
	list := []any{}
	for _, line := range s.commands {
		name, about, _ := strings.Cut(line, " - ")
		list = append(list, map[string]any{"command": name, "description": about})
	}
	return list
}

// chat is the chat of a call. The lock is held.
func (s *Server) chat(c Call) (int64, *Failure) {
	id, err := strconv.ParseInt(c.Params["chat_id"], 10, 64)
	if err != nil || id == 0 {
		return 0, bad("chat not found")
	}

	if to, ok := s.moved[id]; ok {
		f := bad("group chat was upgraded to a supergroup chat")
		f.MigrateTo = to
		return 0, f
	}
	return id, nil
}

func (s *Server) react(c Call, chat int64) (any, *Failure) {
	var list []struct{ Type, Emoji string }
	if json.Unmarshal([]byte(c.Params["reaction"]), &list) != nil {
		return nil, bad("can't parse reaction JSON object")
	}

	id, err := strconv.ParseInt(c.Params["message_id"], 10, 64)
	if err != nil {
		return nil, bad("message to react not found")
	}

	for _, r := range list {
		if r.Type != "emoji" || !strings.Contains("👍👎❤🔥🥰👏😁🤔🤯😱👀🎉🙏👌🤖✍", r.Emoji) {
			return nil, bad("REACTION_INVALID")
		}
	}

	delete(s.reactions, pair(chat, id))
	for _, r := range list {
		s.reactions[pair(chat, id)] = r.Emoji
	}
	return true, nil
}

// text checks a text and returns what people see of it.
func text(c Call, key string, limit int) (plain string, html bool, f *Failure) {
	plain = c.Params[key]
	switch c.Params["parse_mode"] {
	case "":
	case "HTML":
		p, err := PlainOfHTML(plain)
		if err != nil {
			return "", false, bad("can't parse entities: %v", err)
		}
		plain, html = p, strings.Contains(plain, "<") // without a tag it looks as without a mode

	default:
		return "", false, bad("unsupported parse_mode")
	}

	if Units(plain) > limit {
		if key == "caption" {
			return "", false, bad("message caption is too long")
		}
		return "", false, bad("message is too long")
	}
	return plain, html, nil
}

func (s *Server) send(c Call, chat int64) (any, *Failure) {
	plain, html, f := text(c, "text", maxText)
	switch {
	case f != nil:
		return nil, f
	case strings.TrimSpace(plain) == "":
		return nil, bad("message text is empty")
	}
	return s.keep(c, chat, plain, html)
}

// sendRich takes Markdown as it is, within the limit of rich messages.
func (s *Server) sendRich(c Call, chat int64) (any, *Failure) {
	page, f := rich(c)
	if f != nil {
		return nil, f
	}
	return s.keep(c, chat, page, false)
}

// rich is the Markdown of a rich message.
func rich(c Call) (string, *Failure) {
	var page struct {
		Markdown string `json:"markdown"`
	}
	switch err := json.Unmarshal([]byte(c.Params["rich_message"]), &page); {
	case err != nil:
		return "", bad("can't parse rich message JSON object")
	case c.Params["text"] != "" || c.Params["parse_mode"] != "":
		return "", bad("a message has either text or rich_message")
	case strings.TrimSpace(page.Markdown) == "":
		return "", bad("message text is empty")
	case len([]rune(page.Markdown)) > maxRich:
		return "", bad("RICH_MESSAGE_TOO_LONG")
	}

	return page.Markdown, nil
}

func (s *Server) sendMedia(c Call, chat int64) (any, *Failure) {
	field := strings.ToLower(strings.TrimPrefix(c.Method, "send"))
	switch {
	case c.File == nil || c.File.Field != field:
		return nil, bad("there is no %s in the request", field)
	case len(c.File.Data) == 0:
		return nil, bad("file must be non-empty")
	case len(c.File.Data) > 50_000_000:
		return nil, &Failure{Code: http.StatusRequestEntityTooLarge, Text: "Request Entity Too Large"}
	case field == "photo" && len(c.File.Data) > 10_000_000:
		return nil, bad("PHOTO_INVALID_DIMENSIONS")
	}

	plain, html, f := text(c, "caption", maxCaption)
	if f != nil {
		return nil, f
	}
	return s.keep(c, chat, plain, html)
}

// keep makes a message of a call. The lock is held.
func (s *Server) keep(c Call, chat int64, plain string, html bool) (any, *Failure) {
	thread, _ := strconv.ParseInt(c.Params["message_thread_id"], 10, 64)
	if f := markup(c.Params["reply_markup"]); f != nil {
		return nil, f
	}

	answers := int64(0)
	if raw, ok := c.Params["reply_parameters"]; ok {
		var p struct {
			MessageID int64 `json:"message_id"`
			Anyway    bool  `json:"allow_sending_without_reply"`
		}
		if json.Unmarshal([]byte(raw), &p) != nil || p.MessageID == 0 {
			return nil, bad("can't parse reply parameters")
		}
		if !p.Anyway && p.MessageID > s.lastMsg[chat] {
			return nil, bad("message to be replied not found")
		}
		answers = p.MessageID
	}

	source := c.Params["text"]
	switch {
	case c.File != nil:
		source = c.Params["caption"]
	case c.Method == "sendRichMessage":
		source = plain
	}

	m := &Message{
		ID: s.nextMessage(chat), ChatID: chat, Thread: thread, Text: source, Plain: plain, HTML: html,
		Method: c.Method, Params: maps.Clone(c.Params), File: c.File, Made: time.Now(), Lost: c.lost,
		answers: answers,
	}
	if m.File != nil {
		m.fileID = fmt.Sprintf("id-sent-%d-%d", chat, m.ID)
		s.files[m.fileID] = File{Name: m.fileID + "/" + m.File.Name, Data: m.File.Data}
	}

	s.messages = append(s.messages, m)
	s.Show(strconv.FormatInt(chat, 10), plain)
	return s.shown(m), nil
}

// shown is a message as the bot is told of it.
func (s *Server) shown(m *Message) map[string]any {
	chat := map[string]any{"id": m.ChatID, "type": "private", "first_name": "Ann"}
	if m.ChatID < 0 {
		chat = map[string]any{"id": m.ChatID, "type": "supergroup", "title": "Group"}
	}

	out := map[string]any{
		"message_id": m.ID, "date": 1_700_000_000, "chat": chat,
		"from": map[string]any{"id": s.id, "is_bot": true, "first_name": "Bot", "username": s.name},
	}
	words := "text"
	if m.File != nil {
		words = "caption"
		out[m.File.Field] = m.media()
	}
	if m.Plain != "" {
		out[words] = m.Plain
	}

	if m.HTML {
		if _, list, err := readHTML(m.Text); err == nil && len(list) > 0 {
			out[strings.TrimPrefix(words+"_entities", "text_")] = list[:min(len(list), maxEntities)]
		}
	}

	if m.Thread != 0 {
		out["message_thread_id"], out["is_topic_message"] = m.Thread, true
	}
	if len(m.Edits) > 0 {
		out["edit_date"] = 1_700_000_001
	}
	if raw := m.Params["reply_markup"]; raw != "" {
		out["reply_markup"] = json.RawMessage(raw)
	}
	if m.answers != 0 {
		out["reply_to_message"] = map[string]any{"message_id": m.answers, "date": 1_700_000_000, "chat": chat}
	}
	return out
}

// media is the file of a message as the bot is told of it.
func (m *Message) media() any {
	one := map[string]any{"file_id": m.fileID, "file_unique_id": "u" + m.fileID, "file_size": len(m.File.Data)}
	switch m.File.Field {
	case "photo":
		one["width"], one["height"] = 1, 1
		return []any{one}
	case "video", "animation":
		one["width"], one["height"], one["duration"] = 1, 1, 1
	case "audio", "voice":
		one["duration"] = 1
	}

	if m.File.Field != "voice" {
		one["file_name"] = m.File.Name
	}
	return one
}

// button is one below a message.
type button struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

type keyboard struct {
	Rows [][]button `json:"inline_keyboard"`
}

// buttonsOf are the buttons of a message.
func buttonsOf(raw string) []button {
	var k keyboard
	if raw == "" || json.Unmarshal([]byte(raw), &k) != nil {
		return nil
	}
	return slices.Concat(k.Rows...)
}

func markup(raw string) *Failure {
	if raw == "" {
		return nil
	}

	var k keyboard
	if json.Unmarshal([]byte(raw), &k) != nil {
		return bad("can't parse reply keyboard markup JSON object")
	}
	if len(slices.Concat(k.Rows...)) > maxButtons {
		return bad("REPLY_MARKUP_TOO_LONG")
	}

	for _, row := range k.Rows {
		for _, b := range row {
			if b.Text == "" || b.Data == "" || len(b.Data) > 64 {
				return bad("BUTTON_DATA_INVALID")
			}
		}
	}

	return nil
}

func (s *Server) erase(c Call, chat int64) (any, *Failure) {
	for i, m := range s.messages {
		if m.ChatID == chat && strconv.FormatInt(m.ID, 10) == c.Params["message_id"] {
			s.messages = slices.Delete(s.messages, i, i+1)
			return true, nil
		}
	}
	return nil, bad("message to delete not found")
}

func (s *Server) edit(c Call, chat int64) (any, *Failure) {
	plain, html, f := text(c, "text", maxText)
	source := c.Params["text"]
	if _, ok := c.Params["rich_message"]; ok {
		source, f = rich(c)
		plain = source
	}

	if f != nil {
		return nil, f
	}
	if strings.TrimSpace(plain) == "" {
		return nil, bad("message text is empty")
	}

	for _, m := range s.messages {
		if m.ChatID != chat || strconv.FormatInt(m.ID, 10) != c.Params["message_id"] {
			continue
		}
		if m.Plain == plain && m.HTML == html && m.Text == source {
			s.Unchanged()
			return nil, bad("message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message")
		}

		m.Plain, m.HTML, m.Text = plain, html, source
		m.Edits = append(m.Edits, m.Text)
		s.Show(strconv.FormatInt(chat, 10), plain)
		return s.shown(m), nil
	}

	return nil, bad("message to edit not found")
}

// file serves a stored file.
func (s *Server) file(w http.ResponseWriter, r *http.Request, path string) {
	s.mu.Lock()
	script := s.failure("file")
	var data []byte
	found := false
	for _, f := range s.files {
		if f.Name == path {
			data, found = f.Data, true
		}
	}

	s.calls = append(s.calls, Call{Method: "file", Params: map[string]string{"path": path}, At: time.Now()})
	s.mu.Unlock()
	switch {
	case script != nil && script.Code == 0:
		panic(http.ErrAbortHandler)
	case script != nil:
		w.WriteHeader(script.Code)
	case !found:
		http.NotFound(w, r)
	default:
		_, _ = w.Write(data)
	}
}
