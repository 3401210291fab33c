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
	ClassUnknown  Class = iota // neither named by the owner nor a package host
	ClassNamed                 // the owner named it
	ClassPackages              // see PackageHost, or a search service
	Classes                    // how many there are
)

// Use is something that is about to be sent.
type Use struct {
	Host     string
	Class    Class
	Requests int
	Bytes    int // of what the sender chooses: address, headers, body
	// Lines are headers whose values a program repeats with each request. What
	// was sent before says little, so a repeated one counts as one byte.
	Lines []string
}

// Cost holds what a use takes from a budget.
type Cost struct {
	Requests int `json:"requests"`
	Bytes    int `json:"bytes"`
	Hosts    int `json:"hosts"` // that were not named before
}

// Add returns the sum of two costs.
func (c Cost) Add(other Cost) Cost {
	return Cost{
		Requests: c.Requests + other.Requests,
		Bytes:    c.Bytes + other.Bytes,
		Hosts:    c.Hosts + other.Hosts,
	}
}

// Within reports whether a cost is not above a limit.
func (c Cost) Within(limit Cost) bool {
	return c.Requests <= limit.Requests && c.Bytes <= limit.Bytes && c.Hosts <= limit.Hosts
}

// Times returns a cost so many times.
func (c Cost) Times(n int) Cost {
	return Cost{Requests: c.Requests * n, Bytes: c.Bytes * n, Hosts: c.Hosts * n}
}

// Limit returns what one turn may send without a question.
func (c Class) Limit() Cost {
	switch c {
	case ClassPackages:
		return Cost{Requests: 512, Bytes: 64 << 10, Hosts: 64}
	case ClassNamed:
		return Cost{Requests: 512, Bytes: 256 << 10, Hosts: 64}
	default:
		return Cost{Requests: 64, Bytes: 32 << 10, Hosts: 16}
	}
}

// Budget bounds what one turn sends when its words may be a stranger's: data
// can leave in one long request, in many short ones, and in the names of hosts.
// The zero value has sent nothing. It is safe for concurrent use.
type Budget struct {
	mu         sync.Mutex
	extensions int // by a person; each one allows four times as much
	spent      [Classes]Cost
	hosts      [Classes]map[string]bool // whose names were sent
	lines      map[string]bool          // that were sent before
}

// maxLines bounds the headers that count as repeated. It is also what makes one
// byte the right price: which of 256 lines is repeated is one byte.
const maxLines = 256

// Spend counts a use and returns what it cost, or reports that it does not fit
// any more.
func (b *Budget) Spend(u Use) (Cost, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()

	cost := Cost{Requests: u.Requests, Bytes: u.Bytes}
	newHost := u.Host != "" && !b.hosts[u.Class][u.Host]
	if newHost {
		cost.Hosts = 1
		cost.Bytes += len(u.Host) // a name can carry data, too
	}

	var newLines []string
	for _, line := range u.Lines {
		if b.lines[line] {
			cost.Bytes++
			continue
		}
		cost.Bytes += len(line)
		newLines = append(newLines, line)
	}

	factor := 1 << (2 * min(b.extensions, 10))
	if !b.spent[u.Class].Add(cost).Within(u.Class.Limit().Times(factor)) {
		return Cost{}, false
	}

	b.spent[u.Class] = b.spent[u.Class].Add(cost)
	if newHost {
		if b.hosts[u.Class] == nil {
			b.hosts[u.Class] = map[string]bool{}
		}
		b.hosts[u.Class][u.Host] = true
	}

	b.remember(newLines)
	return cost, true
}

// remember notes header lines that were sent.
func (b *Budget) remember(lines []string) {
	for _, line := range lines {
		if len(b.lines) >= maxLines {
			return
		}
		if b.lines == nil {
			b.lines = map[string]bool{}
		}
		b.lines[line] = true
	}
}

// Extend allows four times as much as before, because a person said so.
func (b *Budget) Extend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.extensions++
}

// String says what was sent, for a question.
func (b *Budget) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	var all Cost
	for _, c := range b.spent {
		all = all.Add(c)
	}

	text := fmt.Sprintf("%d requests with %d bytes", all.Requests, all.Bytes)
	names := slices.Sorted(maps.Keys(b.hosts[ClassUnknown]))
	if len(names) == 0 {
		return text
	}

	const shown = 5
	more := ""
	if len(names) > shown {
		more = fmt.Sprintf(" and %d more hosts", len(names)-shown)
	}
	return text + ", to " + strings.Join(names[:min(shown, len(names))], ", ") + more
}
