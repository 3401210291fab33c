package week_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
)

// Who writes to the bot. A chat gets one message a second, so the owner has
// several accounts.
const (
	ada    = 42
	guest  = 43
	reader = 44 // Ada, for pages
	worker = 45 // Ada, for what takes long
)

// patience is how long something may take that has to happen.
const patience = 10 * time.Minute

// house is the machine of an owner, with a web, a chat platform and a model.
type house struct {
	t         *testing.T
	home      string
	data      string
	ws        string
	clock     clock
	clockFile string
	model     *model
	tg        *telegramtest.Server
	web       *site
	marks     int

	gateway *process // nil: it does not run
	wrote   strings.Builder
}

// newHouse is a new install: what onboard writes, a model, a chat platform, a
// page that may be read and a limit per day.
func newHouse(t *testing.T, at time.Time) *house {
	t.Helper()
	home := filepath.Join(t.ArtifactDir(), "home") // kept with -artifacts
	h := &house{t: t, home: home, data: filepath.Join(home, ".nanobot"), model: newModel(t), tg: telegramtest.New(), web: newSite(t)}
	h.ws = filepath.Join(h.data, "workspace")
	h.clock, h.clockFile = newClock(t, at)
	t.Cleanup(h.tg.Close)
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	h.run("onboard")
	config := filepath.Join(h.data, "config.json")
	b, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]any{}
	if err := json.Unmarshal(b, &written); err != nil {
		t.Fatal(err)
	}
	b, err = json.MarshalIndent(overlay(written, h.settings()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// tokensPerDay is the limit that one day of the week reaches.
const tokensPerDay = 2_000_000

func (h *house) settings() map[string]any {
	type object = map[string]any
	return object{
		"agents": object{"defaults": object{
			"model": "custom/m", "provider": "custom", "timezone": "UTC", "idleCompactAfterMinutes": 60,
			"budget": object{"dailyTokens": tokensPerDay, "onExceed": "stopAll"},
			"dream":  object{"intervalH": 8},
		}},
		// A model on this machine would be free: it is reached through a proxy,
		// under a name elsewhere.
		"providers": object{"custom": object{"apiBase": "http://models.example.test/v1", "proxy": h.model.url, "apiKey": "week-key-0123456789"}},
		"tools":     object{"ssrfWhitelist": []string{"127.0.0.1/32"}, "exec": object{"allowedEnvKeys": []string{"GORACE"}}},
		"gateway":   object{"port": 0, "heartbeat": object{"enabled": true, "intervalS": 8 * 3600}},
		"channels": object{"telegram": object{
			"enabled": true, "token": telegramtest.Token, "apiBase": h.tg.URL(), "allowFrom": []string{"42", "43", "44", "45"}, "owners": []string{"42", "44", "45"},
			"sendProgress": false, "sendToolHints": false, "streaming": false, "reactEmoji": "", "inlineKeyboards": true,
		}},
	}
}

// overlay puts settings over others.
func overlay(under, over map[string]any) map[string]any {
	for k, v := range over {
		a, ok := under[k].(map[string]any)
		b, both := v.(map[string]any)
		if ok && both {
			v = overlay(a, b)
		}
		under[k] = v
	}
	return under
}

// process is nanobot with the clock of the week.
type process struct {
	*exec.Cmd
	out  *output
	over chan struct{} // closed when it has ended
}

func (h *house) start(args ...string) *process {
	h.t.Helper()
	p := &process{Cmd: exec.CommandContext(context.WithoutCancel(h.t.Context()), "/proc/self/exe", args...), out: &output{}, over: make(chan struct{})}
	p.Env = []string{
		"HOME=" + h.home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TZ=UTC", clockVariable + "=" + h.clockFile, stateVariable + "=" + h.stateFile(),
		"GORACE=halt_on_error=1 atexit_sleep_ms=0", "SHELL=/bin/sh", // the race detector sleeps a second at each exit
	}
	p.Dir, p.Stdout, p.Stderr = h.home, p.out, p.out
	if _, err := os.Stat(h.ws); err == nil {
		p.Dir = h.ws // from the home folder, a chat begins with a question about it
	}
	if err := p.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() {
		_ = p.Wait() // the exit code tells
		close(p.over)
	}()
	h.t.Cleanup(func() {
		_ = p.Process.Kill() // the test ended early
		<-p.over
	})
	return p
}

// run is a command of the program that has to succeed.
func (h *house) run(args ...string) string {
	h.t.Helper()
	p := h.start(args...)
	select {
	case <-p.over:
	case <-time.After(patience):
		h.t.Fatalf("nanobot %s does not end:\n%s", strings.Join(args, " "), p.out)
	}
	if code := p.ProcessState.ExitCode(); code != 0 {
		h.t.Fatalf("nanobot %s ended with %d:\n%s", strings.Join(args, " "), code, p.out)
	}
	return p.out.String()
}

// up starts the gateway.
func (h *house) up() {
	h.t.Helper()
	h.gateway = h.start("gateway", "--logs", "-v")
	h.until("the gateway is ready", func() bool { return strings.Contains(h.gateway.out.String(), "gateway: ready") })
}

// down lets the gateway end in order, with nothing left open.
func (h *house) down() {
	h.t.Helper()
	_ = h.gateway.Process.Signal(syscall.SIGTERM) // if it is gone its code tells
	h.ended()
	if code := h.gateway.ProcessState.ExitCode(); code != 0 {
		h.t.Errorf("the gateway ended with %d:\n%s", code, tail(h.gateway.out.String()))
	}
	h.gateway = nil
}

// kill ends the gateway as a power cut does.
func (h *house) kill() {
	h.t.Helper()
	_ = h.gateway.Process.Kill()
	h.ended()
	h.gateway = nil
}

func (h *house) ended() {
	h.t.Helper()
	select {
	case <-h.gateway.over:
	case <-time.After(patience):
		h.t.Fatalf("the gateway does not end:\n%s", tail(h.gateway.out.String()))
	}
	out := h.gateway.out.String()
	h.wrote.WriteString(out)
	for _, bad := range []string{"DATA RACE", "panic:", "level=ERROR"} {
		if i := strings.Index(out, bad); i >= 0 {
			h.t.Errorf("the gateway said: %s", out[i:min(len(out), i+3000)])
		}
	}
}

// until waits for something that has to happen.
func (h *house) until(what string, ok func() bool) {
	h.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if g := h.gateway; g != nil {
			select {
			case <-g.over:
				h.t.Fatalf("%s: the gateway is gone\n%s", what, tail(g.out.String()))
			default:
			}
		}
		if time.Now().After(end) {
			said := ""
			if h.gateway != nil {
				said = tail(h.gateway.out.String())
			}
			for _, who := range []int64{ada, guest, reader, worker} {
				if list := h.tg.Messages(who); len(list) > 0 {
					said += fmt.Sprintf("\nlast in chat %d: %s", who, list[len(list)-1].Plain)
				}
			}
			h.t.Fatalf("%s: waited for %s at %s\n%s", what, patience, h.clock.read().UTC(), said)
		}
	}
}

func (h *house) stateFile() string { return filepath.Join(filepath.Dir(h.clockFile), "state.json") }

// holds is what the gateway has open.
func (h *house) holds() (s state) {
	h.t.Helper()
	_ = os.Remove(h.stateFile()) // of the last time
	if err := h.gateway.Process.Signal(syscall.SIGUSR1); err != nil {
		h.t.Fatal(err)
	}
	h.until("what the gateway holds", func() bool {
		b, err := os.ReadFile(h.stateFile())
		return err == nil && json.Unmarshal(b, &s) == nil
	})
	return s
}

// jobsFile is where the schedule keeps its jobs.
func (h *house) jobsFile() string {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.data, "cron", "*", "jobs.json"))
	if err != nil || len(found) != 1 {
		h.t.Fatalf("files with jobs: %v, %v", found, err)
	}
	return found[0]
}

