package guard_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// The owner's files that a planted link leads to. Their bytes are found in
// whatever they are copied to.
const ownerWords = "owner-words-2291"

// victims are the files of an owner, outside of the workspace. They are what
// each of our own files could be taken for.
func victims() map[string]string {
	job := `{"version":1,"jobs":[{"id":"evil0001","name":"evil","enabled":true,"schedule":{"kind":"every","everyMs":60000},` +
		`"payload":{"kind":"agent_turn","message":"` + ownerWords + `","channel":"test","to":"owner"},"state":{}}]}`
	return map[string]string{
		"profile":                  "export A=1 # " + ownerWords + "\n",
		"jobs.json":                job,
		"jobs.json.good":           job,
		"action.jsonl":             `{"action":"add","params":{"id":"evil0002","name":"evil","enabled":true,"schedule":{"kind":"every","everyMs":60000},"payload":{"message":"` + ownerWords + `"},"state":{}}}` + "\n",
		"cli_direct.jsonl":         `{"_type":"metadata","key":"test:late"}` + "\n" + `{"role":"user","content":"` + ownerWords + `"}` + "\n",
		"test_late.jsonl":          `{"_type":"metadata","key":"test:late"}` + "\n" + `{"role":"user","content":"` + ownerWords + `"}` + "\n",
		"history.jsonl":            `{"cursor":1,"timestamp":"2026-01-01 00:00","content":"` + ownerWords + `"}` + "\n",
		"HISTORY.md":               "[2026-01-01 00:00] " + ownerWords + "\n",
		"templates.json":           `{"AGENTS.md":"` + ownerWords + `"}`,
		"workspace-id":             "00112233445566778899aabbccddeeff\n",
		"triggers.json":            `{"version":1,"triggers":[{"id":"trg_EVIL2345","name":"` + ownerWords + `","enabled":true,"channel":"test","chatId":"owner","sessionKey":"test:owner"}]}`,
		"old-bucket/c1.txt":        ownerWords + "\n",
		"inbox/1-tdl_evil.json":    `{"version":1,"delivery":{"id":"tdl_evil","triggerId":"trg_EVIL2345","content":"` + ownerWords + `"}}`,
		"tool-results/old/c1.txt":  ownerWords + "\n",
		"cron/jobs.json":           job,
		"sessions/x.jsonl":         `{"_type":"metadata","key":"test:late"}` + "\n" + `{"role":"user","content":"` + ownerWords + `"}` + "\n",
		"memory/MEMORY.md":         ownerWords + "\n",
		"triggers/triggers.json":   `{"version":1,"triggers":[]}`,
		"processing/1-tdl_ev.json": `{"version":1,"delivery":{"id":"tdl_ev","triggerId":"trg_EVIL2345","content":"` + ownerWords + `"}}`,
	}
}

// plantedNames are the names in a workspace that versions before kept their own
// state under, and what each link leads to: a file, or the folder of all files.
func plantedNames() map[string]string {
	return map[string]string{
		".nanobot/templates.json":      "profile",
		".nanobot/workspace-id":        "profile",
		".nanobot/workspace-id.lock":   "profile",
		".nanobot/tool-results":        ".",
		".nanobot":                     ".",
		"cron":                         ".",
		"cron.lock":                    "profile",
		"cron/jobs.json":               "jobs.json",
		"cron/jobs.json.good":          "profile",
		"cron/action.jsonl":            "action.jsonl",
		"cron/.owner.lock":             "profile",
		"cron/.guest.lock":             "profile",
		"cron/.wanted.lock":            "profile",
		"sessions":                     ".",
		"sessions/test_late.jsonl":     "test_late.jsonl",
		"triggers":                     ".",
		"triggers/.lock":               "profile",
		"triggers/triggers.json":       "triggers.json",
		"triggers/inbox":               "inbox",
		"triggers/processing":          "processing",
		"memory":                       ".",
		"memory/history.jsonl":         "history.jsonl",
		"memory/HISTORY.md":            "HISTORY.md",
		"memory/.cursor":               "profile",
		"memory/.dream_cursor":         "profile",
		"sessions/test_late.jsonl.tmp": "profile",
	}
}

