// Package teamstest is Microsoft Teams for tests, on loopback: the part of
// Entra that issues tokens, the keys that Teams signs its calls with, the
// connector that bots send to, and the person who accepts files. It is strict
// where Teams is: who calls, which conversation, thread and message, how large
// a text is, which attachments go where, the order of a stream. Failures are
// scripted with Fail. All methods are safe for concurrent use.
package teamstest

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The bot that the server knows.
const (
	AppID    = "11111111-2222-4333-8444-555555555555"
	Password = "fake~password_for-tests"
	Tenant   = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
	BotID    = "28:" + AppID
	BotName  = "Nano"
	KeyID    = "k1" // Teams signs with it
	OtherKey = "k2" // endorsed for another service
	EntraKey = "entra1"
)

// Object is JSON as it travels.
type Object = map[string]any

// Call is one request, as it arrived.
type Call struct {
	Method, Path string
	Body         Object
	Status       int
	Header       http.Header
}

// File is what a person has in the end.
type File struct {
	Name string
	Data []byte
}

// Message is one that the bot sent, as people see it now.
type Message struct {
	ID, Chat, Thread string
	Text             string
	Format           string
	Activity         Object // the last one
	Files            []File
	Edits            []string // texts that it was changed to
	Stream           bool     // it grows: its end has not come
	Streamed         int      // pieces of it that came as a stream
}

// Failure makes calls fail.
type Failure struct {
	Method string // "" is all
	Part   string // of the path; "" is all
	Type   string // of the activity; "" is all
	Times  int    // how often; 0 is once
	// Status, Code and Text are the refusal. A Status of 0 cuts the connection.
	Status     int
	Code, Text string
	RetryAfter int
	// After fails only after the call was done: the bot does not learn of it.
	After bool
	// Garbage answers with HTML, as a proxy would.
	Garbage bool
}

// Server is the fake.
type Server struct {
	App string // the bot's appId, for a second bot; set before the server is used

	http *httptest.Server
	bot  *httptest.Server // where Attach puts the bot
	key  map[string]*rsa.PrivateKey

	work sync.WaitGroup // people who accept files

	mu       sync.Mutex
	endpoint string       // of the bot
	handler  http.Handler // of the bot
	password string
	lifetime int // seconds of a token
	tokens   map[string]bool
	issued   int
	fetches  int               // of keys
	chats    map[string]string // conversationType by id
	threads  map[string]bool
	people   map[string]any // who wrote last, by chat
	accepted map[string]bool
	messages []*Message
	last     int64
	calls    []Call
	failures []*Failure
	files    map[string]File // that can be fetched
	uploads  map[string]*File
	refusing bool // people decline files
	leaks    int  // tokens sent to where they do not belong
	closed   chan struct{}

	idle int // edits that changed nothing
}

// Idle counts the edits that left a text as it was and did not end it.
func (s *Server) Idle() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle
}

// New starts a server. Close ends it.
func New() *Server { return start(httptest.NewServer) }

// NewTLS starts a server with a certificate of its own, which clients need
// that refuse anything else.
func NewTLS() *Server { return start(httptest.NewTLSServer) }

func start(serve func(http.Handler) *httptest.Server) *Server {
	s := &Server{
		App: AppID,
		key: map[string]*rsa.PrivateKey{}, password: Password, lifetime: 3599, tokens: map[string]bool{}, chats: map[string]string{},
		threads: map[string]bool{}, people: map[string]any{}, accepted: map[string]bool{}, files: map[string]File{}, uploads: map[string]*File{}, closed: make(chan struct{}), last: 1700000000000,
	}

	maps.Copy(s.key, sharedKeys())
	s.http = serve(s.routes())
	s.bot = httptest.NewServer(http.HandlerFunc(s.front))
	s.endpoint = s.bot.URL + "/api/messages"
	return s
}

// sharedKeys are made once, since that takes long.
var sharedKeys = sync.OnceValue(func() map[string]*rsa.PrivateKey {
	return map[string]*rsa.PrivateKey{KeyID: newKey(), OtherKey: newKey(), EntraKey: newKey()}
})

func newKey() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
}

// Close ends all connections and the server.
func (s *Server) Close() {
	close(s.closed)
	s.work.Wait()
	for _, h := range []*httptest.Server{s.bot, s.http} {
		h.CloseClientConnections()
		h.Close()
	}
}

// URL is where the server is: the loginBase of the configuration.
func (s *Server) URL() string { return s.http.URL }

// OpenIDURL is the openIdUrl of the configuration.
func (s *Server) OpenIDURL() string { return s.http.URL + "/openid" }

// ServiceURL is where the bot sends to.
func (s *Server) ServiceURL() string { return s.http.URL + "/emea/" }

// Certificate is that of NewTLS, in PEM.
func (s *Server) Certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

// Client trusts the certificate of NewTLS.
func (s *Server) Client() *http.Client { return s.http.Client() }

// CutAll cuts every connection that is open now.
func (s *Server) CutAll() {
	s.http.CloseClientConnections()
	s.bot.CloseClientConnections()
}

// Attach puts a bot behind the address that activities are sent to.
func (s *Server) Attach(h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = h
}

// Endpoint sets where activities are sent to instead.
func (s *Server) Endpoint(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint = url
}

// Front is the address where Attach puts the bot, as host and port.
func (s *Server) Front() string { return s.bot.Listener.Addr().String() }

