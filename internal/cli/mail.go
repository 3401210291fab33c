package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/platform/terminal"
	"github.com/nanobot-go/nanobot/internal/cli/tui"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// mail holds what a gateway has for the terminals of this machine, such as reminders,
// as an open chat shows it.
type mail struct {
	*terminal.Reader
	log *slog.Logger
}

// openMail makes a chat one that messages wait for.
func (c *agentCommand) openMail(ctx context.Context, l *config.Loaded, talk conversation) mail {
	box := gateway.Mailbox(l, c.Now, c.home.logger())
	session := tui.Route(talk.key).SessionKey()
	r, err := box.Attach(ctx, session)
	if err != nil {
		c.home.logger().WarnContext(ctx, "messages for the terminal come late", "err", err)
		r = box.Read(session)
	}
	return mail{r, c.home.logger()}
}

// deliver passes messages to the chat until ctx ends.
func (m mail) deliver(ctx context.Context, late chan<- bus.Outbound) {
	_ = m.Run(ctx, func(out bus.Outbound) { // it ends with its context only
		select {
		case late <- out:
		case <-ctx.Done(): // another terminal shows it
		}
	})
}

// shown is recordShown for a chat, whose screen outlives its context.
func (m mail) shown(out bus.Outbound) { m.recordShown(context.Background(), out) }

// recordShown records that a message is on the screen.
func (m mail) recordShown(ctx context.Context, out bus.Outbound) {
	if err := m.Shown(ctx, out.ID); err != nil {
		m.log.WarnContext(ctx, "a message may be shown again", "err", err)
	}
}

// close leaves what was not shown to other terminals.
func (m mail) close() {
	if err := m.Close(); err != nil {
		m.log.Warn("messages for the terminal", "err", err)
	}
}

// showMail prints what waits for a terminal, before the answer to a single question.
func (c *agentCommand) showMail(ctx context.Context, l *config.Loaded, talk conversation) {
	r := gateway.Mailbox(l, c.Now, c.home.logger()).Read(tui.Route(talk.key).SessionKey())
	m := mail{r, c.home.logger()}
	defer m.close()

	for _, out := range r.Claim(ctx) {
		lines := []string{printable(strings.TrimSpace(out.Text))}
		for _, file := range out.Media {
			lines = append(lines, "+ "+printable(file.Path))
		}
		if _, err := fmt.Fprintln(c.Err, strings.Join(lines, "\n")+"\n"); err != nil {
			return
		}
		m.recordShown(ctx, out)
	}
}
