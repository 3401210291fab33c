//go:build goolm

package matrix

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"
	"go.mau.fi/util/dbutil"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/crypto"
	"maunium.net/go/mautrix/crypto/olm"
	mxevent "maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
	_ "modernc.org/sqlite" // the driver of the store
)

const (
	// linked says whether this program can read encrypted rooms.
	linked = true

	storeFile = "crypto.db"
	// storeKey encrypts what is in the store, which is as private as the folder
	// that it is in: a key beside it would hide nothing.
	storeKey = "nanobot"
)

// machine is the encryption of one device.
type machine struct {
	bot *bot
	db  *dbutil.Database
	olm *crypto.OlmMachine

	shown  published   // what the homeserver said at the start
	signed atomic.Bool // the account vouches for the device
	fresh  atomic.Bool // there may be keys that the backup lacks

	// olms is held while sessions with devices are made: the store of the library
	// looks for them outside of its own lock.
	olms sync.Mutex

	mu    sync.Mutex
	sent  map[string][]string // rooms that were encrypted for, and for whom
	saved *copies             // the backup; nil if none is used
}

// newCrypt opens the store of the device, and makes its keys known.
func newCrypt(ctx context.Context, b *bot) (desk, error) {
	db, err := openStore(filepath.Join(b.dir, storeFile))
	if err != nil {
		return nil, err
	}

	m := &machine{bot: b, db: db, sent: map[string][]string{}}
	m.fresh.Store(true)
	if err := m.start(ctx); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func openStore(path string) (*dbutil.Database, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // SQLite would let others read it
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}

	name := "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(filepath.ToSlash(path))
	raw, err := sql.Open("sqlite", name+"?_txlock=immediate&_pragma=foreign_keys(1)&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}

	raw.SetMaxOpenConns(1)
	return dbutil.NewWithDB(raw, "sqlite")
}

func (m *machine) start(ctx context.Context) error {
	b := m.bot
	c, err := mautrix.NewClient(b.o.Homeserver, id.UserID(b.o.UserID), b.client.token.Load().Reveal())
	if err != nil {
		return err
	}

	c.DeviceID, c.Client = id.DeviceID(b.device), b.client.rest.Client
	if b.device == "" {
		return fmt.Errorf("%w: the access token belongs to no device; set channels.%s.password", errNoCrypt, b.deps.Name)
	}

	store := crypto.NewSQLCryptoStore(m.db, nil, b.o.UserID+"/"+b.device, c.DeviceID, []byte(storeKey))
	if err := store.DB.Upgrade(ctx); err != nil {
		return fmt.Errorf("open the store of keys: %w", err)
	}

	log := zerolog.New(detail{b.deps.Log}).Level(zerolog.WarnLevel)
	m.olm = crypto.NewOlmMachine(c, &log, store, state{m})
	m.olm.SetBackgroundCtx(ctx)
	m.olm.DisableRatchetTracking = true // keys are not thrown away after use
	m.olm.SessionReceived = func(_ context.Context, _ id.RoomID, session id.SessionID, _ uint32) {
		m.fresh.Store(true)
		b.vault.arrived(session.String())
	}
	if err := m.olm.Load(ctx); err != nil {
		return fmt.Errorf("load the keys of the device: %w", err)
	}
	if err := m.alone(ctx); err != nil {
		return err
	}
	if err := m.olm.ShareKeys(ctx, -1); err != nil {
		return fmt.Errorf("upload the keys of the device: %w", err)
	}

	m.vouch(ctx)
	return nil
}

// alone makes sure that the device is ours: with keys of another program
// our messages could not be read.
func (m *machine) alone(ctx context.Context) (err error) {
	b := m.bot
	if m.shown, err = b.published(ctx); err != nil {
		return err
	}
	m.signed.Store(m.shown.signed)
	if m.shown.device != "" && m.shown.device != m.olm.GetAccount().SigningKey().String() {
		return fmt.Errorf("%w: device %s has keys of another program, or the folder of this account was lost; log in by password (channels.%s.password, without accessToken) to get a device of its own", errNoCrypt, b.device, b.deps.Name)
	}
	return nil
}

// vouch signs the device with keys of the account, so that people need not
// verify it by themselves, opens the backup of keys, and says how the device is
// recognised. Without all that encryption works, too.
func (m *machine) vouch(ctx context.Context) {
	b := m.bot
	err := m.loadSigning(ctx)
	exists, backupErr := m.openBackup(ctx)

	switch {
	case !b.o.RecoveryKey.IsZero() && (m.olm.CrossSigningKeys == nil || m.copies() == nil):
		if err = m.unlock(ctx, b.o.RecoveryKey.Reveal()); err != nil {
			err = fmt.Errorf("recoveryKey: %w", err)
		}
	case m.shown.master == "" && !b.o.Password.IsZero():
		err = m.sign(ctx)
	}

	if err == nil && m.olm.CrossSigningKeys != nil {
		err = m.signDevice(ctx)
	}

	if !m.signed.Load() {
		b.deps.Log.WarnContext(ctx, "the device of the bot is not signed, and people see a red shield", "fix", b.fix(), "err", err)
	} else if err != nil {
		b.deps.Log.WarnContext(ctx, "the keys of the account cannot be used", "err", err)
	}

	if exists && m.copies() == nil {
		b.deps.Log.WarnContext(ctx, "the account has a key backup that the bot cannot open without its recovery key", "fix", b.fix(), "err", backupErr)
	}
	b.deps.Log.InfoContext(ctx, "encrypted rooms can be read", "device", b.device, "fingerprint", m.olm.Fingerprint(), "verified", m.signed.Load(), "backup", m.copies() != nil)
}

// sign makes the keys of the account that sign its devices.
func (m *machine) sign(ctx context.Context) error {
	keys, err := m.olm.GenerateCrossSigningKeys()
	if err != nil {
		return err
	}

	err = m.olm.PublishCrossSigningKeys(ctx, keys, func(r *mautrix.RespUserInteractive) any {
		return &mautrix.ReqUIAuthLogin{
			BaseAuthData: mautrix.BaseAuthData{Type: mautrix.AuthTypePassword, Session: r.Session},
			User:         m.bot.o.UserID, Password: m.bot.o.Password.Reveal(),
		}
	})
	if err != nil {
		return err
	}

	m.shown.master = keys.MasterKey.PublicKey().String()
	return m.saveSigning(ctx, keys)
}

// sync implements crypt.
func (m *machine) sync(ctx context.Context, n cryptNews, since string) {
	data, err := json.Marshal(n)
	var resp mautrix.RespSync
	if err == nil {
		err = json.Unmarshal(data, &resp)
	}

	if err != nil {
		m.bot.deps.Log.WarnContext(ctx, "the keys in an answer of the homeserver cannot be read", "err", err)
		return
	}

	m.process(ctx, &resp, since)
	m.saveKeys(ctx)
}

// process gives an answer to the library. Requests for keys are handled here, one
// after the other: the library would start a goroutine for each.
func (m *machine) process(ctx context.Context, resp *mautrix.RespSync, since string) {
	m.olms.Lock()
	defer m.olms.Unlock()

	var asked []*mxevent.Event
	resp.ToDevice.Events = slices.DeleteFunc(resp.ToDevice.Events, func(e *mxevent.Event) bool {
		is := e.Type.Type == mxevent.ToDeviceRoomKeyRequest.Type
		if is {
			asked = append(asked, e)
		}
		return is
	})

	m.olm.ProcessSyncResponse(ctx, resp, since)
	for _, e := range asked {
		e.Type.Class = mxevent.ToDeviceEventType
		if err := e.Content.ParseRaw(e.Type); err != nil {
			m.bot.deps.Log.DebugContext(ctx, "a request for keys is malformed", "sender", e.Sender, "err", err)
			continue
		}
		m.olm.HandleRoomKeyRequest(m.olm.Log.WithContext(ctx), e.Sender, e.Content.AsRoomKeyRequest())
	}
}

// decrypt implements crypt.
func (m *machine) decrypt(ctx context.Context, e event) (event, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return e, err
	}

	locked := &mxevent.Event{}
	if err := json.Unmarshal(data, locked); err != nil {
		return e, err
	}

	locked.RoomID, locked.Type.Class = id.RoomID(e.Room), mxevent.MessageEventType
	if err := locked.Content.ParseRaw(locked.Type); err != nil {
		return e, err
	}

	got, err := m.olm.DecryptMegolmEvent(ctx, locked)
	switch {
	case errors.Is(err, crypto.ErrNoSessionFound), errors.Is(err, crypto.ErrGroupSessionWithheld), errors.Is(err, olm.ErrUnknownMessageIndex):
		return e, fmt.Errorf("%w: %w", errNoKeys, err)
	case err != nil:
		return e, err
	}

	switch got.Mautrix.TrustState {
	case id.TrustStateUnknownDevice, id.TrustStateDeviceKeyMismatch, id.TrustStateBlacklisted:
		return e, fmt.Errorf("the keys of the message do not belong to a device of its sender (%s)", got.Mautrix.TrustState)
	}

	// Whoever has power over the homeserver can put keys into a backup, and every
	// member can pass keys on.
	e.weak = got.Mautrix.TrustState == id.TrustStateBackup || got.Mautrix.TrustState == id.TrustStateForwarded
	e.Type, e.Content = got.Type.Type, bytes.Clone(got.Content.VeryRaw)
	return e, nil
}

