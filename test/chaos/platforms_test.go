//go:build unix

package chaos_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/chattest/venue"
)

// TestChaosOfPlatforms lets people write on eight platforms at once while the
// gateway is killed, connections are cut and calls are refused. Every message is
// answered in its chat, in order. On platforms that honour keys nothing stands
// there twice; elsewhere every such message has a reason, which is counted. No
// message is sent that a platform's budget of replies does not allow.
func TestChaosOfPlatforms(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	f := form{chats: 2, messages: 100, kills: 5, feed: 15 * time.Second, settle: 10 * time.Minute}
	if os.Getenv("NANOBOT_CHAOS") == "full" {
		f = form{chats: 10, messages: 1000, kills: 30, feed: 120 * time.Second, settle: 10 * time.Minute}
	}
	seed := uint64(time.Now().UnixNano())
	if v, err := strconv.ParseUint(os.Getenv("NANOBOT_CHAOS_SEED"), 10, 64); err == nil {
		seed = v
	}
	t.Logf("seed %d", seed)
	l := newLuck(seed)
	m := newModel(t, l)
	venues := venue.Eight(f.chats)
	g := platformGateway(t, m, venues)
	var watch sync.WaitGroup
	ctx, done := context.WithCancel(t.Context())
	defer watch.Wait()
	defer done()
	watch.Go(func() { g.notes.follow(ctx) })

	said := make([][][]string, len(venues)) // by platform and chat
	speak := func(v, c int) {
		name := fmt.Sprintf("c%dn%d;", 100*v+c, len(said[v][c]))
		said[v][c] = append(said[v][c], name)
		venues[v].Say(c, "please answer "+name)
	}
	g.start()
	for v := range venues { // a chat must be known before what is missed in it can be
		for deadline := time.Now().Add(f.settle); !venues[v].Ready(); hold(t.Context(), 20*time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the bot does not come to %s\n%s", venues[v].Name, tail(g.out.String()))
			}
		}
		said[v] = make([][]string, f.chats)
		for c := range f.chats {
			speak(v, c)
		}
	}
	settle(t, g, venues, said, f.settle)

	harm := newLuck(seed + 1)
	cuts := make([][]time.Time, len(venues))
	for i := range f.messages {
		hold(t.Context(), harm.within(2*f.feed/time.Duration(f.messages)))
		speak(harm.index(len(venues)), harm.index(f.chats))
		if harm.float() < 0.3 {
			v := harm.index(len(venues))
			if n := harm.index(len(venues[v].Spoil) + 1); n > 0 {
				venues[v].Spoil[n-1]()
			} else {
				cuts[v] = append(cuts[v], time.Now())
				venues[v].Cut()
			}
		}
		if i%(f.messages/f.kills) == f.messages/f.kills-1 {
			g.kill()
			g.start()
		}
	}
	l.mend()
	settle(t, g, venues, said, f.settle)
	g.stop()
	done()
	watch.Wait()
	g.notes.close()

	for v := range venues {
		j := &venueJudge{t: t, g: g, venue: venues[v], cuts: cuts[v]}
		j.judge(said[v])
	}
	if bad, _ := g.complaints(); len(bad) > 0 {
		t.Errorf("log: %s", strings.Join(bad, "\n"))
	}
	if n := len(g.killed); n != f.kills {
		t.Errorf("%d processes were killed, want %d", n, f.kills)
	}
}

