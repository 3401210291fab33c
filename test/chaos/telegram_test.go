//go:build unix

package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
)

// platform is Telegram behind a bad network. It knows which answers to the bot
// were lost, because those are the reasons for a message to be sent twice.
type platform struct {
	*telegramtest.Server
	luck *luck
	http *httptest.Server

	mu    sync.Mutex
	gen   int // of the process that connects now
	busy  map[*sending]bool
	sent  []*sending
	lost  int // answers to sendMessage that never arrived, on purpose
	moved time.Time
}

// sending is one call of sendMessage that Telegram has done.
type sending struct {
	gen      int // the process that sent it
	chat, id int64
	start    time.Time // of the call
	made     time.Time // when the chat showed the message
	end      time.Time // of its last change
	lost     bool      // the bot was not told
	cut      time.Time // when its connection was cut next; zero if it was not
}

type genKey struct{}

func newPlatform(l *luck) *platform {
	p := &platform{Server: telegramtest.Offline(), luck: l, busy: map[*sending]bool{}, moved: time.Now()}
	p.http = httptest.NewUnstartedServer(p)
	p.http.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		p.mu.Lock()
		defer p.mu.Unlock()
		return context.WithValue(ctx, genKey{}, p.gen)
	}
	p.http.Start()
	return p
}

func (p *platform) URL() string { return p.http.URL }

// begin says that connections from now on are those of another process.
func (p *platform) begin(gen int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gen = gen
}

// drop cuts all connections, as a failing network does. Answers under way are
// lost, also those of calls that come while it cuts.
func (p *platform) drop() {
	p.cutting()
	p.http.CloseClientConnections()
	p.cutting()
}

// cutting notes that answers which are under way now may be lost.
func (p *platform) cutting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.busy {
		s.lost = true
	}
	for _, s := range p.sent {
		if s.cut.IsZero() {
			s.cut = time.Now()
		}
	}
}

// quietFor is how long the bot has done nothing but wait.
func (p *platform) quietFor() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.moved)
}

// ServeHTTP implements http.Handler.
func (p *platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	what := p.luck.telegram(method)
	if method == "getUpdates" {
		if p.before(w, r, what) {
			p.Server.ServeHTTP(w, r)
		}
		return
	}
	s := &sending{start: time.Now(), lost: what == lost}
	s.gen, _ = r.Context().Value(genKey{}).(int)
	p.mu.Lock()
	p.moved = time.Now()
	p.busy[s] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.busy, s)
	}()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the bot died while it was sending
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !p.before(w, r, what) {
		return
	}
	rec := httptest.NewRecorder()
	p.Server.ServeHTTP(rec, r)
	p.keep(s, method, body, rec)
	if what == lost {
		hold(r.Context(), p.luck.within(time.Second/2))
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

// before spoils a call before it is done; true means that it is to be done.
func (p *platform) before(w http.ResponseWriter, r *http.Request, what fault) bool {
	switch what {
	case busy:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 1","parameters":{"retry_after":1}}`)
	case broken:
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"ok":false,"error_code":500,"description":"Internal Server Error"}`)
	case cut:
		panic(http.ErrAbortHandler)
	case slow:
		hold(r.Context(), p.luck.within(time.Second))
		panic(http.ErrAbortHandler)
	default:
		return true
	}
	return false
}

// keep notes a message that the chat shows now.
func (p *platform) keep(s *sending, method string, body []byte, rec *httptest.ResponseRecorder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved = time.Now()
	var in struct {
		Chat int64 `json:"chat_id"`
		ID   int64 `json:"message_id"`
	}
	var out struct {
		Result struct {
			ID int64 `json:"message_id"`
		} `json:"result"`
	}
	if json.Unmarshal(body, &in) != nil || json.Unmarshal(rec.Body.Bytes(), &out) != nil {
		return
	}
	switch {
	case method == "editMessageText":
		for _, old := range p.sent {
			if old.chat == in.Chat && old.id == in.ID {
				old.end = time.Now()
			}
		}
	case method == "sendMessage" && rec.Code == http.StatusOK:
		s.chat, s.id, s.made, s.end = in.Chat, out.Result.ID, time.Now(), time.Now()
		if s.lost {
			p.lost++
		}
		p.sent = append(p.sent, s)
	}
}

// sendings lists what was sent, in order.
func (p *platform) sendings() (list []sending, lost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sent {
		list = append(list, *s)
	}
	return list, p.lost
}

// hold waits like a server that has too much to do.
func hold(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
