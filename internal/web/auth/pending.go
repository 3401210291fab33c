package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

const (
	askLife     = 10 * time.Minute
	maxPending  = 16
	pendingEach = 3 // of one address
)

// request is a device that waits for the consent of another.
type request struct {
	Pending
	hash    string // of the secret it polls with
	opened  opener // from where it asked
	allowed bool
	denied  bool
	device  string // that it was signed in as
}

// Pending describes a device that waits. Its digits are on its screen.
type Pending struct {
	Digits  string    `json:"digits"`
	Name    string    `json:"name"`
	Address string    `json:"address"`
	Local   bool      `json:"local"` // a program on the gateway's machine that is not proven to be its user's
	Expires time.Time `json:"expires"`
}

// Waiting lists the devices that wait for consent.
func (s *Server) Waiting() []Pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Pending
	for _, p := range s.pending {
		if !p.allowed && !p.denied && s.o.Now().Before(p.Expires) {
			out = append(out, p.Pending)
		}
	}
	return out
}

// begin lets a device wait.
func (s *Server) begin(r *http.Request) (answer, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()

	site, now := s.o.Site(), s.o.Now()
	s.pending = slices.DeleteFunc(s.pending, func(p *request) bool { return !now.Before(p.Expires) })
	address, same := site.peer(r), 0
	opened := s.openerOf(r)

	for _, p := range s.pending {
		if p.Address == address {
			same++
		}
	}

	if same >= pendingEach || len(s.pending) >= maxPending {
		return answer{}, &refusal{http.StatusTooManyRequests, "too_many", "too many devices wait for consent; approve or deny them, or wait ten minutes"}
	}

	secret := base64.RawURLEncoding.EncodeToString(random(32))
	p := &request{
		Pending: Pending{
			Digits: s.digits(), Name: text.Label(browserName(r.UserAgent()), nameLength), Address: address,
			Local: opened.isForeign(), Expires: now.Add(askLife),
		},
		hash:   hash(secret),
		opened: opened,
	}

	s.pending = append(s.pending, p)
	s.changed()
	return answer{State: "pending", Digits: p.Digits, Poll: secret, Expires: int(askLife / time.Second)}, nil
}

// digits are six that no other device shows.
func (s *Server) digits() string {
	for {
		d := fmt.Sprintf("%06d", below(1_000_000))
		if !slices.ContainsFunc(s.pending, func(p *request) bool { return p.Digits == d }) {
			return d
		}
	}
}

// Decide allows or denies a device that waits.
func (s *Server) Decide(digits string, allow bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pending {
		if p.Digits == digits && !p.allowed && !p.denied && s.o.Now().Before(p.Expires) {
			p.allowed, p.denied = allow, !allow
			s.changed()
			return nil
		}
	}

	return fmt.Errorf("%w that shows %s", ErrUnknown, text.Label(digits, 6))
}

// poll tells a device whether another has agreed, and signs it in then.
func (s *Server) poll(r *http.Request, secret string) (answer, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	h := hash(secret)
	i := slices.IndexFunc(s.pending, func(p *request) bool { return p.hash == h })
	if i < 0 || !s.o.Now().Before(s.pending[i].Expires) {
		return answer{State: "expired"}, "", nil
	}

	p := s.pending[i]
	switch {
	case !s.openerOf(r).mayUse(p.opened): // what was shown to the owner is not who asks now
		return answer{State: "expired"}, "", nil
	case p.denied:
		return answer{State: "denied"}, "", nil
	case !p.allowed:
		return answer{State: "pending"}, "", nil
	}

	if p.device != "" { // its browser did not see the answer
		if err := s.revoke(r.Context(), p.device); err != nil && !errors.Is(err, ErrUnknown) {
			return answer{}, "", err
		}
	}

	e, cookie, err := s.admit(r)
	if err != nil {
		return answer{}, "", err
	}

	p.device = e.ID
	return answer{State: "in"}, cookie, nil
}
