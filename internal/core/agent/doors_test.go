package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// A known secret that a tool returns, prints, names a file after or fails with does not
// reach the model again, the person, or the disk; nor does one that the model writes
// into an answer, a call, or an error.
func TestDoors(t *testing.T) {
	t.Parallel()
	const key = `hush"hush/0123456789`
	leak := textTool("leak", tool.Tool{}, func(ctx context.Context, c tool.Call, s string) (tool.Result, error) {
		for _, piece := range []string{"printed " + key[:7], key[7:], " all"} {
			if err := c.Publish(ctx, bus.Outbound{Kind: bus.ToolOutput, Text: piece, Tool: &bus.Tool{CallID: c.ID, Name: c.Name}}); err != nil {
				return tool.Result{}, err
			}
		}
		file := bus.Edit{CallID: c.ID, Path: "/w/" + key + ".txt", What: "created"}
		if err := c.Publish(ctx, bus.Outbound{Kind: bus.FileEdit, Route: c.Route, Edits: []bus.Edit{file}}); err != nil {
			return tool.Result{}, err
		}
		if s == "fail" {
			return tool.Fail(tool.Internal, "no luck with %s", key), nil
		}
		return tool.Text("found " + key), nil
	})
	m := llmtest.NewScript(
		t,
		llmtest.Call("leak", map[string]any{"text": "use " + key}),
		llmtest.Call("leak", map[string]any{"text": "fail"}),
		llmtest.Reply("the key is "+key+"."),
		llmtest.Fail(&llm.Error{Kind: llm.InvalidRequest, Provider: "p", Message: "bad key " + key}),
	)
	h := newHouse(t, m, leak)
	if skipped := h.opts.Secrets.Add("key", httpsafe.NewSecret(key)); skipped != "" {
		t.Fatal(skipped)
	}
	h.start()

	for _, text := range []string{"go", "again"} {
		outs, err := h.collect(in("1", text))
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for i := range outs {
			b, err := json.Marshal(outs[i])
			if err != nil {
				t.Fatal(err)
			}
			all.Write(append(b, '\n'))
		}

		said := all.String()
		if strings.Contains(said, "hush") || !strings.Contains(said, "[redacted:key]") {
			t.Errorf("%q is answered with\n%s", text, said)
		}
	}
	for i, r := range m.Requests() {
		if prompt := fmt.Sprintf("%+v", r.Messages); strings.Contains(prompt, "hush") {
			t.Errorf("request %d shows the model\n%s", i, prompt)
		}
	}
	h.stop()
	err := filepath.WalkDir(h.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), "hush") {
			t.Errorf("%s keeps\n%s", path, b)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
