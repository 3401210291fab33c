// Package matrixtest is a small Matrix homeserver for tests: accounts, rooms,
// sync, media and the exchange of keys, on a listener of its own. It refuses
// what a homeserver refuses (a wrong token, a room we are not in, an event over
// 65,536 bytes, a body that is not JSON) and can be told to fail.
package matrixtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/chattest/line"
)

// The account that a channel under test uses.
const (
	Server   = "fake.example"
	Bot      = "@nanobot:" + Server
	Password = "correct horse"
)

// Object is JSON.
type Object = map[string]any

// Event is something that happened in a room.
type Event struct {
	ID       string          `json:"event_id"`
	Type     string          `json:"type"`
	Room     string          `json:"-"`
	Sender   string          `json:"sender"`
	StateKey *string         `json:"state_key,omitempty"`
	At       int64           `json:"origin_server_ts"`
	Content  json.RawMessage `json:"content"`
	Unsigned Object          `json:"unsigned,omitempty"`
	Redacts  string          `json:"redacts,omitempty"` // in rooms of before version 11; clients want it in all
}

// Failure is an answer that replaces the usual one, once.
type Failure struct {
	Method string // of HTTP; "" is any
	Path   string // a piece of the path; "" is any
	Status int    // 0: the connection is cut
	Code   string // M_...
	Body   string // instead of an error
	Wait   time.Duration
}

// Call is a request that came.
type Call struct {
	Method, Path, User string
	Body               []byte
}

// Home is the server.
type Home struct {
	line.Line

	MaxUpload int64 // bytes; set before the first request

	http *httptest.Server

	mu       sync.Mutex
	changed  chan struct{}
	seq      int // of all that sync tells of; also makes ids
	accounts map[string]*account
	tokens   map[string]session
	rooms    map[string]*room
	aliases  map[string]string
	media    map[string]file
	sent     map[string]string // transactions: user/device/path to the id of the event
	failures []Failure
	calls    []Call
	told     []Event  // to devices
	late     []func() // deliveries of keys that are held
	holding  bool
	hung     bool // sync answers no more
}

type account struct {
	password string
	data     map[string]stamped // account data
	devices  map[string]*device
	signing  map[string]json.RawMessage // cross-signing keys
	lists    map[string]int             // whose devices changed, and when
	backups  []*keyBackup               // the last one counts
}

type device struct {
	keys     json.RawMessage
	once     map[string]json.RawMessage
	fallback map[string]json.RawMessage
	box      []stamped // to-device messages
}

type stamped struct {
	seq int
	Object
}

type session struct{ user, device string }

type file struct {
	kind string
	data []byte
}

type room struct {
	id      string
	events  []placed
	state   map[string]placed // by type and key
	typing  map[string]bool
	invited map[string]int
}

type placed struct {
	seq int
	Event
}

// New starts a server with the account of the bot.
func New() *Home {
	h := &Home{
		MaxUpload: 50 << 20, changed: make(chan struct{}), accounts: map[string]*account{}, tokens: map[string]session{},
		rooms: map[string]*room{}, aliases: map[string]string{}, media: map[string]file{}, sent: map[string]string{},
	}
	h.Account(Bot, Password)
	h.http = httptest.NewServer(h.routes())
	return h
}

// URL is where the server is.
func (h *Home) URL() string { return h.http.URL }

// Close stops it.
func (h *Home) Close() {
	h.http.CloseClientConnections()
	h.http.Close()
}

// CutAll ends all connections.
func (h *Home) CutAll() { h.http.CloseClientConnections() }

// Hang makes sync keep its connections open without an answer, until it is
// switched off.
func (h *Home) Hang(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hung = on
	h.wake()
}

// Account makes an account.
func (h *Home) Account(user, password string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accounts[user] = &account{password: password, data: map[string]stamped{}, devices: map[string]*device{}, signing: map[string]json.RawMessage{}, lists: map[string]int{}}
}

