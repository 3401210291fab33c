package access

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

// change reads, changes and writes the list while no other process does. apply
// may run again when one was faster.
func (p *Pairing) change(ctx context.Context, apply func(*book) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, errors.New("the list of paired people is in use"))
	defer cancel()
	written := false
	err := store.Update(ctx, p.store, p.name, func(old []byte) ([]byte, error) {
		p.seen = store.Info{} // two writes may bear the same time
		if err := p.decode(ctx, old); err != nil {
			return nil, err
		}
		data, err := p.rewrite(apply)
		written = data != nil
		return data, err
	})
	if err == nil && written {
		p.changed()
	}
	return err
}

// rewrite is the list as apply leaves it; nil if it need not be written.
func (p *Pairing) rewrite(apply func(*book) error) ([]byte, error) {
	now := p.seconds()
	maps.DeleteFunc(p.book.Pending, func(_ string, r request) bool { return r.Expires <= now || r.Sender == "" || r.Channel == "" })
	before, err := json.Marshal(p.book)
	if err != nil {
		return nil, err
	}
	if err := apply(&p.book); err != nil {
		return nil, err
	}
	after, err := json.Marshal(p.book)
	if err != nil || bytes.Equal(after, before) && !p.plain {
		return nil, err
	}
	return store.Indented(p.book)
}

// refresh reads the list if it has changed. The caller holds the lock.
func (p *Pairing) refresh() error {
	ctx := context.Background()
	info, err := p.store.Stat(ctx, p.name)
	if err != nil {
		return fmt.Errorf("read the list of paired people: %w", err)
	}
	if info.Exists() && info == p.seen {
		return nil
	}
	data, version, err := p.store.Doc(ctx, p.name)
	if err != nil {
		return fmt.Errorf("read the list of paired people: %w", err)
	}
	p.seen = store.Info{}
	if err := p.decode(ctx, data); err != nil {
		return err
	}
	if p.damaged {
		empty, err := store.Indented(p.book)
		if err == nil {
			_, err = p.store.Put(ctx, p.name, empty, version, true)
		}
		if err != nil && !errors.Is(err, store.ErrChanged) {
			return fmt.Errorf("replace a damaged list of paired people: %w", err)
		}
		return nil // the next look reads what is there now
	}
	p.seen = info
	return nil
}

// decode takes a list over. One that makes no sense is kept beside and counts
// as empty.
func (p *Pairing) decode(ctx context.Context, data []byte) error {
	b := book{}
	p.damaged = false
	if err := json.Unmarshal(data, &b); err != nil && data != nil {
		aside, kept := store.KeepDamaged(ctx, p.store, p.name, data, p.now())
		if kept != nil {
			return kept
		}
		p.log.WarnContext(ctx, "the list of paired people was damaged; people must pair again", "kept_as", p.store.Where(aside), "err", err)
		b, p.damaged = book{}, true
	}
	if b.Approved == nil {
		b.Approved = map[string][]string{}
	}
	if b.Pending == nil {
		b.Pending = map[string]request{}
	}
	if err := p.hashOld(&b); err != nil {
		return err
	}
	p.book = b
	return nil
}

// hashOld replaces codes that an older version wrote down by their hashes.
func (p *Pairing) hashOld(b *book) error {
	p.plain = false
	for _, code := range slices.Sorted(maps.Keys(b.Pending)) {
		if strings.HasPrefix(code, hashPrefix) {
			continue
		}
		p.plain = true
		r := b.Pending[code]
		delete(b.Pending, code)
		if r.Sender == "" || r.Channel == "" || r.Expires <= p.seconds() {
			continue
		}
		key, err := b.hash(plainCode(code))
		if err != nil {
			return err
		}
		b.Pending[key] = r
		p.given[key] = plainCode(code)
	}
	return nil
}
