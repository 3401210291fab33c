//go:build unix

package chaos_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
)

// The time from the answer of Telegram to the line in the journal that says so
// is measured; a busy machine may take twice the longest one, within bounds.
const (
	noteLeast = 250 * time.Millisecond
	noteMost  = time.Minute
)

func noteLimit(slowest time.Duration) time.Duration {
	return min(max(2*slowest, noteLeast), noteMost)
}

// shown is a message of the bot that a chat shows at the end.
type shown struct {
	sending
	text  string
	names []string
}

// judge looks at what the chats show.
type judge struct {
	t    *testing.T
	tg   *platform
	m    *model
	g    *gateway
	said map[int64][]string // what people wrote, by chat, in order

	slowest time.Duration // see noteTime
}

// show lists what the bot said, by chat, in the order in which it stands there.
func (j *judge) show() map[int64][]shown {
	sent, _ := j.tg.sendings()
	by := map[[2]int64]sending{}
	for _, s := range sent {
		by[[2]int64{s.chat, s.id}] = s
	}
	out := map[int64][]shown{}
	for _, m := range j.tg.Messages(0) {
		s := by[[2]int64{m.ChatID, m.ID}]
		out[m.ChatID] = append(out[m.ChatID], shown{sending: s, text: m.Plain, names: word.FindAllString(m.Plain, -1)})
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b shown) int { return cmp.Compare(a.id, b.id) })
	}
	return out
}

// missing counts messages without an answer and names some.
func (j *judge) missing() (n int, some []string) {
	chats := j.show()
	for chat, names := range j.said {
		have := map[string]bool{}
		for _, m := range chats[chat] {
			for _, n := range m.names {
				have[n] = true
			}
		}
		for _, name := range names {
			if !have[name] {
				n++
				some = append(some, name)
			}
		}
	}
	slices.Sort(some)
	return n, some[:min(len(some), 10)]
}

// order checks that answers stand in the order of the messages.
func (j *judge) order() {
	for chat, list := range j.show() {
		first := map[string]int64{}
		for _, m := range list {
			for _, n := range m.names {
				if _, ok := first[n]; !ok {
					first[n] = m.id
				}
			}
		}
		var last int64
		for _, n := range j.said[chat] {
			if at, ok := first[n]; ok && at < last {
				j.t.Errorf("chat %d: %s was answered before the message ahead of it\n%s", chat, n, j.dump(chat))
				break
			} else if ok {
				last = at
			}
		}
	}
}

// duplicates finds the reason of every answer that was given twice, and of
// every text that was begun and left, and counts them by reason.
func (j *judge) duplicates() (twice, left map[string]int) {
	twice, left = map[string]int{}, map[string]int{}
	for chat, list := range j.show() {
		before := map[string][]shown{}
		for _, m := range list {
			if half(m.text) {
				left[j.explain(chat, m.text+" was begun and left", m)]++
			}
			for _, n := range m.names {
				if olds := before[n]; len(olds) > 0 {
					twice[j.explain(chat, n+" was answered twice", olds...)]++
				}
				before[n] = append(before[n], m)
			}
		}
	}
	return twice, left
}

// half reports whether a message is the beginning of an answer only.
func half(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix("ok", text) || strings.HasPrefix(text, "ok") && !strings.HasSuffix(text, "done.")
}

// noted is when the journal first told of a message.
func (j *judge) noted(s sending) (time.Time, bool) {
	return j.g.notes.of("telegram", strconv.FormatInt(s.chat, 10), strconv.FormatInt(s.id, 10))
}

// explain finds the reason why one of the messages was left behind; without
// one the test fails.
func (j *judge) explain(chat int64, what string, olds ...shown) string {
	reason := ""
	for _, old := range olds {
		reason = cmp.Or(reason, j.reason(old))
	}
	if reason == "" {
		j.t.Errorf("chat %d: %s for no reason\n%s", chat, what, j.dump(chat))
	}
	return cmp.Or(reason, "none")
}

// reason says why the program did not know that it had sent a message; "" if
// it did, or should have. Neither a stream that breaks off, nor the end of the
// process, nor a change that Telegram refuses is one: what the program knows
// of, it changes until it is right.
func (j *judge) reason(m shown) string {
	death, killed := j.g.killed[m.gen]
	_, noted := j.noted(m.sending)
	switch {
	case noted:
		return ""
	case m.lost, !m.cut.IsZero() && m.cut.Sub(m.made) < j.noteTime():
		return "answer lost"
	case killed && death.Sub(m.made) < j.noteTime():
		return "killed before the note"
	}
	return ""
}

// noteTime is how long the program may take to note a message.
func (j *judge) noteTime() time.Duration {
	if j.slowest == 0 {
		sent, _ := j.tg.sendings()
		for _, s := range sent {
			if at, ok := j.noted(s); ok {
				j.slowest = max(j.slowest, at.Sub(s.made))
			}
		}
		j.slowest = noteLimit(j.slowest)
	}
	return j.slowest
}

// strangers counts what the bot said that answers nothing.
func (j *judge) strangers() map[string]int {
	out := map[string]int{}
	for _, list := range j.show() {
		for _, m := range list {
			if len(m.names) == 0 {
				out[m.text]++
			}
		}
	}
	return out
}

func (j *judge) dump(chat int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  asked %s\n", strings.Join(j.said[chat], " "))
	for _, m := range j.show()[chat] {
		_, noted := j.noted(m.sending)
		fmt.Fprintf(&b, "  %d process %d %s-%s cut %s lost=%v noted=%v: %s\n", m.id, m.gen, m.made.Format("04:05.000"), m.end.Format("04:05.000"), m.cut.Format("04:05.000"), m.lost, noted, m.text)
	}
	for _, gen := range slices.Sorted(maps.Keys(j.g.killed)) {
		fmt.Fprintf(&b, "  process %d killed %s\n", gen, j.g.killed[gen].Format("04:05.000"))
	}
	return b.String()
}

// files checks what is left on the disk: sessions that can be read, and a
// journal with nothing to do.
func (j *judge) files() (sessions int) {
	err := filepath.WalkDir(filepath.Join(j.g.home, "sessions"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".jsonl" {
			return err
		}
		sessions++
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(data) {
			if !json.Valid(line) || line[len(line)-1] != '\n' {
				j.t.Errorf("%s: a line is broken: %.200s", filepath.Base(path), line)
			}
		}
		return nil
	})
	if err != nil {
		j.t.Error(err)
	}
	q, err := journal.Open(disk.Open(filepath.Join(j.g.home, "bus"), nil), journal.Options{})
	if err != nil {
		j.t.Errorf("open the journal: %v", err)
		return sessions
	}
	if s := q.Status(); s.Inbound != 0 || len(s.Outbound) != 0 {
		j.t.Errorf("the journal is not empty: %d in, %v out", s.Inbound, s.Outbound)
	}
	if err := q.Close(); err != nil {
		j.t.Error(err)
	}
	if n, err := j.g.notes.left(); n != 0 || err != nil {
		j.t.Errorf("the journal still remembers %d messages that show an answer (%v)", n, err)
	}
	return sessions
}
