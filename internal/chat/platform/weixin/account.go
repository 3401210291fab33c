package weixin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	peopleMost    = 1000 // whose context tokens are kept
	strangersMost = 200
	saveAfter     = 500 * time.Millisecond
)

// errReplaced says that another login has written account.json meanwhile.
var errReplaced = errors.New("the account was replaced by another login")

// record is account.json. The first part of it is Python nanobot's, which reads
// our file as we read its.
type record struct {
	Token    string             `json:"token"`
	Cursor   string             `json:"get_updates_buf"`
	Contexts map[string]string  `json:"context_tokens"`
	Tickets  map[string]*ticket `json:"typing_tickets"`
	BaseURL  string             `json:"base_url"`
	Replaced string             `json:"replaced_config_token_sha256,omitempty"` // of the section's token, if a login came after it

	BotID  string             `json:"ilink_bot_id,omitempty"`
	UserID string             `json:"ilink_user_id,omitempty"` // who scanned the code
	Spent  map[string]*budget `json:"context_spent,omitempty"` // of Contexts
}

// ticket is the permission to show a person that we type.
type ticket struct {
	Ticket string  `json:"ticket"`
	Ever   bool    `json:"ever_succeeded"`
	Next   float64 `json:"next_fetch_at"` // Unix time
	Delay  float64 `json:"retry_delay_s"`
}

// budget is what was sent with a context token.
type budget struct {
	Sent      int   `json:"sent"`
	Announced bool  `json:"told,omitempty"` // that the rest waits
	At        int64 `json:"at"`             // when the message was written that brought the token, in ms
	saved     int   // what the disk says of Sent
}

// readRecord reads account.json as far as it can be read: Python nanobot does
// not mind a part that is not as expected, either.
func readRecord(path string) (r record, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}

	var parts map[string]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return r, err
	}

	for name, into := range map[string]any{
		"token": &r.Token, "get_updates_buf": &r.Cursor, "context_tokens": &r.Contexts, "typing_tickets": &r.Tickets, "base_url": &r.BaseURL,
		"replaced_config_token_sha256": &r.Replaced, "ilink_bot_id": &r.BotID, "ilink_user_id": &r.UserID, "context_spent": &r.Spent,
	} {
		if part, ok := parts[name]; ok {
			_ = json.Unmarshal(part, into)
		}
	}

	r.Token = strings.TrimSpace(r.Token)
	return r, nil
}

func writeRecord(path string, r *record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := diskio.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("keep the account: %w", err)
	}
	return nil
}

func fingerprint(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// accountPath returns where account.json is.
func accountPath(d chat.Deps, o *options) (string, error) {
	dir := o.StateDir
	if rest, ok := strings.CutPrefix(dir, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, rest)
	}

	if dir != "" {
		return filepath.Join(dir, "account.json"), diskio.MkdirAll(dir, 0o700)
	}

	dir, err := d.Dir()
	return filepath.Join(dir, "account.json"), err
}

// effective returns what holds of account.json: a token of the section wins, unless
// a login came after it.
func effective(r record, o *options) record {
	own := strings.TrimSpace(o.Token.Reveal())
	if own != "" && r.Replaced != fingerprint(own) && r.Token != own {
		r = record{Token: own}
	}
	if !o.trusts(r.BaseURL) {
		r.BaseURL = o.BaseURL
	}
	return r
}

// ledger is the account of a channel, in memory and on the disk.
type ledger struct {
	o    *options
	path string
	log  *slog.Logger
	now  func() time.Time

	mu        sync.Mutex
	record    record
	dead      bool                           // nothing is sent: there is no login, or it has expired
	strangers *recent.Map[string, *stranger] // who wrote last and was not let in: enough for a pairing code
	dirty     chan struct{}                  // capacity 1
}

type stranger struct {
	token string
	spent budget
}

func newLedger(d chat.Deps, o *options) *ledger {
	return &ledger{
		o:         o,
		log:       d.Log,
		now:       d.Now,
		strangers: recent.New[string, *stranger](strangersMost),
		dirty:     make(chan struct{}, 1),
	}
}

