package slacktest

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// object is a piece of JSON.
type object = map[string]any

// refusal is an error of the Web API.
type refusal string

func (e refusal) Error() string { return string(e) }

// handler runs a method. The lock is held.
type handler struct {
	scope string // "" is none; several that do are apart by |
	run   func(s *Server, p map[string]string) (object, error)
}

func handlers() map[string]handler {
	return map[string]handler{
		"auth.test":                    {"", (*Server).authTest},
		"chat.postMessage":             {"chat:write", (*Server).postMessage},
		"chat.update":                  {"chat:write", (*Server).update},
		"chat.delete":                  {"chat:write", (*Server).delete},
		"reactions.add":                {"reactions:write", (*Server).react},
		"reactions.remove":             {"reactions:write", (*Server).unreact},
		"conversations.open":           {"im:write", (*Server).openDM},
		"conversations.list":           {"channels:read", (*Server).listChannels},
		"conversations.info":           {"channels:read|groups:read|im:read", (*Server).channelInfo},
		"conversations.replies":        {"channels:history|im:history", (*Server).replies},
		"conversations.history":        {"channels:history|im:history", (*Server).history},
		"users.list":                   {"users:read", (*Server).listUsers},
		"users.info":                   {"users:read", (*Server).userInfo},
		"files.getUploadURLExternal":   {"files:write", (*Server).uploadURL},
		"files.completeUploadExternal": {"files:write", (*Server).completeUpload},
		"assistant.threads.setStatus":  {"assistant:write", (*Server).setStatus},
	}
}

// method answers a call of the Web API.
func (s *Server) method(w http.ResponseWriter, r *http.Request, name string) {
	token, params, err := arguments(r)
	if strings.HasPrefix(name, "chat.") || strings.HasPrefix(name, "reactions.") || strings.HasPrefix(name, "assistant.") {
		s.Pass(r.Context())
	}

	s.mu.Lock()
	f := s.failure(name)
	var result object
	if err == nil && (f == nil || f.After) {
		before := len(s.messages)
		result, err = s.run(name, token, params)
		for _, m := range s.messages[min(before, len(s.messages)):] {
			m.Lost = f != nil
		}
	}

	if f != nil && f.Error != "" {
		err = refusal(f.Error)
	}

	c := Call{Method: name, Params: params}
	if err != nil {
		c.Error = err.Error()
	} else if f != nil {
		c.Error = "failed"
	}

	s.calls = append(s.calls, c)
	scopes := strings.Join(s.scopes, ",")
	s.news()
	s.mu.Unlock()

	if f != nil && f.Error == "" {
		f.answer(w)
		return
	}

	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if token == BotToken {
		w.Header().Set("X-Oauth-Scopes", scopes)
	}

	if err != nil {
		result = object{"ok": false, "error": err.Error()}
		if needed, ok := strings.CutPrefix(err.Error(), "missing_scope "); ok {
			result = object{"ok": false, "error": "missing_scope", "needed": needed, "provided": scopes}
		}
		if f != nil && f.Needed != "" {
			result["needed"] = f.Needed
		}
	} else {
		result["ok"] = true
	}

	_ = json.NewEncoder(w).Encode(result)
}

// answer is a failure below the Web API.
func (f *Failure) answer(w http.ResponseWriter) {
	switch {
	case f.Garbage:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(max(f.Status, http.StatusOK))
		_, _ = io.WriteString(w, "<html>no</html>")
	case f.Status == 0:
		panic(http.ErrAbortHandler)
	case f.RetryAfter > 0:
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		fallthrough
	default:
		w.WriteHeader(f.Status)
	}
}

// arguments reads a form or JSON, and the token from there or from the header.
func arguments(r *http.Request) (token string, params map[string]string, err error) {
	params = map[string]string{}
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	if err != nil {
		return "", params, refusal("invalid_form_data")
	}

	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case kind == "application/json" && len(body) > 0:
		var all map[string]json.RawMessage
		if json.Unmarshal(body, &all) != nil {
			return "", params, refusal("invalid_json")
		}

		for k, v := range all {
			var text string
			if json.Unmarshal(v, &text) != nil {
				text = string(v)
			}
			params[k] = text
		}
	case len(body) > 0:
		form, err := url.ParseQuery(string(body))
		if err != nil || kind != "application/x-www-form-urlencoded" {
			return "", params, refusal("invalid_form_data")
		}
		for k := range form {
			params[k] = form.Get(k)
		}
	}

	for k := range r.URL.Query() {
		params[k] = r.URL.Query().Get(k)
	}

	token = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if t := params["token"]; t != "" {
		token = t
	}

	delete(params, "token")
	return token, params, nil
}

