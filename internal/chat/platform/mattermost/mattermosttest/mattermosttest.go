// Package mattermosttest is a Mattermost server for tests, on loopback: the part
// of API v4 and of the WebSocket that bots and people need. It is strict where
// Mattermost is: who calls (token), who is in a channel, how long a text is, what
// a thread begins with, who may change a post, which events a connection has
// missed. Failures are scripted with Fail; all calls are kept. All methods are
// safe for concurrent use.
package mattermosttest

import (
	"encoding/json"
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

// The bot and a person have tokens; both are members of the team.
const (
	Token    = "fakebottoken00000000000000"
	AnnToken = "fakeanntoken00000000000000"
	BotName  = "nb_bot"
	TeamName = "main"
)

// ID makes an id as Mattermost has them, 26 letters and digits, of a short name.
// The same name has the same id.
func ID(name string) string {
	if len(name) >= 26 {
		return name[:26]
	}
	return name + strings.Repeat("x", 26-len(name))
}

// BotID is the bot.
func BotID() string { return ID("bot") }

// AnnID is a person with a token.
func AnnID() string { return ID("ann") }

// TeamID is the team.
func TeamID() string { return ID("team") }

// TownID is the public channel town-square.
func TownID() string { return ID("town0") }

func validID(s string) bool { return len(s) == 26 && strings.IndexFunc(s, oddLetter) < 0 }

func oddLetter(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }

// User is a person or a bot.
type User struct {
	ID        string `json:"id"`
	Username  string `json:"username"`
	Email     string `json:"email"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	Nickname  string `json:"nickname"`
	IsBot     bool   `json:"is_bot,omitempty"`
	DeleteAt  int64  `json:"delete_at"`
}

// Channel is a place where people write. Type is O, P, D or G.
type Channel struct {
	ID          string `json:"id"`
	TeamID      string `json:"team_id"`
	Type        string `json:"type"`
	Name        string `json:"name"`
	DisplayName string `json:"display_name"`
	LastPostAt  int64  `json:"last_post_at"`
	DeleteAt    int64  `json:"delete_at"`
	members     []string
}

// Post is one message.
type Post struct {
	ID            string         `json:"id"`
	CreateAt      int64          `json:"create_at"`
	UpdateAt      int64          `json:"update_at"`
	EditAt        int64          `json:"edit_at"`
	DeleteAt      int64          `json:"delete_at"`
	UserID        string         `json:"user_id"`
	ChannelID     string         `json:"channel_id"`
	RootID        string         `json:"root_id"`
	OriginalID    string         `json:"original_id"`
	Message       string         `json:"message"`
	Type          string         `json:"type"`
	Props         map[string]any `json:"props"`
	FileIDs       []string       `json:"file_ids"`
	PendingPostID string         `json:"pending_post_id"`
	ReplyCount    int            `json:"reply_count"`
	Metadata      map[string]any `json:"metadata,omitempty"`
}

// File is one that was uploaded.
type File struct {
	ID        string `json:"id"`
	UserID    string `json:"user_id"`
	ChannelID string `json:"channel_id"`
	PostID    string `json:"post_id,omitempty"`
	Name      string `json:"name"`
	Extension string `json:"extension"`
	Size      int64  `json:"size"`
	MIME      string `json:"mime_type"`
	Data      []byte `json:"-"`
}

// Call is one request, as it arrived.
type Call struct {
	Name string // method and pattern, such as "POST /posts"
	Path string // below /api/v4, with the query
	Body []byte // of JSON requests
	Code int    // of the answer
}

// Failure makes requests fail.
type Failure struct {
	Name string // as in Call; "" is each one but GET /users/me
	// Times is how often; 0 is once, negative for ever.
	Times int
	// Code, ID and Text are the refusal. A Code of 0 cuts the connection.
	Code       int
	ID, Text   string
	RetryAfter int // seconds, in the header
	// After fails only after the request was done: the caller does not learn of it.
	After bool
	// Garbage answers with HTML, as a proxy would.
	Garbage bool
}

// Server is the fake.
type Server struct {
	line.Line

	http *httptest.Server
	mux  *http.ServeMux

	mu        sync.Mutex
	clock     int64             // milliseconds of the last post
	skew      time.Duration     // of the server's clock
	made      int               // ids
	tokens    map[string]string // token -> user
	users     map[string]*User
	channels  map[string]*Channel
	posts     []*Post
	pending   map[string]string // pending_post_id -> post
	files     map[string]*File
	reactions map[string][]string // post -> "user emoji"
	maxPost   int
	maxFile   int64
	conns     map[string]*conn // by connection id, also those that are lost
	live      map[*link]bool
	dials     []string // queries of the connections
	typing    []string // "channel parent"
	calls     []Call
	failures  []*Failure
	changed   chan struct{}
}

// New starts a server with a team, a bot, Ann and the channel town-square, in
// which both are. Close ends it.
func New() *Server {
	s := &Server{
		tokens:    map[string]string{Token: BotID(), AnnToken: AnnID()},
		users:     map[string]*User{},
		channels:  map[string]*Channel{},
		pending:   map[string]string{},
		files:     map[string]*File{},
		reactions: map[string][]string{},
		maxPost:   16383,
		maxFile:   100 << 20,
		conns:     map[string]*conn{},
		live:      map[*link]bool{},
		changed:   make(chan struct{}),
	}

	s.users[BotID()] = &User{ID: BotID(), Username: BotName, IsBot: true}
	s.users[AnnID()] = &User{ID: AnnID(), Username: "ann", Email: "ann@example.com", FirstName: "Ann"}
	s.channels[TownID()] = &Channel{
		ID: TownID(), TeamID: TeamID(), Type: "O", Name: "town-square", DisplayName: "Town Square",
		members: []string{BotID(), AnnID()},
	}
	s.routes()
	s.http = httptest.NewServer(s.mux)
	return s
}

// URL is the serverUrl.
func (s *Server) URL() string { return s.http.URL }

// Close ends all connections and the server.
func (s *Server) Close() {
	s.Cut()
	s.http.CloseClientConnections()
	s.http.Close()
}

// news wakes all who wait. The lock is held.
func (s *Server) news() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Changed is closed with the next thing that happens. Ask for it before looking
// at the state, to miss nothing.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// now is a time that never repeats. The lock is held.
func (s *Server) now() int64 {
	s.clock = max(s.clock+1, time.Now().Add(s.skew).UnixMilli())
	return s.clock
}

func (s *Server) newID(kind string) string {
	s.made++
	return ID(kind + strconv.Itoa(s.made) + "z")
}

// AddUser adds a person, or changes one.
func (s *Server) AddUser(u User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[u.ID] = &u
}

// AddChannel adds a channel with these members beside the bot.
func (s *Server) AddChannel(c Channel, members ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.members = append([]string{BotID()}, members...)
	s.channels[c.ID] = &c
}

// Leave takes the bot out of a channel.
func (s *Server) Leave(channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[channel]
	c.members = slices.DeleteFunc(c.members, func(id string) bool { return id == BotID() })
}

// Direct is the channel in which a person and the bot are alone. A person who
// does not exist is added.
func (s *Server) Direct(user string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[user] == nil {
		s.users[user] = &User{ID: user, Username: strings.TrimRight(user, "x"), Email: strings.TrimRight(user, "x") + "@example.com"}
	}
	return s.direct(BotID(), user).ID
}

// direct is a direct channel. The lock is held.
func (s *Server) direct(a, b string) *Channel {
	name := min(a, b) + "__" + max(a, b)
	for _, c := range s.channels {
		if c.Name == name {
			return c
		}
	}
	c := &Channel{ID: ID("dm" + strings.TrimRight(a, "x") + strings.TrimRight(b, "x")), Type: "D", Name: name, members: []string{a, b}}
	s.channels[c.ID] = c
	return c
}

// Revoke makes a token invalid and ends what was opened with it.
func (s *Server) Revoke(token string) {
	s.mu.Lock()
	delete(s.tokens, token)
	s.mu.Unlock()
	s.Cut()
}

// Limits sets how long a post and how large a file may be.
func (s *Server) Limits(post int, file int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxPost, s.maxFile = post, file
}

// Skew sets how wrong the server's clock is.
func (s *Server) Skew(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew = d
}

// Store keeps a file that a person uploaded to a channel, and returns its id.
func (s *Server) Store(user, channel, name string, data []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep(user, channel, name, data).ID
}

func (s *Server) keep(user, channel, name string, data []byte) *File {
	ext := name[strings.LastIndexByte(name, '.')+1:]
	f := &File{
		ID: s.newID("file"), UserID: user, ChannelID: channel, Name: name, Extension: ext,
		Size: int64(len(data)), MIME: http.DetectContentType(data), Data: data,
	}
	s.files[f.ID] = f
	return f
}

// Say lets a person write. What is missing is filled in: the id and the time. A
// post whose id exists is told of again, as after a lost connection.
func (s *Server) Say(p Post) Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.post(p.ID); old != nil {
		s.publish("posted", *old)
		return *old
	}
	return *s.save(p)
}

// SayUnseen lets a person write while the bot is away: no event of it is sent.
// The post is in its channel.
func (s *Server) SayUnseen(p Post) Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.add(p)
}

// save adds a post and tells of it. The lock is held.
func (s *Server) save(p Post) *Post {
	saved := s.add(p)
	s.publish("posted", *saved)
	saved.PendingPostID = ""
	return saved
}

// add adds a post. The lock is held.
func (s *Server) add(p Post) *Post {
	if p.ID == "" {
		p.ID = s.newID("post")
	}
	if p.CreateAt == 0 {
		p.CreateAt = s.now()
	}

	p.UpdateAt = p.CreateAt
	if p.Props == nil {
		p.Props = map[string]any{}
	}
	if p.FileIDs == nil {
		p.FileIDs = []string{}
	}

	var infos []*File
	p.FileIDs = slices.DeleteFunc(slices.Clone(p.FileIDs), func(id string) bool {
		f := s.files[id]
		if f == nil || f.PostID != "" || f.UserID != p.UserID { // dropped without a word, as the real server does
			return true
		}
		f.PostID = p.ID
		infos = append(infos, f)
		return false
	})
	if p.Metadata == nil {
		p.Metadata = map[string]any{}
	}
	if len(infos) > 0 {
		p.Metadata["files"] = infos
	}
	if u := s.users[p.UserID]; u != nil && u.IsBot {
		p.Props["from_bot"] = "true"
	}
	if c := s.channels[p.ChannelID]; c != nil {
		c.LastPostAt = max(c.LastPostAt, p.CreateAt)
	}
	if root := s.post(p.RootID); root != nil {
		root.ReplyCount++
		root.UpdateAt = p.CreateAt
	}

	s.posts = append(s.posts, &p)
	return &p
}

// Edit changes what a person wrote and tells of it.
func (s *Server) Edit(id, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edit(s.post(id), text)
}

// edit changes a post. The old version stays as a deleted post of another id,
// as on the real server. The lock is held.
func (s *Server) edit(p *Post, text string) {
	old := *p
	old.ID, old.OriginalID, old.DeleteAt = s.newID("old"), p.ID, s.now()
	s.posts = append(s.posts, &old)
	p.Message = text
	p.EditAt = s.now()
	p.UpdateAt = p.EditAt
	s.publish("post_edited", *p)
}

// Delete removes a post with its thread and tells of it.
func (s *Server) Delete(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(s.post(id))
}

func (s *Server) remove(p *Post) {
	s.publish("post_deleted", *p) // as it was before
	for _, other := range s.posts {
		if other == p || other.RootID == p.ID {
			other.DeleteAt = s.now()
			other.UpdateAt = other.DeleteAt
		}
	}
}

// post finds one that is not deleted. The lock is held.
func (s *Server) post(id string) *Post {
	for _, p := range s.posts {
		if p.ID == id && id != "" && p.DeleteAt == 0 {
			return p
		}
	}
	return nil
}

// Posts lists what the bot wrote into a channel and did not delete, "" for all.
func (s *Server) Posts(channel string) []Post {
	s.mu.Lock()
	defer s.mu.Unlock()

	var out []Post
	for _, p := range s.posts {
		if p.UserID == BotID() && p.DeleteAt == 0 && (channel == "" || p.ChannelID == channel) {
			c := *p
			c.Props = maps.Clone(p.Props)
			out = append(out, c)
		}
	}

	return out
}

// Files are the names of the files of a post.
func (s *Server) Files(p Post) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, id := range p.FileIDs {
		out = append(out, s.files[id].Name)
	}
	return out
}

// Reactions are the names of the emojis that the bot has put on a post.
func (s *Server) Reactions(post string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.reactions[post] {
		if name, ok := strings.CutPrefix(r, BotID()+" "); ok {
			out = append(out, name)
		}
	}
	return out
}

// Typing lists where the bot was seen typing: the channel, and the root of the
// thread after a blank.
func (s *Server) Typing() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.typing)
}

// Calls lists the requests of a name, of all with "".
func (s *Server) Calls(name string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if name == "" || c.Name == name {
			out = append(out, c)
		}
	}
	return out
}

// Fail scripts failures; they are used up in the order they came.
func (s *Server) Fail(list ...Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range list {
		if f.Times == 0 {
			f.Times = 1
		}
		s.failures = append(s.failures, &f)
	}
}

// Mend forgets all scripted failures.
func (s *Server) Mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = nil
}

// failure is what shall happen to a request. The lock is held.
func (s *Server) failure(name string) *Failure {
	for i, f := range s.failures {
		if f.Name != name && (f.Name != "" || name == "GET /users/me") {
			continue
		}
		out := *f
		if f.Times--; f.Times == 0 {
			s.failures = slices.Delete(s.failures, i, i+1)
		}
		return &out
	}
	return nil
}

// ForgetPending does what half a minute does on the real server: it forgets
// which pending_post_ids it has seen.
func (s *Server) ForgetPending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.pending)
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}
