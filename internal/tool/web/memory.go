package web

import (
	"hash/maphash"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// Limits of what is remembered in a session.
const (
	cacheFor     = 5 * time.Minute
	cachePages   = 16
	cacheBytes   = 4 << 20
	rememberURLs = 20_000
)

// memory holds what the tools keep for a session: pages read lately, so that
// the same one is not fetched again, and the addresses that were shown.
type memory struct {
	seed maphash.Seed

	mu    sync.Mutex
	pages []cached // oldest first
	size  int
	seen  map[uint64]struct{}
}

type cached struct {
	key string
	at  time.Time
	doc document
}

func memoryOf(s *tool.State) *memory {
	return tool.StateOf(s, func() *memory { return &memory{seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}} })
}

func (m *memory) get(key string) (document, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.pages {
		if c.key == key && time.Since(c.at) < cacheFor {
			return c.doc, true
		}
	}
	return document{}, false
}

func (m *memory) store(key string, d document) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pages = append(m.pages, cached{key, time.Now(), d})
	m.size += len(d.text)
	for len(m.pages) > 0 && (len(m.pages) > cachePages || m.size > cacheBytes || time.Since(m.pages[0].at) >= cacheFor) {
		m.size -= len(m.pages[0].doc.text)
		m.pages = append(m.pages[:0:0], m.pages[1:]...)
	}
}

// link remembers addresses that a result showed, as url.URL writes them.
func (m *memory) link(list ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, raw := range list {
		if len(m.seen) >= rememberURLs {
			return
		}
		key, _, _ := strings.Cut(raw, "#")
		m.seen[maphash.String(m.seed, key)] = struct{}{}
	}
}

func (m *memory) hasSeen(raw string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.seen[maphash.String(m.seed, linkKey(raw))]
	return ok
}

// linkKey returns a URL without what is not sent.
func linkKey(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	u.Fragment, u.RawFragment = "", ""
	return u.String()
}

// Seen reports whether exactly this address was shown to the model before, as
// a search result or as a link on a page it read in this session. What an
// address carries that others wrote cannot be what the model knows, so
// following it gives nothing away.
func Seen(s *tool.State, rawURL string) bool {
	if s == nil {
		return false
	}
	raw, _ := trimURL(rawURL)
	return memoryOf(s).hasSeen(raw)
}
