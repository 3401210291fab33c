package schedule

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// Trigger lets programs on this machine start a turn in a chat: a line in a
// shell script instead of a schedule.
type Trigger struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Enabled     bool   `json:"enabled"`
	Channel     string `json:"channel"`
	ChatID      string `json:"chatId"`
	ThreadID    string `json:"threadId,omitempty"`
	SessionKey  string `json:"sessionKey"`
	SenderID    string `json:"senderId"`
	Scope       string `json:"scope,omitempty"`
	CreatedAtMS MS     `json:"createdAtMs"`
	UpdatedAtMS MS     `json:"updatedAtMs"`
	LastMessage Opt    `json:"lastMessage"`
	LastRunAtMS MS     `json:"lastRunAtMs"`
	LastStatus  Opt    `json:"lastStatus"`
	LastError   Opt    `json:"lastError"`
	RunHistory  []Run  `json:"runHistory"`
	Last        *Last  `json:"last,omitempty"`
	RefusalTold bool   `json:"refusalTold,omitempty"`

	extra extra
}

type plainTrigger Trigger

// MarshalJSON implements json.Marshaler.
func (t Trigger) MarshalJSON() ([]byte, error) {
	if t.RunHistory == nil {
		t.RunHistory = []Run{}
	}
	return writeObject(plainTrigger(t), t.extra)
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Trigger) UnmarshalJSON(b []byte) (err error) {
	t.extra, err = readObject(b, (*plainTrigger)(t))
	return err
}

// Route returns the chat a trigger belongs to.
func (t *Trigger) Route() bus.Route {
	return bus.Route{Channel: t.Channel, ChatID: t.ChatID, ThreadID: t.ThreadID}
}

// Why a trigger cannot be set off.
var (
	// ErrNoTrigger says that there is no such trigger.
	ErrNoTrigger = errors.New("there is no such trigger")
	// ErrTriggerOff says that it is switched off.
	ErrTriggerOff = errors.New("the trigger is switched off")
)

const (
	triggerAlphabet = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
	triggerBatch    = 20
	triggerTries    = 10
	triggerMax      = 256 << 10 // bytes of one delivery
	triggerPrefix   = "trigger:"
)

// delivery is one file of the inbox.
type delivery struct {
	ID        string `json:"id"`
	TriggerID string `json:"triggerId"`
	Content   string `json:"content"`
	CreatedAt MS     `json:"createdAtMs"`
	Attempts  int    `json:"attempts"`
	LastError Opt    `json:"lastError"`
	Trusted   bool   `json:"trusted,omitempty"` // the owner says that these are their own words
}

type deliveryFile struct {
	Version  int      `json:"version"`
	Delivery delivery `json:"delivery"`
}

// Names of what belongs to triggers.
const (
	fileTriggers = "triggers/triggers.json"
	triggerLock  = "triggers/.lock"
	inbox        = "triggers/inbox"
	failed       = "triggers/failed"
)

// Triggers holds the triggers of a workspace and what waits for them. Methods
// are safe for concurrent use.
type Triggers struct {
	o        *Options
	notifier *notifier
	poke     func() // makes Run look at the inbox
	mu       sync.Mutex

	retry map[string]time.Time // deliveries that have to wait; belongs to the goroutine of Run
}

type triggerTable struct {
	Version  int        `json:"version"`
	Triggers []*Trigger `json:"triggers"`

	extra extra
}

type plainTriggerTable triggerTable

// update is one transaction on triggers.json; fn reports whether to write.
func (ts *Triggers) update(ctx context.Context, fn func(*triggerTable) (bool, error)) (err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()

	release, err := store.WaitLock(ctx, ts.o.State, triggerLock, lockWait)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, release()) }()
	return store.Update(ctx, ts.o.State, fileTriggers, func(old []byte) ([]byte, error) {
		t := &triggerTable{Version: 1}
		if old != nil {
			var err error
			if t.extra, err = readObject(old, (*plainTriggerTable)(t)); err != nil {
				return nil, &CorruptError{Path: ts.o.State.Where(fileTriggers), Err: err}
			}
		}

		write, err := fn(t)
		if err != nil || !write {
			return nil, err
		}
		return t.encode()
	})
}

