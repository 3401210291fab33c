// Package discordtest is a Discord for tests, on loopback: the gateway, the
// REST API and the place of files. It is strict where Discord is: the token, the
// User-Agent, intents, the shape and the length of a message, buckets and their
// headers, keys that come again, threads that are locked, interactions that are
// answered too late or twice. discord.js and discord.py work with it; see
// test/channels/discord. All methods are safe for concurrent use.
package discordtest

import (
	"cmp"
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

// Token is the only one the server knows.
const Token = "OTk5.fake.token-for-tests" //nolint:gosec // of a server that exists in tests only

// Who and what is there from the beginning: the bot, a server with a text
// channel, a thread in it, and a locked thread.
const (
	BotID    = "999"
	BotName  = "nb_bot"
	BotRole  = "901" // the role that Discord made for the bot
	GuildID  = "500"
	Channel  = "600"
	Thread   = "700"
	Locked   = "701"
	Archived = "702"
)

// epoch is the year in which the numbers of Discord begin, in milliseconds.
const epoch = 1420070400000

// Object is a JSON object.
type Object = map[string]any

// Call is a request of the REST API, as it arrived.
type Call struct {
	Method, Path string // without /api/v10
	Query        string
	Body         Object // the JSON, or the payload_json of a form
	Files        []File
	Status       int
	At           time.Time
}

// File is one that was sent, or is there to be fetched.
type File struct {
	Name string
	Data []byte
}

// Message is one that the bot sent.
type Message struct {
	ID, Channel string
	Body        Object // as it is now
	Files       []File
	Edits       []string // texts as they were edited to
}

// Text is what the message says.
func (m Message) Text() string { s, _ := m.Body["content"].(string); return s }

// Failure makes calls of the REST API fail.
type Failure struct {
	Method, Path string // a prefix of the path; "" is any
	Times        int    // 0 is once
	Status       int    // 0 cuts the connection
	Code         int
	Text         string
	RetryAfter   float64 // seconds, with 429
	Global       bool    // with 429
	After        bool    // only after the call was done: the bot does not learn of it
	Garbage      bool    // answers with HTML, as a proxy would
}

// Server is the fake.
type Server struct {
	line.Line

	http *httptest.Server

	mu           sync.Mutex
	changed      chan struct{} // closed and replaced when there is news
	closed       bool
	intents      int // the bot may have
	beat         time.Duration
	last         int64
	sessions     map[string]*session
	conns        map[*conn]bool
	identifies   int
	channels     map[string]Object
	history      map[string][]Object // by channel, oldest first
	own          []*Message
	files        map[string]File
	nonces       map[string]string // nonce -> message
	calls        []Call
	failures     []*Failure
	buckets      map[string]*bucket
	limits       map[string]limit
	reactions    map[string]bool // channel/message/emoji
	commands     []Object
	locales      map[string]string // of people, if not en-US
	interactions map[string]*pending
	tier         int // of the server's boosts
	botID        string
	slow         map[string]<-chan struct{} // files that wait
}

// pending is an interaction that waits for its answer.
type pending struct {
	id      string
	expires time.Time
	reply   Object
}

type limit struct {
	count int
	per   time.Duration
}

type bucket struct {
	left  int
	reset time.Time
}

// New starts a server. Close ends it.
func New() *Server {
	s := &Server{
		changed: make(chan struct{}), intents: 1 | 512 | 4096 | 32768, beat: 41250 * time.Millisecond, sessions: map[string]*session{}, conns: map[*conn]bool{},
		channels: map[string]Object{}, history: map[string][]Object{}, files: map[string]File{}, nonces: map[string]string{},
		buckets: map[string]*bucket{}, reactions: map[string]bool{}, interactions: map[string]*pending{}, botID: BotID, slow: map[string]<-chan struct{}{},
		limits: map[string]limit{
			"POST messages": {5, 5 * time.Second}, "PATCH messages": {5, 5 * time.Second}, "PUT reactions": {2, 500 * time.Millisecond},
		},
	}

	s.channels[Channel] = textChannel(Channel, "general")
	s.channels[Thread] = thread(Thread, "a topic", false)
	s.channels[Locked] = thread(Locked, "a locked topic", true)
	s.channels[Archived] = thread(Archived, "an old topic", false)
	threadMeta(s.channels[Archived])["archived"] = true
	s.http = httptest.NewServer(s.routes())
	return s
}

func textChannel(id, name string) Object {
	return Object{
		"id": id, "type": 0, "guild_id": GuildID, "name": name, "position": 0, "permission_overwrites": []Object{}, "nsfw": false,
		"topic": nil, "rate_limit_per_user": 0, "last_message_id": nil, "parent_id": nil, "flags": 0,
	}
}

func thread(id, name string, locked bool) Object {
	return Object{
		"id": id, "type": 11, "guild_id": GuildID, "parent_id": Channel, "name": name, "owner_id": "42", "message_count": 1, "member_count": 1,
		"rate_limit_per_user": 0, "last_message_id": nil, "flags": 0, "total_message_sent": 1,
		"thread_metadata": Object{"archived": locked, "locked": locked, "auto_archive_duration": 60, "archive_timestamp": "2026-01-01T00:00:00.000000+00:00"},
	}
}

// threadMeta says what a thread is like; nil: it is none.
func threadMeta(c Object) Object { m, _ := c["thread_metadata"].(Object); return m }

// URL is the apiBase of the server.
func (s *Server) URL() string { return s.http.URL + "/api/v10" }

// Root is the address without the path of the API.
func (s *Server) Root() string { return s.http.URL }

// Close ends all connections and the server.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.news()
	s.mu.Unlock()
	s.Cut()
	s.http.CloseClientConnections()
	s.http.Close()
}

