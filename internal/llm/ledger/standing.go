package ledger

import (
	"strings"
	"time"
)

// Standing is a limit as it is now.
type Standing struct {
	Name     string    `json:"name"`     // of the setting, such as dailyUsd
	Unit     string    `json:"unit"`     // usd, tokens
	Limit    float64   `json:"limit"`    //
	Spent    float64   `json:"spent"`    //
	Reserved float64   `json:"reserved"` // for calls under way
	Left     float64   `json:"left"`     // not below 0
	Stops    bool      `json:"stops"`    // reaching it stops calls of the user
	Default  bool      `json:"default"`  // the user did not set it
	Resets   time.Time `json:"resets_at,omitzero"`
}

// Standings lists the limits that apply to what a user writes into a conversation,
// "" for any.
func Standings(l *Ledger, session string) (all []Standing, onExceed OnExceed) {
	l.mu.Lock()
	defer l.mu.Unlock()

	now := l.now()
	l.refresh(now)
	if onExceed = l.limits.OnExceed; onExceed == "" {
		onExceed = StopAll
	}

	all = []Standing{}
	a := ask{source: "user", session: session, price: Price{Billing: Unknown}}
	for _, b := range l.bounds(&a, now) {
		if session == "" && strings.HasPrefix(b.key, "perSession.") {
			continue
		}

		s := Standing{
			Name: b.key, Unit: "tokens", Limit: float64(b.limit), Spent: float64(b.used), Reserved: float64(b.held),
			Stops: b.stops, Default: b.usual, Resets: b.reset,
		}
		if b.money {
			s.Unit = "usd"
			s.Limit = fromNano(b.limit)
			s.Spent = fromNano(b.used)
			s.Reserved = fromNano(b.held)
		}

		s.Left = max(0, s.Limit-s.Spent-s.Reserved)
		all = append(all, s)
	}

	return all, onExceed
}
