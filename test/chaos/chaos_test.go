//go:build unix

// Package chaos_test kills the real program again and again while people chat
// with it over a bad network, and checks that nobody notices more than a delay.
package chaos_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// form is how much happens.
type form struct {
	chats, messages int
	kills, ends     int           // of processes: without a warning, in order
	feed            time.Duration // over which the messages come
	settle          time.Duration // for the last answers
}

// TestChaos sends messages through a fake Telegram to the gateway, which uses a
// fake model, while the gateway is killed at random moments and both fakes
// refuse, hang, cut connections and lose answers. NANOBOT_CHAOS=full is the
// long form, NANOBOT_CHAOS_SEED repeats the luck of a run as far as the
// machine's timing allows.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	f := form{chats: 12, messages: 120, kills: 6, ends: 2, feed: 12 * time.Second, settle: 10 * time.Minute}
	if os.Getenv("NANOBOT_CHAOS") == "full" {
		f = form{chats: 200, messages: 2000, kills: 50, ends: 10, feed: 150 * time.Second, settle: 10 * time.Minute}
	}
	seed := uint64(time.Now().UnixNano())
	if v, err := strconv.ParseUint(os.Getenv("NANOBOT_CHAOS_SEED"), 10, 64); err == nil {
		seed = v
	}
	t.Logf("seed %d", seed)
	l := newLuck(seed)
	tg, m := newPlatform(l), newModel(t, l)
	g := newGateway(t, tg, m)
	j := &judge{t: t, tg: tg, m: m, g: g, said: map[int64][]string{}}

	began := time.Now()
	g.start()
	defer func() {
		if g.cmd.ProcessState == nil {
			_ = g.cmd.Process.Kill() // the test failed before its end
		}
		tg.http.CloseClientConnections()
		tg.Close()
		tg.http.Close()
		m.http.CloseClientConnections()
		m.http.Close()
	}()
	var people, watch sync.WaitGroup
	ctx, done := context.WithCancel(t.Context())
	defer done()
	watch.Go(func() { g.notes.follow(ctx) })
	people.Go(func() { talk(j, f, newLuck(seed+1)) })
	harass(g, m, f, newLuck(seed+2))
	people.Wait()
	l.mend()

	deadline := time.Now().Add(f.settle)
	for n, some := j.missing(); n > 0; n, some = j.missing() {
		if time.Now().After(deadline) {
			t.Errorf("%d of %d messages have no answer, such as %v; other things said: %v", n, f.messages, some, j.strangers())
			for _, name := range some {
				t.Logf("%s\n%s", name, j.dump(chatOf(name)))
			}
			break
		}
		hold(t.Context(), 200*time.Millisecond)
	}
	took := time.Since(began)
	for tg.quietFor() < 2*time.Second && time.Now().Before(deadline) {
		hold(t.Context(), 100*time.Millisecond)
	}
	g.stop()
	done()
	watch.Wait()
	g.notes.close()
	report(j, f, took)
}

// chatOf is the chat of a message by its name.
func chatOf(name string) int64 {
	var c int64
	fmt.Sscanf(name, "c%dn", &c) // 0 is no chat
	return firstChat + c
}

const firstChat = 1000

// talk lets people write.
func talk(j *judge, f form, l *luck) {
	count := make([]int, f.chats)
	for range f.messages {
		hold(j.t.Context(), l.within(2*f.feed/time.Duration(f.messages)))
		c := l.index(f.chats)
		count[c]++
		name := fmt.Sprintf("c%dn%d;", c, count[c])
		chat := chatOf(name)
		j.said[chat] = append(j.said[chat], name)
		j.tg.Say(chat, "please answer "+name)
	}
}

// harass kills the program and cuts its connections. Sometimes it only
// restarts it, which nobody may notice.
func harass(g *gateway, m *model, f form, l *luck) {
	rounds := f.kills + f.ends
	for i := range rounds {
		gap := l.within(2 * f.feed / time.Duration(rounds))
		if l.float() < 0.5 { // the network fails in between
			hold(g.t.Context(), gap/2)
			g.tg.drop()
			m.http.CloseClientConnections()
			gap /= 2
		}
		hold(g.t.Context(), gap)
		if i%(rounds/f.ends) == 1 {
			g.stop()
		} else {
			g.kill()
		}
		g.start()
	}
}

func report(j *judge, f form, took time.Duration) {
	j.order()
	twice, left := j.duplicates()
	sessions := j.files()
	bad, errors := j.g.complaints()
	for _, line := range bad {
		j.t.Errorf("log: %s", line)
	}
	_, lost := j.tg.sendings()
	missing, _ := j.missing()
	if sessions != len(j.said) {
		j.t.Errorf("%d session files for %d chats", sessions, len(j.said))
	}
	if n := len(j.g.killed); n != f.kills {
		j.t.Errorf("%d processes were killed, want %d", n, f.kills)
	}
	j.t.Logf("%d messages, %d chats, %d kills, %d restarts in %s: %d unanswered, %d answered twice %v, %d begun and left %v, notes within %s, %d answers to the bot lost, %d model calls, %d with tools, %d idle, faults %v, %d errors logged, other words %v",
		f.messages, len(j.said), f.kills, f.ends, took.Round(time.Second), missing, total(twice), twice, total(left), left, j.noteTime().Round(time.Millisecond), lost, j.m.calls, j.m.tools, j.m.idle, j.g.tg.luck.count(), errors, j.strangers())
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
