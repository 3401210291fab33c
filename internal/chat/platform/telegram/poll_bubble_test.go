package telegram

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
)

// offline runs a test in a bubble, with a channel on a server without a listener.
func offline(t *testing.T, changes map[string]any, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newRig(t, telegramtest.Offline(), changes)) })
}

func photo(r *rig, group, name, caption string) object {
	id := r.fake.Store("photos/"+name, []byte(name))
	return object{
		"chat": private(42), "caption": caption, "media_group_id": group,
		"photo": []object{{"file_id": id, "file_unique_id": name, "width": 1, "height": 1}},
	}
}

// Nothing is acknowledged before it is durable, and nothing is lost or doubled
// when the program ends in between.
func TestAcknowledgedWhenDurable(t *testing.T) {
	t.Parallel()
	offline(t, nil, func(t *testing.T, r *rig) {
		end := r.begin()
		r.Refuse(errDisk)
		r.fake.Say(42, "one")
		r.fake.Say(43, "other")
		r.fake.Say(42, "two")
		time.Sleep(time.Minute)
		if r.fake.Pending() != 3 || len(r.Inbound()) != 0 {
			t.Errorf("%d updates pending, %d messages while the disk is full; want 3 and 0", r.fake.Pending(), len(r.Inbound()))
		}
		if n := r.fake.Polls(); n > 70 {
			t.Errorf("%d polls in a minute of trouble", n)
		}
		end()
		r.Refuse(nil)
		r.reopen(nil)
		end = r.begin()
		time.Sleep(time.Second)
		end()
		got := r.texts()
		if len(got) != 3 || slices.Index(got, "one") > slices.Index(got, "two") {
			t.Errorf("messages %q", got)
		}
		if r.fake.Pending() != 0 {
			t.Errorf("%d updates pending", r.fake.Pending())
		}
	})
}

// What comes while the channel is being stopped stays with Telegram, and that
// is no trouble.
func TestRefusedWhileStopping(t *testing.T) {
	t.Parallel()
	offline(t, nil, func(t *testing.T, r *rig) {
		end := r.begin()
		r.Refuse(fmt.Errorf("submit: %w", chat.ErrStopping))
		r.fake.Say(42, "one")
		r.fake.Say(42, "two")
		time.Sleep(time.Minute)
		end()
		if r.fake.Pending() != 2 || strings.Contains(r.Log.String(), "ERROR") {
			t.Errorf("%d updates pending, want 2 and no errors in\n%s", r.fake.Pending(), r.Log)
		}
		r.Refuse(nil)
		r.reopen(nil)
		end = r.begin()
		time.Sleep(time.Second)
		end()
		if got, want := r.texts(), []string{"one", "two"}; !slices.Equal(got, want) {
			t.Errorf("messages %q, want %q", got, want)
		}
	})
}

// A download that hangs in one chat does not hold up another one, and its
// chat keeps its order.
func TestSlowChatAlone(t *testing.T) {
	t.Parallel()
	offline(t, nil, func(t *testing.T, r *rig) {
		hear := make(chan string)
		r.bot.deps.Transcribe = transcriber(hear)
		end := r.begin()
		id := r.fake.Store("voice/v.oga", []byte("OggS"))
		r.fake.Post(object{"chat": private(42), "voice": object{"file_id": id, "file_unique_id": "v"}})
		r.fake.Say(42, "after it")
		for i := range 150 {
			r.fake.Say(int64(100+i), "me")
		}
		time.Sleep(10 * time.Second)
		// What lies beyond the window of 100 updates has to wait; the rest not.
		if got := r.texts(); len(got) != 98 || slices.Contains(got, "after it") {
			t.Errorf("%d messages while one chat is slow, want 98 of others", len(got))
		}
		hear <- "words"
		time.Sleep(5 * time.Second)
		got := r.texts()
		if len(got) != 152 || slices.Index(got, "[transcription: words]") > slices.Index(got, "after it") {
			t.Errorf("%d messages, want 152 in order", len(got))
		}
		end()
	})
}

