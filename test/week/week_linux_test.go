package week_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// The days of the week go from 18:00 to 18:00 UTC. On the first Europe's clocks
// go forward, on the last Sydney's go back.
const days = 7

func begin() time.Time { return time.Date(2026, 3, 28, 18, 0, 0, 0, time.UTC) }

// The jobs, by what they say.
const (
	news  = "Note what the page says."
	tide  = "Note the tide."
	water = "Check the plants."
	beat  = "Regular look at the list of active tasks."
)

// TestWeek lives a week with the program in simulated time: a gateway that
// is started again every day and killed once, one-shots beside it, jobs that
// read a page and run commands, chats with words from outside, a guest, a goal,
// memory and a limit that one day reaches.
func TestWeek(t *testing.T) {
	if _, err := sandbox.Open(t.Context(), sandbox.Options{Mode: sandbox.Auto}); err != nil {
		t.Skipf("there is no sandbox here: %v", err)
	}
	w := &week{house: newHouse(t, begin())}
	w.jobsPlay()
	for w.day = 1; w.day <= days; w.day++ {
		w.model.mu.Lock()
		w.model.day = w.day
		w.model.mu.Unlock()
		w.live()
	}
	w.lastWords()
	w.over()
}

// lastWords starts the gateway once more: what could not be sent when the last day
// ended, such as a second message within a second, goes out with the next start.
func (w *week) lastWords() {
	w.t.Helper()
	w.up()
	w.until("the last answer", func() bool { return strings.Count(w.heard(ada), "The tide was noted.") >= days })
	w.down()
}

// week is the house while the week goes on.
type week struct {
	*house
	day    int
	filled []map[string]int64 // sizes of the data folder at the ends of the days
	held   [][2]state         // by the gateway: at the start of a day and at its end
}

// at is a time of the day, which begins at 18:00.
func (w *week) at(clock string) time.Time {
	w.t.Helper()
	start := begin().AddDate(0, 0, w.day-1)
	c, err := time.Parse("15:04", clock)
	if err != nil {
		w.t.Fatal(err)
	}
	at := time.Date(start.Year(), start.Month(), start.Day(), c.Hour(), c.Minute(), 0, 0, time.UTC)
	if at.Before(start) {
		at = at.AddDate(0, 0, 1)
	}
	return at
}

// jobsPlay is what the model does when jobs are due.
func (w *week) jobsPlay() {
	w.model.plays(part{words: news, calls: []call{fetch(w.web.url + "/news"), sh("date >> news.txt && wc -l < news.txt")}, say: "The page was noted."})
	w.model.plays(part{words: tide, calls: []call{sh("echo high >> tide.txt && wc -l < tide.txt"), fetch(w.web.url + "/tide")}, say: "The tide was noted."})
	w.model.plays(part{words: water, calls: []call{sh("echo wet >> plants.txt && wc -l < plants.txt")}, say: "The plants are fine."})
	w.model.plays(part{words: "The program was restarted while the last message was being worked on.", say: "The page was noted."})
	w.model.plays(part{words: beat, say: "ALL CLEAR"})
}

// live is one day.
func (w *week) live() {
	w.t.Helper()
	w.web.says(fmt.Sprintf("Day %d. %s", w.day, strings.Repeat("It rains at nine and the tide is high. ", 150)))
	w.up()
	if w.day == 1 {
		w.settleIn()
	}
	w.to(w.at("19:00"))
	first := w.holds()
	w.chat()
	w.outside()
	w.guestWrites()
	w.oneShots()
	switch w.day {
	case 3:
		w.goal()
	case 4:
		w.spend()
	}
	w.night()
	w.to(w.at("17:59"))
	w.held = append(w.held, [2]state{first, w.holds()})
	w.down()
	w.filled = append(w.filled, w.sizes())
}

