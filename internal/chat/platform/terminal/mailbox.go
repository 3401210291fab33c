package terminal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// Folders of the mailbox. Locks are kept apart from the messages, which terminals
// watch: on some systems a lock is a file, and taking one would wake all of them.
const (
	messages = "terminal"
	claims   = "terminal/claims"  // locks of messages that a terminal is about to show
	open     = "terminal/open"    // which conversations are open in a terminal
	presence = "terminal/present" // locks of those that still run
)

const (
	// rememberShown is how long the record of a shown message is kept: a gateway
	// that dies before it noted the delivery brings the message again when it
	// starts, which happens within this time.
	rememberShown = 7 * 24 * time.Hour
	// lockWait is how long one short step of another process may take.
	lockWait = 2 * time.Second
	// pollEvery is how often a terminal looks without being told: nothing tells it
	// that another one died with a message that it had not shown.
	pollEvery = 10 * time.Second
)

// Mailbox holds messages for the terminal on disk until a terminal has shown them. It
// does not need a gateway to be read, and several processes may use it at the same time.
type Mailbox struct {
	state store.Store
	now   func() time.Time
	log   *slog.Logger
}

// OpenMailbox returns the mailbox in the part of the data folder that holds
// undelivered messages. It does no I/O.
func OpenMailbox(state store.Store, now func() time.Time, log *slog.Logger) *Mailbox {
	if now == nil {
		now = time.Now
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Mailbox{state: state, now: now, log: log}
}

// letter is the document of one message.
type letter struct {
	Session string       `json:"session"` // the conversation that it belongs to
	At      time.Time    `json:"at"`
	Out     bus.Outbound `json:"out"`
	ShownAt time.Time    `json:"shown_at,omitzero"` // then Out is empty
}

// nameOf returns a short name for an id that may hold any characters.
func nameOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:12])
}

func document(name string) string { return messages + "/" + name + ".json" }

// add stores a message. One with an ID that was added before is ignored, also after
// it was shown.
func (m *Mailbox) add(ctx context.Context, out bus.Outbound) (name string, err error) {
	name = nameOf(out.ID)
	l := letter{Session: out.Route.SessionKey(), At: m.now(), Out: out}
	data, err := store.Indented(l)
	if err != nil {
		return "", err
	}

	_, err = m.state.Put(ctx, document(name), data, store.Missing, true)
	if errors.Is(err, store.ErrChanged) {
		return name, nil // it is there already
	}

	if err == nil {
		m.forget(ctx)
	}
	return name, err
}

// waiting reports whether a message has not been shown and no terminal is about to.
func (m *Mailbox) waiting(ctx context.Context, name string) bool {
	l, err := m.read(ctx, name)
	if err != nil || !l.ShownAt.IsZero() {
		return false
	}
	release, err := m.state.Lock(ctx, claims+"/"+name)
	if err != nil {
		return false
	}
	return release() == nil
}

// read reads a message; one that is missing is an error.
func (m *Mailbox) read(ctx context.Context, name string) (letter, error) {
	data, version, err := m.state.Doc(ctx, document(name))
	var l letter
	if err != nil {
		return l, err
	}
	if version == store.Missing {
		return l, errors.New("there is no such message")
	}
	return l, json.Unmarshal(data, &l)
}

// entry is a message with its name.
type entry struct {
	name string
	letter
}

// list returns the messages, the oldest first. What cannot be read is left alone.
func (m *Mailbox) list(ctx context.Context) []entry {
	var all []entry
	for info, err := range m.state.Docs(ctx, messages) {
		if err != nil {
			m.log.WarnContext(ctx, "messages for the terminal cannot be listed", "err", err)
			break
		}

		name := info.Name[len(messages)+1 : len(info.Name)-len(".json")]
		l, err := m.read(ctx, name)
		if err != nil {
			m.log.WarnContext(ctx, "a message for the terminal cannot be read", "name", name, "err", err)
			continue
		}
		all = append(all, entry{name, l})
	}

	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.name, b.name))
	})
	return all
}

// forget removes records of messages that were shown long ago.
func (m *Mailbox) forget(ctx context.Context) {
	for _, e := range m.list(ctx) {
		if e.ShownAt.IsZero() || m.now().Sub(e.ShownAt) < rememberShown {
			continue
		}
		if err := m.state.Remove(ctx, document(e.name)); err != nil {
			m.log.WarnContext(ctx, "an old message for the terminal cannot be removed", "err", err)
		}
	}
}

// AnyOpen reports whether a terminal waits for messages now.
func (m *Mailbox) AnyOpen(ctx context.Context) bool {
	found := false
	for info, err := range m.state.Docs(ctx, open) {
		if err != nil {
			break
		}

		name := info.Name[len(open)+1 : len(info.Name)-len(".json")]
		release, err := m.state.Lock(ctx, presence+"/"+name)
		if err != nil {
			found = true
			continue
		}

		_ = m.state.Remove(ctx, info.Name) // its terminal was killed
		_ = release()
	}

	return found
}

