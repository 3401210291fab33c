package auth

import (
	"crypto/rand"
	"encoding/base64"
	"math/big"
	"time"
)

// LinkLife is how long a link or a code works.
const LinkLife = 5 * time.Minute

const (
	spentMemory = 24 * time.Hour // how long the second use of a link is noticed
	maxCodes    = 64
	typedLength = 8
	// typedLetters are easy to tell apart.
	typedLetters = "23456789ABCDEFGHJKMNPQRSTVWXYZ"

	wrongEach  = 5 // wrong codes of one address in a minute
	wrongTotal = 30
)

// code is a secret that signs one device in. Only its hash is kept.
type code struct {
	ends   time.Time
	device string // that it signed in; "" while it is not used
}

// codes are those of one kind, by hash.
type codes map[string]*code

// make adds a code, and forgets those that are of no use any more.
func (c *codes) make(secret string, now time.Time) {
	if *c == nil {
		*c = codes{}
	}

	for h, k := range *c {
		if now.After(k.ends.Add(spentMemory)) || k.device == "" && now.After(k.ends) {
			delete(*c, h)
		}
	}

	for len(*c) >= maxCodes {
		var first string
		for h, k := range *c {
			if first == "" || k.ends.Before((*c)[first].ends) {
				first = h
			}
		}
		delete(*c, first)
	}

	(*c)[hash(secret)] = &code{ends: now.Add(LinkLife)}
}

// Link makes the secret of a one-time link.
func (s *Server) Link() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	secret := base64.RawURLEncoding.EncodeToString(random(32))
	s.links.make(secret, s.o.Now())
	return secret
}

// Code makes a code for a person to type. It voids the one before.
func (s *Server) Code() string {
	s.mu.Lock()
	defer s.mu.Unlock()

	secret := make([]byte, typedLength)
	for i := range secret {
		secret[i] = typedLetters[below(len(typedLetters))]
	}

	s.typed = nil
	s.wrong = failures{}
	s.typed.make(string(secret), s.o.Now())
	return string(secret)
}

func below(n int) int {
	k, _ := rand.Int(rand.Reader, big.NewInt(int64(n))) // never fails
	return int(k.Int64())
}

// failures counts wrong codes, by address and in all.
type failures struct {
	total int
	each  map[string][]time.Time
}

// slow reports whether an address has to wait.
func (f *failures) slow(address string, now time.Time) bool {
	var late []time.Time
	for _, t := range f.each[address] {
		if now.Sub(t) < time.Minute {
			late = append(late, t)
		}
	}

	if f.each != nil {
		if len(late) == 0 {
			delete(f.each, address)
		} else {
			f.each[address] = late
		}
	}

	return len(late) >= wrongEach
}

// add counts one, and reports whether there were too many in all.
func (f *failures) add(address string, now time.Time) bool {
	if f.each == nil || len(f.each) > 10*wrongTotal {
		f.each = map[string][]time.Time{}
	}
	f.each[address] = append(f.each[address], now)
	f.total++
	return f.total >= wrongTotal
}