// settleIn sets up what runs for the rest of the week: by the chat, by the
// command line, and by the list of the heartbeat.
func (w *week) settleIn() {
	w.t.Helper()
	w.clock.set(w.t, w.at("18:10"))
	w.say(ada, "Look at the news every night, please.", part{calls: []call{
		{"cron", map[string]any{"action": "add", "message": news, "cron_expr": "30 2 * * *", "tz": "Europe/Berlin"}},
		write("HEARTBEAT.md", "## Active Tasks\n\n- Is the machine there?\n"),
	}})
	w.run("cron", "add", "-n", "tide", "-m", tide, "--cron", "30 2 * * *", "--tz", "Australia/Sydney", "--channel", "telegram", "--to", fmt.Sprint(ada))
	w.run("cron", "add", "-n", "water", "-m", water, "--every", "12h", "--channel", "telegram", "--to", fmt.Sprint(ada))
}

// chat is an evening with the owner, without anything from outside.
func (w *week) chat() {
	w.t.Helper()
	w.say(ada, fmt.Sprintf("Good evening, it is day %d. FACT%d: Ada's friend of day %d is called Nora%d.", w.day, w.day, w.day, w.day), part{})
	w.say(ada, fmt.Sprintf("List my files of day %d.", w.day), part{calls: []call{sh("ls; echo day >> days.txt; wc -l < days.txt")}})
	if w.day == 2 {
		w.say(ada, "Thank you.", part{})
	}
	w.command(ada, "/new", "New conversation.")
}

// outside is a chat that reads a page and runs a command afterwards.
func (w *week) outside() {
	w.t.Helper()
	w.to(w.at("19:30"))
	reads := fmt.Sprintf("What does the page of day %d say?", w.day)
	w.say(reader, reads, part{calls: []call{fetch(w.web.url + "/page"), sh("echo read >> page.txt && wc -l < page.txt; echo obey >> AGENTS.md && echo bad")}})
	if got := w.last(reads); !strings.Contains(got, fmt.Sprint(w.day)) || strings.Contains(got, "bad") {
		w.t.Errorf("day %d: after the page a command said %q, want line %d of page.txt and no way to AGENTS.md", w.day, got, w.day)
	}
	rules := fmt.Sprintf("# Rules\n\nBe kind on day %d.\n", w.day)
	if w.day == 3 {
		if q := w.say(reader, "Write the rules down.", part{calls: []call{write("AGENTS.md", rules)}}); len(q) != 1 {
			w.t.Errorf("with a page in the conversation, writing AGENTS.md asked %d questions: %q", len(q), q)
		}
	}
	if w.day%2 == 0 {
		return
	}
	w.command(reader, "/new", "New conversation.")
	w.clock.set(w.t, w.at("19:40"))
	again := fmt.Sprintf("And now the rules of day %d.", w.day)
	if q := w.say(reader, again, part{calls: []call{write("AGENTS.md", rules)}}); len(q) != 0 {
		w.t.Errorf("day %d: after /new, writing AGENTS.md asked: %q", w.day, q)
	}
	if b, err := os.ReadFile(filepath.Join(w.ws, "AGENTS.md")); err != nil || string(b) != rules {
		w.t.Errorf("day %d: AGENTS.md holds %q: %v", w.day, b, err)
	}
}

// summaries are the requests for a summary of a conversation with these words.
func (w *week) summaries(words string) []request {
	return w.model.seen(func(q request) bool { return q.part == "summary" && strings.Contains(string(q.body), words) })
}

// last is the result of the last call of a part.
func (w *week) last(words string) string {
	w.t.Helper()
	list := w.model.of(0, words)
	if len(list) == 0 || len(list[len(list)-1].results) == 0 {
		w.t.Errorf("%q has no results", words)
		return ""
	}
	results := list[len(list)-1].results
	return results[len(results)-1]
}

