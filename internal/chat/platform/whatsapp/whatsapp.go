// Package whatsapp is the chat platform WhatsApp, which has no interface for
// bots: another program is a linked device of an account and speaks a small
// protocol of JSON frames with us. That program is nanobot-whatsapp, which the
// channel starts, or a bridge that runs already, such as the one of Python
// nanobot. The package hides which of them it is, and that a person has a phone
// number and a hidden id of which a message names any.
package whatsapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const holdPause = time.Second // while too much waits

// bot is the channel.
type bot struct {
	deps   chat.Deps
	o      *options
	facts  *facts
	words  *recent.Map[string, string] // of messages, by id, for quotes
	quoted *recent.Map[string, bool]   // messages that were quoted, so that only the first part of an answer quotes
	lastID atomic.Int64
	run    sync.Mutex // one Run at a time

	silence time.Duration // then the connection is dead; 0: as in package socket
	hello   time.Duration // for the answer to auth
	jitter  time.Duration // before a message, at most
	once    *kit.Once     // logs trouble

	mu     sync.Mutex
	conn   *socket.Conn // nil: not connected
	modern bool         // the other side knows all frames
	up     bool         // the account is connected
}

// Driver returns the platform.
func Driver() chat.Driver {
	return chat.Driver{
		Title: "WhatsApp", Options: func() any { return defaults() }, New: newChannel, Needs: needs,
		Probe: probe, Login: login, Logout: logout, Folder: "whatsapp-auth",
	}
}

// needs is the second program, unless a bridge is used.
func needs(settings map[string]string) error {
	if settings["bridgeUrl"] != "" || settings["transport"] == bridge || kit.HasProgram(program) == nil {
		return nil
	}
	return errors.New("WhatsApp needs a second program, nanobot-whatsapp, which is neither beside nanobot nor on PATH. " +
		"Build it with \"make build-whatsapp\" in the source of nanobot and put it beside nanobot; see docs/how-to/channels/whatsapp.md")
}

// newChannel makes the channel of a section.
func newChannel(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
	return newBot(d, section)
}

func newBot(d chat.Deps, section json.RawMessage) (*bot, error) {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return nil, err
	}

	if d.Gate != nil {
		d.Gate.SetRules(o.rules())
	}
	return &bot{
		deps:   d,
		o:      o,
		facts:  &facts{state: d.State},
		words:  recent.New[string, string](2000),
		quoted: recent.New[string, bool](1000),
		once:   kit.NewOnce(d.Log),
		hello:  helloTime,
		jitter: jitter,
	}, nil
}

// Name implements chat.Channel.
func (b *bot) Name() string { return b.deps.Name }

// Caps implements chat.Channel.
func (b *bot) Caps() chat.Caps { return b.o.caps() }

// Run implements chat.Channel.
func (b *bot) Run(ctx context.Context, submit chat.Submit) error {
	if !b.run.TryLock() {
		return errors.New("the channel runs already")
	}

	defer b.run.Unlock()

	if err := b.facts.open(b.o.LIDMappings); err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	in, err := kit.NewIntake(ctx, b.deps, (&receiver{bot: b, submit: submit}).handle)
	if err != nil {
		cancel()
		return err
	}

	defer in.Wait()
	defer cancel()
	return b.serve(ctx, func(ctx context.Context, f *frame) error { return b.receive(ctx, in, f) })
}

// receive handles a frame that answers nothing.
func (b *bot) receive(ctx context.Context, in *kit.Intake[frame], f *frame) error {
	switch f.Type {
	case typeHello, typeStatus:
		return b.status(f)
	case typeQR:
		b.deps.Ready("", errUnlinked(b.deps.Name))
	case typeMessage:
		b.hold(ctx, in, f)
	case typeError:
		b.once.Warn(ctx, "error: "+f.Error, "the bridge reports an error", "err", f.Error)
	case typeSent, typeFile, typeCode: // its caller has gone
	default:
		b.once.Warn(ctx, "type", "a frame of the bridge is not known and was dropped", "type", f.Type)
	}
	return nil
}

func errUnlinked(name string) error {
	return fmt.Errorf("no WhatsApp account is linked: run nanobot channels login %s", name)
}

// status takes the state of the account. An error ends the channel.
func (b *bot) status(f *frame) error {
	phone, _ := parseJID(f.JID)
	b.mu.Lock()
	b.up = f.Status == connected
	b.mu.Unlock()
	var why error
	switch f.Status {
	case connected:
		if err := b.deps.Claim(phone); err != nil {
			return socket.Fatal(err)
		}
		b.deps.Ready(phone, nil)
		return nil

	case unlinked:
		why = errUnlinked(b.deps.Name)
	case loggedOut:
		why = fmt.Errorf("the phone ended the link of this device: run nanobot channels login %s", b.deps.Name)
	case replaced:
		why = errors.New("another program uses the same linked device: stop it, or link this one again")
	case banned:
		why = fmt.Errorf("WhatsApp has blocked the account: %s", f.Reason)
	case outdated:
		why = errors.New("WhatsApp does not accept this version any more: update nanobot-whatsapp")
	default:
		b.deps.Ready("", fmt.Errorf("WhatsApp is not connected%s", reason(f.Reason)))
		return nil
	}

	return socket.Fatal(chat.Fatal(why))
}

func reason(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// hold keeps a message and tells the other side that it may forget it.
func (b *bot) hold(ctx context.Context, in *kit.Intake[frame], f *frame) {
	if f.Sender == "" || f.Sender == statusChat || f.ID == "" {
		return
	}

	key := f.Sender + "/" + f.ID
	if f.Edited {
		key += "/" + string(f.Timestamp)
	}

	for (!f.Edited || b.o.EditedMessages) && in.Hold(ctx, f.Sender, key, *f) != nil {
		b.once.Warn(ctx, "held", "too many messages wait; reading from the bridge pauses")
		if wait.For(ctx, holdPause) != nil {
			return
		}
	}

	if c, modern := b.connection(); c != nil && modern {
		_ = send(ctx, c, frame{Type: typeAck, ID: f.ID}) // else it comes again and is known
	}
}