func TestAlbum(t *testing.T) {
	t.Parallel()
	offline(t, nil, func(t *testing.T, r *rig) {
		end := r.begin()
		time.Sleep(time.Second)
		r.fake.Post(photo(r, "g1", "a.jpg", "look"))
		r.fake.Post(photo(r, "g1", "b.jpg", ""))
		time.Sleep(100 * time.Millisecond)
		r.fake.Post(photo(r, "g1", "c.jpg", "and this"))
		r.fake.Say(42, "well?")
		r.fake.Say(43, "other")
		time.Sleep(300 * time.Millisecond)
		if got := r.texts(); slices.Contains(got, "well?") {
			t.Errorf("before the album is complete: %q", got)
		}
		time.Sleep(2 * time.Second)
		got := slices.DeleteFunc(r.Inbound(), func(in bus.Inbound) bool { return in.Text == "other" })
		if len(r.Inbound()) != 3 || len(got[0].Media) != 3 || got[0].Text != "look\nand this" || !strings.HasPrefix(got[0].Quoted[0].Text, "[image: ") || got[1].Text != "well?" {
			t.Errorf("messages: %+v", got)
		}
		if r.fake.Pending() != 0 {
			t.Errorf("%d updates pending", r.fake.Pending())
		}
		if n := r.fake.Polls(); n > 15 {
			t.Errorf("%d polls", n)
		}
		// What follows an album in one answer waits for it as well.
		end()
		r.fake.Post(photo(r, "g2", "d.jpg", "second"))
		r.fake.Say(42, "and?")
		end = r.begin()
		time.Sleep(300 * time.Millisecond)
		if got := r.texts(); len(got) != 3 {
			t.Errorf("before the second album is complete: %q", got)
		}
		time.Sleep(time.Second)
		if got := r.texts(); len(got) != 5 || got[4] != "and?" {
			t.Errorf("after the second album: %q", got)
		}
		end()
	})
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	offline(t, nil, func(t *testing.T, r *rig) {
		end := r.begin()
		time.Sleep(time.Second)
		r.fake.Fail(telegramtest.Failure{Method: "getUpdates", Code: 409, Text: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running", Times: 3})
		r.fake.Say(42, "a") // ends the long poll; the next one is refused
		before := r.fake.Polls()
		time.Sleep(15 * time.Second)
		if st := r.States(); !strings.Contains(st[len(st)-1], "another program") {
			t.Errorf("states %q", st)
		}
		if n := r.fake.Polls() - before; n != 0 {
			t.Errorf("%d polls went through within 15 s of a conflict", n)
		}
		time.Sleep(60 * time.Second) // 10 + 20 + 40 s
		if st := r.States(); st[len(st)-1] != "@nb_bot" {
			t.Errorf("states %q", st)
		}
		r.fake.SetWebhook("https://elsewhere")
		time.Sleep(5 * time.Second)
		if st := r.States(); r.fake.Webhook() != "" || st[len(st)-1] != "@nb_bot" || !strings.Contains(strings.Join(st, "\n"), "a webhook was set") {
			t.Errorf("webhook %q, states %q", r.fake.Webhook(), st)
		}
		r.fake.Say(42, "b")
		time.Sleep(time.Second)
		if got := r.texts(); !cmp.Equal(got, []string{"a", "b"}) {
			t.Errorf("messages %q", got)
		}
		end()
	})
}

func TestTroubleIsSatOut(t *testing.T) {
	t.Parallel()
	offline(t, nil, func(t *testing.T, r *rig) {
		end := r.begin()
		time.Sleep(time.Second)
		r.fake.Fail(
			telegramtest.Failure{Method: "getUpdates", Times: 3},
			telegramtest.Failure{Method: "getUpdates", Garbage: true, Code: 502},
			telegramtest.Failure{Method: "getUpdates", Code: 429, RetryAfter: 30},
		)
		r.fake.Say(42, "a")
		time.Sleep(time.Second)
		r.fake.Say(42, "b")
		time.Sleep(10 * time.Second)
		if got := r.texts(); len(got) != 1 {
			t.Errorf("messages %q in the middle of trouble", got)
		}
		time.Sleep(50 * time.Second)
		if got := r.texts(); !cmp.Equal(got, []string{"a", "b"}) {
			t.Errorf("messages %q", got)
		}
		end()
	})
}

func TestTokenRefused(t *testing.T) {
	t.Parallel()
	offline(t, map[string]any{"token": "1:another-token_that-is-refused"}, func(t *testing.T, r *rig) {
		if err := r.Start(r.Run)(); !chat.IsFatal(err) && err != nil {
			t.Errorf("Run = %v", err)
		}
		if err := r.Run(t.Context(), r.Submit); !chat.IsFatal(err) || strings.Contains(err.Error(), "refused-") || strings.Contains(err.Error(), "another-token") {
			t.Errorf("Run = %v, want fatal without the token", err)
		}
		// A token that is taken away while we run.
		r.reopen(nil)
		result := make(chan error)
		go func() { result <- r.Run(t.Context(), r.Submit) }()
		time.Sleep(time.Second)
		r.fake.Fail(telegramtest.Failure{Method: "getUpdates", Code: 401, Text: "Unauthorized"})
		r.fake.Say(42, "a")
		if err := <-result; !chat.IsFatal(err) {
			t.Errorf("Run = %v, want fatal", err)
		}
	})
}

// The offset of a bot that was quiet for long, or of another bot, is not used.
func TestOldOffset(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bot  int64
		age  time.Duration
		want int // of the two updates, how many are new
	}{
		"ours":    {telegramtest.BotID, time.Hour, 1},
		"old":     {telegramtest.BotID, 6 * 24 * time.Hour, 2},
		"other's": {5, time.Hour, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			offline(t, nil, func(t *testing.T, r *rig) {
				r.fake.Say(42, "a") // update 1001
				r.fake.Say(42, "b")
				r.facts.v.Bot, r.facts.v.Offset, r.facts.v.At = c.bot, 1002, time.Now().Add(-c.age)
				if err := r.facts.state.Save(r.facts.v); err != nil {
					t.Fatal(err)
				}
				r.reopen(nil)
				end := r.begin()
				time.Sleep(time.Second)
				if got := r.texts(); len(got) != c.want {
					t.Errorf("messages %q, want %d", got, c.want)
				}
				end()
			})
		})
	}
}