// run checks who calls and does what they want. The lock is held.
func (s *Server) run(name, token string, params map[string]string) (object, error) {
	if name == "apps.connections.open" {
		return s.openConnection(token)
	}

	h, ok := handlers()[name]
	switch {
	case !ok:
		return nil, refusal("unknown_method")
	case token == "":
		return nil, refusal("not_authed")
	case token == AppToken:
		return nil, refusal("not_allowed_token_type")
	case token != BotToken:
		return nil, refusal("invalid_auth")
	case h.scope != "" && !slices.ContainsFunc(strings.Split(h.scope, "|"), func(one string) bool { return slices.Contains(s.scopes, one) }):
		return nil, refusal("missing_scope " + strings.Split(h.scope, "|")[0])
	}

	return h.run(s, params)
}

func (s *Server) authTest(map[string]string) (object, error) {
	return object{
		"url": "https://fake.slack.com/", "team": "Fake", "user": BotName,
		"team_id": s.team, "user_id": BotUser, "bot_id": BotID, "is_enterprise_install": false,
	}, nil
}

// target is the conversation of a call that writes.
func (s *Server) target(id string) (*Channel, error) {
	if strings.HasPrefix(id, "U") { // a person stands for the conversation with them
		if s.person(id) == nil {
			return nil, refusal("channel_not_found")
		}
		id = s.dm(id)
	}
	switch c := s.channel(id); {
	case c == nil:
		return nil, refusal("channel_not_found")
	case c.Outside:
		return nil, refusal("not_in_channel")
	case c.Archived:
		return nil, refusal("is_archived")
	default:
		return c, nil
	}
}

// How long the parameter text may be, in UTF-16 units of what was sent: &amp; is
// five. A new message takes ten times as much as a change of one. (Slack cuts a
// longer text of a new message; the fake refuses it, since something is lost.)
const (
	maxPosted  = 40_000
	maxUpdated = 4000
)

// maxBlocks is what the texts of all blocks of a message may have together.
const maxBlocks = 12_000

// content checks what a message says and returns it as people see it.
func content(p map[string]string, most int) (plain string, err error) {
	if units(p["text"]) > most {
		return "", refusal("msg_too_long")
	}

	if p["blocks"] == "" || p["blocks"] == "[]" {
		if strings.TrimSpace(p["text"]) == "" {
			return "", refusal("no_text")
		}
		return unescape(p["text"]), nil
	}
	return blocks(p["blocks"])
}

func unescape(s string) string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(s)
}

// block is what is checked of a block.
type block struct {
	Type     string          `json:"type"`
	Text     json.RawMessage `json:"text"`
	Elements []struct {
		Type     string     `json:"type"`
		Text     textObject `json:"text"`
		ActionID string     `json:"action_id"`
		Value    string     `json:"value"`
	} `json:"elements"`
}

type textObject struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// blocks checks blocks and returns what they say.
func blocks(raw string) (string, error) {
	var list []block
	if json.Unmarshal([]byte(raw), &list) != nil {
		return "", refusal("invalid_blocks_format")
	}
	if len(list) > 50 {
		return "", refusal("invalid_blocks")
	}

	var said []string
	total := 0
	for _, b := range list {
		switch b.Type {
		case "markdown":
			var text string
			if json.Unmarshal(b.Text, &text) != nil || text == "" {
				return "", refusal("invalid_blocks")
			}
			total += units(text)
			said = append(said, unescape(text))

		case "section":
			var t textObject
			if json.Unmarshal(b.Text, &t) != nil || !inRange(t.Text, 3000) || t.Type != "mrkdwn" && t.Type != "plain_text" {
				return "", refusal("invalid_blocks")
			}
			total += units(t.Text)
			said = append(said, unescape(t.Text))

		case "actions":
			if !goodActions(b) {
				return "", refusal("invalid_blocks")
			}
			for _, e := range b.Elements {
				total += units(e.Text.Text)
			}

		default:
			return "", refusal("invalid_blocks")
		}
	}

	if total > maxBlocks {
		return "", refusal("msg_blocks_too_long")
	}
	return strings.Join(said, "\n"), nil
}

func inRange(s string, most int) bool { return s != "" && units(s) <= most }

// units is the length of a text in UTF-16.
func units(s string) int { return len(utf16.Encode([]rune(s))) }

func goodActions(b block) bool {
	ids := map[string]bool{}
	for _, e := range b.Elements {
		if e.Type != "button" || e.Text.Type != "plain_text" || !inRange(e.Text.Text, 75) || len(e.Value) > 2000 ||
			!inRange(e.ActionID, 255) || ids[e.ActionID] {
			return false
		}
		ids[e.ActionID] = true
	}
	return len(b.Elements) > 0 && len(b.Elements) <= 25
}

