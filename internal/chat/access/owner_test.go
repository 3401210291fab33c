package access

import (
	"testing"

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
		t.Error("in a group everybody is a guest")
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
