package access

import (
	"cmp"
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

const pairingName = string(datadir.Pairing)

// Limits of pairing.
const (
	pairingLife    = 10 * time.Minute // of a code
	pairingPending = 128              // open requests per channel; then the oldest one makes room
	pairingPause   = time.Minute      // between two codes of one person
	pairingWrong   = 10               // wrong codes within pairingLife
	lockWait       = 5 * time.Second  // for another process that writes the file
)

// ErrPairingSoon says that a person got a code a moment ago.
var ErrPairingSoon = errors.New("this person received a pairing code a moment ago")

// ErrNoSuchCode refuses a code that is unknown or too old.
var ErrNoSuchCode = errors.New("no open request has this code; codes are valid for 10 minutes")

// ErrManyCodes refuses codes after too many wrong ones.
var ErrManyCodes = errors.New("too many wrong codes; wait ten minutes, then use the person's latest code")

// Pairing is the list of people who were let in by hand, and of those who
// asked to be. Codes are in it as hashes only: the person who approves types the
// one that the stranger was given. Each stranger has one open request, and a
// stranger never keeps another one from asking. It is one document, shared by all
// channels and by the command line, which may change it while the gateway runs.
// One that cannot be read lets nobody in and is never overwritten; one that
// makes no sense is kept beside.
type Pairing struct {
	store store.Store
	name  string
	now   func() time.Time
	log   *slog.Logger

	changed func()

	mu      sync.Mutex
	seen    store.Info // of the list that book was read from
	book    book
	damaged bool              // ... and it was not one
	plain   bool              // it holds codes of an older version
	given   map[string]string // codes that this process knows, by their hashes
	invited map[[sha256.Size]byte]invitation
}

// book is the file. Times are seconds since 1970.
type book struct {
	Approved map[string][]string `json:"approved"`
	Owners   map[string][]string `json:"owners,omitempty"` // of the approved, those who are the owner
	// Aliases are further ids of the approved: channel, then the id, then the
	// one under which the person was approved.
	Aliases map[string]map[string]string `json:"aliases,omitempty"`
	// Accounts are those of the channels whose people have other ids with
	// every account.
	Accounts map[string]string  `json:"accounts,omitempty"`
	Pending  map[string]request `json:"pending"` // by the hash of the code
	Salt     string             `json:"salt,omitempty"`
	Wrong    *attempts          `json:"wrong,omitempty"`
}

// attempts are wrong codes.
type attempts struct {
	Count int     `json:"count"`
	Since float64 `json:"since"`
}

type request struct {
	Channel string   `json:"channel"`
	Sender  string   `json:"sender_id"`
	Aliases []string `json:"aliases,omitempty"`
	Created float64  `json:"created_at"`
	Expires float64  `json:"expires_at"`
}

// PairingRequest is somebody who asked to be let in.
type PairingRequest struct {
	Channel string    `json:"channel"`
	Sender  string    `json:"sender_id"`
	Expires time.Time `json:"expires_at"`
}

// PairingOptions is what a Pairing needs.
type PairingOptions struct {
	Store   store.Store
	Changed func() // is called when this process wrote the list; nil: nobody asks
	Log     *slog.Logger
	Now     func() time.Time
}

// OpenPairing opens the list; nothing is read yet.
func OpenPairing(o PairingOptions) *Pairing {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &Pairing{
		store:   o.Store,
		name:    pairingName,
		now:     orNow(o.Now),
		log:     o.Log,
		changed: o.Changed,
		given:   map[string]string{},
	}
}

func orNow(now func() time.Time) func() time.Time {
	if now == nil {
		return time.Now
	}
	return now
}

// Known is what the list says about the ids of one person.
type Known struct {
	ID    string // under which they were let in; "" if they were not
	Owner bool   // ... as the owner
}

// Known looks somebody up. All ids are those of one person, of which any may be
// known.
func (p *Pairing) Known(channel string, ids ...string) (Known, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refresh(); err != nil {
		return Known{}, err
	}
	return Known{ID: p.book.approved(channel, ids), Owner: p.book.owner(channel, ids)}, nil
}

func (b *book) approved(channel string, ids []string) string {
	for _, id := range ids {
		for _, known := range []string{id, b.Aliases[channel][id]} {
			if at, ok := findID(b.Approved[channel], known); ok {
				return at
			}
		}
	}
	return ""
}

func (b *book) owner(channel string, ids []string) bool {
	for _, id := range ids {
		for _, known := range []string{id, b.Aliases[channel][id]} {
			if slices.Contains(b.Owners[channel], known) && slices.Contains(b.Approved[channel], known) {
				return true
			}
		}
	}
	return false
}

// findID looks for an id among those that were written down. Python nanobot wrote a
// name that can change behind the id; only the id counts. What comes from a
// platform is never divided: there the bar may be a part of the id.
func findID(written []string, id string) (at string, ok bool) {
	if id == "" {
		return "", false
	}
	if slices.Contains(written, id) {
		return id, true
	}
	ok = slices.ContainsFunc(written, func(s string) bool { return stable(s) == id })
	return id, ok
}

// learn notes further ids of somebody who was let in, so that one of them is
// enough from now on.
func (p *Pairing) learn(ctx context.Context, channel string, ids ...string) error {
	p.mu.Lock()
	known := len(ids) < 2 || p.refresh() != nil || !p.book.news(channel, ids)
	p.mu.Unlock()
	if known {
		return nil
	}
	return p.change(ctx, func(b *book) error {
		if first := b.approved(channel, ids); first != "" {
			b.alias(channel, first, ids)
		}
		return nil
	})
}

// news reports whether an approved person has an id that is not known.
func (b *book) news(channel string, ids []string) bool {
	first := b.approved(channel, ids)
	return first != "" && slices.ContainsFunc(ids, func(id string) bool { return b.approved(channel, []string{id}) == "" })
}

// alias notes all ids of a person beside the one that was approved.
func (b *book) alias(channel, first string, ids []string) {
	for _, id := range ids {
		if id == "" || b.approved(channel, []string{id}) != "" {
			continue
		}
		if b.Aliases == nil {
			b.Aliases = map[string]map[string]string{}
		}
		if b.Aliases[channel] == nil {
			b.Aliases[channel] = map[string]string{}
		}
		b.Aliases[channel][id] = first
	}
}

func stable(id string) string { id, _, _ = strings.Cut(id, "|"); return id }

// Ask returns the code of somebody who wants in: the one they have as long as
// this process remembers it, else a new one that takes its place. When too many
// people of a channel wait, the request that has waited longest there is dropped.
func (p *Pairing) Ask(ctx context.Context, channel, sender string, aliases ...string) (code string, err error) {
	err = p.change(ctx, func(b *book) error {
		code = ""
		now := p.seconds()
		var mine []string
		oldest, waiting := "", 0
		for key, r := range b.Pending {
			if r.Channel != channel {
				continue
			}
			waiting++
			if r.Sender == sender {
				mine = append(mine, key)
			}
			if oldest == "" || r.Created < b.Pending[oldest].Created {
				oldest = key
			}
		}
		for _, key := range mine {
			if code = p.given[key]; code != "" {
				return nil
			}
			if now-b.Pending[key].Created < pairingPause.Seconds() {
				return ErrPairingSoon
			}
		}
		for _, key := range mine {
			delete(b.Pending, key)
		}
		if len(mine) == 0 && waiting >= pairingPending {
			delete(b.Pending, oldest)
		}
		code = newCode()
		key, err := b.hash(code)
		if err != nil {
			return err
		}
		b.Pending[key] = request{Channel: channel, Sender: sender, Aliases: aliases, Created: now, Expires: now + pairingLife.Seconds()}
		p.remember(b, key, code)
		return nil
	})
	if err != nil {
		return "", err
	}
	return code, nil
}

func (p *Pairing) seconds() float64 { return float64(p.now().UnixMilli()) / 1000 }

// remember keeps a code in memory, so that it can be told again, and forgets
// those whose requests are gone.
func (p *Pairing) remember(b *book, key, code string) {
	p.given[key] = code
	maps.DeleteFunc(p.given, func(key, _ string) bool { _, open := b.Pending[key]; return !open })
}

const (
	hashPrefix = "pbkdf2:" // begins the key of a request; older versions wrote the code itself
	// hashRounds makes it hopeless to try all codes within the life of one, for
	// somebody who got hold of the file.
	hashRounds = 1 << 11
)

// hash is the key of the request with a code.
func (b *book) hash(code string) (string, error) {
	if b.Salt == "" {
		b.Salt = rand.Text()
	}
	sum, err := pbkdf2.Key(sha256.New, code, []byte(b.Salt), hashRounds, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("hash a pairing code: %w", err)
	}
	return hashPrefix + hex.EncodeToString(sum), nil
}

// find looks for the request with a code. It takes as long for every code.
func (b *book) find(code string) (key string, ok bool, err error) {
	want, err := b.hash(code)
	if err != nil {
		return "", false, err
	}
	for k := range b.Pending {
		if subtle.ConstantTimeCompare([]byte(k), []byte(want)) == 1 {
			key, ok = k, true
		}
	}
	return key, ok, nil
}

// newCode is eight letters and digits, about 41 bits.
func newCode() string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	var b strings.Builder
	for i := range 8 {
		if i == 4 {
			b.WriteByte('-')
		}
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			panic(err) // the system's randomness does not fail
		}
		b.WriteByte(letters[n.Int64()])
	}
	return b.String()
}