// jobs are all jobs as they are on the disk.
func (h *house) jobs() []*schedule.Job {
	h.t.Helper()
	b, err := os.ReadFile(h.jobsFile())
	var file struct {
		Jobs []*schedule.Job `json:"jobs"`
	}
	if err = errors.Join(err, json.Unmarshal(b, &file)); err != nil {
		h.t.Fatal(err)
	}
	return file.Jobs
}

func (h *house) job(name string) *schedule.Job {
	h.t.Helper()
	list := h.jobs()
	i := slices.IndexFunc(list, func(j *schedule.Job) bool { return j.Name == name })
	if i < 0 {
		h.t.Fatalf("there is no job %s", name)
	}
	return list[i]
}

// next is when the first job is due.
func (h *house) next() (at time.Time) {
	h.t.Helper()
	for _, j := range h.jobs() {
		if n := j.State.NextRunAtMS.Time(); j.Enabled && !n.IsZero() && (at.IsZero() || n.Before(at)) {
			at = n
		}
	}
	return at
}

// poke makes the schedule look at its jobs, as any change in its folder does.
func (h *house) poke() {
	h.t.Helper()
	file := filepath.Join(filepath.Dir(h.jobsFile()), ".poke")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Remove(file)); err != nil {
		h.t.Fatal(err)
	}
}

// due moves the clock to the first job and lets the gateway begin it.
func (h *house) due() {
	h.t.Helper()
	h.clock.set(h.t, h.next())
	h.poke()
}

// settle waits until nothing is due and no run is going on.
func (h *house) settle() {
	h.t.Helper()
	h.until("no job is due", func() bool {
		now := h.clock.read()
		return !slices.ContainsFunc(h.jobs(), func(j *schedule.Job) bool {
			return j.State.Pending != nil || j.Enabled && j.State.NextRunAtMS != 0 && !j.State.NextRunAtMS.Time().After(now)
		})
	})
}