func (s *Server) postMessage(p map[string]string) (object, error) {
	c, err := s.target(p["channel"])
	if err != nil {
		return nil, err
	}

	plain, err := content(p, maxPosted)
	if err != nil {
		return nil, err
	}
	if t := p["thread_ts"]; t != "" && s.message(c.ID, t) == nil {
		return nil, refusal("thread_not_found")
	}

	m := &Message{Channel: c.ID, TS: s.nextTS(), Thread: p["thread_ts"], User: BotUser, Text: p["text"], Plain: plain, Blocks: p["blocks"], Params: p, Made: time.Now()}
	s.messages = append(s.messages, m)
	s.Show(m.Channel, plain)
	delete(s.statuses, c.ID+"/"+m.Thread)
	return object{"channel": c.ID, "ts": m.TS, "message": s.shown(m)}, nil
}

// shown is a message as the Web API tells it.
func (s *Server) shown(m *Message) object {
	out := object{"type": "message", "user": m.User, "text": m.Text, "ts": m.TS}
	if m.User == BotUser {
		out["bot_id"], out["app_id"], out["team"] = BotID, App, Team
	}

	if m.Thread != "" {
		out["thread_ts"] = m.Thread
		if root := s.message(m.Channel, m.Thread); root != nil && root != m {
			out["parent_user_id"] = root.User
		}
	} else if slices.ContainsFunc(s.messages, func(o *Message) bool { return o.Channel == m.Channel && o.Thread == m.TS }) {
		out["thread_ts"] = m.TS
	}

	if m.Blocks != "" {
		out["blocks"] = json.RawMessage(m.Blocks)
	}
	return out
}

// ours finds a message that the bot may change.
func (s *Server) ours(p map[string]string, not refusal) (*Message, error) {
	m := s.message(p["channel"], p["ts"])
	switch {
	case s.channel(p["channel"]) == nil:
		return nil, refusal("channel_not_found")
	case m == nil:
		return nil, refusal("message_not_found")
	case m.User != BotUser:
		return nil, not
	}

	return m, nil
}

func (s *Server) update(p map[string]string) (object, error) {
	m, err := s.ours(p, "cant_update_message")
	if err != nil {
		return nil, err
	}

	if _, ok := p["blocks"]; !ok { // those of the message stay
		p["blocks"] = m.Blocks
	}

	plain, err := content(p, maxUpdated)
	if err != nil {
		return nil, err
	}

	if m.Text == p["text"] && m.Blocks == p["blocks"] {
		s.Unchanged()
	}

	m.Edits = append(m.Edits, m.Plain)
	m.Text, m.Plain, m.Blocks = p["text"], plain, p["blocks"]
	s.Show(m.Channel, plain)
	return object{"channel": m.Channel, "ts": m.TS, "text": m.Text, "message": s.shown(m)}, nil
}

func (s *Server) delete(p map[string]string) (object, error) {
	m, err := s.ours(p, "cant_delete_message")
	if err != nil {
		return nil, err
	}
	s.messages = slices.DeleteFunc(s.messages, func(o *Message) bool { return o == m })
	return object{"channel": m.Channel, "ts": m.TS}, nil
}

func (s *Server) react(p map[string]string) (object, error) {
	key := p["channel"] + "/" + p["timestamp"]
	switch {
	case s.message(p["channel"], p["timestamp"]) == nil:
		return nil, refusal("message_not_found")
	case strings.ContainsAny(p["name"], ": ") || p["name"] == "" || p["name"] == "no_such_emoji":
		return nil, refusal("invalid_name")
	case slices.Contains(s.reactions[key], p["name"]):
		return nil, refusal("already_reacted")
	}

	s.reactions[key] = append(s.reactions[key], p["name"])
	return object{}, nil
}

func (s *Server) unreact(p map[string]string) (object, error) {
	key := p["channel"] + "/" + p["timestamp"]
	if !slices.Contains(s.reactions[key], p["name"]) {
		return nil, refusal("no_reaction")
	}
	s.reactions[key] = slices.DeleteFunc(s.reactions[key], func(n string) bool { return n == p["name"] })
	return object{}, nil
}

func (s *Server) person(id string) *Person {
	for i, p := range s.people {
		if p.ID == id {
			return &s.people[i]
		}
	}
	return nil
}

func (s *Server) openDM(p map[string]string) (object, error) {
	u := s.person(p["users"])
	switch {
	case u == nil:
		return nil, refusal("user_not_found")
	case u.Bot:
		return nil, refusal("cannot_dm_bot")
	}
	return object{"channel": object{"id": s.dm(u.ID)}}, nil
}