func (s *Server) front(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	h := s.handler
	s.mu.Unlock()
	if h == nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	h.ServeHTTP(w, r)
}

// Change sets another password: tokens that were issued are void.
func (s *Server) Change(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.password, s.tokens = password, map[string]bool{}
}

// Expire makes all tokens void that were issued.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = map[string]bool{}
}

// Roll replaces the key that Teams signs with, as it does every few months.
func (s *Server) Roll() {
	key := newKey()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key[KeyID+"-next"] = key
}

// Decline lets people refuse the files that are offered.
func (s *Server) Decline() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing = true
}

// Store keeps a file that can be fetched without a token by its secret address.
func (s *Server) Store(name string, data []byte) (url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := strconv.Itoa(len(s.files))
	s.files[id] = File{name, data}
	return s.http.URL + "/files/" + id
}

// Picture keeps a file that the connector gives out to the bot only.
func (s *Server) Picture(name string, data []byte) (url string) {
	id := s.Store(name, data)
	return s.ServiceURL() + "v3/attachments/" + id[strings.LastIndexByte(id, '/')+1:] + "/views/original"
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

// Calls are the requests whose path holds a part, with the method, "" for any.
func (s *Server) Calls(method, part string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if (method == "" || c.Method == method) && strings.Contains(c.Path, part) {
			out = append(out, c)
		}
	}
	return out
}

// Messages are what people see in a chat, "" for all.
func (s *Server) Messages(chat string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()

	var out []Message
	for _, m := range s.messages {
		if chat == "" || m.Chat == chat {
			c := *m
			c.Edits, c.Files = slices.Clone(m.Edits), slices.Clone(m.Files)
			out = append(out, c)
		}
	}

	return out
}

// Leaks counts tokens that were sent to where they do not belong.
func (s *Server) Leaks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaks
}

// Issued counts the tokens that the bot fetched, Fetches how often it read keys.
func (s *Server) Issued() (tokens, fetches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issued, s.fetches
}

// EndStreams lets the time of all streams run out.
func (s *Server) EndStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		m.Stream = false
	}
}

// PrivateKey is a key that Teams signs with, in PEM.
func (s *Server) PrivateKey(id string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: pkcs1(s.key[id])})
}

// openID describes an issuer.
func (s *Server) openID(issuer, keys string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, Object{
			"issuer": issuer, "jwks_uri": s.http.URL + keys, "id_token_signing_alg_values_supported": []string{"RS256"},
			"authorization_endpoint": s.http.URL + "/" + Tenant + "/oauth2/v2.0/authorize", "token_endpoint": s.http.URL + "/" + Tenant + "/oauth2/v2.0/token",
		})
	}
}

// keys lists the keys of Teams or those of Entra.
func (s *Server) keys(entra bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		s.fetches++
		list := []Object{{"kty": "EC", "kid": "curve", "crv": "P-256"}}
		for id, key := range s.key {
			if entra != (id == EntraKey) {
				continue
			}

			k := Object{
				"kty": "RSA", "use": "sig", "kid": id, "x5t": id, "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
			}
			switch {
			case id == OtherKey:
				k["endorsements"] = []string{"webchat"}
			case !entra:
				k["endorsements"] = []string{"msteams", "skype"}
			}

			list = append(list, k)
		}

		s.mu.Unlock()
		reply(w, http.StatusOK, Object{"keys": list})
	}
}

// token issues one for the credentials of the bot.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		entraError(w, http.StatusBadRequest, "invalid_request", "AADSTS900144: the body is not a form")
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	tenant := r.PathValue("tenant")
	f := r.PostForm
	switch {
	case tenant != Tenant && tenant != "botframework.com":
		entraError(w, http.StatusBadRequest, "invalid_request", "AADSTS90002: Tenant '"+tenant+"' not found.")
	case f.Get("grant_type") != "client_credentials" || f.Get("scope") != "https://api.botframework.com/.default" && !strings.HasPrefix(f.Get("scope"), "https://api.botframework.com/.default "):
		entraError(w, http.StatusBadRequest, "invalid_scope", "AADSTS1002012: the scope is not valid")
	case f.Get("client_id") != s.App:
		entraError(w, http.StatusBadRequest, "unauthorized_client", "AADSTS700016: Application with identifier '"+f.Get("client_id")+"' was not found in the directory.")
	case f.Get("client_secret") != s.password:
		entraError(w, http.StatusUnauthorized, "invalid_client", "AADSTS7000215: Invalid client secret provided.")
	default:
		s.issued++
		t := fmt.Sprintf("access-%d", s.issued)
		s.tokens[t] = true
		reply(w, http.StatusOK, Object{"token_type": "Bearer", "expires_in": s.lifetime, "ext_expires_in": s.lifetime, "access_token": t})
	}
}

func entraError(w http.ResponseWriter, status int, code, text string) {
	reply(w, status, Object{"error": code, "error_description": text, "error_codes": []int{7000215}, "correlation_id": "c0ffee"})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// now is the next id of an activity, which grows like a time in milliseconds.
// The lock is held.
func (s *Server) now() string {
	s.last += 7
	return strconv.FormatInt(s.last, 10)
}

// Lifetime sets how long tokens are good for.
func (s *Server) Lifetime(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lifetime = int(d.Seconds())
}
