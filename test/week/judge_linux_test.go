package week_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// over judges the week by what is on the disk and what the model was sent.
func (w *week) over() {
	w.t.Helper()
	w.t.Logf("bytes in the data folder at the end of each day:\n%s", table(w.filled))
	w.jobsRan()
	w.remembers()
	w.prompts()
	w.prefixes()
	w.bounded()
	for answer, want := range map[string]int{"The page was noted.": days, "The tide was noted.": days} {
		if n := strings.Count(w.heard(ada), answer); n != want {
			w.t.Errorf("the owner read %q %d times, want %d", answer, n, want)
		}
	}
	for _, q := range w.model.of(0, "unknown") {
		w.t.Errorf("day %d: nobody wrote %s", q.day, q.messages[len(q.messages)-1])
	}
}

// remembers checks that what was told on the first days is known on the last:
// by chats, and by one-shots whose program ended long ago.
func (w *week) remembers() {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.ws, "memory", "MEMORY.md"))
	if err != nil {
		w.t.Fatal(err)
	}
	last := w.model.of(days, news)
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 15, 16} {
		f := fmt.Sprintf("- FACT%d:", n)
		if c := strings.Count(string(b), f); c != 1 {
			w.t.Errorf("%q stands %d times in MEMORY.md", f, c)
		}
		if n != 7 && !strings.Contains(last[0].system, f) { // it is of the same night
			w.t.Errorf("%q is not in the prompt of the last day", f)
		}
	}
}

// prompts checks that jobs do not grow with their past.
func (w *week) prompts() {
	w.t.Helper()
	for _, job := range []string{news, tide, water, beat} {
		largest := func(day int) (n int) {
			for _, q := range w.model.of(day, job) {
				n = max(n, len(q.body))
			}
			return n
		}
		if second, last := largest(2), largest(days); second == 0 || float64(last) > 1.2*float64(second) {
			w.t.Errorf("%q: its largest prompt had %d bytes on the second day and %d on the last", job, second, last)
		}
	}
}

// prefixes checks that each request of a conversation begins with the bytes of
// the one before it, so that prompt caches work.
func (w *week) prefixes() {
	w.t.Helper()
	before := map[string]request{} // by system prompt, tools and first message
	turns := 0
	for _, q := range w.model.seen(func(q request) bool { return len(q.messages) > 1 }) {
		key := q.system + q.tools() + string(q.messages[1])
		last, ok := before[key]
		before[key] = q
		if !ok || strings.HasPrefix(q.part, "dream") {
			continue
		}
		if len(q.messages) < len(last.messages) || !slices.EqualFunc(last.messages, q.messages[:len(last.messages)], func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			w.t.Errorf("day %d: a request of %q does not begin with the one of %q before it", q.day, q.part, last.part)
		}
		if q.part != last.part {
			turns++
		}
	}
	if turns < days {
		w.t.Errorf("only %d turns went on with the prompt of the one before", turns)
	}
}

// bounded checks what the program keeps open and on the disk.
func (w *week) bounded() {
	w.t.Helper()
	for day, held := range w.held {
		first, last := held[0], held[1]
		w.t.Logf("day %d: %d, then %d goroutines; %d, then %d files", day+1, first.Goroutines, last.Goroutines, first.Files, last.Files)
		if last.Goroutines > first.Goroutines+24 || last.Files > first.Files+24 {
			w.t.Errorf("day %d: the gateway held %d goroutines and %d files, later %d and %d: %q", day+1, first.Goroutines, first.Files, last.Goroutines, last.Files, last.Listed)
		}
	}
	for _, name := range []string{"bus", "cron", "guests", "logs", "origin", "sessions", "usage", "workspace"} { // others are written again now and then
		early, late := w.filled[2][name]-w.filled[1][name], w.filled[days-1][name]-w.filled[days-2][name]
		if late > 2*early+4<<10 {
			w.t.Errorf("%s grew by %d bytes on the third day and by %d on the last", name, early, late)
		}
	}
	for name, most := range map[string]int64{"bus": 16 << 10, "cron": 64 << 10, "index": 512 << 10, "logs": 32 << 10, "memory": 256 << 10, "origin": 64 << 10, "undo": 256 << 10, "usage": 128 << 10} {
		if got := w.filled[days-1][name]; got > most {
			w.t.Errorf("%s has %d bytes after a week, want at most %d", name, got, most)
		}
	}
}

// runs checks a job: its runs are those of the moments, each once and well.
func (w *week) runs(name string, moments []time.Time) {
	w.t.Helper()
	j := w.job(name)
	var at []time.Time
	for _, r := range j.State.RunHistory {
		at = append(at, r.OccurrenceMS.Time().UTC())
		if r.Status != "ok" {
			w.t.Errorf("%s of %s ended with %s: %s", name, r.OccurrenceMS.Time().UTC(), r.Status, r.Error)
		}
	}
	if !slices.Equal(at, moments) {
		w.t.Errorf("%s ran at\n%v, want\n%v", name, at, moments)
	}
}

func (w *week) jobsRan() {
	w.t.Helper()
	var berlin, sydney, every []time.Time
	for day := range days {
		at := time.Date(2026, 3, 29+day, 0, 30, 0, 0, time.UTC)
		if day == 0 {
			at = at.Add(time.Hour) // 02:30 does not exist, 03:30 is 01:30 UTC
		}
		berlin = append(berlin, at)
		sydney = append(sydney, time.Date(2026, 3, 29+day, 15, 30, 0, 0, time.UTC)) // on the last day 02:30 exists twice
	}
	created := w.job("water").CreatedAtMS.Time().UTC()
	for n := 1; n <= 2*days; n++ {
		if at := created.Add(time.Duration(n) * 12 * time.Hour); at.Before(begin().AddDate(0, 0, days)) {
			every = append(every, at)
		}
	}
	w.runs(w.newsName(), berlin)
	w.runs("tide", sydney)
	w.runs("water", every)
	for file, lines := range map[string]int{"news.txt": days, "tide.txt": days, "plants.txt": len(every), "days.txt": days, "page.txt": days} {
		if b, err := os.ReadFile(filepath.Join(w.ws, file)); err != nil || bytes.Count(b, []byte("\n")) != lines {
			w.t.Errorf("%s has %d lines, want %d: %v", file, bytes.Count(b, []byte("\n")), lines, err)
		}
	}
}

// newsName is the name that the program gave to the job of the chat.
func (w *week) newsName() string {
	w.t.Helper()
	for _, j := range w.jobs() {
		if strings.Contains(j.Payload.Message, news) {
			return j.Name
		}
	}
	w.t.Fatal("the job of the chat is not there")
	return ""
}

// tools are those a request offers.
func (q request) tools() string {
	var body struct {
		Tools json.RawMessage `json:"tools"`
	}
	_ = json.Unmarshal(q.body, &body) // it was read before
	return string(body.Tools)
}
