package teams

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	chatsMost  = 5000 // conversations that are remembered
	offersMost = 200  // files that wait for a yes
	offerKeep  = 7 * 24 * time.Hour
)

// facts are what survives a restart: where conversations are reached, and which
// files were offered.
type facts struct {
	state *chat.State
	o     *options
	now   func() time.Time

	mu     sync.Mutex
	loaded bool
	recent *recent.Map[string, string] // addresses of conversations that are not kept, such as those of strangers
	v      struct {
		App    string               `json:"app"` // whose facts these are
		Chats  map[string]reference `json:"chats,omitempty"`
		Offers map[string]offer     `json:"offers,omitempty"`
	}
}

// reference is a conversation with people who may talk to us.
type reference struct {
	ServiceURL string    `json:"service_url"`
	Personal   bool      `json:"personal,omitempty"`
	At         time.Time `json:"at"` // when it was last known to be in use
}

// offer is a file that a person may accept.
type offer struct {
	Chat string    `json:"chat"`
	Path string    `json:"path"`
	Name string    `json:"name"`
	Size int64     `json:"size"`
	Hash string    `json:"hash"` // of the content that was offered
	At   time.Time `json:"at"`
}

// open reads the facts. Those of another bot say nothing about this one.
func (f *facts) open() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.load()
}

// load reads the facts when they are needed first. The lock is held.
func (f *facts) load() error {
	if f.loaded {
		return nil
	}
	if err := f.state.Load(&f.v); err != nil {
		return err
	}

	f.loaded = true
	if f.v.App != f.o.AppID {
		f.v.App, f.v.Chats, f.v.Offers = f.o.AppID, nil, nil
	}
	if f.v.Chats == nil {
		f.v.Chats = map[string]reference{}
	}
	if f.v.Offers == nil {
		f.v.Offers = map[string]offer{}
	}

	f.recent = recent.New[string, string](chatsMost)
	return nil
}

// save writes the facts without those that are too old. The lock is held.
func (f *facts) save() error {
	now := f.now()
	keep := time.Duration(f.o.RefTTLDays) * 24 * time.Hour
	maps.DeleteFunc(f.v.Chats, func(_ string, c reference) bool { return now.Sub(c.At) > keep || !f.o.trusted(c.ServiceURL) })
	maps.DeleteFunc(f.v.Offers, func(_ string, o offer) bool { return now.Sub(o.At) > offerKeep })
	dropOldest(f.v.Chats, chatsMost, func(c reference) time.Time { return c.At })
	dropOldest(f.v.Offers, offersMost, func(o offer) time.Time { return o.At })
	if err := f.state.Save(f.v); err != nil {
		return fmt.Errorf("save the state of the channel: %w", err)
	}
	return nil
}

func dropOldest[V any](m map[string]V, most int, at func(V) time.Time) {
	if len(m) <= most {
		return
	}
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return at(m[a]).Compare(at(m[b])) })
	for _, k := range keys[:len(m)-most] {
		delete(m, k)
	}
}

// meet notes in memory where a conversation is reached.
func (f *facts) meet(id, serviceURL string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.load() == nil {
		f.recent.Put(id, serviceURL)
	}
}

// record saves for later starts where a conversation is reached.
func (f *facts) record(id, serviceURL string, direct bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	if err := f.load(); err != nil {
		return err
	}

	now := f.now()
	old, known := f.v.Chats[id]
	if known && old.ServiceURL == serviceURL && now.Sub(old.At) < time.Duration(f.o.RefTouchIntervalS)*time.Second {
		return nil
	}

	f.v.Chats[id] = reference{ServiceURL: serviceURL, Personal: direct, At: now}
	return f.save()
}

// where returns the address of a conversation.
func (f *facts) where(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.load() != nil { // Run tells of it
		return f.o.ServiceURL
	}
	near, _ := f.recent.Get(id)
	return cmp.Or(near, f.v.Chats[id].ServiceURL, f.o.ServiceURL)
}

func (f *facts) addOffer(id string, o offer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.load(); err != nil {
		return err
	}
	f.v.Offers[id] = o
	return f.save()
}

func (f *facts) findOffer(id, chatID string) (offer, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.load() != nil {
		return offer{}, false
	}
	o, ok := f.v.Offers[id]
	return o, ok && o.Chat == chatID
}

func (f *facts) dropOffer(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.load(); err != nil {
		return err
	}
	delete(f.v.Offers, id)
	return f.save()
}
