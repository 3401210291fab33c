package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
	"github.com/nanobot-go/nanobot/internal/web"
)

// The page of a gateway shows and undoes what a terminal beside it did in the
// folder that the terminal was started in.
func TestPageUndoesInStartFolder(t *testing.T) {
	t.Parallel()
	o := newOffice(t, llmtest.NewScript(t))
	dir, err := filepath.EvalSymlinks(t.TempDir())
	o.must(err)
	path := filepath.Join(dir, "a.txt")
	o.must(os.WriteFile(path, []byte("old\n"), 0o600))

	terminal, err := app.New(t.Context(), app.Options{
		UseModel: llmtest.NewScript(t, llmtest.Call("write_file", map[string]any{"path": "a.txt", "content": "new\n"}), llmtest.Reply("done")),
		Folder:   dir,
		Env:      []string{"NANOBOT_HOME=" + o.dir},
		Config:   config.Options{Home: o.dir},
	})
	o.must(err)
	ctx, stop := context.WithCancel(t.Context())
	terminal.Agent.Open(ctx)
	over := make(chan struct{})
	go func() { defer close(over); _ = terminal.Run(ctx) }()
	for _, err := range terminal.Agent.Ask(t.Context(), bus.Inbound{Route: bus.Route{Channel: "cli", ChatID: "x"}, Text: "go", Folder: dir}) {
		o.must(err)
	}
	stop()
	<-over
	o.must(terminal.Close())
	if data, _ := os.ReadFile(path); string(data) != "new\n" {
		t.Fatalf("the terminal left %q", data)
	}

	var list struct {
		Turns []struct {
			ID      string
			Changes []struct{ Path, What string }
		}
	}
	o.look("undo?session=cli:x", &list)
	if len(list.Turns) != 1 || len(list.Turns[0].Changes) != 1 || list.Turns[0].Changes[0].Path != filepath.ToSlash(path) {
		t.Fatalf("the page lists %+v", list)
	}
	var one struct{ Diff string }
	o.look("undo/"+list.Turns[0].ID, &one)
	if !strings.Contains(one.Diff, "-old\n+new") {
		t.Errorf("the page shows %s", one.Diff)
	}
	for {
		_, _, err := gateway.WebAPI(o.g).Do(t.Context(), "undo.apply", json.RawMessage(`{"id":"`+list.Turns[0].ID+`"}`))
		if e, ok := errors.AsType[*web.Error](err); ok && e.Code == "session_running" {
			continue
		}
		o.must(err)
		break
	}
	if data, _ := os.ReadFile(path); string(data) != "old\n" {
		t.Errorf("after the undo the file holds %q", data)
	}
}
