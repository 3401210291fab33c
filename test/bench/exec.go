package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// execFiles is how many files the workspace of execTool holds.
const execFiles = 5000

// execTool measures the exec tool as a turn uses it: with the proxy, the record
// of where files come from and the walk for what the command wrote, for a clean
// command and for one that is contained.
func (b *bench) execTool() error {
	srv := httptest.NewServer(http.HandlerFunc(callTool))
	defer srv.Close()
	dir, err := os.MkdirTemp("/var/tmp", "nanobot-bench-") // see exec
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	conf, ws, err := home(dir, srv.URL, "")
	if err != nil {
		return err
	}
	for i := range execFiles {
		name := filepath.Join(ws, fmt.Sprint("d", i%50), fmt.Sprint("f", i))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte("text\n"), 0o600); err != nil {
			return err
		}
	}

	ctx := context.Background()
	var last time.Duration
	var failed string
	hooks := nanobot.Hooks{AfterTool: func(_ context.Context, c tool.Call, r tool.Result, took time.Duration) {
		if last = took; r.IsError || c.Name == "exec" && !bytes.Contains([]byte(r.Content.String()), []byte("Exit code: 0")) {
			failed = r.Content.String()
		}
	}}
	outside := tool.Func(tool.Tool{Name: "outside", Description: "Say something that others wrote."},
		func(context.Context, tool.Call, struct{}) (tool.Result, error) { return tool.Text("words"), nil })
	bot, err := nanobot.New(ctx, nanobot.WithConfigFile(conf), nanobot.WithWorkspace(ws), nanobot.WithEnv(env(dir)), nanobot.WithHooks(hooks),
		nanobot.WithTools(outside), nanobot.WithSetting("tools.exec.sandbox", "auto"), nanobot.WithSetting("tools.exec.network", "proxy"),
		nanobot.WithSetting("tools.approval.mode", "off"))
	if err != nil {
		return err
	}
	defer bot.Close()
	ask := func(session, text string) (time.Duration, error) {
		_, err := bot.Run(ctx, nanobot.Input{Text: text, Session: session})
		if err == nil && failed != "" {
			err = fmt.Errorf("%s: %.300s", text, failed)
		}
		return last, err
	}
	took := map[string][]time.Duration{}
	for _, session := range []string{"clean", "contained"} { // in this order: what is contained leaves marks
		if session == "contained" {
			if _, err := ask(session, "outside"); err != nil {
				return err
			}
		}
		for i := range b.times(100, 20) + 3 {
			d, err := ask(session, "exec")
			if err != nil {
				return err
			}
			alone, err := timed(nil, ws, sandbox.Profile{}) // in turns, so that both see the same machine
			if err != nil {
				return err
			}
			if i >= 3 { // the first ones open the sandbox and warm up
				took[session], took["alone"] = append(took[session], d), append(took["alone"], alone)
			}
		}
	}
	for _, session := range []string{"clean", "contained"} {
		more := median(took[session]) - median(took["alone"])
		b.rows = append(b.rows, row{
			what:  fmt.Sprintf("the exec tool (`true`), network proxy, %d files, %s turn", execFiles, session),
			ours:  fmt.Sprintf("%s, %s more", ms(median(took[session])), ms(more)),
			floor: ms(median(took["alone"])) + " alone",
		})
	}
	return nil
}

// callTool is a model that calls the tool whose name it is told, and then is
// done.
func callTool(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var req struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	_ = json.Unmarshal(body, &req) // what is missing shows
	w.Header().Set("Content-Type", "text/event-stream")
	if len(req.Messages) == 0 || req.Messages[len(req.Messages)-1].Role == "tool" {
		fmt.Fprint(w, answer)
		return
	}
	name, args := "exec", `{\"command\":\"true\"}`
	if bytes.Contains(req.Messages[len(req.Messages)-1].Content, []byte("outside")) {
		name, args = "outside", "{}"
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_%d\",\"type\":\"function\",\"function\":{\"name\":%q,\"arguments\":\"%s\"}}]},\"finish_reason\":null}]}\n\n"+
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n", time.Now().UnixNano(), name, args)
}
