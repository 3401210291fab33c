// Package terminal delivers messages of a gateway to the terminals of this machine.
//
// A message is delivered when it is in the Mailbox, on disk. An open terminal shows
// it at once, else the next one does, whether or not the gateway still runs. Each
// message is shown by one terminal: preferably by one that has its conversation open.
// A terminal that dies before a message is on its screen leaves it to the next.
//
// Driver is the side of the gateway, Mailbox and Reader are that of terminals. The
// channel has no section in the configuration and receives nothing: what is typed in
// a terminal goes to its own agent.
package terminal

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// Name is the channel of conversations in the terminal.
const Name = "cli"

// Section returns the section that the channel is made of: whole answers only, because
// no reader watches them grow.
func Section() json.RawMessage {
	return json.RawMessage(`{"enabled":true,"allowFrom":["*"],"sendProgress":false,"sendToolHints":false,"showReasoning":false}`)
}

// Notice is what a desktop shows of a message.
type Notice struct{ Title, Body string }

// Options of the Driver.
type Options struct {
	Mailbox *Mailbox
	// Notify shows a notice on the desktop of the user; nil: there is none, or it is
	// switched off when the message comes. It may block for a few seconds.
	Notify func(ctx context.Context, n Notice) error
}

// Driver makes the channel. Its section is that of Section.
func Driver(o Options) chat.Driver {
	return chat.Driver{
		Title: "Terminal",
		New: func(d chat.Deps, _ json.RawMessage) (chat.Channel, error) {
			return &desk{o: o, d: d, added: make(chan string, waitingNotices)}, nil
		},
	}
}

const (
	// noticeAfter is how long a terminal has to show a message before the desktop
	// says that there is one.
	noticeAfter = 5 * time.Second
	// waitingNotices is how many messages may wait for that; more get no notice.
	waitingNotices = 64
	// noticeWait is how long a desktop may take to show a notice.
	noticeWait = 10 * time.Second
	// noticeChars is how much of a message a notice shows.
	noticeChars = 200
)

// desk is the channel.
type desk struct {
	o     Options
	d     chat.Deps
	added chan string // names of messages that may need a notice
}

// Name implements chat.Channel.
func (c *desk) Name() string { return c.d.Name }

// Caps implements chat.Channel. Files are shown as paths, so they have no limit.
func (c *desk) Caps() chat.Caps { return chat.Caps{MaxMedia: 1 << 62, Together: 1 << 10} }

// Plan implements chat.Planner: a terminal takes a message as it is.
func (c *desk) Plan(out bus.Outbound) []bus.Outbound { return []bus.Outbound{out} }

// Run implements chat.Channel. It shows notices of messages that no terminal took.
func (c *desk) Run(ctx context.Context, _ chat.Submit) error {
	c.d.Ready("", nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case name := <-c.added:
			if err := wait.For(ctx, noticeAfter); err == nil {
				c.notify(ctx, name)
			}
		}
	}
}

func (c *desk) notify(ctx context.Context, name string) {
	if c.o.Notify == nil || !c.o.Mailbox.waiting(ctx, name) {
		return
	}

	l, err := c.o.Mailbox.read(ctx, name)
	if err != nil {
		return // it was shown and removed meanwhile
	}

	ctx, cancel := context.WithTimeout(ctx, noticeWait)
	defer cancel()
	n := Notice{Title: "nanobot", Body: text.Label(l.Out.Text, noticeChars)}
	if err := c.o.Notify(ctx, n); err != nil {
		c.d.Log.Log(ctx, slog.LevelDebug, "no desktop notification", "err", err)
	}
}

// Send implements chat.Channel.
func (c *desk) Send(ctx context.Context, out bus.Outbound) (string, error) {
	if !out.Kind.Durable() {
		return "", nil
	}

	if out.Key != "" {
		out.ID = out.Key
	}

	name, err := c.o.Mailbox.add(ctx, out)
	if err != nil {
		return "", err
	}

	select {
	case c.added <- name:
	default:
	}
	return name, nil
}