// planted is an owner's home with a workspace that somebody else writes to.
type planted struct {
	t       *testing.T
	home    string // data folder
	ws      string
	victims string
	before  map[string]string
	chats   []string // where something is said
}

func newPlanted(t *testing.T) *planted {
	t.Helper()
	dir := t.TempDir()
	p := &planted{t: t, home: filepath.Join(dir, "home"), ws: filepath.Join(dir, "ws"), victims: filepath.Join(dir, "victims"), chats: []string{"owner"}}
	for name, body := range victims() {
		p.write(filepath.Join(p.victims, filepath.FromSlash(name)), body)
	}
	for _, d := range []string{p.home, p.ws} {
		p.must(os.MkdirAll(d, 0o700))
	}
	p.write(filepath.Join(p.home, "config.json"), `{"tools":{"restrictToWorkspace":true,"exec":{"enable":false},"approval":{"mode":"off"}}}`)
	p.before = p.snapshot(p.victims)
	return p
}

func (p *planted) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *planted) write(path, body string) {
	p.t.Helper()
	p.must(os.MkdirAll(filepath.Dir(path), 0o700))
	p.must(os.WriteFile(path, []byte(body), 0o600))
}

// snapshot is every name below a folder with what it is and holds. Links are
// not followed.
func (p *planted) snapshot(dir string) map[string]string {
	p.t.Helper()
	out := map[string]string{}
	p.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out[path] = info.Mode().String()
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(data)
			out[path] += " " + info.ModTime().String() + " " + hex.EncodeToString(sum[:])
			if strings.Contains(string(data), ownerWords) {
				out[path] += " " + ownerWords
			}
		}
		return nil
	}))
	return out
}

// plant puts a link in the place of a name, whatever is there.
func (p *planted) plant(name, target string) {
	p.t.Helper()
	path := filepath.Join(p.ws, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		p.t.Fatal(err)
	}
	// The program may write there meanwhile, so this tries again.
	var err error
	for range 1000 {
		if err = errors.Join(os.RemoveAll(path), os.Symlink(filepath.Join(p.victims, filepath.FromSlash(target)), path)); err == nil {
			return
		}
	}
	p.t.Errorf("no link at %s: %v", name, err)
}

// start runs the program once, with all that used to touch the workspace: a turn
// with a long result, a job, a trigger and its delivery. during is called in the
// middle of the turn.
func (p *planted) start(during func()) {
	p.t.Helper()
	m := llmtest.NewScript(p.t)
	m.Otherwise = func(req llm.Request) llmtest.Step {
		for _, msg := range req.Messages {
			if strings.Contains(msg.Content.String(), ownerWords) {
				p.t.Errorf("the model was shown a planted message: %q", msg.Content.String())
			}
		}
		if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
			return llmtest.Reply("done")
		}
		return llmtest.Call("long", map[string]any{})
	}
	long := tool.Tool{
		Name: "long", Description: "long", ReadOnly: true,
		Run: func(context.Context, tool.Call) (tool.Result, error) {
			if during != nil {
				during()
			}
			return tool.Text(strings.Repeat("long result ", 20000)), nil
		},
	}
	a, err := app.New(p.t.Context(), app.Options{
		UseModel: m, Workspace: p.ws, Env: []string{"NANOBOT_HOME=" + p.home}, Config: config.Options{Home: p.home}, Tools: []tool.Tool{long},
		Link: app.Link{
			Submit: func(_ context.Context, in bus.Inbound) error {
				if strings.Contains(in.Text, ownerWords) {
					p.t.Errorf("a planted job or trigger ran: %q", in.Text)
				}
				return nil
			},
			Notify: func(context.Context, bus.Outbound) error { return nil },
		},
	})
	if err != nil {
		p.t.Logf("the program refuses to start: %v", err) // also a way to do no harm
		return
	}
	ctx, stop := context.WithCancel(p.t.Context())
	a.Agent.Open(ctx)
	over, ran := make(chan struct{}), make(chan struct{})
	go func() { defer close(over); _ = a.Run(ctx) }()
	go func() { defer close(ran); _ = a.Schedule.Run(ctx) }()
	for _, chat := range p.chats {
		for _, err := range a.Agent.Ask(ctx, bus.Inbound{Route: bus.Route{Channel: "test", ChatID: chat}, SenderID: "7", Text: "go"}) {
			if err != nil {
				p.t.Error(err)
			}
		}
	}
	_, err = a.Schedule.Add(ctx, schedule.Draft{Message: "good morning", Timing: schedule.Every(time.Hour), Route: bus.Route{Channel: "test", ChatID: "owner"}})
	if err != nil {
		p.t.Logf("add a job: %v", err)
	}
	tr, err := a.Schedule.Triggers.Add(ctx, "mine", bus.Route{Channel: "test", ChatID: "owner"}, "")
	if err == nil {
		_, err = a.Schedule.Triggers.Fire(ctx, tr.ID, "hello", false)
	}
	if err != nil {
		p.t.Logf("set off a trigger: %v", err)
	}
	jobs, err := a.Schedule.List(ctx)
	for _, j := range jobs {
		if strings.HasPrefix(j.ID, "evil") {
			p.t.Errorf("a planted job was taken in: %+v", j)
		}
	}
	if err != nil {
		p.t.Logf("list jobs: %v", err)
	}
	stop()
	<-over
	<-ran
	if err := a.Close(); err != nil {
		p.t.Error(err)
	}
}

