package journal

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// rotten is a journal with a message that is done, one that waits, and an answer
// that is not delivered. It returns its file.
func rotten(t *testing.T) (*rig, string, []byte) {
	t.Helper()
	r := newRig(t, Options{})
	answer := func(id string) bus.Outbound {
		return bus.Outbound{ID: bus.FinalID(id), Kind: bus.Final, Route: bus.Route{Channel: "c", ChatID: "1"}, Text: "answer " + id}
	}
	for _, id := range []string{"done", "said", "open"} {
		must(t, r.submit(id))
	}
	must(t, r.Complete(t.Context(), "done", answer("done")))
	must(t, r.Sent(t.Context(), bus.FinalID("done"), 1))
	must(t, r.Delivered(t.Context(), bus.FinalID("done")))
	must(t, r.Complete(t.Context(), "said", answer("said")))
	r.crash()
	path := filepath.Join(r.dir, nameLog)
	data, err := os.ReadFile(path)
	must(t, err)
	return r, path, data
}

// A flipped bit never changes what is asked or answered, and no message is gone
// without a word: what is damaged is kept aside, and its sender is asked again.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	r, path, data := rotten(t)
	seen, err := os.ReadFile(filepath.Join(r.dir, nameSeen))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	unnoticed := 0
	from := bytes.Index(data, []byte(`{"in":"open"`))
	to := from + bytes.IndexByte(data[from:], '\n')
	tried := 0
	named := from + len(`{"in":"open"`) // what says which message it is
	route := from + bytes.Index(data[from:], []byte(`"route":`))
	routed := route + bytes.IndexByte(data[route:], '}')
	for i := range data {
		if (i < from || i > to) && i%4 != 0 {
			continue // the line of the message that waits is the one that matters
		}
		tried++
		flipped := bytes.Clone(data)
		flipped[i] ^= 1 << (i % 8)
		must(t, os.WriteFile(path, flipped, 0o600))
		must(t, os.WriteFile(filepath.Join(r.dir, nameSeen), seen, 0o600))
		_ = os.Remove(path + ".bad")
		r.open(Options{})
		_, err := os.Stat(path + ".bad")
		noticed := err == nil
		if !noticed {
			unnoticed++
		}
		var in, out []string
		for len(r.queue) > 0 {
			m, err := r.Receive(t.Context())
			must(t, err)
			in = append(in, m.ID+" "+m.Text+" "+m.Route.ChatID)
		}
		for _, e := range r.outs {
			out = append(out, e.out.ID+" "+e.out.Text)
		}
		for _, m := range in { // an answer that is lost with its line is given again
			if m != "open open 1" && m != "said said 1" && m != "done done 1" {
				t.Errorf("bit of byte %d: received %q", i, m)
			}
		}
		for _, m := range out {
			if m != "final:said answer said" && !strings.HasPrefix(m, "damaged:") && m != "final:done answer done" {
				t.Errorf("bit of byte %d: goes out: %q", i, m)
			}
		}
		whole := slices.Contains(in, "open open 1")
		answered := slices.Contains(out, "final:said answer said") || slices.Contains(in, "said said 1")
		again := slices.ContainsFunc(out, func(m string) bool { return strings.HasPrefix(m, "damaged:") })
		if !answered || !whole && !again && !noticed {
			t.Errorf("bit of byte %d: in %q, out %q", i, in, out)
		}
		if !whole && !again && i > named && (i < route || i > routed) {
			t.Errorf("bit of byte %d, %q: the message is lost, and its sender is not asked again", i, data[max(0, i-5):i+5])
		}
		r.crash()
	}
	lines := bytes.Count(data, []byte{'\n'})
	// In the name of a checksum, which leaves a line that has none, in the space
	// behind it, or in the newline at the end.
	if most := lines * (len(`,"_crc":"`) + 4); unnoticed > most {
		t.Errorf("%d of %d flipped bits were not noticed, want at most %d", unnoticed, tried, most)
	}
}

// Who wrote a message that is damaged is asked to send it again, and it is then
// taken as a new one.
func TestDamagedMessageIsAskedAgain(t *testing.T) {
	t.Parallel()
	r, path, data := rotten(t)
	must(t, os.WriteFile(path, bytes.Replace(data, []byte(`"text":"open"`), []byte(`"text":"opem"`), 1), 0o600))
	for range 2 { // also after another start
		r.open(Options{})
		if out := r.outs["damaged:open"]; out == nil || out.out.Route.ChatID != "1" || !strings.Contains(out.out.Text, "send it again") {
			t.Fatalf("goes out: %v", r.outs)
		}
		if len(r.queue) != 0 {
			t.Error("the damaged message is used")
		}
		r.crash()
	}
	r.open(Options{})
	must(t, r.submit("open"))
	r.wants("open")
}

// An answer that was delivered is not given again when the line with it is damaged.
func TestDamagedAnswerThatWasDelivered(t *testing.T) {
	t.Parallel()
	r, path, data := rotten(t)
	must(t, os.WriteFile(path, bytes.Replace(data, []byte("answer done"), []byte("answer dome"), 1), 0o600))
	r.open(Options{})
	r.wants("open")
}

// A version without checksums reads every line: none looks to it like one of its
// own, whose message it takes without parsing the rest.
func TestOlderVersionsReadSealedLines(t *testing.T) {
	t.Parallel()
	_, _, data := rotten(t)
	for raw := range bytes.Lines(data) {
		raw = bytes.TrimSuffix(raw, []byte{'\n'})
		if _, ok := scan(raw); ok {
			t.Errorf("an older version takes the checksum of %s for a part of the message", raw)
		}
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