func (t *triggerTable) encode() ([]byte, error) {
	if t.Triggers == nil {
		t.Triggers = []*Trigger{}
	}

	flat, err := writeObject((*plainTriggerTable)(t), t.extra)
	if err != nil {
		return nil, err
	}

	var out bytes.Buffer
	if err := json.Indent(&out, flat, "", "  "); err != nil {
		return nil, err
	}

	out.WriteByte('\n')
	return out.Bytes(), nil
}

func (t *triggerTable) find(id string) *Trigger {
	for _, tr := range t.Triggers {
		if strings.EqualFold(tr.ID, id) {
			return tr
		}
	}
	return nil
}

// Add binds a new trigger to a chat. sessionKey may be empty: then it
// is the conversation of the chat.
func (ts *Triggers) Add(ctx context.Context, name string, route bus.Route, sessionKey string) (Trigger, error) {
	name = text.Label(name, 120)
	if name == "" || route.Channel == "" || route.ChatID == "" {
		return Trigger{}, errors.New("a trigger needs a name and a chat")
	}

	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	id := []byte("trg_")
	for _, b := range random {
		id = append(id, triggerAlphabet[int(b)%len(triggerAlphabet)])
	}

	now := msOf(ts.o.Now())
	t := Trigger{
		ID: string(id), Name: name, Enabled: true, Channel: route.Channel, ChatID: route.ChatID, ThreadID: route.ThreadID,
		SessionKey: cmp.Or(sessionKey, route.SessionKey()), CreatedAtMS: now, UpdatedAtMS: now,
	}
	err := ts.update(ctx, func(tab *triggerTable) (bool, error) {
		if len(tab.Triggers) >= ts.o.Limits.Jobs {
			return false, fmt.Errorf("there are %d triggers already, which is the limit", len(tab.Triggers))
		}
		tab.Triggers = append(tab.Triggers, &t)
		return true, nil
	})
	return t, err
}

// List returns all triggers.
func (ts *Triggers) List(ctx context.Context) (out []Trigger, err error) {
	if i, err := ts.o.State.Stat(ctx, fileTriggers); err != nil || !i.Exists() {
		return nil, err
	}

	err = ts.update(ctx, func(t *triggerTable) (bool, error) {
		out = nil
		for _, tr := range t.Triggers {
			out = append(out, *tr)
		}
		return false, nil
	})
	return out, err
}

// Remove deletes a trigger.
func (ts *Triggers) Remove(ctx context.Context, id string) error {
	return ts.update(ctx, func(t *triggerTable) (bool, error) {
		n := len(t.Triggers)
		t.Triggers = slices.DeleteFunc(t.Triggers, func(tr *Trigger) bool { return strings.EqualFold(tr.ID, id) })
		if n == len(t.Triggers) {
			return false, ErrNoTrigger
		}
		return true, nil
	})
}

// edit changes one trigger.
func (ts *Triggers) edit(ctx context.Context, id string, fn func(*Trigger)) error {
	return ts.update(ctx, func(t *triggerTable) (bool, error) {
		tr := t.find(id)
		if tr == nil {
			return false, ErrNoTrigger
		}
		fn(tr)
		return true, nil
	})
}

// Enable switches a trigger on or off.
func (ts *Triggers) Enable(ctx context.Context, id string, on bool) error {
	return ts.edit(ctx, id, func(tr *Trigger) { tr.Enabled, tr.UpdatedAtMS = on, msOf(ts.o.Now()) })
}

// Rename gives a trigger another name; scripts call it by its id.
func (ts *Triggers) Rename(ctx context.Context, id, name string) error {
	if name = text.Label(name, 120); name == "" {
		return errors.New("a trigger needs a name")
	}
	return ts.edit(ctx, id, func(tr *Trigger) { tr.Name, tr.UpdatedAtMS = name, msOf(ts.o.Now()) })
}