// check compares what must not change, and looks for copies in the workspace.
func (p *planted) check() {
	p.t.Helper()
	after := p.snapshot(p.victims)
	for path, was := range p.before {
		if after[path] != was {
			p.t.Errorf("%s was changed or removed:\nwas %s\nis  %s", path, was, after[path])
		}
	}
	for path := range after {
		if _, ok := p.before[path]; !ok {
			p.t.Errorf("%s was made by the program", path)
		}
	}
	for path, what := range p.snapshot(p.ws) {
		if strings.Contains(what, ownerWords) {
			p.t.Errorf("%s holds words of the owner's files", path)
		}
	}
}

// A link in the place of anything that versions before kept in the workspace
// leads nowhere: before the first start, during a turn, between two starts.
func TestPlantedLinks(t *testing.T) {
	t.Parallel()
	for name, target := range plantedNames() {
		for _, when := range []string{"before", "during", "between"} {
			t.Run(strings.ReplaceAll(name, "/", " ")+" "+when, func(t *testing.T) {
				t.Parallel()
				p := newPlanted(t)
				plant := func() { p.plant(name, target) }
				switch when {
				case "before":
					plant()
					p.start(nil)
				case "during":
					p.start(plant)
				case "between":
					p.start(nil)
					plant()
				}
				p.chats = append(p.chats, "late")
				p.start(nil)
				p.check()
			})
		}
	}
}

// What appears in the workspace after the first start is not taken in: no job,
// no conversation, no history, no trigger.
func TestPlantedFiles(t *testing.T) {
	t.Parallel()
	for name, target := range plantedNames() {
		if target == "." || target == "profile" || strings.HasSuffix(target, "inbox") || strings.HasSuffix(target, "processing") {
			continue
		}
		t.Run(strings.ReplaceAll(name, "/", " "), func(t *testing.T) {
			t.Parallel()
			p := newPlanted(t)
			p.start(nil)
			p.write(filepath.Join(p.ws, filepath.FromSlash(name)), victims()[target])
			p.chats = append(p.chats, "late")
			p.start(func() { p.write(filepath.Join(p.ws, filepath.FromSlash(name)), victims()[target]) })
			p.start(nil)
			for _, part := range []string{"sessions", "cron", "memory"} {
				dir := filepath.Join(p.home, part)
				if _, err := os.Stat(dir); err != nil {
					continue
				}
				for path, what := range p.snapshot(dir) {
					if strings.Contains(what, ownerWords) && !strings.Contains(path, "foreign") {
						t.Errorf("%s holds planted words", path)
					}
				}
			}
		})
	}
}
