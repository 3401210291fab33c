// Package auth signs browsers in to the web pages. It hides how a person proves
// that the gateway is theirs (a link, a code or the consent of another device),
// the cookie that a browser gets for it, and which requests of browsers count as
// those of our own pages.
package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

const (
	devicesName = "devices.json"
	maxDevices  = 64
	touchEvery  = time.Hour // how exact the last use of a device is
	nameLength  = 80        // characters of a device's name
)

// Options are what sign-in needs of the gateway.
type Options struct {
	Store store.Store // where the devices are kept
	Log   *slog.Logger
	Now   func() time.Time
	// Site is what the configuration says about the pages, as it is now.
	Site func() Site
	// Peer returns who sent a request; nil means httpsafe.PeerOf.
	Peer func(*http.Request) httpsafe.Peer
	// Notify sends a notice to the owner's chat.
	Notify func(ctx context.Context, notice phrase.Sentence)
	// Changed is called when the devices, or those that wait, have changed. It must not block.
	Changed func()
}

// Device is a browser that is signed in.
type Device struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Address string    `json:"address"`
	Created time.Time `json:"created"`
	Seen    time.Time `json:"seen"`
	Expires time.Time `json:"expires"`
}

// entry is a device as it is stored.
type entry struct {
	Device
	Hash   string `json:"hash"`   // of its cookie
	Opened opener `json:"opened"` // from where it was signed in

	gone   chan struct{} // closed when the device is signed out
	warned bool          // a use from elsewhere was logged
}

// document is devices.json.
type document struct {
	Gateway string   `json:"gateway"` // tells the cookies of two gateways of one host apart
	Devices []*entry `json:"devices"`
}

// Server signs devices in and recognises them.
type Server struct {
	o Options

	mu      sync.Mutex
	doc     *document // nil: not read yet
	links   codes
	typed   codes
	pending []*request
	wrong   failures
}

// New returns a Server. It reads its devices when the first request needs them.
func New(o Options) *Server {
	if o.Peer == nil {
		o.Peer = httpsafe.PeerOf
	}
	return &Server{o: o}
}

// load reads the devices once. The caller holds mu.
func (s *Server) load(ctx context.Context) (*document, error) {
	if s.doc != nil {
		return s.doc, nil
	}

	data, version, err := s.o.Store.Doc(ctx, devicesName)
	if err != nil {
		return nil, err
	}

	var d document
	if version != store.Missing {
		if err := json.Unmarshal(data, &d); err != nil {
			aside, keepErr := store.SaveDamaged(ctx, s.o.Store, devicesName, data, s.o.Now())
			if keepErr != nil {
				return nil, errors.Join(err, keepErr)
			}
			s.o.Log.ErrorContext(ctx, "the list of signed-in devices is damaged; it is kept aside and all devices must sign in again", "kept", aside, "err", err)
			d = document{}
		}
	}

	for _, e := range d.Devices {
		e.gone = make(chan struct{})
		if e.Opened == "" {
			e.Opened = openedFrom(e.Address)
		}
	}

	if d.Gateway == "" {
		d.Gateway = hex.EncodeToString(random(4))
		if err := s.save(ctx, &d); err != nil {
			return nil, err
		}
	}

	s.doc = &d
	return s.doc, nil
}

// save writes the devices. The caller holds mu.
func (s *Server) save(ctx context.Context, d *document) error {
	data, err := store.Indented(d)
	if err != nil {
		return err
	}
	_, err = s.o.Store.Put(ctx, devicesName, data, store.Any, true)
	return err
}

// Gateway tells this gateway from others on the same host.
func (s *Server) Gateway(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.load(ctx)
	if err != nil {
		return "", err
	}
	return d.Gateway, nil
}

// Devices lists the devices that are signed in, the last used first.
func (s *Server) Devices(ctx context.Context) ([]Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	d, err := s.load(ctx)
	if err != nil {
		return nil, err
	}

	now := s.o.Now()
	var out []Device
	for _, e := range d.Devices {
		if now.Before(e.Expires) {
			out = append(out, e.Device)
		}
	}

	slices.SortStableFunc(out, func(a, b Device) int { return b.Seen.Compare(a.Seen) })
	return out, nil
}

