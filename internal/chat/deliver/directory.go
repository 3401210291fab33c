package deliver

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// Directory knows the accounts by name. It can be made before the Manager that
// runs them, for what the Manager itself needs: without one it is empty.
type Directory struct {
	mu          sync.Mutex
	supervisors map[string]*supervisor
	log         *slog.Logger
}

// NewDirectory makes an empty directory. One Manager fills it; see Options.
func NewDirectory(log *slog.Logger) *Directory {
	return &Directory{supervisors: map[string]*supervisor{}, log: log}
}

// Channel returns the running channel of a name, nil if there is none.
func (d *Directory) Channel(name string) chat.Channel {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.supervisors[name]; s != nil {
		return s.ch
	}
	return nil
}

// Language returns the one that people on a channel read, as far as the section and
// the platform say; "" is English.
func (d *Directory) Language(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.supervisors[name]; s != nil {
		return s.language("")
	}
	return ""
}

// Address finds the chat that a route names, on platforms whose chats have
// names. Others take the route as it is.
func (d *Directory) Address(ctx context.Context, r bus.Route) (found bus.Route, err error) {
	a, ok := d.Channel(r.Channel).(chat.Addresser)
	if !ok || r.ChatID == "" {
		return r, nil
	}

	defer recoverPanic(d.log, &err)
	ctx, cancel := context.WithTimeout(ctx, addressWait)
	defer cancel()
	if found, err = a.Address(ctx, r.ChatID); err != nil {
		return r, err
	}

	found.Channel = r.Channel
	found.ThreadID, found.MessageID = cmp.Or(r.ThreadID, found.ThreadID), r.MessageID
	return found, nil
}

const addressWait = 30 * time.Second