// Fire puts a message for a trigger into the inbox, where it stays until
// a process that runs jobs has handed it to the queue. The id it returns names
// the delivery. Content is untrusted unless the owner says that it is their own.
func (ts *Triggers) Fire(ctx context.Context, id, content string, untrusted bool) (string, error) {
	if content = strings.TrimSpace(content); content == "" {
		return "", errors.New("the message is empty")
	}
	if len(content) > triggerMax {
		return "", fmt.Errorf("%w: %d bytes, at most %d are possible", bus.ErrTooLarge, len(content), triggerMax)
	}

	err := ts.update(ctx, func(t *triggerTable) (bool, error) {
		tr := t.find(id)
		switch {
		case tr == nil:
			return false, ErrNoTrigger
		case !tr.Enabled:
			return false, fmt.Errorf("%s: %w", tr.ID, ErrTriggerOff)
		}

		id = tr.ID
		return false, nil
	})
	if err != nil {
		return "", err
	}

	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	now := msOf(ts.o.Now())
	d := delivery{ID: "tdl_" + hex.EncodeToString(random[:]), TriggerID: id, Content: content, CreatedAt: now, Trusted: !untrusted}
	if err := ts.write(ctx, fmt.Sprintf("%s/%d-%s.json", inbox, now, d.ID), d); err != nil {
		return "", err
	}

	ts.poke()
	return d.ID, nil
}

func (ts *Triggers) write(ctx context.Context, name string, d delivery) error {
	data, err := json.Marshal(deliveryFile{1, d})
	if err == nil {
		_, err = ts.o.State.Put(ctx, name, data, store.Any, true)
	}
	return err
}

// drain hands what is in the inbox to the queue. A file goes away only
// after that; its id makes the queue drop it if it is handed over twice. It
// returns when to look again, zero if only after a change.
func (ts *Triggers) drain(ctx context.Context) (again time.Time) {
	done := 0
	for e, err := range ts.o.State.Docs(ctx, inbox) {
		if err != nil {
			ts.o.Log.ErrorContext(ctx, "the inbox of triggers cannot be read", "err", err)
			return again
		}
		if ts.retry[e.Name].After(ts.o.Now()) {
			again = sooner(again, ts.retry[e.Name])
			continue
		}

		delete(ts.retry, e.Name)
		if done++; done > triggerBatch || ctx.Err() != nil {
			ts.poke()
			return again
		}

		ts.deliver(ctx, e.Name)
		again = sooner(again, ts.retry[e.Name])
	}

	return again
}

// sooner returns the earlier of two moments; zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (ts *Triggers) deliver(ctx context.Context, name string) {
	data, version, err := ts.o.State.Doc(ctx, name)
	if err != nil || version == store.Missing {
		ts.o.Log.ErrorContext(ctx, "a delivery cannot be read", "file", ts.o.State.Where(name), "err", err)
		return
	}

	var f deliveryFile
	if err := json.Unmarshal(data, &f); err != nil || f.Delivery.ID == "" {
		ts.giveUp(ctx, name, data, fmt.Errorf("it cannot be read: %w", cmp.Or(err, errors.New("it has no id"))))
		return
	}

	d := f.Delivery
	var tr Trigger
	err = ts.update(ctx, func(t *triggerTable) (bool, error) {
		found := t.find(d.TriggerID)
		if found == nil || !found.Enabled {
			return false, ErrNoTrigger
		}
		tr = *found
		return false, nil
	})

	at := ts.o.Now()
	if err == nil {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		in := bus.Inbound{
			ID: triggerPrefix + tr.ID + ":" + d.ID, Route: tr.Route(), SenderID: eventTrigger, SessionKey: triggerPrefix + tr.ID, Scope: tr.Scope,
			Text: fmt.Sprintf("[Trigger %q was set off by a program of the user. Deal with it and tell the user what they should know.]\n\n", tr.Name) + tr.Last.note(ts.o.Location),
			At:   at, Event: eventTrigger, OwnTurn: true,
		}
		if d.Trusted {
			in.Text += d.Content
		} else {
			in.Quoted = []bus.Quote{{About: "what the program says", Text: d.Content}}
		}

		err = ts.o.Submit(call, in)
		cancel()
	}

	switch {
	case err == nil:
		ts.began(ctx, tr.ID, msOf(at), d)
		err = ts.o.State.Remove(ctx, name)
	case ctx.Err() != nil:
		return
	case errors.Is(err, ErrNoTrigger) || d.Attempts+1 >= triggerTries || errors.Is(err, bus.ErrTooLarge):
		ts.giveUp(ctx, name, data, err)
		if tr.ID != "" {
			ts.notifier.notify(ctx, notice{route: tr.Route(), text: phrase.Later("A message of the trigger %q could not be taken: %v. It is kept in %s.", tr.Name, err, ts.o.State.Where(failed))})
		}
		return

	default:
		ts.retry[name] = ts.o.Now().Add(min(time.Second<<d.Attempts, time.Minute))
		d.Attempts, d.LastError = d.Attempts+1, Opt(err.Error())
		err = errors.Join(err, ts.write(ctx, name, d))
	}

	if err != nil {
		ts.o.Log.WarnContext(ctx, "a delivery of a trigger has to wait", "file", ts.o.State.Where(name), "err", err)
	}
}