// Token makes a token of an account, as another client would have one.
func (h *Home) Token(user, device string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token(user, device)
}

// Revoke ends all tokens of an account.
func (h *Home) Revoke(user string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.tokens, func(_ string, s session) bool { return s.user == user })
	h.wake()
}

// Fail adds a failure.
func (h *Home) Fail(f Failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures = append(h.failures, f)
}

// Calls are the requests whose path has a piece in it.
func (h *Home) Calls(piece string) []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Call
	for _, c := range h.calls {
		if strings.Contains(c.Path, piece) {
			out = append(out, c)
		}
	}
	return out
}

// Room makes a room of these members, the first of whom creates it. Other
// state is in extra, by type.
func (h *Home) Room(id string, extra map[string]Object, members ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.rooms[id] = &room{id: id, state: map[string]placed{}, typing: map[string]bool{}, invited: map[string]int{}}
	h.set(id, members[0], "m.room.create", "", Object{"creator": members[0], "room_version": "11"})
	for _, m := range members {
		h.set(id, m, "m.room.member", m, Object{"membership": "join", "displayname": localpart(m)})
	}

	if extra["m.room.join_rules"] == nil {
		h.set(id, members[0], "m.room.join_rules", "", Object{"join_rule": "invite"})
	}

	for kind, content := range extra {
		h.set(id, members[0], kind, "", content)
	}
}

// Member changes a membership, as its owner or a moderator does.
func (h *Home) Member(room, by, user, membership string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(room, by, "m.room.member", user, Object{"membership": membership, "displayname": localpart(user)})
}

// Invite invites a person to a room that is for the two alone.
func (h *Home) Invite(room, by, user string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(room, by, "m.room.member", user, Object{"membership": "invite", "is_direct": true})
}

// Alias gives a room a name.
func (h *Home) Alias(alias, room string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.aliases[alias] = room
}

// Say puts an event of another person into a room. An id that was there before
// is told again as it was.
func (h *Home) Say(e Event, content any) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Type == "" {
		e.Type = "m.room.message"
	}
	e.Content = encode(content)
	return h.put(e)
}

// Text is the content of a message of words.
func Text(body string) Object { return Object{"msgtype": "m.text", "body": body} }

// Store puts a file there and returns its address.
func (h *Home) Store(kind string, data []byte) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.store(kind, data)
}

// File is the content of a file at an address.
func (h *Home) File(address string) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.media[address].data
}

// Events are all events of a type that a person sent, "" for any, in order.
func (h *Home) Events(kind, sender string) []Event {
	h.mu.Lock()
	defer h.mu.Unlock()

	var all []placed
	for _, r := range h.rooms {
		for _, e := range r.events {
			if (kind == "" || e.Type == kind) && (sender == "" || e.Sender == sender) {
				all = append(all, e)
			}
		}
	}

	slices.SortStableFunc(all, func(a, b placed) int { return a.seq - b.seq })
	out := make([]Event, len(all))
	for i, e := range all {
		out[i] = e.Event
	}
	return out
}

// Message is what people see of an event, after edits.
type Message struct {
	ID, Room, Thread, Body, HTML, Kind, File string
	Event                                    Event
}

// Messages are those of a person as they look now. What was redacted is gone.
func (h *Home) Messages(sender string) []Message {
	out, _ := h.messages(sender)
	return out
}

// Idle counts the edits of a person that left a message as it was.
func (h *Home) Idle(sender string) int {
	_, idle := h.messages(sender)
	return idle
}

