package access

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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

// errPairingSoon says that a person got a code a moment ago.
var errPairingSoon = errors.New("this person received a pairing code a moment ago")

// ErrNoSuchCode refuses a code that is unknown or too old.
var ErrNoSuchCode = errors.New("no open request has this code; codes are valid for 10 minutes")

// ErrManyCodes refuses codes after too many wrong ones.
var ErrManyCodes = errors.New("too many wrong codes; wait ten minutes, then use the person's latest code")

// Book is the list of people who were approved by hand, and of strangers who
// asked for it. It has codes as hashes only: the owner who approves types the one
// that the stranger was given. Each stranger has one open request, and cannot
// keep another stranger from asking. The book is one document, shared by all
// channels and by the command line, which may change it while the gateway runs;
// change is its only writer. A document that cannot be read admits no one and is
// never overwritten; a damaged one is kept beside.
type Book struct {
	store store.Store
	name  string
	now   func() time.Time
	log   *slog.Logger

	changed func()

	mu      sync.Mutex
	seen    store.Info // of the document that page was read from
	page    page
	damaged bool              // ... and it was not one
	plain   bool              // it holds codes of an older version
	given   map[string]string // codes that this process knows, by their hashes
	invited map[[sha256.Size]byte]invitation
}

// PairingRequest is an open request of a stranger.
type PairingRequest struct {
	Channel string    `json:"channel"`
	Sender  string    `json:"sender_id"`
	Expires time.Time `json:"expires_at"`
}

// BookOptions is what a Book needs.
type BookOptions struct {
	Store   store.Store
	Changed func() // is called when this process wrote the list; it may be nil
	Log     *slog.Logger
	Now     func() time.Time
}

