package access

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// page is the content of pairing.json. It knows no store and no clock. Times are
// seconds since 1970.
type page struct {
	Approved map[string][]string `json:"approved"`
	Owners   map[string][]string `json:"owners,omitempty"` // of the approved, those who are the owner
	// Aliases are further ids of the approved: channel, then the id, then the
	// one under which the person was approved.
	Aliases map[string]map[string]string `json:"aliases,omitempty"`
	// Accounts are those of the channels whose people have other ids with
	// every account.
	Accounts map[string]string  `json:"accounts,omitempty"`
	Pending  map[string]request `json:"pending"` // by the hash of the code
	Salt     string             `json:"salt,omitempty"`
	Wrong    *attempts          `json:"wrong,omitempty"`
}

// attempts counts wrong codes.
type attempts struct {
	Count int     `json:"count"`
	Since float64 `json:"since"`
}

// request is an open request of a person who wants in.
type request struct {
	Channel string   `json:"channel"`
	Sender  string   `json:"sender_id"`
	Aliases []string `json:"aliases,omitempty"`
	Created float64  `json:"created_at"`
	Expires float64  `json:"expires_at"`
}

// approved returns the id under which a person was approved, "" if they were not.
// Each of the ids is enough.
func (p *page) approved(channel string, ids []string) string {
	for _, id := range ids {
		for _, known := range []string{id, p.Aliases[channel][id]} {
			if at, ok := findID(p.Approved[channel], known); ok {
				return at
			}
		}
	}
	return ""
}

// owner reports whether a person was approved as the owner.
func (p *page) owner(channel string, ids []string) bool {
	for _, id := range ids {
		for _, known := range []string{id, p.Aliases[channel][id]} {
			if slices.Contains(p.Owners[channel], known) && slices.Contains(p.Approved[channel], known) {
				return true
			}
		}
	}
	return false
}

// findID finds an id among those that were written down. Python nanobot wrote a
// name that can change behind the id; only the id counts. What comes from a
// platform is never divided: there the bar may be a part of the id.
func findID(written []string, id string) (at string, ok bool) {
	if id == "" {
		return "", false
	}
	if slices.Contains(written, id) {
		return id, true
	}
	ok = slices.ContainsFunc(written, func(s string) bool { return stable(s) == id })
	return id, ok
}

// lacksAlias reports whether an approved person has an id that the page lacks.
func (p *page) lacksAlias(channel string, ids []string) bool {
	first := p.approved(channel, ids)
	return first != "" && slices.ContainsFunc(ids, func(id string) bool {
		return id != "" && p.approved(channel, []string{id}) == ""
	})
}

// alias records all ids of a person beside the one that was approved.
func (p *page) alias(channel, first string, ids []string) {
	for _, id := range ids {
		if id == "" || p.approved(channel, []string{id}) != "" {
			continue
		}

		if p.Aliases == nil {
			p.Aliases = map[string]map[string]string{}
		}
		if p.Aliases[channel] == nil {
			p.Aliases[channel] = map[string]string{}
		}
		p.Aliases[channel][id] = first
	}
}

// stable returns the id of an entry of Python nanobot, which may have a name behind it.
func stable(id string) string {
	id, _, _ = strings.Cut(id, "|")
	return id
}

// requests returns the keys of a person's open requests.
func (p *page) requests(channel, sender string) []string {
	var keys []string
	for key, r := range p.Pending {
		if r.Channel == channel && r.Sender == sender {
			keys = append(keys, key)
		}
	}
	return keys
}

// makeRoom removes the oldest request of a channel that has as many as it may.
func (p *page) makeRoom(channel string) {
	oldest, open := "", 0
	for key, r := range p.Pending {
		if r.Channel != channel {
			continue
		}
		open++
		if oldest == "" || r.Created < p.Pending[oldest].Created {
			oldest = key
		}
	}

	if open >= pairingPending {
		delete(p.Pending, oldest)
	}
}

// expireAttempts removes the count of wrong codes when it is as old as a code
// may be, or of a time that has not come.
func (p *page) expireAttempts(now float64) {
	if p.Wrong == nil {
		return
	}
	if now-p.Wrong.Since > pairingLife.Seconds() || now < p.Wrong.Since {
		p.Wrong = nil
	}
}

// countAttempt counts a wrong code.
func (p *page) countAttempt(now float64) {
	if p.Wrong == nil {
		p.Wrong = &attempts{Since: now}
	}
	p.Wrong.Count++
}

const (
	hashPrefix = "pbkdf2:" // begins the key of a request; older versions wrote the code itself
	// hashRounds makes it hopeless for a reader of the file to try all codes within
	// the life of one.
	hashRounds = 1 << 11
)

// hash returns the key of the request with a code.
func (p *page) hash(code string) (string, error) {
	if p.Salt == "" {
		p.Salt = rand.Text()
	}
	sum, err := pbkdf2.Key(sha256.New, code, []byte(p.Salt), hashRounds, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("hash a pairing code: %w", err)
	}
	return hashPrefix + hex.EncodeToString(sum), nil
}

// find returns the key of the request with a code. It takes as long for every code.
func (p *page) find(code string) (key string, ok bool, err error) {
	want, err := p.hash(code)
	if err != nil {
		return "", false, err
	}

	for k := range p.Pending {
		if subtle.ConstantTimeCompare([]byte(k), []byte(want)) == 1 {
			key, ok = k, true
		}
	}
	return key, ok, nil
}

// newCode returns eight letters and digits, about 41 bits.
func newCode() string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	var b strings.Builder
	for i := range 8 {
		if i == 4 {
			b.WriteByte('-')
		}
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			panic(err) // the system's randomness does not fail
		}
		b.WriteByte(letters[n.Int64()])
	}

	return b.String()
}

// addOwner approves a person as the owner.
func (p *page) addOwner(r request) {
	p.add(r)
	if p.Owners == nil {
		p.Owners = map[string][]string{}
	}
	add(p.Owners, r)
}

// add approves a person, with all their ids.
func (p *page) add(r request) {
	add(p.Approved, r)
	p.alias(r.Channel, r.Sender, r.Aliases)
}

func add(list map[string][]string, r request) {
	if !slices.Contains(list[r.Channel], r.Sender) {
		list[r.Channel] = append(list[r.Channel], r.Sender)
	}
}

// plainCode returns a code as it was given out, however it was typed.
func plainCode(code string) string {
	code = strings.ToUpper(strings.TrimSpace(code))
	if len(code) == 8 && !strings.Contains(code, "-") {
		code = code[:4] + "-" + code[4:]
	}
	return code
}
