package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// Held is a finding that came from outside and waits for the owner.
type Held struct {
	ID      string   `json:"id"`
	Scope   string   `json:"scope,omitempty"`
	Target  Target   `json:"target"`
	Text    string   `json:"text"`
	Sources []Origin `json:"sources,omitempty"`
	Time    string   `json:"time"` // RFC 3339
	// Order marks a text that may be meant to steer the assistant. It cannot be
	// confirmed: who wants that rule writes it into the file.
	Order bool `json:"order,omitempty"`
	// State is empty while the finding waits, then "confirmed" or "rejected";
	// the texts of such findings are gone, their ids keep them from coming back.
	State string `json:"state,omitempty"`
}

// Errors of Confirm and Reject.
var (
	ErrNoFinding = errors.New("there is no such finding")
	ErrOrder     = errors.New("the finding reads like an instruction from outside; if you want that rule, write it into the file yourself")
)

const (
	maxHeld   = 500
	confirmed = "confirmed"
	rejected  = "rejected"
)

func hold(scope string, f finding, src []Origin, now time.Time) Held {
	sum := sha256.Sum256([]byte(scope + "\x00" + string(f.Target) + "\x00" + bare(f.Text)))
	return Held{
		ID: hex.EncodeToString(sum[:4]), Scope: scope, Target: f.Target, Text: f.Text,
		Sources: src, Time: stamp(now), Order: isOrder(f),
	}
}

// Quarantine lists the findings that wait for the owner, oldest first.
func (d *Dream) Quarantine(context.Context) ([]Held, error) {
	rows, err := readRows[Held](d.state(), fileQuarantine)
	return slices.DeleteFunc(rows, func(h Held) bool { return h.State != "" }), err
}

// Reject forgets a finding, except for what keeps it from coming back.
func (d *Dream) Reject(ctx context.Context, id string) error {
	leave, err := d.enter(ctx)
	if err != nil {
		return err
	}

	defer leave()
	h, err := d.waiting(id)
	if err != nil {
		return err
	}
	return d.resolve(h.ID, rejected)
}

// Confirm writes a finding into the file it is about, as the owner wishes. No
// model has a part in it. It returns the name of the file.
func (d *Dream) Confirm(ctx context.Context, id string) (file string, err error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return "", err
	}

	defer leave()
	if _, err := d.recover(ctx); err != nil {
		return "", err
	}

	h, err := d.waiting(id)
	if err != nil {
		return "", err
	}
	if h.Order {
		return "", ErrOrder
	}

	root, err := diskio.OpenTree(d.o.History.Workspace())
	if err != nil {
		return "", err
	}

	defer root.Close() //nolint:errcheck // nothing is pending
	p, err := readPage(root, fileOf(h.Scope, h.Target))
	if err != nil {
		return "", err
	}

	line := "- " + h.Text
	if p.After != "" && !strings.HasSuffix(p.After, "\n") {
		p.After += "\n"
	}

	p.After += line + "\n"
	if err := guard(p, nil); err != nil {
		return "", err
	}

	now := stamp(d.o.Now())
	c := changeSet{
		ID: newDreamID(), Time: now, Subject: "memory: confirmed " + h.ID, Pages: []page{*p}, Confirmed: h.ID,
		Facts: []fact{{Time: now, File: p.Name, Line: line, Finding: "[" + string(h.Target) + "] " + h.Text, Sources: h.Sources, Held: h.ID}},
	}
	c.Facts[0].Run = c.ID
	return p.Name, d.apply(ctx, c, &Report{}, root)
}

// waiting finds a finding by the beginning of its id.
func (d *Dream) waiting(id string) (found Held, err error) {
	rows, err := readRows[Held](d.state(), fileQuarantine)
	if err != nil {
		return found, err
	}

	id = strings.ToLower(strings.TrimSpace(id))
	n := 0
	for _, h := range rows {
		if h.State == "" && len(id) >= 3 && strings.HasPrefix(h.ID, id) {
			found = h
			n++
		}
	}

	if n != 1 {
		return Held{}, fmt.Errorf("%q: %w", id, ErrNoFinding)
	}
	return found, nil
}

func (d *Dream) resolve(id, state string) error {
	rows, err := readRows[Held](d.state(), fileQuarantine)
	if err != nil {
		return err
	}

	for i := range rows {
		if rows[i].ID == id {
			rows[i].State = state
			rows[i].Text = ""
			rows[i].Sources = nil
		}
	}

	return writeRows(d.state(), fileQuarantine, rows, maxHeld)
}

// holdBack adds the findings of a change that wait for the owner; those known
// already, decided or not, are not added again.
func (d *Dream) holdBack(c changeSet) error {
	if c.Confirmed != "" {
		return d.resolve(c.Confirmed, confirmed)
	}
	if len(c.Held) == 0 {
		return nil
	}

	rows, err := readRows[Held](d.state(), fileQuarantine)
	if err != nil {
		return err
	}

	for _, h := range c.Held {
		if !slices.ContainsFunc(rows, func(o Held) bool { return o.ID == h.ID }) {
			rows = append(rows, h)
		}
	}
	return writeRows(d.state(), fileQuarantine, rows, maxHeld)
}

// forget removes what match is true for from the record of origins, the
// findings that wait and the entries that were passed over. It returns how
// many rows went. The caller has entered.
func (d *Dream) forget(match func(text string) bool) (removed int, err error) {
	n1, err1 := dropRows(d.state(), fileProvenance, func(f fact) bool { return match(f.Line) || match(f.Finding) })
	n2, err2 := dropRows(d.state(), fileQuarantine, func(h Held) bool { return h.State == "" && match(h.Text) })
	n3, err3 := dropRows(d.state(), fileFailed, func(f failedEntry) bool {
		e, ok := parseEntry(f.Entry)
		return ok && match(e.Content)
	})
	return n1 + n2 + n3, errors.Join(err1, err2, err3)
}

func dropRows[T any](s store.Store, name string, drop func(T) bool) (int, error) {
	rows, err := readRows[T](s, name)
	if err != nil {
		return 0, err
	}

	before := len(rows)
	rows = slices.DeleteFunc(rows, drop)
	if len(rows) == before {
		return 0, nil
	}
	return before - len(rows), writeRows(s, name, rows, before)
}
