package nanobot_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// recordTurns lets the real agent answer with a script and records it.
func recordTurns(t *testing.T) (file string) {
	t.Helper()
	dir := t.TempDir()
	workspace := filepath.Join(dir, "ws")
	for name, body := range map[string]string{
		"config.json":             `{"providers":{"openai":{"apiKey":"very-secret-value"}}}`,
		"ws/AGENTS.md":            "Speak like a pirate. Never say very-secret-value.",
		"ws/skills/knot/SKILL.md": "---\nname: knot\ndescription: Ties knots.\n---\nTie it.\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := config.Load(config.Options{Path: filepath.Join(dir, "config.json"), Env: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "bug.jsonl")
	if err := os.WriteFile(filepath.Join(workspace, "a.txt"), []byte("gold"+strings.Repeat(" and silver", 1600)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	script := llmtest.NewScript(t, llmtest.Reply("Ahoy."), llmtest.Call("exec", `{"command":"cat a.txt"}`).Call("read_file", `{"path":"none"}`),
		llmtest.Call("list_dir", `{"path":"."}`), llmtest.Reply("Gold, and the key very-secret-value."), llmtest.Reply("Aye."))
	bot, err := nanobot.New(ctx, nanobot.WithConfigFile(loaded.File), nanobot.WithWorkspace(workspace), nanobot.WithEnv([]string{"PATH=" + os.Getenv("PATH")}),
		nanobot.WithModel(script), nanobot.WithRecording(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"hello", "what is in a.txt? my key: sk-abcdefghijklmn", "thanks $knot"} {
		if _, err := bot.Run(ctx, nanobot.Input{Text: text, Session: "cli:direct", Route: nanobot.Route{Channel: "cli", ChatID: "direct"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := bot.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

func replayed(t *testing.T, file string) nanobot.Replayed {
	t.Helper()
	report, err := nanobot.Replay(t.Context(), file, nanobot.WithEnv(os.Environ()))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestReplay(t *testing.T) {
	t.Parallel()
	file := recordTurns(t)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"very-secret-value", "abcdefghijklmn"} {
		if strings.Contains(string(raw), s) {
			t.Errorf("%q is in the recording", s)
		}
	}
	report := replayed(t, file)
	if len(report.Differences) > 0 {
		t.Errorf("differences of an unchanged replay:\n%s", report.String())
	}
	if len(report.Turns) != 3 || report.Turns[1].Reply != "Gold, and the key ***." {
		t.Errorf("turns = %+v", report.Turns)
	}
	for name, tt := range map[string]struct{ old, new, want string }{
		"bootstrap file":   {"Speak like a pirate", "Speak like a king", "system prompt"},
		"tool description": {`"name":"list_dir"`, `"name":"list_dirs"`, "there is no tool \"list_dir\""},
		"built-in schema":  {`"name":"list_dir","schema":{`, `"name":"list_dir","schema":{"x":1,`, "tool list_dir, schema, x"},
		"other machine":    {`"workspace":"`, `"workspace":"/elsewhere`, "<workspace>"},
		"tool result":      {`gold and silver`, `lead and silver`, "message 5 (tool), content"},
		"spelling of JSON": {`"arch":"`, `"arch": "`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := filepath.Join(t.TempDir(), "changed.jsonl")
			if !strings.Contains(string(raw), tt.old) {
				t.Fatalf("%q is not in the recording", tt.old)
			}
			if err := os.WriteFile(changed, []byte(strings.Replace(string(raw), tt.old, tt.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			report := replayed(t, changed)
			if got := report.String(); tt.want != "" && (len(report.Differences) == 0 || !strings.Contains(got, tt.want)) {
				t.Errorf("report = %s\nwant a difference in %q", got, tt.want)
			} else if tt.want == "" && len(report.Differences) > 0 {
				t.Errorf("report = %s\nwant no difference", got)
			}
		})
	}
}
