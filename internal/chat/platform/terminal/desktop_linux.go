package terminal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/godbus/dbus/v5"
)

const (
	noticeService = "org.freedesktop.Notifications"
	noticePath    = dbus.ObjectPath("/org/freedesktop/Notifications")
	noticeExpires = int32(-1) // milliseconds; -1 leaves it to the desktop
)

// Desktop returns what shows notices on the desktop of this user.
func Desktop(getenv func(string) string) func(ctx context.Context, n Notice) error {
	return func(ctx context.Context, n Notice) error {
		address := getenv("DBUS_SESSION_BUS_ADDRESS")
		if dir := getenv("XDG_RUNTIME_DIR"); address == "" && dir != "" {
			address = "unix:path=" + filepath.Join(dir, "bus")
		}
		if address == "" {
			return errors.New("there is no D-Bus session")
		}
		return showOnBus(ctx, address, n)
	}
}

// showOnBus calls the notification service of a D-Bus session.
func showOnBus(ctx context.Context, address string, n Notice) error {
	conn, err := dbus.Connect(address, dbus.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("D-Bus session: %w", err)
	}

	defer func() { _ = conn.Close() }() // everything was answered

	// Some desktops read the body as markup.
	body := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(n.Body)
	call := conn.Object(noticeService, noticePath).CallWithContext(ctx, noticeService+".Notify", 0,
		"nanobot", uint32(0), "", n.Title, body, []string{}, map[string]dbus.Variant{}, noticeExpires)
	if call.Err != nil {
		return fmt.Errorf("desktop notification: %w", call.Err)
	}
	return nil
}