// OpenBook opens the list; nothing is read yet.
func OpenBook(o BookOptions) *Book {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &Book{
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

// Known is what the book says about the ids of one person.
type Known struct {
	ID    string // under which they were approved; "" if they were not
	Owner bool   // ... as the owner

	unnoted    bool // they were approved, and the book lacks one of their ids
	invitation bool // their message is the code of an open invitation
}

// Known returns what the book says about a person. All ids are those of one
// person; each of them is enough.
func (b *Book) Known(channel string, ids ...string) (Known, error) {
	return b.lookup(inquiry{channel: channel, ids: ids})
}

// inquiry is what is asked about a person.
type inquiry struct {
	channel string
	ids     []string
	older   []string // ids under which older versions may have approved the person
	message string   // what they wrote in a direct chat; it can be the code of an invitation
}

// lookup answers an inquiry. It changes nothing but a damaged document.
func (b *Book) lookup(q inquiry) (Known, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if err := b.refresh(); err != nil {
		return Known{}, err
	}

	all := slices.Concat(q.ids, q.older)
	_, invitation := b.invitation(q.channel, q.message)
	return Known{
		ID:         b.page.approved(q.channel, all),
		Owner:      b.page.owner(q.channel, all),
		unnoted:    b.page.lacksAlias(q.channel, q.ids),
		invitation: invitation,
	}, nil
}

// addAliases records further ids of a person who was approved, so that one of them
// is enough from now on.
func (b *Book) addAliases(ctx context.Context, channel string, ids []string) error {
	return b.change(ctx, func(p *page) error {
		if first := p.approved(channel, ids); first != "" {
			p.alias(channel, first, ids)
		}
		return nil
	})
}

// Ask returns the code of a stranger: the one they have as long as this process
// remembers it, else a new one instead of it. With too many requests on a channel,
// the oldest one there is removed.
func (b *Book) Ask(ctx context.Context, channel, sender string, aliases ...string) (code string, err error) {
	err = b.change(ctx, func(p *page) error {
		code = "" // change may run this again
		now := b.seconds()

		mine := p.requests(channel, sender)
		for _, key := range mine {
			if code = b.given[key]; code != "" {
				return nil
			}
			if now-p.Pending[key].Created < pairingPause.Seconds() {
				return errPairingSoon
			}
		}

		for _, key := range mine {
			delete(p.Pending, key)
		}

		if len(mine) == 0 {
			p.makeRoom(channel)
		}

		code = newCode()
		key, err := p.hash(code)
		if err != nil {
			return err
		}

		p.Pending[key] = request{
			Channel: channel,
			Sender:  sender,
			Aliases: aliases,
			Created: now,
			Expires: now + pairingLife.Seconds(),
		}

		b.remember(p, key, code)
		return nil
	})
	if err != nil {
		return "", err
	}
	return code, nil
}

func (b *Book) seconds() float64 { return float64(b.now().UnixMilli()) / 1000 }

// remember holds a code in memory, so that it can be sent again, and drops those
// whose requests are gone.
func (b *Book) remember(p *page, key, code string) {
	b.given[key] = code
	maps.DeleteFunc(b.given, func(key, _ string) bool { _, open := p.Pending[key]; return !open })
}

// Approve lets the person with this code in.
func (b *Book) Approve(ctx context.Context, code string) (PairingRequest, error) {
	return b.resolve(ctx, code, func(p *page, r request) { p.add(r) })
}

// ApproveOwner lets the person with this code in as the owner: their memory,
// files and right to approve are those of the person who set the bot up.
func (b *Book) ApproveOwner(ctx context.Context, code string) (PairingRequest, error) {
	return b.resolve(ctx, code, (*page).addOwner)
}

// Deny removes the request with this code, or those of the person with this id.
func (b *Book) Deny(ctx context.Context, codeOrSender string) (who PairingRequest, err error) {
	err = b.change(ctx, func(p *page) error {
		who = PairingRequest{}
		key, ok, err := p.find(plainCode(codeOrSender))
		if err != nil {
			return err
		}

		maps.DeleteFunc(p.Pending, func(k string, r request) bool {
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

// resolve ends the request with a code in the way of apply, and returns who made it.
func (b *Book) resolve(ctx context.Context, code string, apply func(*page, request)) (who PairingRequest, err error) {
	var refused error
	err = b.change(ctx, func(p *page) error {
		who, refused = PairingRequest{}, nil // change may run this again

		now := b.seconds()
		p.expireAttempts(now)
		if p.Wrong != nil && p.Wrong.Count >= pairingWrong {
			return ErrManyCodes
		}

		key, ok, err := p.find(plainCode(code))
		if err != nil {
			return err
		}

		if !ok {
			p.countAttempt(now)
			refused = ErrNoSuchCode
			return nil // an error would keep the count from being written
		}

		r := p.Pending[key]
		delete(p.Pending, key)
		p.Wrong = nil
		apply(p, r)
		who = PairingRequest{Channel: r.Channel, Sender: r.Sender}
		return nil
	})
	return who, errors.Join(err, refused)
}

// Revoke takes the approval of a person back, on one channel or with an empty one
// on all, and returns the channels where they had been approved.
func (b *Book) Revoke(ctx context.Context, channel, sender string) (from []string, err error) {
	err = b.change(ctx, func(p *page) error {
		from = nil
		for _, name := range slices.Sorted(maps.Keys(p.Approved)) {
			if channel != "" && channel != name {
				continue
			}

			first := cmp.Or(p.Aliases[name][sender], sender)
			kept := slices.DeleteFunc(slices.Clone(p.Approved[name]), func(s string) bool { return s == first || stable(s) == stable(first) })
			maps.DeleteFunc(p.Aliases[name], func(_, id string) bool { return id == first })

			if len(kept) < len(p.Approved[name]) {
				from = append(from, name)
				p.Approved[name] = kept
				if len(p.Owners[name]) > 0 {
					p.Owners[name] = slices.DeleteFunc(p.Owners[name], func(s string) bool { return !slices.Contains(kept, s) })
				}
			}

			if len(kept) == 0 {
				delete(p.Approved, name)
			}
		}

		return nil
	})
	return from, err
}

// Forget drops who was let in on a channel, or waits, while it was another
// account of its platform, and returns their ids. Before is which one that was,
// as far as the channel knows; it counts only as long as none is noted here.
func (b *Book) Forget(ctx context.Context, channel, account, before string) (gone []string, err error) {
	b.mu.Lock()
	known := b.refresh() == nil && b.page.Accounts[channel] == account
	b.mu.Unlock()
	if known {
		return nil, nil
	}

	err = b.change(ctx, func(p *page) error {
		gone = nil
		was := cmp.Or(p.Accounts[channel], before, account)
		if p.Accounts == nil {
			p.Accounts = map[string]string{}
		}

		if p.Accounts[channel] = account; was == account {
			return nil
		}

		gone = p.Approved[channel]
		delete(p.Approved, channel)
		delete(p.Owners, channel)
		delete(p.Aliases, channel)
		maps.DeleteFunc(p.Pending, func(_ string, r request) bool { return r.Channel == channel })
		return nil
	})
	return gone, err
}

// List returns who waits, oldest first, and who was let in by channel.
func (b *Book) List() (waiting []PairingRequest, approved map[string][]string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if err := b.refresh(); err != nil {
		return nil, nil, err
	}

	now := b.seconds()
	approved = map[string][]string{}
	for name, list := range b.page.Approved {
		approved[name] = slices.Clone(list)
	}

	for _, r := range b.page.Pending {
		if r.Expires > now {
			waiting = append(waiting, PairingRequest{Channel: r.Channel, Sender: r.Sender, Expires: time.UnixMilli(int64(r.Expires * 1000))})
		}
	}

	slices.SortStableFunc(waiting, func(a, b PairingRequest) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Sender, b.Sender))
	})
	return waiting, approved, nil
}

// invitation approves the sender of its code as the owner, once. Only the hash of
// the code is held, in memory.
type invitation struct {
	channel string
	expires time.Time
}

// Invite returns a code for the owner: who sends it to the channel in a direct
// chat is approved as the owner. It replaces the one before.
func (b *Book) Invite(channel string) (code string, expires time.Time) {
	code, expires = rand.Text(), b.now().Add(pairingLife)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.invited == nil {
		b.invited = map[[sha256.Size]byte]invitation{}
	}
	maps.DeleteFunc(b.invited, func(_ [sha256.Size]byte, i invitation) bool { return i.channel == channel || b.now().After(i.expires) })
	b.invited[sha256.Sum256([]byte(code))] = invitation{channel, expires}
	return code, expires
}

// invitation returns the key of the open invitation that a message is the code of.
// The caller holds the lock.
func (b *Book) invitation(channel, message string) (key [sha256.Size]byte, ok bool) {
	words := strings.Fields(message)
	switch {
	case len(words) == 1:
	case len(words) == 2 && words[0] == "/start":
	default:
		return key, false
	}

	key = sha256.Sum256([]byte(words[len(words)-1]))
	i, ok := b.invited[key]
	return key, ok && i.channel == channel && !b.now().After(i.expires)
}

// redeem approves a person as the owner if their message is the code of an open
// invitation. The code is used up then, also if this fails.
func (b *Book) redeem(ctx context.Context, channel, message string, ids []string) (bool, error) {
	b.mu.Lock()
	key, ok := b.invitation(channel, message)
	if ok {
		delete(b.invited, key)
	}

	b.mu.Unlock()
	if !ok {
		return false, nil
	}

	err := b.change(ctx, func(p *page) error {
		p.addOwner(request{Channel: channel, Sender: ids[0], Aliases: ids[1:]})
		for _, key := range p.requests(channel, ids[0]) {
			delete(p.Pending, key)
		}
		return nil
	})
	return err == nil, err
}

// change reads, changes and writes the list while no other process does. apply
// may run again when one was faster.
func (b *Book) change(ctx context.Context, apply func(*page) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()

	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, errors.New("the list of paired people is in use"))
	defer cancel()
	written := false
	err := store.Update(ctx, b.store, b.name, func(old []byte) ([]byte, error) {
		b.seen = store.Info{} // two writes may bear the same time
		if err := b.decode(ctx, old); err != nil {
			return nil, err
		}
		data, err := b.rewrite(apply)
		written = data != nil
		return data, err
	})
	if err == nil && written {
		b.changed()
	}
	return err
}

// rewrite returns the list as apply leaves it; nil if it need not be written.
func (b *Book) rewrite(apply func(*page) error) ([]byte, error) {
	now := b.seconds()
	maps.DeleteFunc(b.page.Pending, func(_ string, r request) bool { return r.Expires <= now || r.Sender == "" || r.Channel == "" })
	before, err := json.Marshal(b.page)
	if err != nil {
		return nil, err
	}
	if err := apply(&b.page); err != nil {
		return nil, err
	}

	after, err := json.Marshal(b.page)
	if err != nil || bytes.Equal(after, before) && !b.plain {
		return nil, err
	}
	return store.Indented(b.page)
}

// refresh reads the list if it has changed. The caller holds the lock.
func (b *Book) refresh() error {
	ctx := context.Background()
	info, err := b.store.Stat(ctx, b.name)
	if err != nil {
		return fmt.Errorf("read the list of paired people: %w", err)
	}
	if info.Exists() && info == b.seen {
		return nil
	}

	data, version, err := b.store.Doc(ctx, b.name)
	if err != nil {
		return fmt.Errorf("read the list of paired people: %w", err)
	}

	b.seen = store.Info{}
	if err := b.decode(ctx, data); err != nil {
		return err
	}

	if b.damaged {
		empty, err := store.Indented(b.page)
		if err == nil {
			_, err = b.store.Put(ctx, b.name, empty, version, true)
		}
		if err != nil && !errors.Is(err, store.ErrChanged) {
			return fmt.Errorf("replace a damaged list of paired people: %w", err)
		}
		return nil // the next look reads what is there now
	}

	b.seen = info
	return nil
}

// decode takes a list over. One that makes no sense is kept beside and counts
// as empty.
func (b *Book) decode(ctx context.Context, data []byte) error {
	p := page{}
	b.damaged = false
	if err := json.Unmarshal(data, &p); err != nil && data != nil {
		aside, kept := store.SaveDamaged(ctx, b.store, b.name, data, b.now())
		if kept != nil {
			return kept
		}
		b.log.WarnContext(ctx, "the list of paired people was damaged; people must pair again", "kept_as", b.store.Where(aside), "err", err)
		p, b.damaged = page{}, true
	}

	if p.Approved == nil {
		p.Approved = map[string][]string{}
	}
	if p.Pending == nil {
		p.Pending = map[string]request{}
	}

	if err := b.hashOld(&p); err != nil {
		return err
	}

	b.page = p
	return nil
}

// hashOld replaces codes that an older version wrote down by their hashes.
func (b *Book) hashOld(p *page) error {
	b.plain = false
	for _, code := range slices.Sorted(maps.Keys(p.Pending)) {
		if strings.HasPrefix(code, hashPrefix) {
			continue
		}

		b.plain = true
		r := p.Pending[code]
		delete(p.Pending, code)
		if r.Sender == "" || r.Channel == "" || r.Expires <= b.seconds() {
			continue
		}

		key, err := p.hash(plainCode(code))
		if err != nil {
			return err
		}

		p.Pending[key] = r
		b.given[key] = plainCode(code)
	}

	return nil
}
