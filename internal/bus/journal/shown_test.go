package journal

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
)

func toMessage(id string) bus.Route { return bus.Route{Channel: "c", ChatID: "1", MessageID: id} }

// shows expects what is remembered of these messages.
func (r *rig) shows(want map[string]string) {
	r.t.Helper()
	got := map[string]string{}
	for m := range want {
		ids, err := r.Showing(r.t.Context(), toMessage(m))
		must(r.t, err)
		got[m] = strings.Join(ids, " ")
	}
	if d := cmp.Diff(want, got); d != "" {
		r.t.Errorf("shown (-want +got):\n%s", d)
	}
}

// What is shown is known after the death of the process, without any fsync,
// whether or not the file was rewritten in between.
func TestShownSurvivesCrash(t *testing.T) {
	t.Parallel()
	for _, compact := range []int64{0, 1} {
		r := newRig(t, Options{CompactAt: compact})
		if compact == 0 { // rewriting syncs
			r.fsync = syscall.EIO
		}
		must(t, r.Shown(t.Context(), toMessage("a"), []string{"1"}))
		must(t, r.Shown(t.Context(), toMessage("b"), []string{"2"}))
		must(t, r.Shown(t.Context(), toMessage("b"), []string{"2", "3"}))
		must(t, r.Shown(t.Context(), toMessage("c"), []string{"4"}))
		must(t, r.Shown(t.Context(), toMessage("c"), nil))
		r.fsync = nil
		want := map[string]string{"a": "1", "b": "2 3", "c": ""}
		for range 2 {
			r.crash()
			r.open(Options{CompactAt: compact})
			r.shows(want)
		}
	}
}

// Rewriting carries over what is still of use and nothing else.
func TestShownRewritten(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	must(t, r.Shown(t.Context(), toMessage("old"), []string{"1"}))
	must(t, r.Shown(t.Context(), toMessage("gone"), []string{"2"}))
	must(t, r.Shown(t.Context(), toMessage("gone"), nil))
	r.now = r.now.Add(bus.ShownFor)
	must(t, r.Shown(t.Context(), toMessage("young"), []string{"3"}))
	r.shows(map[string]string{"old": "1"})
	r.now = r.now.Add(time.Second)
	r.shows(map[string]string{"old": "", "young": "3"})
	must(t, r.rewrite())
	data, err := os.ReadFile(r.store.Where(nameLog))
	must(t, err)
	if got := strings.Count(string(data), `{"shown":`); got != 1 {
		t.Errorf("the file has %d lines about what is shown, want 1:\n%s", got, data)
	}
	r.crash()
	r.open(Options{})
	r.shows(map[string]string{"old": "", "gone": "", "young": "3"})
}

// Turns that never end do not fill the memory, nor the file.
func TestShownBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{MaxShown: 16})
	for i := range 100 {
		r.now = r.now.Add(time.Second)
		must(t, r.Shown(t.Context(), toMessage(fmt.Sprint(i)), []string{"x"}))
		if len(r.shown.by) > 16 {
			t.Fatalf("%d answers are remembered, want at most 16", len(r.shown.by))
		}
	}
	r.shows(map[string]string{"0": "", "80": "", "90": "x", "99": "x"})
	r.crash()
	r.open(Options{MaxShown: 16})
	if len(r.shown.by) > 16 {
		t.Errorf("%d answers are remembered after a restart, want at most 16", len(r.shown.by))
	}
	r.shows(map[string]string{"0": "", "99": "x"})
}

// A delivery that cannot be written down counts for this process, and so does
// what is shown.
func TestShownDiskFull(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.room = 10
	if err := r.Shown(t.Context(), toMessage("a"), []string{"1"}); err == nil {
		t.Error("a full disk took the line")
	}
	r.shows(map[string]string{"a": "1"})
	r.room = -1
	r.now = r.now.Add(time.Second)
	must(t, r.submit("1"))
	r.crash()
	r.open(Options{})
	r.shows(map[string]string{"a": "1"})
}

// A line that was written in another way, as by hand, is understood too; one
// that makes no sense does no harm.
func TestShownLines(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	must(t, r.Shown(t.Context(), toMessage("a"), []string{"1"}))
	r.crash()
	f, err := os.OpenFile(r.store.Where(nameLog), os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	_, err = f.WriteString(`{ "shown": ["8", "9"], "route": {"channel":"c","chat_id":"1","message_id":"b"}, "at": ` + fmt.Sprint(r.now.UnixMilli()) + "}\n" +
		`{"shown":["8"],"at":1,"route":"nowhere"}` + "\n" + `{"shown":["8"]}` + "\n")
	must(t, err)
	must(t, f.Close())
	r.open(Options{})
	r.shows(map[string]string{"a": "1", "b": "8 9"})
}
