package keyring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/godbus/dbus/v5"
)

// secretService is the Secret Service of a desktop session, over D-Bus. Each call
// has a connection of its own, which ends with its context, so nothing is left
// behind by a service that hangs or asks for a password.
type secretService struct{ address string }

// systemOf finds the session's bus. One is never started for this. Only a bus
// that is a file counts: that is what the sandbox can hide from commands.
func systemOf(getenv func(string) string) (System, string) {
	address := getenv("DBUS_SESSION_BUS_ADDRESS")
	if address == "" {
		dir := getenv("XDG_RUNTIME_DIR")
		if dir == "" {
			return nil, "there is no D-Bus session"
		}
		address = "unix:path=" + filepath.Join(dir, "bus")
	}

	path, ok := BusSocket(address)
	if !ok {
		return nil, "the D-Bus session is not a socket in the file system, which could be hidden from commands"
	}
	if _, err := os.Stat(path); err != nil {
		return nil, "there is no D-Bus session at " + path
	}
	return secretService{"unix:path=" + path}, ""
}

// BusSocket returns the file that a bus address names.
func BusSocket(address string) (string, bool) {
	rest, ok := strings.CutPrefix(address, "unix:path=")
	path, _, _ := strings.Cut(rest, ",")
	// A list of addresses and quoted bytes occur nowhere in practice.
	return path, ok && filepath.IsAbs(path) && !strings.ContainsAny(path, ";%")
}

const (
	busName   = "org.freedesktop.secrets"
	ifService = "org.freedesktop.Secret.Service"
	ifHolder  = "org.freedesktop.Secret.Collection"
	ifItem    = "org.freedesktop.Secret.Item"
	ifPrompt  = "org.freedesktop.Secret.Prompt"
	atService = dbus.ObjectPath("/org/freedesktop/secrets")
	atDefault = dbus.ObjectPath("/org/freedesktop/secrets/aliases/default")
	noPrompt  = dbus.ObjectPath("/")
)

// secret is a value on the bus.
type secret struct {
	Session     dbus.ObjectPath
	Parameters  []byte
	Value       []byte
	ContentType string
}

// desk is one conversation with the service.
type desk struct {
	ctx     context.Context //nolint:containedctx // a desk lives as long as one call
	conn    *dbus.Conn
	session dbus.ObjectPath
}

// visit opens a conversation and ends it.
func (s secretService) visit(ctx context.Context, do func(*desk) error) error {
	conn, err := dbus.Connect(s.address, dbus.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("D-Bus session: %w", err)
	}

	defer func() { _ = conn.Close() }() // everything was answered
	d := &desk{ctx: ctx, conn: conn}
	var ignored dbus.Variant
	err = d.call(atService, ifService+".OpenSession", "plain", dbus.MakeVariant("")).Store(&ignored, &d.session)
	if err != nil {
		return readable(err)
	}
	return readable(do(d))
}

// readable explains what the bus says most often.
func readable(err error) error {
	if e, ok := errors.AsType[dbus.Error](err); ok {
		switch e.Name {
		case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner":
			return errors.New("this D-Bus session has no Secret Service (such as GNOME Keyring, KWallet or KeePassXC)")
		case "org.freedesktop.Secret.Error.NoSuchObject":
			return errors.New("the Secret Service has no default keyring")
		case "org.freedesktop.Secret.Error.IsLocked":
			return errors.New("the keyring is locked")
		}
	}
	return err
}

func (d *desk) call(at dbus.ObjectPath, method string, args ...any) *dbus.Call {
	return d.conn.Object(busName, at).CallWithContext(d.ctx, method, 0, args...)
}

// confirm lets the service ask its user.
func (d *desk) confirm(prompt dbus.ObjectPath) error {
	if prompt == noPrompt || prompt == "" {
		return nil
	}

	match := []dbus.MatchOption{dbus.WithMatchObjectPath(prompt), dbus.WithMatchInterface(ifPrompt)}
	if err := d.conn.AddMatchSignalContext(d.ctx, match...); err != nil {
		return err
	}

	done := make(chan *dbus.Signal, 4)
	d.conn.Signal(done)
	if err := d.call(prompt, ifPrompt+".Prompt", "").Err; err != nil {
		return err
	}

	for {
		select {
		case s, ok := <-done:
			switch {
			case !ok:
				return errors.New("the D-Bus session ended")
			case s.Path != prompt || s.Name != ifPrompt+".Completed":
				continue
			}

			if dismissed, ok := first[bool](s.Body); !ok || dismissed {
				return errors.New("the keyring is locked, and its question was not answered")
			}
			return nil
		case <-d.ctx.Done():
			return d.ctx.Err()
		}
	}
}

func first[T any](body []any) (v T, ok bool) {
	if len(body) > 0 {
		v, ok = body[0].(T)
	}
	return v, ok
}

func (d *desk) unlock(what dbus.ObjectPath) error {
	var unlocked []dbus.ObjectPath
	var prompt dbus.ObjectPath
	if err := d.call(atService, ifService+".Unlock", []dbus.ObjectPath{what}).Store(&unlocked, &prompt); err != nil {
		return err
	}
	return d.confirm(prompt)
}

// attributes returns those that other programs of this kind use, too.
func attributes(service, user string) map[string]string {
	return map[string]string{"service": service, "username": user}
}

// find returns the item of a user, unlocked.
func (d *desk) find(service, user string) (dbus.ObjectPath, error) {
	var open, locked []dbus.ObjectPath
	if err := d.call(atService, ifService+".SearchItems", attributes(service, user)).Store(&open, &locked); err != nil {
		return "", err
	}

	switch {
	case len(open) > 0:
		return open[0], nil
	case len(locked) > 0:
		return locked[0], d.unlock(locked[0])
	}
	return "", errNotFound
}

func (s secretService) Get(ctx context.Context, service, user string) (string, error) {
	var held secret
	err := s.visit(ctx, func(d *desk) error {
		item, err := d.find(service, user)
		if err != nil {
			return err
		}
		return d.call(item, ifItem+".GetSecret", d.session).Store(&held)
	})
	return string(held.Value), err
}

func (s secretService) Set(ctx context.Context, service, user, value string) error {
	return s.visit(ctx, func(d *desk) error {
		held := secret{Session: d.session, Parameters: []byte{}, Value: []byte(value), ContentType: "text/plain; charset=utf8"}
		item, err := d.find(service, user)
		if err == nil { // it may lie in another keyring than the default one
			return d.call(item, ifItem+".SetSecret", held).Err
		}
		if !errors.Is(err, errNotFound) {
			return err
		}
		if err := d.unlock(atDefault); err != nil {
			return err
		}

		properties := map[string]dbus.Variant{
			ifItem + ".Label":      dbus.MakeVariant(fmt.Sprintf("%s: %s", service, user)),
			ifItem + ".Attributes": dbus.MakeVariant(attributes(service, user)),
		}
		var prompt dbus.ObjectPath
		if err := d.call(atDefault, ifHolder+".CreateItem", properties, held, true).Store(&item, &prompt); err != nil {
			return err
		}
		return d.confirm(prompt)
	})
}

func (s secretService) Delete(ctx context.Context, service, user string) error {
	return s.visit(ctx, func(d *desk) error {
		item, err := d.find(service, user)
		if err != nil {
			return err
		}

		var prompt dbus.ObjectPath
		if err := d.call(item, ifItem+".Delete").Store(&prompt); err != nil {
			return err
		}
		return d.confirm(prompt)
	})
}

func (secretService) Limit() int { return maxFile }