// await implements crypt.
func (m *machine) await(ctx context.Context, e event) bool {
	var c struct {
		SenderKey id.SenderKey `json:"sender_key"`
	}
	_ = json.Unmarshal(e.Content, &c) // newer clients leave it out
	session, room := id.SessionID(sessionOf(e)), id.RoomID(e.Room)
	if session == "" {
		return false
	}

	came := func() bool {
		if !m.olm.WaitForSession(ctx, room, c.SenderKey, session, m.bot.keyWait/2) {
			return false
		}
		got, err := m.olm.CryptoStore.GetGroupSession(ctx, room, session)
		return err == nil && got != nil // else it is only known that we shall not have them
	}
	if came() || m.restore(ctx, room, session) {
		return true
	}

	if err := m.olm.SendRoomKeyRequest(ctx, room, c.SenderKey, session, "", map[id.UserID][]id.DeviceID{id.UserID(e.Sender): {"*"}, id.UserID(m.bot.o.UserID): {"*"}}); err != nil {
		m.bot.deps.Log.DebugContext(ctx, "ask for the keys of a message", "room", e.Room, "err", err)
	}
	return came()
}

// encrypt implements crypt.
func (m *machine) encrypt(ctx context.Context, room string, r *room, kind string, content json.RawMessage) (json.RawMessage, error) {
	people := r.people()
	m.mu.Lock()
	m.sent[room] = people
	m.mu.Unlock()
	what := mxevent.Type{Type: kind, Class: mxevent.MessageEventType}
	got, err := m.olm.EncryptMegolmEvent(ctx, id.RoomID(room), what, content)
	if crypto.IsShareError(err) {
		users := make([]id.UserID, len(people))
		for i, p := range people {
			users[i] = id.UserID(p)
		}

		m.olms.Lock()
		err = m.olm.ShareGroupSession(ctx, id.RoomID(room), users)
		m.olms.Unlock()
		if err != nil {
			return nil, fmt.Errorf("share the keys of the room: %w", err)
		}
		got, err = m.olm.EncryptMegolmEvent(ctx, id.RoomID(room), what, content)
	}

	if err != nil {
		return nil, err
	}
	return json.Marshal(got)
}