// load reads the account. False means that there is none.
func (l *ledger) load(path string) (bool, error) {
	r, err := readRecord(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("read %s: %w; if it is damaged, log in again", path, err)
	}

	r = effective(r, l.o)
	if r.Contexts == nil {
		r.Contexts = map[string]string{}
	}
	if r.Tickets == nil {
		r.Tickets = map[string]*ticket{}
	}
	if r.Spent == nil {
		r.Spent = map[string]*budget{}
	}

	for _, b := range r.Spent {
		if b != nil {
			b.saved = b.Sent
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	l.path = path
	l.record = r
	l.dead = false
	l.strangers = recent.New[string, *stranger](strangersMost)
	return r.Token != "", nil
}

// forget makes nothing be sent with an account that is of no use. It stays on the
// disk.
func (l *ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}

// session returns what requests are made with.
func (l *ledger) session() (session, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return session{l.record.BaseURL, httpsafe.NewSecret(l.record.Token)}, l.record.Token != "" && !l.dead
}

// name returns the account for people, and for telling accounts apart.
func (l *ledger) name() (shown, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id = "token " + fingerprint(l.record.Token)[:8]
	if l.record.BotID != "" {
		return l.record.BotID, id
	}
	return id, id
}

// save writes the account, unless another login has written one.
func (l *ledger) save() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write()
}

// write is save. The caller holds the lock.
func (l *ledger) write() error {
	if l.record.Token == "" {
		return nil
	}

	disk, err := readRecord(l.path)
	if err == nil && disk.Token != "" && disk.Token != l.record.Token && effective(disk, l.o).Token != l.record.Token {
		return errReplaced
	}
	if err := writeRecord(l.path, &l.record); err != nil {
		return err
	}

	for _, b := range l.record.Spent {
		if b != nil {
			b.saved = b.Sent
		}
	}
	return nil
}

// touch lets keep write what changed. The caller holds the lock.
func (l *ledger) touch() {
	select {
	case l.dirty <- struct{}{}:
	default:
	}
}

// saveChanges writes changes soon after they happen, until ctx ends or the account was
// replaced.
func (l *ledger) saveChanges(ctx context.Context) error {
	for {
		select {
		case <-l.dirty:
		case <-ctx.Done():
			return nil
		}

		_ = wait.For(ctx, saveAfter) // others may follow
		if err := l.save(); err != nil {
			if errors.Is(err, errReplaced) {
				return err
			}
			l.log.WarnContext(ctx, "the account cannot be kept; messages may come again after a restart", "err", err)
		}
	}
}

// cursor returns how far was read.
func (l *ledger) cursor() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.Cursor
}

// advance notes how far was read.
func (l *ledger) advance(to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if to != "" && to != l.record.Cursor {
		l.record.Cursor = to
		l.touch()
	}
}

// met notes the context token of a person who was not admitted (yet). It came
// with a message of this time.
func (l *ledger) met(user, token string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token != "" && l.record.Contexts[user] != token && !l.outdated(user, at) {
		l.strangers.Put(user, &stranger{token: token})
	}
}

// outdated reports whether a message that was written then is older than the one
// whose token we have: it came again. The caller holds the lock.
func (l *ledger) outdated(user string, at time.Time) bool {
	b := l.record.Spent[user]
	return b != nil && !at.IsZero() && at.UnixMilli() < b.At
}

// admit notes the context token of a person who was admitted: it is what answers
// need, and a new one allows as many as the first. It came with a message of
// this time.
func (l *ledger) admit(user, token string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()

	spent := budget{}
	if s, ok := l.strangers.Get(user); ok && s.token == token {
		spent = s.spent
	}

	l.strangers.Delete(user)
	if token == "" || l.record.Contexts[user] == token || l.outdated(user, at) {
		return
	}

	if at.IsZero() {
		at = l.now()
	}

	spent.At = at.UnixMilli()
	if len(l.record.Contexts) >= peopleMost && l.record.Contexts[user] == "" {
		l.forgetOldest()
	}

	l.record.Contexts[user] = token
	l.record.Spent[user] = &spent
	l.touch()
}

func (l *ledger) forgetOldest() {
	oldest, at := "", int64(0)
	for user := range l.record.Contexts {
		var t int64
		if b := l.record.Spent[user]; b != nil {
			t = b.At
		}
		if oldest == "" || t < at {
			oldest, at = user, t
		}
	}

	delete(l.record.Contexts, oldest)
	delete(l.record.Spent, oldest)
	delete(l.record.Tickets, oldest)
}

// find returns the context token of a chat and what was sent with it. The caller
// holds the lock.
func (l *ledger) find(user string) (string, *budget) {
	if s, ok := l.strangers.Get(user); ok {
		return s.token, &s.spent
	}

	token := l.record.Contexts[user]
	b := l.record.Spent[user]
	if b == nil {
		if b = (&budget{}); token != "" {
			l.record.Spent[user] = b
		}
	}
	return token, b
}

// spend counts one of the messages that a context token allows, if more than keep
// are left. The token is "" for a person who never wrote. Ask says that the
// person was not told yet that the rest waits.
func (l *ledger) spend(user string, keep int) (token string, ok, ask bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	token, b := l.find(user)
	most := l.o.ContextMessageBudget
	if token == "" || b.Sent < most-keep {
		b.Sent++
		l.touch()
		// If this process dies, the next one sends as many more as the disk says,
		// and a word that more follows.
		if b.Sent-b.saved > max(platformMax-most-1, 0) {
			_ = l.write() // keep logs the error
		}
		return token, true, false
	}

	ask = keep == 0 && !b.Announced && most < platformMax && b.Sent == most
	b.Announced = b.Announced || ask
	return token, false, ask
}

// refund takes a take back, if the token is still the same.
func (l *ledger) refund(user, token string) { l.change(user, token, func(b *budget) { b.Sent-- }) }

// useUp notes that a context token allows nothing more.
func (l *ledger) useUp(user, token string) {
	l.change(user, token, func(b *budget) { b.Sent = platformMax })
}

func (l *ledger) change(user, token string, do func(b *budget)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now, b := l.find(user); now == token {
		do(b)
		l.touch()
	}
}