func TestMenu(t *testing.T) {
	t.Parallel()
	offline(t, nil, func(t *testing.T, r *rig) {
		r.bot.deps.Commands = append(r.bot.deps.Commands, chat.Command{Name: "größe", About: "no"}, chat.Command{Name: "x", About: strings.Repeat("ä", 300)})
		end := r.begin()
		time.Sleep(time.Second)
		want := []string{"start - what I can do", "new - start afresh", "dream_log - what changed", "help - list", "x - " + strings.Repeat("ä", 255) + "…"}
		if diff := cmp.Diff(want, r.fake.Commands()); diff != "" {
			t.Errorf("menu (-want +got):\n%s", diff)
		}
		end()
	})
}

// While nothing happens there is one poll in 50 seconds.
func TestQuiet(t *testing.T) {
	t.Parallel()
	offline(t, nil, func(t *testing.T, r *rig) {
		end := r.begin()
		time.Sleep(time.Hour)
		if n := r.fake.Polls(); n > 75 {
			t.Errorf("%d polls in a quiet hour", n)
		}
		end()
	})
}

// A message that breaks the program is given up instead of breaking it for
// ever.
func TestPanicIsContained(t *testing.T) {
	t.Parallel()
	offline(t, nil, func(t *testing.T, r *rig) {
		r.bot.deps.Transcribe = transcriber(nil)
		r.bot.deps.Media = nil
		end := r.begin()
		r.fake.Post(object{"chat": private(42), "voice": object{"file_id": "v", "file_unique_id": "v"}})
		r.fake.Say(42, "still here")
		time.Sleep(time.Second)
		if got := r.texts(); !cmp.Equal(got, []string{"still here"}) || !strings.Contains(r.Log.String(), "please report") {
			t.Errorf("messages %q; log %s", got, r.Log)
		}
		end()
	})
}

// One update that we do not understand does not hold up the others.
func TestOddUpdate(t *testing.T) {
	t.Parallel()
	offline(t, nil, func(t *testing.T, r *rig) {
		end := r.begin()
		r.fake.Update(object{"message": "no object"})
		r.fake.Update(object{"message": object{"message_id": "x"}})
		r.fake.Update(object{"message": nil})
		r.fake.Update(object{"callback_query": object{"id": "c"}})
		r.fake.Say(42, "fine")
		time.Sleep(time.Second)
		if got := r.texts(); !cmp.Equal(got, []string{"fine"}) || r.fake.Pending() != 0 || strings.Count(r.Log.String(), "not understood") != 2 {
			t.Errorf("messages %q, %d pending; log %s", got, r.fake.Pending(), r.Log)
		}
		end()
	})
}

// Many restarts with failures in between: every message arrives once, in order.
func TestManyRestarts(t *testing.T) {
	t.Parallel()
	offline(t, nil, func(t *testing.T, r *rig) {
		n := 0
		for round := range 30 {
			r.reopen(nil)
			end := r.begin()
			for range 7 {
				r.fake.Say(int64(40+n%3), fmt.Sprint(n))
				n++
			}
			if round%3 == 0 {
				r.fake.Fail(telegramtest.Failure{Method: "getUpdates", After: true, Times: 2})
			}
			time.Sleep(time.Duration(round) * 20 * time.Millisecond)
			end()
		}
		r.reopen(nil)
		end := r.begin()
		time.Sleep(time.Minute)
		last := map[string]int{}
		for _, in := range r.Inbound() {
			var k int
			if _, err := fmt.Sscan(in.Text, &k); err != nil || k < last[in.Route.ChatID] {
				t.Errorf("%s after %d", in.Text, last[in.Route.ChatID])
			}
			last[in.Route.ChatID] = k
		}
		if len(r.Inbound()) != n || r.fake.Pending() != 0 {
			t.Errorf("%d of %d messages, %d pending", len(r.Inbound()), n, r.fake.Pending())
		}
		end()
	})
}
