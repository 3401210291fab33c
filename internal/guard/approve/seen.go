package approve

import (
	"net/url"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// maxHosts bounds how many hosts of one turn are known.
const maxHosts = 1000

// seen holds the hosts that were named in a turn by its user or by a search.
type seen struct {
	mu    sync.Mutex
	turn  string
	hosts map[string]bool
}

// Saw notes the addresses in a text of the turn: what the user wrote, and what
// a search found. Long addresses of their hosts are then no reason to ask. The
// call says which turn it is; only its State and TurnID are used.
func (p *Policy) Saw(c tool.Call, text string) {
	if c.State == nil {
		return
	}

	h := tool.StateOf(c.State, newSeen)
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.turn != c.TurnID {
		h.turn = c.TurnID
		clear(h.hosts)
	}

	words := strings.FieldsFuncSeq(text, func(r rune) bool {
		return r <= ' ' || strings.ContainsRune("<>\"'`()[]{}|\\^，。；、（）《》", r)
	})
	for word := range words {
		if len(h.hosts) >= maxHosts {
			return
		}
		if host := hostOf(word); host != "" {
			h.hosts[host] = true
		}
	}
}

func newSeen() *seen { return &seen{hosts: map[string]bool{}} }

// hostOf reads a host from an address, with or without a scheme.
func hostOf(word string) string {
	word = strings.TrimRight(word, ".,;:!?")
	if !strings.Contains(word, "://") {
		if !strings.Contains(word, ".") || strings.Contains(word, "@") {
			return ""
		}
		word = "http://" + word
	}

	u, err := url.Parse(word)
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

func seenHost(c tool.Call, host string) bool {
	if c.State == nil {
		return false
	}
	h := tool.StateOf(c.State, newSeen)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.turn == c.TurnID && h.hosts[strings.ToLower(strings.TrimSuffix(host, "."))]
}