// Approve lets the person with this code in.
func (p *Pairing) Approve(ctx context.Context, code string) (PairingRequest, error) {
	return p.settle(ctx, code, func(b *book, r request) { b.add(r) })
}

// ApproveOwner lets the person with this code in as the owner: their memory,
// files and right to approve are those of whoever set the bot up.
func (p *Pairing) ApproveOwner(ctx context.Context, code string) (PairingRequest, error) {
	return p.settle(ctx, code, (*book).addOwner)
}

// addOwner lets a person in as the owner.
func (b *book) addOwner(r request) {
	b.add(r)
	if b.Owners == nil {
		b.Owners = map[string][]string{}
	}
	add(b.Owners, r)
}

// add lets a person in, with all their ids.
func (b *book) add(r request) {
	add(b.Approved, r)
	b.alias(r.Channel, r.Sender, r.Aliases)
}

func add(list map[string][]string, r request) {
	if !slices.Contains(list[r.Channel], r.Sender) {
		list[r.Channel] = append(list[r.Channel], r.Sender)
	}
}

// Deny takes the request with this code away, or those of the person with this id.
func (p *Pairing) Deny(ctx context.Context, codeOrSender string) (who PairingRequest, err error) {
	err = p.change(ctx, func(b *book) error {
		who = PairingRequest{}
		key, ok, err := b.find(plainCode(codeOrSender))
		if err != nil {
			return err
		}
		maps.DeleteFunc(b.Pending, func(k string, r request) bool {
			if ok && k == key || !ok && r.Sender == strings.TrimSpace(codeOrSender) {
				who = PairingRequest{Channel: r.Channel, Sender: r.Sender}
				return true
			}
			return false
		})
		if who.Sender == "" {
			return ErrNoSuchCode
		}
		return nil
	})
	return who, err
}

