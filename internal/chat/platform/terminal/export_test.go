package terminal

import (
	"context"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// Add stores a message, as the channel does.
func (m *Mailbox) Add(ctx context.Context, out bus.Outbound) (string, error) { return m.add(ctx, out) }

// Waiting reports whether nothing shows a message.
func (m *Mailbox) Waiting(ctx context.Context, name string) bool { return m.waiting(ctx, name) }
