package access

import (
	"context"
	"errors"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/bus"
)

func TestOwnerByPairing(t *testing.T) { storetest.Each(t, testOwnerByPairing) }

func testOwnerByPairing(t *testing.T, open storetest.Open) {
	t.Parallel()
	p := OpenBook(BookOptions{Store: open(t, t.TempDir())})
	gate := NewGate(GateOptions{Name: "x", Book: p})
	visit := func(id string, direct bool) (Pass, bool) {
		return gate.Admit(t.Context(), Visitor{Route: bus.Route{Channel: "x", ChatID: id}, IDs: []string{id}, Direct: direct, Mentioned: true})
	}
	for _, id := range []string{"1", "2"} {
		code, err := p.Ask(t.Context(), "x", id)
		if err != nil {
			t.Fatal(err)
		}
		approve := p.Approve
		if id == "1" {
			approve = p.ApproveOwner
		}
		if _, err := approve(t.Context(), code); err != nil {
			t.Fatal(err)
		}
	}
	if pass, ok := visit("1", true); !ok || !pass.Owner() {
		t.Error("the owner is not known")
	}
	if pass, ok := visit("1", false); !ok || pass.Owner() {
		t.Error("in a group all people are guests")
	}
	if pass, ok := visit("2", true); !ok || pass.Owner() {
		t.Error("a guest is taken for the owner")
	}
	if _, err := p.Revoke(t.Context(), "x", "1"); err != nil {
		t.Fatal(err)
	}
	known, err := p.Known("x", "1")
	if _, ok := visit("1", true); ok || err != nil || known.Owner {
		t.Error("a revoked owner is still there")
	}
}

// counted is a store that counts how often a document is looked at and written.
type counted struct {
	store.Store
	stats, writes int
	refuses       error // of writes
}

func (c *counted) Stat(ctx context.Context, name string) (store.Info, error) {
	c.stats++
	return c.Store.Stat(ctx, name)
}

func (c *counted) Put(ctx context.Context, name string, data []byte, old store.Version, sync bool) (store.Version, error) {
	c.writes++
	if c.refuses != nil {
		return store.Missing, c.refuses
	}
	return c.Store.Put(ctx, name, data, old, sync)
}

// A message of a person who is known looks at the book once and writes nothing,
// also if the person has several ids. A new id is written once.
func TestOneLookAtTheBook(t *testing.T) { storetest.Each(t, testOneLookAtTheBook) }

func testOneLookAtTheBook(t *testing.T, open storetest.Open) {
	t.Parallel()
	c := &counted{Store: open(t, t.TempDir())}
	b := OpenBook(BookOptions{Store: c})
	gate := NewGate(GateOptions{Name: "x", Book: b})
	code, err := b.Ask(t.Context(), "x", "1", "2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Approve(t.Context(), code); err != nil {
		t.Fatal(err)
	}

	for _, step := range []struct {
		what  string
		ids   []string
		looks int
		write int
	}{
		{"the first message", []string{"1", "2"}, 1, 0},
		{"another one", []string{"1", "2"}, 1, 0},
		{"a new id", []string{"2", "3"}, 1, 1},
		{"after the new id", []string{"3", "2"}, 1, 0},
	} {
		c.stats, c.writes = 0, 0
		v := Visitor{Route: bus.Route{Channel: "x", ChatID: "1"}, IDs: step.ids, Direct: true, Text: "hello"}
		if pass, ok := gate.Admit(t.Context(), v); !ok || pass.id != "1" {
			t.Errorf("%s: admitted %v as %q, want as 1", step.what, ok, pass.id)
		}
		if c.stats != step.looks || c.writes != step.write {
			t.Errorf("%s: %d looks and %d writes, want %d and %d", step.what, c.stats, c.writes, step.looks, step.write)
		}
	}
}

// An invitation that cannot be written down admits no one, and its code is used up.
func TestInvitationThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	c := &counted{Store: storetest.Disk(t, t.TempDir())}
	b := OpenBook(BookOptions{Store: c})
	gate := NewGate(GateOptions{Name: "x", Book: b})
	code, _ := b.Invite("x")
	send := func() Verdict {
		pass, _ := gate.Admit(t.Context(), Visitor{Route: bus.Route{Channel: "x", ChatID: "1"}, IDs: []string{"1"}, Direct: true, Text: "/start " + code})
		return pass.Verdict()
	}

	if v := (Visitor{IDs: []string{"1"}, Direct: true, Text: code}); gate.Knows(t.Context(), v) {
		t.Error("Knows counts an invitation")
	}
	c.refuses = errors.New("no space left")
	if got := send(); got != Invited {
		t.Errorf("while the book cannot be written: %s, want %s", got, Invited)
	}
	c.refuses = nil
	if got := send(); got != Invited {
		t.Errorf("with a used code: %s, want %s", got, Invited)
	}
}
