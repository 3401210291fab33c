package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.mau.fi/whatsmeow"
	waBinary "go.mau.fi/whatsmeow/binary"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/store"
	"go.mau.fi/whatsmeow/store/sqlstore"
	"go.mau.fi/whatsmeow/types"
	waLog "go.mau.fi/whatsmeow/util/log"
	_ "modernc.org/sqlite" // the driver of the store
)

// whatsApp is the library, as far as this program uses it.
type whatsApp interface {
	Linked() bool
	Self() self
	Connect(ctx context.Context) error
	Disconnect()
	// QR connects and returns the codes to scan.
	QR(ctx context.Context) (<-chan whatsmeow.QRChannelItem, error)
	Pair(ctx context.Context, phone string) (code string, err error)
	Send(ctx context.Context, to types.JID, m *waE2E.Message, id string) (string, error)
	// Refresh asks WhatsApp which devices the people of a chat have.
	Refresh(ctx context.Context, to types.JID) error
	Upload(ctx context.Context, data []byte, kind whatsmeow.MediaType) (whatsmeow.UploadResponse, error)
	Download(ctx context.Context, m *waE2E.Message) ([]byte, error)
	Read(ctx context.Context, id string, chat, sender types.JID) error
	Typing(ctx context.Context, chat types.JID, on bool) error
	// Renew takes over the version that WhatsApp asks for.
	Renew(ctx context.Context) error
	Logout(ctx context.Context) error
}

// openStore opens the file with the linked device. One that neonize made is of
// the same kind.
func openStore(ctx context.Context, path string, log waLog.Logger) (*sqlstore.Container, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the linked device: %w", err)
	}

	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // SQLite would make it readable for others
	if err != nil {
		return nil, fmt.Errorf("open the linked device: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, err
	}

	name := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}).String()
	db, err := sql.Open("sqlite", name+"?_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open the linked device: %w", err)
	}

	db.SetMaxOpenConns(1)
	c := sqlstore.NewWithDB(db, "sqlite", log)
	if err := c.Upgrade(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the linked device: %w", err), db.Close())
	}
	return c, nil
}

// account is the library.
type account struct{ cli *whatsmeow.Client }

// newAccount makes the client of the stored device, or of a new one. Nothing is
// connected yet.
func newAccount(ctx context.Context, c *sqlstore.Container, proxy string, log waLog.Logger, handle func(any) bool) (*account, error) {
	device, err := c.GetFirstDevice(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the linked device: %w", err)
	}

	store.SetOSInfo("nanobot", [3]uint32{1, 0, 0})
	cli := whatsmeow.NewClient(device, log)
	cli.SynchronousAck = true // a message is confirmed when nanobot has it
	cli.AddEventHandlerWithSuccessStatus(handle)

	if proxy != "" {
		if err := cli.SetProxyAddress(proxy); err != nil {
			return nil, fmt.Errorf("proxy: %w", err)
		}
	}
	return &account{cli}, nil
}

func (a *account) Linked() bool { return a.cli.Store.ID != nil }

func (a *account) Self() self {
	s := self{lid: a.cli.Store.GetLID().ToNonAD()}
	if id := a.cli.Store.ID; id != nil {
		s.phone = id.ToNonAD()
	}
	return s
}

func (a *account) Connect(ctx context.Context) error { return a.cli.ConnectContext(ctx) }

func (a *account) Disconnect() { a.cli.Disconnect() }

func (a *account) QR(ctx context.Context) (<-chan whatsmeow.QRChannelItem, error) {
	a.cli.Disconnect()
	codes, err := a.cli.GetQRChannel(ctx)
	if err != nil {
		return nil, err
	}
	return codes, a.cli.ConnectContext(ctx)
}

func (a *account) Pair(ctx context.Context, phone string) (string, error) {
	return a.cli.PairPhone(ctx, phone, true, whatsmeow.PairClientChrome, "Chrome (Linux)")
}

func (a *account) Send(ctx context.Context, to types.JID, m *waE2E.Message, id string) (string, error) {
	r, err := a.cli.SendMessage(ctx, to, m, whatsmeow.SendRequestExtra{ID: id})
	return r.ID, err
}

func (a *account) Refresh(ctx context.Context, to types.JID) error {
	own := a.Self()
	people := []types.JID{to}
	if to.Server == types.GroupServer {
		group, err := a.cli.GetGroupInfo(ctx, to)
		if err != nil {
			return err
		}
		people = people[:0]
		for _, p := range group.Participants {
			people = append(people, p.JID)
		}
	}

	a.forgetDevices(ctx, append(people, own.phone, own.lid)...)
	if to.Server != types.DefaultUserServer {
		return nil // the next message asks
	}

	_, err := a.cli.GetUserInfo(ctx, people) // also which hidden id a number has
	return err
}

// forgetDevices lets the library ask for the devices of people again. It has no
// function for that, but forgets them when WhatsApp says that they changed.
func (a *account) forgetDevices(ctx context.Context, people ...types.JID) {
	for _, p := range people {
		forms := []types.JID{p}
		if other, err := a.cli.Store.GetAltJID(ctx, p); err == nil && !other.IsEmpty() {
			forms = append(forms, other)
		}

		for _, jid := range forms {
			a.cli.DangerousInternals().HandleDeviceNotification(ctx, &waBinary.Node{
				Tag: "notification", Attrs: waBinary.Attrs{"from": jid}, Content: []waBinary.Node{{Tag: "update"}},
			})
		}
	}
}

func (a *account) Upload(ctx context.Context, data []byte, kind whatsmeow.MediaType) (whatsmeow.UploadResponse, error) {
	return a.cli.Upload(ctx, data, kind)
}

func (a *account) Download(ctx context.Context, m *waE2E.Message) ([]byte, error) {
	return a.cli.DownloadAny(ctx, m)
}

func (a *account) Read(ctx context.Context, id string, chat, sender types.JID) error {
	return a.cli.MarkRead(ctx, []types.MessageID{id}, time.Now(), chat, sender)
}

func (a *account) Typing(ctx context.Context, chat types.JID, on bool) error {
	state := types.ChatPresencePaused
	if on {
		state = types.ChatPresenceComposing
	}
	return a.cli.SendChatPresence(ctx, chat, state, types.ChatPresenceMediaText)
}

func (a *account) Renew(ctx context.Context) error {
	v, err := whatsmeow.GetLatestVersion(ctx, http.DefaultClient)
	if err != nil {
		return err
	}
	store.SetWAVersion(*v)
	a.cli.Disconnect()
	return a.cli.ConnectContext(ctx)
}

func (a *account) Logout(ctx context.Context) error { return a.cli.Logout(ctx) }