// add signs a device in and returns the secret of its cookie. The caller holds mu.
func (s *Server) add(r *http.Request) (*entry, string, error) {
	ctx, site := r.Context(), s.o.Site()
	d, err := s.load(ctx)
	if err != nil {
		return nil, "", err
	}

	now := s.o.Now()
	secret := base64.RawURLEncoding.EncodeToString(random(32))
	e := &entry{
		Device: Device{
			ID:      hex.EncodeToString(random(4)),
			Name:    text.Label(browserName(r.UserAgent()), nameLength),
			Address: site.peer(r),
			Created: now,
			Seen:    now,
			Expires: now.Add(site.Session),
		},
		Hash:   hash(secret),
		Opened: s.openerOf(r),
		gone:   make(chan struct{}),
	}

	keep, drop := d.split(func(old *entry) bool { return now.Before(old.Expires) })
	for len(keep) >= maxDevices { // the one that was used least recently gives way
		i := oldest(keep)
		drop = append(drop, keep[i])
		keep = slices.Delete(keep, i, i+1)
	}

	next := &document{Gateway: d.Gateway, Devices: append(keep, e)}
	if err := s.save(ctx, next); err != nil {
		return nil, "", err
	}

	s.doc = next
	for _, old := range drop {
		close(old.gone)
	}
	return e, secret, nil
}

// split divides the devices into those that stay and those that go.
func (d *document) split(stays func(*entry) bool) (keep, drop []*entry) {
	for _, e := range d.Devices {
		if stays(e) {
			keep = append(keep, e)
		} else {
			drop = append(drop, e)
		}
	}
	return keep, drop
}

func oldest(list []*entry) int {
	at := 0
	for i, e := range list {
		if e.Seen.Before(list[at].Seen) {
			at = i
		}
	}
	return at
}

// Revoke signs a device out: its cookie is void and its connections end.
func (s *Server) Revoke(ctx context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pending {
		if p.device == id {
			p.denied = true // it must not poll itself in again
		}
	}
	return s.revoke(ctx, id)
}

func (s *Server) revoke(ctx context.Context, id string) error {
	d, err := s.load(ctx)
	if err != nil {
		return err
	}

	keep, drop := d.split(func(e *entry) bool { return e.ID != id })
	if len(drop) == 0 {
		return fmt.Errorf("%w: %s", ErrUnknown, text.Label(id, nameLength))
	}

	next := &document{Gateway: d.Gateway, Devices: keep}
	if err := s.save(ctx, next); err != nil {
		return err
	}

	s.doc = next
	for _, e := range drop {
		close(e.gone)
	}

	s.changed()
	return nil
}

// ErrUnknown says that there is no such device or request.
var ErrUnknown = errors.New("there is no such device")

func (s *Server) changed() {
	if s.o.Changed != nil {
		s.o.Changed()
	}
}

// Session is a request's device; Gone is closed when it is signed out.
type Session struct {
	Device
	Gone <-chan struct{}
}

// Check finds the device of a request by its cookie. On this machine a cookie is good
// only for the user who signed the device in, and for the gateway's own. It notes the use from time to
// time, and gives the browser a cookie that lasts as long as the session does then.
func (s *Server) Check(w http.ResponseWriter, r *http.Request) (Session, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	d, err := s.load(r.Context())
	if err != nil {
		return Session{}, false, err
	}

	c, err := r.Cookie(cookieName(d.Gateway))
	if err != nil {
		return Session{}, false, nil
	}

	e, now := d.find(c.Value), s.o.Now()
	if e == nil || !now.Before(e.Expires) {
		return Session{}, false, nil
	}
	if from := s.openerOf(r); !from.mayUse(e.Opened) {
		s.warnStolen(r, e, from)
		return Session{}, false, nil
	}

	if now.Sub(e.Seen) >= touchEvery {
		e.Seen, e.Address = now, s.o.Site().peer(r)
		e.Expires = now.Add(s.o.Site().Session)
		if err := s.save(r.Context(), d); err != nil {
			s.o.Log.WarnContext(r.Context(), "note the use of a device", "err", err)
		}
		if w != nil {
			http.SetCookie(w, s.cookie(r, d.Gateway, c.Value, s.o.Site().Session))
		}
	}

	return Session{Device: e.Device, Gone: e.gone}, true, nil
}

// warnStolen logs the first use of a device's cookie by another browser. The caller holds mu.
func (s *Server) warnStolen(r *http.Request, e *entry, from opener) {
	if e.warned {
		return
	}
	e.warned = true
	s.o.Log.WarnContext(r.Context(), "refused the cookie of a signed-in device: it was sent from elsewhere; if that was not you, sign the device out with nanobot web revoke",
		"device", e.ID, "name", e.Name, "signed_in_from", e.Opened, "sent_from", from, "address", s.o.Site().peer(r))
}

// find compares hashes, so that the time it takes tells nothing about a secret.
func (d *document) find(secret string) *entry {
	h := hash(secret)
	for _, e := range d.Devices {
		if e.Hash == h {
			return e
		}
	}
	return nil
}

// cookieName contains the gateway, so that two of them on one host do not share it.
func cookieName(gateway string) string { return "nanobot_" + gateway }

func (s *Server) cookie(r *http.Request, gateway, value string, lasts time.Duration) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure over TLS; plain HTTP on a home network works, too
		Name: cookieName(gateway), Value: value, Path: "/", MaxAge: int(lasts / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.o.Site().Encrypted(r),
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