// to lets time pass: each job runs at its moment.
func (h *house) to(at time.Time) {
	h.t.Helper()
	for n := h.next(); h.gateway != nil && !n.IsZero() && !n.After(at); n = h.next() {
		h.due()
		h.settle()
	}
	h.clock.set(h.t, at)
}

// say lets a person write and waits for the answer. Questions of the bot are
// answered with no and returned.
func (h *house) say(who int64, text string, p part) (questions []string) {
	h.t.Helper()
	h.marks++
	mark := fmt.Sprintf("end-%d.", h.marks)
	p.words, p.say = cmp.Or(p.words, text), strings.TrimSpace(p.say+" "+mark)
	if act := p.act; act != nil {
		p.act = func(round int, results []string) (string, *call) {
			say, next := act(round, results)
			return strings.ReplaceAll(say, "END", mark), next
		}
	}
	h.model.plays(p)
	before := len(h.tg.Messages(who))
	h.post(who, text)
	answered := map[int64]bool{}
	h.until("the answer to "+text, func() bool {
		for _, m := range h.tg.Messages(who)[before:] {
			if strings.Contains(m.Plain, mark) {
				return true
			}
			if markup := m.Params["reply_markup"]; !answered[m.ID] && strings.Contains(markup, "callback_data") && h.tap(m, "no") {
				answered[m.ID] = true
				questions = append(questions, m.Plain)
			}
		}
		return false
	})
	return questions
}

func (h *house) post(who int64, text string) {
	h.tg.Post(map[string]any{
		"text": text, "date": h.clock.read().Unix(), "chat": map[string]any{"id": who, "type": "private", "first_name": "Ann"},
		"from": map[string]any{"id": who, "is_bot": false, "first_name": "Ann", "username": fmt.Sprint("u", who)},
	})
}

// tap presses a button of a question.
func (h *house) tap(m telegramtest.Message, answer string) bool {
	h.t.Helper()
	markup := m.Params["reply_markup"]
	var board struct {
		Rows [][]struct {
			Text string `json:"text"`
			Data string `json:"callback_data"`
		} `json:"inline_keyboard"`
	}
	if err := json.Unmarshal([]byte(markup), &board); err != nil {
		h.t.Fatalf("buttons %s: %v", markup, err)
	}
	for _, row := range board.Rows {
		for _, b := range row {
			if b.Text != answer {
				continue
			}
			h.tg.Update(map[string]any{"callback_query": map[string]any{
				"id": fmt.Sprint("tap", m.ID), "from": map[string]any{"id": m.ChatID, "first_name": "Ann"}, "data": b.Data,
				"message": map[string]any{
					"message_id": m.ID, "date": 1, "chat": map[string]any{"id": m.ChatID, "type": "private"}, "text": m.Plain, "reply_markup": json.RawMessage(markup),
					"from": map[string]any{"id": telegramtest.BotID, "is_bot": true, "first_name": "nb", "username": telegramtest.BotName},
				},
			}})
			return true
		}
	}
	return false
}

// command writes a slash command and waits for words of its answer.
func (h *house) command(who int64, text, want string) {
	h.t.Helper()
	before := len(h.tg.Messages(who))
	h.post(who, text)
	h.until("the answer to "+text, func() bool {
		return slices.ContainsFunc(h.tg.Messages(who)[before:], func(m telegramtest.Message) bool { return strings.Contains(m.Plain, want) })
	})
}

// heard is all that the bot wrote to a chat.
func (h *house) heard(who int64) string {
	var b strings.Builder
	for _, m := range h.tg.Messages(who) {
		b.WriteString(m.Plain + "\n")
	}
	return b.String()
}

// sizes are the bytes of all files of the data folder, by their first two names.
func (h *house) sizes() map[string]int64 {
	h.t.Helper()
	sum := map[string]int64{}
	err := filepath.WalkDir(h.data, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // replaced meanwhile
		}
		if err != nil || !d.Type().IsRegular() || d.Name() == ".locks" { // which is long and empty
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(h.data, path)
		name, _, _ := strings.Cut(rel, string(filepath.Separator))
		sum[name] += info.Size()
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return sum
}

// table writes the sizes of all days.
func table(days []map[string]int64) string {
	names := map[string]bool{}
	for _, d := range days {
		for name := range d {
			names[name] = true
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&b, "%-20s", name)
		for _, d := range days {
			fmt.Fprintf(&b, "%10d", d[name])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// output is what a process writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String is all of it.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func tail(s string) string { return s[max(0, len(s)-6000):] }

// site is the web of the week: one page with the news of the day.
type site struct {
	url   string
	mu    sync.Mutex
	page  string
	reads int
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reads++
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Connection", "close") // an idle one would be kept for half a minute
		fmt.Fprint(w, s.page)
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

// says replaces the page.
func (s *site) says(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.page = text
}