// isOpen reports whether another terminal has a conversation open.
func (m *Mailbox) isOpen(ctx context.Context, session string) bool {
	release, err := m.state.Lock(ctx, presence+"/"+nameOf(session))
	if err != nil {
		return true
	}
	_ = release()
	return false
}

// Reader is one terminal that shows messages. It is safe for concurrent use.
type Reader struct {
	box     *Mailbox
	session string
	present func() error // gives the place of the terminal back; nil: it has none

	mu      sync.Mutex
	claimed map[string]func() error // gives the right to show a message back, by its name
}

// Read makes a reader for a person who does not wait, such as one who asks a single
// question: Take works, and no message waits for it.
func (m *Mailbox) Read(session string) *Reader {
	return &Reader{box: m, session: session, claimed: map[string]func() error{}}
}

// Attach makes a reader for a terminal that stays open: messages of its conversation
// wait for it, and others come to it if their own conversation is not open.
func (m *Mailbox) Attach(ctx context.Context, session string) (*Reader, error) {
	r := m.Read(session)
	name := nameOf(session)
	data, err := json.Marshal(map[string]string{"session": session})
	if err != nil {
		return nil, err
	}

	release, err := store.WaitLock(ctx, m.state, presence+"/"+name, lockWait)
	switch _, taken := errors.AsType[*store.LockedError](err); {
	case taken: // two terminals in one conversation: either may show a message
		return r, nil
	case err != nil:
		return nil, err
	}

	if _, err := m.state.Put(ctx, open+"/"+name+".json", append(data, '\n'), store.Any, false); err != nil {
		return nil, errors.Join(err, release())
	}

	r.present = func() error {
		return errors.Join(m.state.Remove(context.WithoutCancel(ctx), open+"/"+name+".json"), release())
	}
	return r, nil
}

// Claim reserves and returns what this terminal should show now, the oldest first. Each message is
// confirmed by calling Shown with its ID; if the process dies before that, another
// terminal shows it.
func (r *Reader) Claim(ctx context.Context) []bus.Outbound {
	var out []bus.Outbound
	for _, e := range r.box.list(ctx) {
		if !e.ShownAt.IsZero() || e.Session != r.session && r.box.isOpen(ctx, e.Session) {
			continue
		}

		release, err := r.box.state.Lock(ctx, claims+"/"+e.name)
		if err != nil {
			continue // a terminal is about to show it
		}

		now, err := r.box.read(ctx, e.name) // it may have been shown until we had the lock
		if err != nil || !now.ShownAt.IsZero() {
			_ = release()
			continue
		}

		r.mu.Lock()
		r.claimed[e.name] = release
		r.mu.Unlock()
		out = append(out, r.box.shown(e.name, now))
	}

	return out
}

// late is how old a message is before it says when it came.
const late = time.Minute

// shown returns a message as a terminal prints it: complete, and not part of a turn.
func (m *Mailbox) shown(name string, l letter) bus.Outbound {
	out := l.Out
	out.ID = name
	out.Kind = bus.Message
	out.Turn = nil
	out.Streamed = false
	if m.now().Sub(l.At) > late {
		out.Text = "(" + l.At.Local().Format("2006-01-02 15:04") + ")\n\n" + out.Text
	}
	return out
}

// Run calls deliver with every message that this terminal should show, until ctx
// ends. deliver may block.
func (r *Reader) Run(ctx context.Context, deliver func(bus.Outbound)) error {
	ctx, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	changed := make(chan struct{}, 1)
	watch.Go(func() {
		err := r.box.state.Watch(ctx, []string{messages}, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
		if err != nil && ctx.Err() == nil {
			r.box.log.WarnContext(ctx, "messages for the terminal are noticed late", "err", err)
		}
	})

	look := time.NewTicker(pollEvery)
	defer look.Stop()
	for {
		for _, out := range r.Claim(ctx) {
			deliver(out)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-look.C:
		}
	}
}

// Shown records that a message is on the screen, so that no terminal shows it again.
// An ID that Take did not return is ignored.
func (r *Reader) Shown(ctx context.Context, id string) error {
	r.mu.Lock()
	release := r.claimed[id]
	delete(r.claimed, id)
	r.mu.Unlock()
	if release == nil {
		return nil
	}
	return errors.Join(r.box.markShown(ctx, id), release())
}

func (m *Mailbox) markShown(ctx context.Context, name string) error {
	return store.Update(ctx, m.state, document(name), func(old []byte) ([]byte, error) {
		var l letter
		if err := json.Unmarshal(old, &l); err != nil {
			return nil, err
		}
		l.Out, l.ShownAt = bus.Outbound{}, m.now()
		return store.Indented(l)
	})
}

// Close gives back what was taken and not shown, and the place of the terminal.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()

	var err error
	for _, release := range r.claimed {
		err = errors.Join(err, release())
	}

	clear(r.claimed)
	if r.present != nil {
		err = errors.Join(err, r.present())
		r.present = nil
	}
	return err
}
