// Package ledger hides what model calls cost: the table of prices, the log of
// every call, the sums of the day and the month, and the limits that stop a
// call before it is made.
//
// The log is one file per month, one line per call, and only ever grows. Sums
// are derived from it: a small checkpoint says what the first bytes of the log
// add up to, and whatever follows them is read when needed. So the sums are
// right although several processes append to one log, and a lost checkpoint
// costs one scan and nothing else.
//
// Meter puts a ledger around a model. It belongs next to the driver, inside
// any retry or fallback, so that every attempt is counted.
package ledger

import (
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Options say where a ledger lives and what it allows.
type Options struct {
	// Store has the logs; nil keeps the sums in memory only.
	Store store.Store
	// Limits bound the spending; the zero value allows everything.
	Limits Limits
	// Location decides where days and months begin; nil means time.Local.
	Location *time.Location
	// Watch is told about each call that ended. It must not wait. May be nil.
	Watch func(Entry)
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: no log
}

// Ledger counts model calls and guards the limits. It is safe for concurrent
// use, and so is its folder for several processes: what one of them has set
// aside for calls under way is known to all.
type Ledger struct {
	store store.Store // nil: in memory only
	loc   *time.Location
	watch func(Entry)
	now   func() time.Time
	log   *slog.Logger

	mu     sync.Mutex
	limits Limits
	loaded bool // the checkpoint was looked for
	sums   totals
	saved  int64              // offset of the log at the last checkpoint
	held   account            // reserved by calls under way
	heldBy map[string]account // the same per source
	turns  map[string]*turn
	order  []string     // of turns, oldest first
	open   store.Log    // the log of the month, once it was looked at
	month  string       // of open
	seen   store.Cursor // how far open was counted
	shared reservations
}

// New makes a ledger. It reads nothing before the first call.
func New(o Options) *Ledger {
	if o.Location == nil {
		o.Location = time.Local
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Ledger{
		store: o.Store, loc: o.Location, now: o.Now, log: o.Log, limits: o.Limits, watch: o.Watch,
		heldBy: map[string]account{}, turns: map[string]*turn{}, shared: reservations{store: o.Store, log: o.Log},
	}
}

// Entry is one model call, one line of the log.
type Entry struct {
	Time     time.Time `json:"time"` // when the call ended
	Turn     string    `json:"turn,omitempty"`
	Session  string    `json:"session,omitempty"`
	Source   string    `json:"source"` // what caused it: user, cron, heartbeat, ...
	Provider string    `json:"provider"`
	Model    string    `json:"model"` // wire name

	Prompt     int  `json:"in"` // includes Cached and CacheWrite
	Completion int  `json:"out"`
	Cached     int  `json:"cached,omitempty"`
	CacheWrite int  `json:"cacheWrite,omitempty"`
	Reasoning  int  `json:"reasoning,omitempty"`
	Estimated  bool `json:"estimated,omitempty"` // the token counts are ours, not the vendor's

	// Billing says what Cost means; Cost is 0 unless Billing is Priced or
	// Reported, and then in Currency. USD is what the limits count.
	Billing  Billing `json:"billing"`
	Cost     float64 `json:"cost,omitempty"`
	Currency string  `json:"currency,omitempty"`
	USD      float64 `json:"usd,omitempty"`

	DurationMS int64  `json:"ms"`
	TTFTMS     int64  `json:"ttftMs,omitempty"` // until the first piece of the answer
	Outcome    string `json:"outcome"`          // "ok", "cancelled", or the kind of the error
}

// The outcomes that are not kinds of errors.
const (
	OutcomeOK        = "ok"
	OutcomeCancelled = "cancelled"
)

// usage is the entry's token counts in the words of the model layer.
func (e Entry) usage() llm.Usage {
	return llm.Usage{
		Prompt: e.Prompt, Completion: e.Completion, Cached: e.Cached, CacheWrite: e.CacheWrite,
		Reasoning: e.Reasoning, Estimated: e.Estimated,
	}
}

// Billing says how a call is paid for.
type Billing string

// The ways of billing.
const (
	// Priced calls cost what the table of prices says.
	Priced Billing = "priced"
	// Reported calls cost what the vendor said in its answer.
	Reported Billing = "reported"
	// Free calls cost nothing: the model runs on the user's own machine.
	Free Billing = "free"
	// Subscription calls are covered by a flat fee.
	Subscription Billing = "subscription"
	// Unknown calls cost something, but how much is not known.
	Unknown Billing = "unknown"
)

// account is a sum of calls. Money is in billionths of a US dollar, so that
// sums are exact and the order of additions does not matter.
type account struct {
	Calls    int   `json:"calls"`
	Nano     int64 `json:"nanoUsd"`
	Tokens   int64 `json:"tokens"`   // of calls that are not free
	Unpriced int64 `json:"unpriced"` // of calls whose price is unknown
	Free     int64 `json:"free"`     // tokens of calls that are free; no limit counts them
}

func (a account) plus(b account) account {
	return account{a.Calls + b.Calls, saturate(a.Nano, b.Nano), saturate(a.Tokens, b.Tokens), saturate(a.Unpriced, b.Unpriced), saturate(a.Free, b.Free)}
}

// saturate adds without an overflow, which would turn the dearest sum into none.
func saturate(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func (a account) minus(b account) account {
	return account{a.Calls - b.Calls, a.Nano - b.Nano, a.Tokens - b.Tokens, a.Unpriced - b.Unpriced, a.Free - b.Free}
}

// larger is the larger of two sums, amount by amount.
func (a account) larger(b account) account {
	return account{max(a.Calls, b.Calls), max(a.Nano, b.Nano), max(a.Tokens, b.Tokens), max(a.Unpriced, b.Unpriced), max(a.Free, b.Free)}
}

// accountOf returns what one entry adds to the sums.
func accountOf(e *Entry) account {
	a := account{Calls: 1}
	tokens := saturate(max(0, int64(e.Prompt)), max(0, int64(e.Completion)))
	switch e.Billing {
	case Free:
		a.Free = tokens
	case Priced, Reported:
		a.Nano, a.Tokens = toNano(e.USD), tokens
	case Subscription:
		a.Tokens = tokens
	default:
		a.Tokens, a.Unpriced = tokens, tokens
	}

	return a
}

// turn holds what one turn spent in this process.
type turn struct {
	spent, held account
	billing     Billing // of its dearest call: one without a known price, else one that is paid
	marks       map[string]string
}

// keptTurns bounds how many turns are remembered.
const keptTurns = 512

// turnOf finds the account of a turn, or makes it; the oldest idle ones go.
func (l *Ledger) turnOf(id string) *turn {
	t := l.turns[id]
	if t == nil {
		if len(l.turns) >= keptTurns {
			l.forgetTurns()
		}
		t = &turn{marks: map[string]string{}}
		l.turns[id] = t
		l.order = append(l.order, id)
	}

	return t
}

// forgetTurns drops the older half of the turns that have no call under way.
func (l *Ledger) forgetTurns() {
	var kept []string
	old := len(l.order) / 2
	for _, id := range l.order[:old] {
		if t := l.turns[id]; t != nil && t.held.Calls > 0 {
			kept = append(kept, id)
			continue
		}
		delete(l.turns, id)
	}

	l.order = append(kept, l.order[old:]...)
}

// TurnCost says what the calls of a turn cost so far in US dollars, as far as
// this process made them, and how they are paid for: Unknown when a price was
// missing, "" when there was no call.
func (l *Ledger) TurnCost(id string) (usd float64, billing Billing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.turns[id]
	if t == nil {
		return 0, ""
	}
	return fromNano(t.spent.Nano), t.billing
}

// dearer is the one of two ways to pay that says more about a turn.
func dearer(a, b Billing) Billing {
	for _, one := range []Billing{Unknown, Priced, Reported, Subscription, Free} {
		if a == one || b == one {
			return one
		}
	}
	return ""
}

// Where tells people where the logs are; "" if there are none.
func (l *Ledger) Where() string {
	if l.store == nil {
		return ""
	}
	return l.store.Where("")
}
