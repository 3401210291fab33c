package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// notRun are the programs of built-in skills that cannot do their work in a
// test, and why. Their commands are only checked for their syntax.
var notRun = map[string]string{
	"npx":       "asks a registry on the internet",
	"gh":        "asks GitHub",
	"curl":      "asks a service on the internet",
	"summarize": "is not part of any system, and asks the internet",
}

// said is something that a skill tells the model to do.
type said struct {
	tool string
	args map[string]any
	line string // as the skill has it
	user bool   // the user does it, in a terminal
}

// TestSkillsSayWhatWorks does what each built-in skill says: its commands in the
// sandbox, its calls of tools, and what it asks the user to type.
func TestSkillsSayWhatWorks(t *testing.T) {
	t.Parallel()
	if level := sandbox.Probe(t.Context(), sandbox.Options{}); !level.MountNS {
		t.Skipf("no mount namespaces here: %s", level)
	}
	dirs, err := fs.ReadDir(skill.BuiltinFS(), "skills")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		t.Run(d.Name(), func(t *testing.T) {
			t.Parallel()
			text, err := fs.ReadFile(skill.BuiltinFS(), path.Join("skills", d.Name(), "SKILL.md"))
			if err != nil {
				t.Fatal(err)
			}
			names := regexp.MustCompile("`(nanobot [a-z][a-z -]*[a-z])").FindAllStringSubmatch(strings.ReplaceAll(string(text), "\n", " "), -1)
			todo := sayings(t, d.Name(), string(text))
			if _, err := exec.LookPath("python3"); d.Name() == "tmux" && err != nil {
				t.Logf("not run, because its example is not installed: %v", err)
				todo = nil
			}
			if len(todo) == 0 && len(names) == 0 {
				t.Log("it says nothing that can be run")
				return
			}
			b := newSkillBench(t)
			b.do(todo)
			for _, n := range names { // in the text: there must be such commands
				words := strings.Fields(n[1])
				for i, w := range words {
					if strings.HasPrefix(w, "-") {
						words = words[:i]
						break
					}
				}
				b.user(strings.Join(words, " ") + " --help")
			}
		})
	}
}