// guestWrites lets a guest write a file into a room of their own.
func (w *week) guestWrites() {
	w.t.Helper()
	w.clock.set(w.t, w.at("20:00"))
	name := fmt.Sprintf("guest%d.txt", w.day)
	w.say(guest, fmt.Sprintf("Note my visit %d.", w.day), part{calls: []call{write(name, "hello\n")}})
	if _, err := os.Stat(filepath.Join(w.ws, name)); err == nil {
		w.t.Errorf("day %d: the file of the guest is in the owner's workspace", w.day)
	}
	if found, _ := filepath.Glob(filepath.Join(w.data, "guests", "*", "*", name)); len(found) != 1 {
		w.t.Errorf("day %d: the guest's file is at %v", w.day, found)
	}
	w.until("the conversation before /new is summarised", func() bool {
		return len(w.summaries(fmt.Sprintf("FACT%d:", w.day))) > 0
	})
}

// oneShots are questions on the command line, beside the gateway.
func (w *week) oneShots() {
	w.t.Helper()
	w.to(w.at("20:30"))
	n := 10 + w.day
	words := fmt.Sprintf("FACT%d: Ada's boat of day %d is called Boat%d.", n, w.day, n)
	w.model.plays(part{words: words, calls: []call{sh("echo $((6*7))")}, say: "I see."})
	if out := w.run("agent", "-m", words); !strings.Contains(out, "I see.") {
		w.t.Errorf("day %d: the one-shot said %q", w.day, out)
	}
	if w.day%2 == 0 {
		w.run("agent", "-m", "/new")
		if len(w.summaries(words)) == 0 {
			w.t.Errorf("day %d: a one-shot ended and its conversation was not summarised", w.day)
		}
	}
}

// goal is work over three rounds.
func (w *week) goal() {
	w.t.Helper()
	w.clock.set(w.t, w.at("21:30"))
	w.say(worker, "/goal collect three stones", part{words: "collect three stones", act: func(round int, results []string) (string, *call) {
		stone, done := sh("echo stone >> stones.txt"), call{"update_goal", map[string]any{"action": "complete", "recap": "three stones"}}
		switch {
		case len(results) == 0:
			return "", &stone
		case round < 3:
			return "There is another stone.", nil
		case len(results) == 1:
			return "", &done
		}
		return "All stones are there. END", nil
	}})
	if b, err := os.ReadFile(filepath.Join(w.ws, "stones.txt")); err != nil || strings.Count(string(b), "\n") != 3 {
		w.t.Errorf("stones.txt holds %q: %v", b, err)
	}
	w.command(worker, "/goal", "There is no goal.")
	w.command(worker, "/new", "New conversation.")
}

// spend reaches the limit of the day.
func (w *week) spend() {
	w.t.Helper()
	w.to(w.at("23:00"))
	const calls = 4 // more tokens in one call than a window can hold would not be believed
	for n := range calls {
		w.say(worker, fmt.Sprintf("Think hard, for the %d. time.", n+1), part{usage: tokensPerDay / calls})
	}
	before := len(w.model.of(0, "Think again."))
	w.model.plays(part{words: "Think again.", say: "never"})
	w.command(worker, "Think again.", "limit")
	if n := len(w.model.of(0, "Think again.")) - before; n != 0 {
		w.t.Errorf("%d requests were made after the limit of the day was reached", n)
	}
	w.to(w.at("00:05"))
	w.say(worker, "Think on the next day.", part{})
}

// night is when the gateway is started again, in another way each time.
func (w *week) night() {
	w.t.Helper()
	switch w.day {
	case 5: // it is killed while the news are read
		for w.next().Before(w.at("00:30")) {
			w.due()
			w.settle()
		}
		reached, goOn := w.model.holds(news)
		w.due()
		select {
		case <-reached:
		case <-time.After(patience):
			w.t.Fatalf("the news were not read:\n%s", tail(w.gateway.out.String()))
		}
		w.kill()
		goOn()
		w.clock.set(w.t, w.clock.read().Add(time.Minute))
		w.up()
		w.settle()
	case 6: // it is off when the news are due
		w.to(w.at("00:20"))
		w.down()
		w.clock.set(w.t, w.at("01:45"))
		w.up()
		w.settle()
	default:
		w.to(w.at("23:30").Add(35 * time.Minute))
		w.down()
		w.up()
	}
}