// giveUp moves a delivery that cannot be made out of the way.
func (ts *Triggers) giveUp(ctx context.Context, name string, data []byte, why error) {
	ts.o.Log.ErrorContext(ctx, "a delivery of a trigger is given up", "file", ts.o.State.Where(name), "err", why)
	_, err := ts.o.State.Put(ctx, failed+"/"+path.Base(name), data, store.Any, true)
	if err == nil {
		err = ts.o.State.Remove(ctx, name)
	}
	if err != nil {
		ts.o.Log.ErrorContext(ctx, "a delivery cannot be moved away", "file", ts.o.State.Where(name), "err", err)
	}
}

// began notes that a trigger was set off. The turn may be over already.
func (ts *Triggers) began(ctx context.Context, id string, at MS, d delivery) {
	ts.record(ctx, id, func(t *Trigger) {
		t.LastMessage, t.LastRunAtMS = Opt(text.Label(d.Content, 200)), at
		if !t.ran(at) {
			t.LastStatus, t.LastError = "queued", ""
		}
	})
}

// ran reports whether the end of a turn was noted.
func (t *Trigger) ran(at MS) bool {
	return slices.ContainsFunc(t.RunHistory, func(r Run) bool { return r.OccurrenceMS == at })
}

// outcome notes how the turn of a trigger ended.
func (ts *Triggers) outcome(ctx context.Context, in bus.Inbound, out bus.Outbound) {
	id, _, _ := strings.Cut(strings.TrimPrefix(in.ID, triggerPrefix), ":")
	res := resultOf(out)
	var say *notice
	ts.record(ctx, id, func(t *Trigger) {
		at := msOf(in.At)
		t.LastStatus, t.LastError = Opt(res.status), Opt(res.err)
		if say = nil; t.ran(at) {
			return
		}

		if t.Last = lastOf(at, res); res.refused && !t.RefusalTold {
			say = &notice{route: in.Route, text: refusal("trigger", t.Name, res.err)}
		}

		t.RefusalTold = res.refused || t.RefusalTold && res.status != statusOK
		t.RunHistory = append(t.RunHistory, Run{RunAtMS: at, OccurrenceMS: at, Status: res.status, Error: Opt(res.err), DurationMS: max(msOf(ts.o.Now())-at, 0), Tokens: res.tokens, CostUSD: res.usd})
		if n := len(t.RunHistory) - historyLen; n > 0 {
			t.RunHistory = slices.Delete(t.RunHistory, 0, n)
		}
	})
	if say != nil {
		ts.notifier.notify(ctx, *say)
	}
}

// record changes a trigger, if it still exists, after one of its turns.
func (ts *Triggers) record(ctx context.Context, id string, fn func(*Trigger)) {
	if err := ts.edit(context.WithoutCancel(ctx), id, fn); err != nil && !errors.Is(err, ErrNoTrigger) {
		ts.o.Log.ErrorContext(ctx, "a trigger could not be changed", "trigger", id, "err", err)
	}
}