func (h *Home) messages(sender string) (out []Message, idle int) {
	at := map[string]int{}
	for _, e := range h.Events("", sender) {
		var c struct {
			Body, Msgtype, URL string
			HTML               string `json:"formatted_body"`
			Redacts            string
			Relates            struct {
				Kind  string `json:"rel_type"`
				Event string `json:"event_id"`
			} `json:"m.relates_to"`
			New struct {
				Body string
				HTML string `json:"formatted_body"`
			} `json:"m.new_content"`
		}
		if json.Unmarshal(e.Content, &c) != nil {
			continue
		}

		i, known := at[c.Relates.Event]
		switch {
		case e.Type == "m.room.redaction":
			if i, known = at[c.Redacts]; known {
				out[i].ID = ""
			}
		case e.Type != "m.room.message":
		case c.Relates.Kind == "m.replace" && known:
			if out[i].Body == c.New.Body && out[i].HTML == c.New.HTML {
				idle++
			}
			out[i].Body, out[i].HTML = c.New.Body, c.New.HTML

		default:
			m := Message{ID: e.ID, Room: e.Room, Body: c.Body, HTML: c.HTML, Kind: c.Msgtype, Event: e}
			if c.Relates.Kind == "m.thread" {
				m.Thread = c.Relates.Event
			}
			if c.Msgtype != "m.text" && c.Msgtype != "m.notice" {
				m.File = c.Body
			}

			at[e.ID] = len(out)
			out = append(out, m)
		}
	}

	return slices.DeleteFunc(out, func(m Message) bool { return m.ID == "" }), idle
}

// Typing reports whether a person is shown as typing.
func (h *Home) Typing(room, user string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rooms[room] != nil && h.rooms[room].typing[user]
}

// The rest needs mu.

func (h *Home) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *Home) next() int {
	h.seq++
	return h.seq
}

func (h *Home) token(user, dev string) string {
	t := fmt.Sprintf("tok_%s_%d", localpart(user), h.next())
	h.tokens[t] = session{user, dev}
	if a := h.accounts[user]; a != nil && a.devices[dev] == nil {
		a.devices[dev] = &device{once: map[string]json.RawMessage{}, fallback: map[string]json.RawMessage{}}
	}
	return t
}

func (h *Home) set(room, by, kind, key string, content Object) {
	h.put(Event{Type: kind, Room: room, Sender: by, StateKey: &key, Content: encode(content)})
}

func (h *Home) put(e Event) string {
	r := h.rooms[e.Room]
	seq := h.next()
	if e.ID == "" {
		e.ID = "$ev" + strconv.Itoa(seq)
	}
	if e.At == 0 {
		e.At = time.Now().UnixMilli()
	}

	p := placed{seq, e}
	r.events = append(r.events, p)
	if e.StateKey != nil {
		if e.Type == "m.room.member" && membership(e.Content) == "invite" {
			r.invited[*e.StateKey] = seq
		}

		r.state[e.Type+"\x00"+*e.StateKey] = p
		if e.Type == "m.room.member" { // those who share a room learn of each other's devices
			for user := range h.accounts {
				h.accounts[user].lists[*e.StateKey] = seq
			}
		}
	}

	h.wake()
	return e.ID
}

func (h *Home) store(kind string, data []byte) string {
	address := fmt.Sprintf("mxc://%s/m%d", Server, h.next())
	h.media[address] = file{kind, bytes.Clone(data)}
	return address
}

// member is the membership of a person.
func (r *room) member(user string) string {
	return membership(r.state["m.room.member\x00"+user].Content)
}

func membership(content json.RawMessage) string {
	var c struct{ Membership string }
	_ = json.Unmarshal(content, &c)
	return c.Membership
}

func localpart(user string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(user, "@"), ":")
	return name
}

func encode(v any) json.RawMessage {
	if raw, ok := v.(json.RawMessage); ok {
		return raw
	}

	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// refuse answers with an error of the platform.
func refuse(w http.ResponseWriter, status int, code, text string) {
	answer(w, status, Object{"errcode": code, "error": text})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(body))
}

// Content is that of an event.
func (h *Home) Content(id string) json.RawMessage {
	for _, e := range h.Events("", "") {
		if e.ID == id {
			return e.Content
		}
	}
	return nil
}