// plainCode is a code as it was given out, however it was typed.
func plainCode(code string) string {
	code = strings.ToUpper(strings.TrimSpace(code))
	if len(code) == 8 && !strings.Contains(code, "-") {
		code = code[:4] + "-" + code[4:]
	}
	return code
}

func (p *Pairing) settle(ctx context.Context, code string, apply func(*book, request)) (who PairingRequest, err error) {
	var refused error
	err = p.change(ctx, func(b *book) error {
		refused, who = nil, PairingRequest{}
		now := p.seconds()
		if b.Wrong != nil && (now-b.Wrong.Since > pairingLife.Seconds() || now < b.Wrong.Since) {
			b.Wrong = nil
		}
		if b.Wrong != nil && b.Wrong.Count >= pairingWrong {
			return ErrManyCodes
		}
		key, ok, err := b.find(plainCode(code))
		if err != nil {
			return err
		}
		if !ok {
			if b.Wrong == nil {
				b.Wrong = &attempts{Since: now}
			}
			b.Wrong.Count++
			refused = ErrNoSuchCode // and the attempt is kept
			return nil
		}
		r := b.Pending[key]
		delete(b.Pending, key)
		b.Wrong = nil
		apply(b, r)
		who = PairingRequest{Channel: r.Channel, Sender: r.Sender}
		return nil
	})
	return who, errors.Join(err, refused)
}

