package undo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// What a call changed is told as it ends, against what was there when it
// began, not when the turn did.
func TestEdits(t *testing.T) {
	t.Parallel()
	b := open(t)
	got := b.edit("1", "new/a.txt", func() { b.write("new/a.txt", "one\ntwo\n") })
	want := []bus.Edit{{
		CallID: "c1", Path: "new/a.txt", What: "created", Lines: true, Added: 2,
		Diff: "--- /dev/null\n+++ b/new/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	got = b.edit("1", "new/a.txt", func() { b.write("new/a.txt", "one\nzwei\nthree\n") })
	want = []bus.Edit{{CallID: "c2", Path: "new/a.txt", What: "changed", Lines: true, Added: 2, Deleted: 1}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(bus.Edit{}, "Diff")); diff != "" || !strings.Contains(got[0].Diff, "-two\n+zwei\n+three\n") {
		t.Errorf("changed (-want +got):\n%s%v", diff, got)
	}
	if got := b.edit("1", "new/a.txt", func() {}); len(got) != 0 {
		t.Errorf("a call that changed nothing: %v", got)
	}
	got = b.command("1", func() {
		b.remove("new/a.txt")
		b.write("b.bin", "\x00\x01")
	})
	want = []bus.Edit{
		{CallID: "c4", Path: "b.bin", What: "created"},
		{CallID: "c4", Path: "new/a.txt", What: "deleted", Lines: true, Deleted: 3},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(bus.Edit{}, "Diff")); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
}

// Large changes are told, not shown.
func TestEditsAreBounded(t *testing.T) {
	t.Parallel()
	b := open(t)
	long := strings.Repeat("a line of some length\n", 4000)
	got := b.edit("1", "long.txt", func() { b.write("long.txt", long) })
	if len(got) != 1 || got[0].Diff != "" || got[0].Added != 4000 {
		t.Errorf("long file: %d edits, %+v", len(got), got)
	}
	huge := strings.Repeat(long, 20)
	got = b.edit("1", "huge.txt", func() { b.write("huge.txt", huge) })
	if len(got) != 1 || got[0].Lines {
		t.Errorf("huge file: %+v", got)
	}
	got = b.command("1", func() {
		for i := range 200 {
			b.write(fmt.Sprintf("many/%d", i), "x\n")
		}
	})
	if len(got) != maxEditFiles {
		t.Errorf("%d edits of 200 files, want %d", len(got), maxEditFiles)
	}
}