// news wakes all that waits. The lock is held.
func (s *Server) news() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// snowflake is a number for something that happens now. The lock is held.
func (s *Server) snowflake() string {
	s.last = max(s.last+1, (time.Now().UnixMilli()-epoch)<<22)
	return strconv.FormatInt(s.last, 10)
}

// Allow sets the intents that the bot has in the developer portal.
func (s *Server) Allow(intents int) { s.locked(func() { s.intents = intents }) }

// Limit sets a bucket, such as "POST messages", per channel.
func (s *Server) Limit(route string, count int, per time.Duration) {
	s.locked(func() { s.limits[route] = limit{count, per} })
}

// SetBot makes the bot another one, for two accounts in one test.
func (s *Server) SetBot(id string) { s.locked(func() { s.botID = id }) }

// Slow lets a stored file wait for a channel to be closed.
func (s *Server) Slow(file Object, until <-chan struct{}) {
	s.locked(func() { s.slow[fmt.Sprint(file["id"])] = until })
}

// Boost sets the level of the server, which raises the size of files.
func (s *Server) Boost(tier int) { s.locked(func() { s.tier = tier }) }

func (s *Server) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// Fail scripts failures; they are used up in the order they came.
func (s *Server) Fail(list ...Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range list {
		f.Times = max(f.Times, 1)
		s.failures = append(s.failures, &f)
	}
}

// DM is the direct chat with a person.
func (s *Server) DM(user string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dm(user)
}

func (s *Server) dm(user string) string {
	id := "8" + user
	if s.channels[id] == nil {
		s.channels[id] = Object{"id": id, "type": 1, "last_message_id": nil, "flags": 0, "recipients": []Object{person(user)}}
	}
	return id
}

// person is a user without a bot's mark.
func person(id string) Object {
	return Object{"id": id, "username": "user" + id, "discriminator": "0", "global_name": "User " + id, "avatar": nil, "bot": false, "public_flags": 0}
}

func (s *Server) bot() Object {
	return Object{"id": s.botID, "username": BotName, "discriminator": "0", "global_name": nil, "avatar": nil, "bot": true, "public_flags": 0, "flags": 0, "verified": true, "mfa_enabled": false, "email": nil}
}

// Write lets a person write to a channel. The changes are laid over the message.
func (s *Server) Write(user, channel, text string, changes Object) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.message(person(user), channel, text)
	maps.Copy(m, changes)
	id, _ = m["id"].(string)
	s.keep(m)
	s.dispatch("MESSAGE_CREATE", m)
	return id
}

// message makes one. The lock is held.
func (s *Server) message(author Object, channel, text string) Object {
	m := Object{
		"id": s.snowflake(), "channel_id": channel, "author": author, "content": text, "timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000000-07:00"),
		"edited_timestamp": nil, "tts": false, "mention_everyone": false, "mentions": []Object{}, "mention_roles": []string{}, "attachments": []Object{},
		"embeds": []Object{}, "pinned": false, "type": 0, "flags": 0, "components": []Object{},
	}
	if c := s.channels[channel]; c != nil && c["guild_id"] != nil {
		m["guild_id"] = GuildID
		m["member"] = Object{"roles": []string{}, "joined_at": "2026-01-01T00:00:00.000000+00:00", "deaf": false, "mute": false, "flags": 0, "nick": nil}
	}
	return m
}

// keep puts a message into the history. The lock is held.
func (s *Server) keep(m Object) {
	c, _ := m["channel_id"].(string)
	s.history[c] = slices.DeleteFunc(s.history[c], func(o Object) bool { return o["id"] == m["id"] })
	s.history[c] = append(s.history[c], m)
	if ch := s.channels[c]; ch != nil {
		ch["last_message_id"] = m["id"]
	}
}

