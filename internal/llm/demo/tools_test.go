package demo_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/files"
)

// The phrases work with the real file tools, one conversation in one workspace.
func TestRealFileTools(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: dir, Restrict: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = jail.Close() })
	set, err := tool.NewSet(files.Tools(files.Options{Jail: jail})...)
	if err != nil {
		t.Fatal(err)
	}
	state := &tool.State{}
	run := func(c llm.ToolCall) (string, bool) {
		tl, input, bad := set.Prepare(c.Name, c.Arguments)
		if bad != nil {
			t.Errorf("call %s %s: %s", c.Name, c.Arguments, bad.Content)
			return bad.Content.String(), true
		}
		r, err := tl.Run(context.WithoutCancel(t.Context()), tool.Call{ID: c.ID, Name: c.Name, Input: input, State: state})
		if err != nil {
			t.Fatal(err)
		}
		return r.Content.String(), r.IsError
	}
	for _, c := range []struct{ say, want string }{
		{`write "hello TODO" to sub/a.txt`, "Written to sub/a.txt"},
		{"read sub/a.txt", "hello TODO"},
		{"列出 sub 里的文件", "a.txt"},
		{"search for TODO in sub", "hello TODO"},
		{"find *.txt", "a.txt"},
		{"remember the first thing", "Noted: the first thing"},
		{"note: see # Notes", "Noted: see # Notes"},
		{"记住第三件事", "记下了：第三件事"},
		{"read notes.md then read gone.txt", "did not work"},
	} {
		_, text := play(t, llm.Request{Tools: set.Defs(), Messages: []llm.Message{user(c.say)}}, run)
		if !strings.Contains(text, c.want) {
			t.Errorf("%q: answer %q does not contain %q", c.say, text, c.want)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "notes.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "# Notes\n\n- 第三件事\n- see # Notes\n- the first thing\n"; string(got) != want {
		t.Errorf("notes = %q, want %q", got, want)
	}
}
