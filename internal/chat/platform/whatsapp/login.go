package whatsapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	loginTime = 10 * time.Minute
	scanNote  = "Open WhatsApp on the phone, Settings, Linked devices, Link a device, and scan the code."
	codeNote  = "Open WhatsApp on the phone, Settings, Linked devices, Link a device, Link with phone number instead, and type the code."
)

// errDone ends a conversation with the other side that reached its goal.
var errDone = errors.New("done")

// talk runs a conversation with the other side outside of Run: step is called
// with every frame until it returns errDone or another error.
func talk(ctx context.Context, d chat.Deps, section json.RawMessage, step func(ctx context.Context, b *bot, f *frame) error) error {
	d.Gate = nil // the channel that runs sets its rules
	b, err := newBot(d, section)
	if err != nil {
		return err
	}

	var lost error
	b.deps.Ready = func(_ string, err error) { lost = err }
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	err = b.serve(ctx, func(ctx context.Context, f *frame) error {
		if err := step(ctx, b, f); err != nil {
			return socket.Fatal(err)
		}
		return nil
	})
	switch {
	case errors.Is(err, errDone):
		return nil
	case err == nil && lost != nil:
		return lost
	case err == nil:
		return errors.New("it took too long: try again")
	}

	return err
}

// login links the account by a QR code or a code to type in.
func login(ctx context.Context, d chat.Deps, section json.RawMessage, p chat.Dialog, force bool) (chat.Result, error) {
	if force {
		if err := forget(d, section); err != nil {
			return chat.Result{}, err
		}
	}

	phone, err := p.Ask(ctx, chat.Question{Text: "Phone number of the account, to link it with a code; empty shows a QR code"})
	if err != nil {
		return chat.Result{}, err
	}

	phone = strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, phone)

	identity := ""
	err = talk(ctx, d, section, func(ctx context.Context, b *bot, f *frame) error {
		switch f.Type {
		case typeHello, typeStatus:
			switch f.Status {
			case connected:
				identity, _ = parseJID(f.JID)
				return errDone
			case unlinked:
				c, _ := b.connection()
				return send(ctx, c, frame{Type: typeLogin, Phone: phone})
			case loggedOut, replaced, banned, outdated:
				return b.status(f)
			}

		case typeQR:
			if phone == "" {
				p.Tell(chat.Step{QR: f.QR, Note: scanNote, Expires: expires(d, f)})
			}
		case typeCode:
			p.Tell(chat.Step{Code: f.Code, Note: codeNote, Expires: expires(d, f)})
		case typeError:
			return fmt.Errorf("WhatsApp: %s", f.Error)
		}
		return nil
	})
	if err != nil {
		return chat.Result{}, fmt.Errorf("link the account: %w", err)
	}
	return chat.Result{Identity: identity}, nil
}

func expires(d chat.Deps, f *frame) time.Time {
	if f.Expires <= 0 {
		return time.Time{}
	}
	return d.Now().Add(time.Duration(f.Expires) * time.Second)
}

// logout ends the link, at the phone as well if that can be reached.
func logout(ctx context.Context, d chat.Deps, section json.RawMessage) error {
	b, err := newBot(chat.Deps{Dir: d.Dir, Log: d.Log, Now: d.Now}, section)
	if err != nil {
		return err
	}
	if b.o.Transport == bridge {
		return errors.New("the link belongs to the bridge: remove this device on the phone, or delete the bridge's folder")
	}

	err = talk(ctx, d, section, func(ctx context.Context, b *bot, f *frame) error {
		switch {
		case f.Type != typeHello && f.Type != typeStatus:
		case f.Status == connected:
			c, _ := b.connection()
			return send(ctx, c, frame{Type: typeLogout})
		case f.Status != disconnected:
			return errDone
		}
		return nil
	})
	if err != nil && !errors.Is(err, kit.ErrNoProgram) {
		d.Log.WarnContext(ctx, "the phone could not be told; remove this device there", "err", err)
	}
	return forget(d, section)
}

// forget removes the linked device from the disk.
func forget(d chat.Deps, section json.RawMessage) error {
	b, err := newBot(chat.Deps{Dir: d.Dir}, section)
	if err != nil || b.o.Transport == bridge {
		return err
	}

	store, err := b.store()
	if err != nil {
		return err
	}

	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(store + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the linked device: %w", err)
		}
	}
	return nil
}

// probe looks whether the other side is there and an account is linked. It does
// not start the program: that would take the device from a gateway that runs.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	b, err := newBot(chat.Deps{Dir: d.Dir}, section)
	if err != nil {
		return chat.Report{}, err
	}

	if b.o.Transport == native {
		store, err := b.store()
		if err != nil {
			return chat.Report{}, err
		}

		linked := chat.Check{Name: "linked device", OK: true, Detail: store}
		if info, err := os.Stat(store); err != nil || info.Size() == 0 {
			linked.OK, linked.Detail = false, errUnlinked(d.Name).Error()
		}

		there := chat.Check{Name: "program", OK: true, Detail: program}
		if err := kit.HasProgram(program); err != nil {
			there.OK, there.Detail = false, err.Error()
		}
		return chat.Report{Checks: []chat.Check{there, linked}}, nil
	}

	ctx, cancel := context.WithTimeout(ctx, 2*helloTime)
	defer cancel()
	r := chat.Report{Checks: []chat.Check{{Name: "bridge", OK: true, Detail: b.o.BridgeURL}}}
	err = talk(ctx, d, section, func(_ context.Context, _ *bot, f *frame) error {
		if f.Type == typeHello || f.Type == typeStatus {
			r.Identity, _ = parseJID(f.JID)
			r.Checks = append(r.Checks, chat.Check{Name: "account", OK: f.Status == connected, Detail: f.Status})
		}
		return errDone
	})
	if err != nil && ctx.Err() == nil {
		r.Checks[0].OK, r.Checks[0].Detail = false, chat.Explain(err).Error()
	}
	return r, nil
}