// sayings reads the blocks of a skill.
func sayings(t *testing.T, name, text string) (out []said) {
	t.Helper()
	for _, block := range regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```").FindAllStringSubmatch(text, -1) {
		body := strings.NewReplacer("|\n", "| ", "\\\n", " ").Replace(block[2])
		for line := range strings.Lines(body) {
			line = strings.TrimSpace(line)
			tool, args, ok := strings.Cut(line, " ")
			switch {
			case block[1] == "sh":
				s := said{tool: "exec", args: map[string]any{"command": line}, line: line}
				s.user = strings.HasPrefix(line, "nanobot skill") // "in a terminal", says the skill
				if why := notRun[tool]; why != "" {
					syntax(t, line)
					t.Logf("not run, because it %s: %s", why, line)
					continue
				}
				out = append(out, s)
			case strings.HasPrefix(line, "{"): // the tool has the name of the skill
				tool, args = name, line
				fallthrough
			case ok && strings.HasPrefix(args, "{") && !strings.HasSuffix(tool, ":"):
				s := said{tool: tool, line: line}
				if err := json.Unmarshal([]byte(args), &s.args); err != nil {
					t.Errorf("%s: %v", line, err)
				}
				out = append(out, s)
			}
		}
	}
	return out
}

// syntax checks a command that is not run.
func syntax(t *testing.T, line string) {
	t.Helper()
	line = regexp.MustCompile(`<[a-z-]+>`).ReplaceAllString(line, "x")
	if out, err := exec.CommandContext(t.Context(), "bash", "-n", "-c", line).CombinedOutput(); err != nil {
		t.Errorf("%s: %s", line, out)
	}
}

// skillBench is an agent whose model does what a skill says.
type skillBench struct {
	t    *testing.T
	home string // data folder
	bin  string // with a nanobot
	app  *app.App

	mu   sync.Mutex
	todo []said
	last said
	id   string // of the session or job that came last
}

func newSkillBench(t *testing.T) *skillBench {
	t.Helper()
	b := &skillBench{t: t, home: t.TempDir(), bin: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(b.bin, "nanobot")); err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf(`{"tools":{"approval":{"mode":"off"},"my":{"allowSet":true},"exec":{"sandbox":"auto","network":"none","pathPrepend":%q,"sandboxRoBinds":[%q,%q]}}}`,
		b.bin, b.bin, self)
	b.write("config.json", conf)
	// What the text of a skill has made by then.
	b.write("workspace/.nanobot/clawhub/skills/slug/SKILL.md", "---\nname: slug\ndescription: Do it well\n---\n# Do\n\nDo it.\n")

	m := llmtest.NewScript(t)
	m.Otherwise = b.step
	env := []string{"NANOBOT_HOME=" + b.home, "HOME=" + os.Getenv("HOME"), "SHELL=" + os.Getenv("SHELL"), "PATH=" + os.Getenv("PATH")}
	b.app, err = app.New(t.Context(), app.Options{UseModel: m, Env: env, Config: config.Options{Home: b.home}, Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	ctx := t.Context()
	b.app.Agent.Open(ctx)
	go func() { defer close(over); _ = b.app.Run(ctx) }()
	t.Cleanup(func() {
		<-over
		if err := b.app.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *skillBench) write(name, content string) {
	b.t.Helper()
	file := filepath.Join(b.home, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// step looks at the last result and makes the next call.
func (b *skillBench) step(req llm.Request) llmtest.Step {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := req.Messages[len(req.Messages)-1]; last.Role == llm.ToolRole {
		b.judge(last.Content.String())
	}
	if len(b.todo) == 0 {
		return llmtest.Reply("done")
	}
	b.last, b.todo = b.todo[0], b.todo[1:]
	args := map[string]any{}
	for k, v := range b.last.args {
		if s, ok := v.(string); ok {
			v = b.fill(s)
		}
		args[k] = v
	}
	if args["wait_for"] != nil {
		args["wait_timeout_ms"] = 120_000 // the machine may be slow
	}
	return llmtest.Call(b.last.tool, args)
}

// fill puts real words in place of those in angle brackets.
func (b *skillBench) fill(s string) string {
	return strings.NewReplacer("<id>", b.id, "<id from list>", b.id, "<slug>", "slug").Replace(s)
}

// judge says whether a call came to what the skill promises.
func (b *skillBench) judge(got string) {
	bad := []string{"Error:", "did not appear", "Exit code: 1", "not found", "unexpected parameter"}
	for _, words := range bad {
		if strings.Contains(got, words) {
			b.t.Errorf("%s %s: %s", b.last.tool, b.last.line, got)
			break
		}
	}
	for _, re := range []string{`session_id ([0-9a-f]+)`, `id:? ([0-9a-z]{8})\b`} {
		if m := regexp.MustCompile(re).FindStringSubmatch(got); m != nil {
			b.id = m[1]
			break
		}
	}
	b.t.Logf("%s\n%s", b.last.line, got)
}

// do lets the model make all calls in one turn, and the user what is theirs.
func (b *skillBench) do(all []said) {
	b.t.Helper()
	for _, s := range all {
		if s.user {
			b.user(s.line)
			continue
		}
		b.mu.Lock()
		b.todo = append(b.todo, s)
		b.mu.Unlock()
	}
	in := bus.Inbound{Route: bus.Route{Channel: "cli", ChatID: "direct"}, SenderID: "owner", Text: "go"}
	for _, err := range b.app.Agent.Ask(b.t.Context(), in) {
		if err != nil {
			b.t.Fatal(err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.todo) > 0 {
		b.t.Errorf("not done: %v", b.todo)
	}
}

// user types a command in a terminal, in the workspace.
func (b *skillBench) user(line string) {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "bash", "-c", b.fill(line))
	cmd.Dir = filepath.Join(b.home, "workspace")
	cmd.Env = []string{"NANOBOT_HOME=" + b.home, "HOME=" + b.home, "PATH=" + b.bin + ":/usr/bin:/bin"}
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Errorf("%s: %v\n%s", line, err, out)
	}
}
