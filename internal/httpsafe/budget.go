package httpsafe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Class says whose host a request goes to, which decides how much may be sent.
type Class int

// The classes.
const (
	ClassStranger Class = iota // named by nobody who may
	ClassNamed                 // the owner named it
	ClassPackages              // see PackageHost, or a search service
	classes
)

// Use is something that is about to be sent.
type Use struct {
	Host     string
	Class    Class
	Requests int
	Bytes    int // of what the sender chooses: address, headers, body
}

// Budget bounds what one turn sends when its words may be a stranger's: data
// can leave in one long request, in many short ones, and in the names of hosts.
// It is safe for concurrent use.
type Budget struct {
	mu    sync.Mutex
	times int // how often as much as the first limit is allowed, minus one
	spent [classes]struct{ requests, bytes int }
	hosts map[string]bool // of strangers
}

// limits are what one turn may send without a question.
func (c Class) limits() (requests, bytes, hosts int) {
	switch c {
	case ClassPackages:
		return 512, 64 << 10, 0
	case ClassNamed:
		return 512, 256 << 10, 0
	default:
		return 64, 32 << 10, 16
	}
}

// Take counts a use, or reports that it does not fit any more.
func (b *Budget) Take(u Use) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	requests, bytes, hosts := u.Class.limits()
	factor := 1 << (2 * min(b.times, 10))
	s := &b.spent[u.Class]
	more, news := u.Bytes, u.Class == ClassStranger && !b.hosts[u.Host]
	if news {
		more += len(u.Host)
		if len(b.hosts) >= hosts*factor {
			return false
		}
	}
	if s.requests+u.Requests > requests*factor || s.bytes+more > bytes*factor {
		return false
	}
	s.requests += u.Requests
	s.bytes += more
	if news {
		if b.hosts == nil {
			b.hosts = map[string]bool{}
		}
		b.hosts[u.Host] = true
	}
	return true
}

// Extend allows four times as much as before, because a person said so.
func (b *Budget) Extend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.times++
}

// String says what was sent, for a question.
func (b *Budget) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var requests, bytes int
	for _, s := range b.spent {
		requests += s.requests
		bytes += s.bytes
	}
	text := fmt.Sprintf("%d requests with %d bytes", requests, bytes)
	if names := slices.Sorted(maps.Keys(b.hosts)); len(names) > 0 {
		more := ""
		if len(names) > 5 {
			more = fmt.Sprintf(" and %d more hosts", len(names)-5)
		}
		text += ", to " + strings.Join(names[:min(5, len(names))], ", ") + more
	}
	return text
}