// Revoke shuts somebody out again, on one channel or with an empty one on all,
// and returns the channels where they had been let in.
func (p *Pairing) Revoke(ctx context.Context, channel, sender string) (from []string, err error) {
	err = p.change(ctx, func(b *book) error {
		from = nil
		for _, name := range slices.Sorted(maps.Keys(b.Approved)) {
			if channel != "" && channel != name {
				continue
			}
			first := cmp.Or(b.Aliases[name][sender], sender)
			kept := slices.DeleteFunc(slices.Clone(b.Approved[name]), func(s string) bool { return s == first || stable(s) == stable(first) })
			maps.DeleteFunc(b.Aliases[name], func(_, id string) bool { return id == first })
			if len(kept) < len(b.Approved[name]) {
				from = append(from, name)
				b.Approved[name] = kept
				if len(b.Owners[name]) > 0 {
					b.Owners[name] = slices.DeleteFunc(b.Owners[name], func(s string) bool { return !slices.Contains(kept, s) })
				}
			}
			if len(kept) == 0 {
				delete(b.Approved, name)
			}
		}
		return nil
	})
	return from, err
}

// Forget drops who was let in on a channel, or waits, while it was another
// account of its platform, and returns their ids. Before is which one that was,
// as far as the channel knows; it counts only as long as none is noted here.
func (p *Pairing) Forget(ctx context.Context, channel, account, before string) (gone []string, err error) {
	p.mu.Lock()
	known := p.refresh() == nil && p.book.Accounts[channel] == account
	p.mu.Unlock()
	if known {
		return nil, nil
	}
	err = p.change(ctx, func(b *book) error {
		gone = nil
		was := cmp.Or(b.Accounts[channel], before, account)
		if b.Accounts == nil {
			b.Accounts = map[string]string{}
		}
		if b.Accounts[channel] = account; was == account {
			return nil
		}
		gone = b.Approved[channel]
		delete(b.Approved, channel)
		delete(b.Owners, channel)
		delete(b.Aliases, channel)
		maps.DeleteFunc(b.Pending, func(_ string, r request) bool { return r.Channel == channel })
		return nil
	})
	return gone, err
}

// List returns who waits, oldest first, and who was let in by channel.
func (p *Pairing) List() (waiting []PairingRequest, approved map[string][]string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refresh(); err != nil {
		return nil, nil, err
	}
	now := p.seconds()
	approved = map[string][]string{}
	for name, list := range p.book.Approved {
		approved[name] = slices.Clone(list)
	}
	for _, r := range p.book.Pending {
		if r.Expires > now {
			waiting = append(waiting, PairingRequest{Channel: r.Channel, Sender: r.Sender, Expires: time.UnixMilli(int64(r.Expires * 1000))})
		}
	}
	slices.SortStableFunc(waiting, func(a, b PairingRequest) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Sender, b.Sender))
	})
	return waiting, approved, nil
}