// Edit lets a person change what they wrote.
func (s *Server) Edit(channel, id, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.history[channel] {
		if m["id"] == id {
			m["content"], m["edited_timestamp"] = text, time.Now().UTC().Format("2006-01-02T15:04:05.000000-07:00")
			s.dispatch("MESSAGE_UPDATE", m)
		}
	}
}

// Event sends the bot something else.
func (s *Server) Event(kind string, d any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatch(kind, d)
}

// Store makes a file that can be fetched, and returns the attachment.
func (s *Server) Store(name string, data []byte) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store(name, data)
}

func (s *Server) store(name string, data []byte) Object {
	id := s.snowflake()
	s.files[id] = File{name, data}
	return Object{"id": id, "filename": name, "size": len(data), "url": s.http.URL + "/attachments/" + id, "proxy_url": s.http.URL + "/attachments/" + id, "content_type": http.DetectContentType(data)}
}

// Slash lets a person use a command, and returns the interaction.
func (s *Server) Slash(user, channel, name string, options ...Object) (id string) {
	if options == nil {
		options = []Object{}
	}
	return s.interact(user, channel, 2, Object{"id": "1", "name": name, "type": 1, "options": options}, nil)
}

// Press lets a person press a button of a message, and returns the interaction.
func (s *Server) Press(user, channel, message, button string) (id string) {
	s.mu.Lock()
	var on Object
	for _, m := range s.history[channel] {
		if m["id"] == message {
			on = maps.Clone(m)
		}
	}
	s.mu.Unlock()
	return s.interact(user, channel, 3, Object{"custom_id": button, "component_type": 2}, on)
}

func (s *Server) interact(user, channel string, kind int, data, message Object) string {
	s.mu.Lock()
	defer s.mu.Unlock()

	id := s.snowflake()
	token := "interaction-" + id
	i := Object{
		"id": id, "application_id": s.botID, "type": kind, "token": token, "version": 1, "channel_id": channel, "data": data, "locale": cmp.Or(s.locales[user], "en-US"),
		"app_permissions": "0", "entitlements": []Object{}, "authorizing_integration_owners": Object{"0": GuildID}, "attachment_size_limit": 10 << 20,
		"channel": s.channels[channel], "context": 1,
	}
	if message != nil {
		i["message"] = message
	}

	if s.channels[channel]["guild_id"] != nil {
		i["guild_id"], i["context"], i["guild_locale"] = GuildID, 0, "en-US"
		i["guild"] = Object{"id": GuildID, "locale": "en-US", "features": []string{}}
		i["member"] = Object{"user": person(user), "roles": []string{}, "joined_at": "2026-01-01T00:00:00.000000+00:00", "deaf": false, "mute": false, "flags": 0, "permissions": "0", "pending": false, "nick": nil}
	} else {
		i["user"] = person(user)
	}

	s.interactions[token] = &pending{id: id, expires: time.Now().Add(3 * time.Second)}
	s.dispatch("INTERACTION_CREATE", i)
	return id
}

// Speaks sets the language in a person's profile.
func (s *Server) Speaks(user, locale string) {
	s.locked(func() {
		if s.locales == nil {
			s.locales = map[string]string{}
		}
		s.locales[user] = locale
	})
}

// Expire makes an interaction too old to be answered.
func (s *Server) Expire(id string) {
	s.locked(func() {
		if p := s.interactions["interaction-"+id]; p != nil {
			p.expires = time.Time{}
		}
	})
}

// Reply is how the bot answered an interaction, nil if it did not.
func (s *Server) Reply(id string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.interactions["interaction-"+id]; p != nil {
		return maps.Clone(p.reply)
	}
	return nil
}

// Messages are those the bot sent to a channel, "" for all.
func (s *Server) Messages(channel string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()

	var out []Message
	for _, m := range s.own {
		if channel == "" || m.Channel == channel {
			c := *m
			c.Body, c.Edits = maps.Clone(m.Body), slices.Clone(m.Edits)
			out = append(out, c)
		}
	}

	return out
}

// Calls are the requests of a method whose path holds a word.
func (s *Server) Calls(method, word string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if (method == "" || c.Method == method) && strings.Contains(c.Path, word) {
			out = append(out, c)
		}
	}
	return out
}

// Reactions are the emojis of the bot at a message.
func (s *Server) Reactions(channel, message string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	out := []string{}
	for k := range s.reactions {
		if e, ok := strings.CutPrefix(k, channel+"/"+message+"/"); ok {
			out = append(out, e)
		}
	}

	slices.Sort(out)
	return out
}

// Commands are the slash commands that the bot registered.
func (s *Server) Commands() []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands)
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("discordtest: %v", err))
	}
	return data
}