// page cuts a list as the cursor and the limit say.
func page[T any](list []T, p map[string]string) (part []T, cursor string, err error) {
	from := 0
	if c := p["cursor"]; c != "" {
		if from, err = strconv.Atoi(strings.TrimPrefix(c, "at:")); err != nil || from > len(list) {
			return nil, "", refusal("invalid_cursor")
		}
	}

	most, _ := strconv.Atoi(p["limit"])
	if most <= 0 || most > 1000 {
		most = 100
	}

	to := min(from+most, len(list))
	if to < len(list) {
		cursor = fmt.Sprintf("at:%d", to)
	}
	return list[from:to], cursor, nil
}

func (s *Server) listChannels(p map[string]string) (object, error) {
	kinds := map[string]string{"public_channel": "channel", "private_channel": "group", "im": "im", "mpim": "mpim"}
	var fit []Channel
	for t := range strings.SplitSeq(p["types"], ",") {
		for _, c := range s.channels {
			if c.Kind == kinds[t] || t == "" && c.Kind == "channel" {
				fit = append(fit, c)
			}
		}
	}

	part, cursor, err := page(fit, p)
	if err != nil {
		return nil, err
	}

	list := []object{}
	for _, c := range part {
		list = append(list, c.shown())
	}
	return object{"channels": list, "response_metadata": object{"next_cursor": cursor}}, nil
}

func (c *Channel) shown() object {
	return object{
		"id": c.ID, "name": c.Name, "user": c.User, "is_member": !c.Outside, "is_archived": c.Archived,
		"is_im": c.Kind == "im", "is_mpim": c.Kind == "mpim", "is_channel": c.Kind == "channel", "is_private": c.Kind != "channel",
	}
}

func (s *Server) channelInfo(p map[string]string) (object, error) {
	c := s.channel(p["channel"])
	if c == nil {
		return nil, refusal("channel_not_found")
	}
	return object{"channel": c.shown()}, nil
}

// readable are the messages of a conversation that a call wants, oldest first.
func (s *Server) readable(p map[string]string, fit func(m *Message) bool) ([]object, error) {
	switch c := s.channel(p["channel"]); {
	case c == nil:
		return nil, refusal("channel_not_found")
	case c.Outside:
		return nil, refusal("not_in_channel")
	}

	out := []object{}
	for _, m := range s.messages {
		old := p["oldest"] != "" && (m.TS < p["oldest"] || m.TS == p["oldest"] && p["inclusive"] != "1" && p["inclusive"] != "true")
		if m.Channel == p["channel"] && fit(m) && !old && (p["latest"] == "" || m.TS <= p["latest"]) {
			out = append(out, s.shown(m))
		}
	}
	return out, nil
}

func (s *Server) replies(p map[string]string) (object, error) {
	if s.message(p["channel"], p["ts"]) == nil && s.channel(p["channel"]) != nil {
		return nil, refusal("thread_not_found")
	}
	list, err := s.readable(p, func(m *Message) bool { return m.TS == p["ts"] || m.Thread == p["ts"] })
	if err != nil {
		return nil, err
	}
	part, cursor, err := page(list, p)
	return object{"messages": part, "has_more": cursor != "", "response_metadata": object{"next_cursor": cursor}}, err
}

func (s *Server) history(p map[string]string) (object, error) {
	list, err := s.readable(p, func(m *Message) bool { return m.Thread == "" })
	if err != nil {
		return nil, err
	}
	slices.Reverse(list)
	part, cursor, err := page(list, p)
	return object{"messages": part, "has_more": cursor != "", "response_metadata": object{"next_cursor": cursor}}, err
}

func (p *Person) shown() object {
	return object{
		"id": p.ID, "name": p.Handle, "real_name": p.Name, "is_bot": p.Bot, "team_id": Team,
		"profile": object{"real_name": p.Name, "display_name": p.Name},
	}
}

func (s *Server) listUsers(p map[string]string) (object, error) {
	part, cursor, err := page(s.people, p)
	if err != nil {
		return nil, err
	}
	list := []object{}
	for _, u := range part {
		list = append(list, u.shown())
	}
	return object{"members": list, "response_metadata": object{"next_cursor": cursor}}, nil
}

func (s *Server) userInfo(p map[string]string) (object, error) {
	u := s.person(p["user"])
	if u == nil {
		return nil, refusal("user_not_found")
	}
	return object{"user": u.shown()}, nil
}

func (s *Server) setStatus(p map[string]string) (object, error) {
	switch c := s.channel(p["channel_id"]); {
	case c == nil:
		return nil, refusal("channel_not_found")
	case s.message(c.ID, p["thread_ts"]) == nil:
		return nil, refusal("invalid_thread_ts")
	}
	s.statuses[p["channel_id"]+"/"+p["thread_ts"]] = p["status"]
	return object{}, nil
}