// forget implements crypt.
func (m *machine) forget(ctx context.Context, room string) {
	if err := m.olm.CryptoStore.RemoveOutboundGroupSession(ctx, id.RoomID(room)); err != nil {
		m.bot.deps.Log.WarnContext(ctx, "the keys of a room cannot be changed", "room", room, "err", err)
	}
}

// close implements crypt.
func (m *machine) close() error {
	if m.olm != nil {
		m.olm.Destroy()
	}
	return m.db.Close()
}

// state is what the library asks about rooms.
type state struct{ m *machine }

// IsEncrypted implements crypto.StateStore.
func (s state) IsEncrypted(ctx context.Context, room id.RoomID) (bool, error) {
	r, err := s.m.bot.rooms.get(ctx, room.String())
	return err == nil && r.encrypted != nil, err
}

// GetEncryptionEvent implements crypto.StateStore.
func (s state) GetEncryptionEvent(ctx context.Context, room id.RoomID) (*mxevent.EncryptionEventContent, error) {
	r, err := s.m.bot.rooms.get(ctx, room.String())
	if err != nil || r.encrypted == nil {
		return nil, err
	}
	var c mxevent.EncryptionEventContent
	return &c, json.Unmarshal(r.encrypted, &c)
}

// FindSharedRooms implements crypto.StateStore. Only rooms that we wrote to have
// keys to change.
func (s state) FindSharedRooms(_ context.Context, user id.UserID) ([]id.RoomID, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	var out []id.RoomID
	for room, people := range s.m.sent {
		if slices.Contains(people, user.String()) {
			out = append(out, id.RoomID(room))
		}
	}
	return out, nil
}

// detail writes what the library says into our log.
type detail struct{ log *slog.Logger }

// Write implements io.Writer.
func (d detail) Write(p []byte) (int, error) {
	d.log.Debug("encryption", "detail", string(bytes.TrimSpace(p)))
	return len(p), nil
}
