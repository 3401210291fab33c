package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/keyring"
	"github.com/nanobot-go/nanobot/internal/base/oauth"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// Status holds what is known about a sign-in without using it.
type Status struct {
	SignedIn bool
	Account  string    // a name or an address, "" if unknown
	Expires  time.Time // of the current token; most renew themselves
	Where    string    // file or keyring, for people
	// Problem says why the sign-in cannot be used, "" if nothing is wrong.
	Problem string
}

// tokenStore keeps one token: in the keyring with a document that describes it,
// or in the document itself. The document decides, so that callers need not ask
// the keyring whether there is a sign-in.
type tokenStore struct {
	doc        oauth.Document[token]
	lock, mark string
	user       string         // the keyring's name for the token
	vault      keyring.System // nil: documents only
	foreign    []foreign
}

func newStore(b brand, o Options) *tokenStore {
	s := &tokenStore{
		doc: oauth.Document[token]{Store: o.Store, Name: b.command + ".json"}, lock: b.command + ".lock", mark: b.command + ".imported",
		// Two homes on one machine are two sign-ins: sharing a token that
		// renews itself needs a shared lock.
		user: b.command + " in " + o.Store.Where(""), foreign: b.foreign(o),
	}
	s.vault, _ = keyring.OfSystem(o.Getenv) // without one there is the file
	return s
}

// lockWait bounds the wait for another process, which needs as long as one
// exchange with the provider takes.
const lockWait = 45 * time.Second

// alone keeps other processes from changing the token.
func (s *tokenStore) alone(ctx context.Context) (unlock func(), err error) {
	return s.doc.Lock(ctx, s.lock, lockWait)
}

// describe reads the file alone.
func (s *tokenStore) describe() (token, error) {
	t, found, err := s.doc.Load(context.Background())
	switch {
	case err != nil:
		return token{}, err
	case !found:
		return token{}, errNotSignedIn
	case t.Access == "" && !t.Keyring:
		return token{}, s.doc.Damaged()
	}

	return t, nil
}

// load reads the token.
func (s *tokenStore) load(ctx context.Context) (token, error) {
	t, err := s.describe()
	if err != nil || !t.Keyring {
		return t, err
	}
	if s.vault == nil {
		return token{}, errors.New("the sign-in is in the system keyring, which is switched off by NANOBOT_NO_KEYRING or missing here")
	}

	text, err := s.ask(ctx, func(ctx context.Context) (string, error) { return s.vault.Get(ctx, keyring.Service, s.user) })
	if err != nil {
		return token{}, fmt.Errorf("the system keyring does not give the sign-in out: %w", err)
	}

	var held token
	if json.Unmarshal([]byte(text), &held) != nil || held.Access == "" {
		return token{}, errors.New("the sign-in in the system keyring is damaged")
	}
	return held, nil
}

// save keeps a token. The caller holds the lock.
func (s *tokenStore) save(ctx context.Context, t token) error {
	t.Keyring = false
	full, err := json.Marshal(t)
	if err != nil {
		return err
	}

	before, _ := s.describe() // only tells whether the keyring has an old one
	if s.vault != nil && len(full) <= s.vault.Limit() {
		_, err := s.ask(ctx, func(ctx context.Context) (string, error) {
			return "", s.vault.Set(ctx, keyring.Service, s.user, string(full))
		})
		if err == nil {
			return s.doc.Save(ctx, token{Keyring: true, Expires: t.Expires, AccountID: t.AccountID, Name: t.Name})
		}
	}

	if err := s.doc.Save(ctx, t); err != nil {
		return err
	}

	if before.Keyring {
		s.forget(ctx) // it would only lie around
	}
	return nil
}

// ignore keeps what other programs left from being used again. The caller
// holds the lock.
func (s *tokenStore) ignore(ctx context.Context) error {
	_, err := s.doc.Store.Put(ctx, s.mark, nil, store.Any, true)
	return err
}

// ask calls the keyring, for as long as a person needs to unlock it.
func (s *tokenStore) ask(ctx context.Context, call func(ctx context.Context) (string, error)) (string, error) {
	return keyring.Bounded(ctx, keyring.WaitForPerson, call)
}

func (s *tokenStore) forget(ctx context.Context) bool {
	if s.vault == nil {
		return false
	}
	_, err := s.ask(ctx, func(ctx context.Context) (string, error) { return "", s.vault.Delete(ctx, keyring.Service, s.user) })
	return err == nil
}

// remove deletes the token and returns what it deleted. The caller holds the lock.
func (s *tokenStore) remove(ctx context.Context) ([]string, error) {
	var removed []string
	t, _ := s.describe() // a damaged one goes too
	if t.Keyring && s.forget(ctx) {
		removed = append(removed, "the entry in the system keyring")
	}

	found, err := s.doc.Remove(ctx)
	if err != nil {
		return removed, err
	}

	if found {
		removed = append(removed, s.doc.Where())
	}

	// What other programs left must not sign the user in again.
	if _, ok := s.elsewhere(); ok {
		if err := s.ignore(ctx); err != nil {
			return removed, err
		}
		if len(removed) == 0 {
			removed = append(removed, "the use of another program's sign-in")
		}
	}

	return removed, nil
}

func (s *tokenStore) status() Status {
	t, err := s.describe()
	switch {
	case errors.Is(err, errNotSignedIn):
		f, ok := s.elsewhere()
		if !ok {
			return Status{}
		}
		t = f.token
		return Status{SignedIn: true, Account: t.label(), Expires: time.UnixMilli(t.Expires), Where: f.path + ", of another program"}
	case err != nil:
		return Status{Problem: err.Error(), Where: s.doc.Where()}
	}

	st := Status{SignedIn: true, Account: t.label(), Expires: time.UnixMilli(t.Expires), Where: s.doc.Where()}
	if t.Keyring {
		st.Where = "system keyring"
		if s.vault == nil {
			st.Problem = "the system keyring is switched off or missing here"
		}
	}
	return st
}

func (t token) label() string {
	if t.Name != "" {
		return t.Name
	}
	return t.AccountID
}