// settle waits until every message is answered by a whole answer.
func settle(t *testing.T, g *gateway, venues []*venue.Venue, said [][][]string, most time.Duration) {
	t.Helper()
	open := func() (list []string) {
		for v := range venues {
			for c, names := range said[v] {
				all := whole(venues[v].Shown(c))
				for _, n := range names {
					if !strings.Contains(all, n) {
						list = append(list, venues[v].Name+" "+n)
					}
				}
			}
		}
		return list
	}
	for deadline := time.Now().Add(most); ; hold(t.Context(), 200*time.Millisecond) {
		left := open()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d messages have no answer, such as %q\n%s", len(left), left[:min(len(left), 10)], tail(g.out.String()))
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

// whole is the text of the answers that came to their end.
func whole(list []venue.Message) string {
	var b strings.Builder
	for _, m := range list {
		if !half(m.Text) {
			b.WriteString(m.Text + "\n")
		}
	}
	return b.String()
}

// venueJudge looks at what the chats of a platform show.
type venueJudge struct {
	t     *testing.T
	g     *gateway
	venue *venue.Venue
	cuts  []time.Time

	noteTime time.Duration // how long a note may take; 0: not known yet
}

// judge looks at the order of answers, and for the reasons why one stands there
// twice or was begun and left.
func (j *venueJudge) judge(said [][]string) {
	j.t.Helper()
	noted, slowest := j.notes(len(said))
	if j.venue.Broken != nil {
		if rules := j.venue.Broken(); len(rules) > 0 {
			j.t.Errorf("%s: the bot broke rules of the platform: %q", j.venue.Name, rules)
		}
	}
	if noted == 0 && !j.venue.Once {
		j.t.Errorf("%s: the journal told of no message", j.venue.Name)
	}
	j.noteTime = noteLimit(slowest)
	messages, twice, left := 0, map[string]int{}, map[string]int{}
	for c, names := range said {
		messages += len(names)
		shown := j.venue.Shown(c)
		last := -1
		for _, n := range names {
			first := slices.IndexFunc(shown, func(m venue.Message) bool { return strings.Contains(m.Text, n) })
			if first < last {
				j.t.Errorf("%s: %s was answered before the message ahead of it\n%s", j.venue.Name, n, j.dump(c))
			}
			last = first
		}
		before := map[string][]venue.Message{}
		for _, m := range shown {
			if half(m.Text) {
				left[j.explain(c, m.Text+" was begun and left", m)]++
			}
			for _, n := range word.FindAllString(m.Text, -1) {
				if olds := before[n]; len(olds) > 0 {
					at, ok := j.g.notes.of(j.venue.Name, j.venue.ID(c), n)
					if ok && !m.Made.IsZero() && at.Before(m.Made) {
						j.t.Errorf("%s: %s was answered after the journal told that it had been\n%s", j.venue.Name, n, j.dump(c))
					}
					twice[j.explain(c, n+" was answered twice", olds...)]++
				}
				before[n] = append(before[n], m)
			}
		}
	}
	j.t.Logf("%s: %d messages, %d answered twice %v, %d begun and left %v, %d noted within %s",
		j.venue.Name, messages, total(twice), twice, total(left), left, noted, j.noteTime.Round(time.Millisecond))
}

// explain finds the reason why one of the messages was left behind; without one
// the test fails. A platform that honours keys has none.
func (j *venueJudge) explain(chat int, what string, olds ...venue.Message) string {
	reason := ""
	for _, old := range olds {
		if !j.venue.Once {
			reason = cmp.Or(reason, j.reason(chat, old))
		}
	}
	if reason == "" {
		j.t.Errorf("%s: %s for no reason\n%s", j.venue.Name, what, j.dump(chat))
	}
	return cmp.Or(reason, "none")
}

// reason says why the program did not know that it had sent a message; "" if it
// did, or should have. See judge.reason.
func (j *venueJudge) reason(chat int, m venue.Message) string {
	within := func(t time.Time) bool { return t.Sub(m.Made).Abs() < j.noteTime }
	if _, noted := j.g.notes.of(j.venue.Name, j.venue.ID(chat), m.ID); noted {
		return ""
	}
	if m.Lost {
		return "answer lost"
	}
	if slices.ContainsFunc(j.cuts, within) {
		return "answer cut off"
	}
	for _, death := range j.g.killed {
		if within(death) {
			return "killed before the note"
		}
	}
	return ""
}

// notes counts the messages that the journal told of, and says how long that
// took at most. Where messages do not grow it tells of answers only when they
// are delivered: the last message with a name was.
func (j *venueJudge) notes(chats int) (count int, most time.Duration) {
	delivered := 0
	var longest time.Duration
	for c := range chats {
		last := map[string]time.Time{}
		for _, m := range j.venue.Shown(c) {
			if at, ok := j.g.notes.of(j.venue.Name, j.venue.ID(c), m.ID); ok {
				count++
				most = max(most, at.Sub(m.Made))
			}
			for _, n := range word.FindAllString(m.Text, -1) {
				last[n] = m.Made
			}
		}
		for n, made := range last {
			if at, ok := j.g.notes.of(j.venue.Name, j.venue.ID(c), n); ok {
				delivered++
				longest = max(longest, at.Sub(made))
			}
		}
	}
	if count == 0 {
		return delivered, longest
	}
	return count, most
}

func (j *venueJudge) dump(chat int) string {
	var b strings.Builder
	for _, m := range j.venue.Shown(chat) {
		_, noted := j.g.notes.of(j.venue.Name, j.venue.ID(chat), m.ID)
		fmt.Fprintf(&b, "  %s made %s lost=%v noted=%v: %s\n", m.ID, m.Made.Format("04:05.000"), m.Lost, noted, m.Text)
	}
	for _, at := range j.cuts {
		fmt.Fprintf(&b, "  cut %s\n", at.Format("04:05.000"))
	}
	for _, gen := range slices.Sorted(maps.Keys(j.g.killed)) {
		fmt.Fprintf(&b, "  process %d killed %s\n", gen, j.g.killed[gen].Format("04:05.000"))
	}
	return b.String()
}

func platformGateway(t *testing.T, m *model, venues []*venue.Venue) *gateway {
	t.Helper()
	dir := t.ArtifactDir()
	g := &gateway{
		t: t, bin: filepath.Join(dir, "nanobot"), home: filepath.Join(dir, "home"), config: filepath.Join(dir, "home", "config.json"),
		killed: map[int]time.Time{},
	}
	g.notes = newNotes(g.home)
	g.build()
	if err := os.MkdirAll(g.workspace(), 0o700); err != nil {
		t.Fatal(err)
	}
	channels := map[string]any{"sendProgress": false, "sendToolHints": false}
	for _, v := range venues {
		v.Section["enabled"], v.Section["restartBackoffMaxS"] = true, 1
		channels[v.Name] = v.Section
	}
	text, err := json.Marshal(map[string]any{
		"agents": map[string]any{"defaults": map[string]any{
			"model": "custom/m", "provider": "custom", "providerRetryMode": "persistent", "limits": map[string]any{"maxConcurrentRequests": 64},
		}},
		"providers": map[string]any{"custom": map[string]any{"apiBase": m.http.URL + "/v1", "apiKey": "test-key"}},
		"tools":     map[string]any{"restrictToWorkspace": true},
		"gateway":   map[string]any{"port": 0},
		"channels":  channels,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if g.cmd != nil && g.cmd.ProcessState == nil {
			_ = g.cmd.Process.Kill() // the test failed before its end
			_ = g.cmd.Wait()
		}
		for _, v := range venues {
			v.Close()
		}
		m.http.CloseClientConnections()
		m.http.Close()
	})
	return g
}
