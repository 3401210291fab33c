package security_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nanobot-go/nanobot"
)

// secrets are the values that must be found nowhere, and where they lie on purpose.
func (h *house) noSecrets(o outcome, except ...string) {
	h.t.Helper()
	// The undo store holds files as they were, byte for byte, because that is
	// what it gives back; no tool can read it and no other user either.
	except = append(except, ".nanobot/config.json", ".nanobot/undo/")
	for name, value := range map[string]string{
		"the key of the configuration": h.key, "the key of the environment": h.envKey,
		"the key in base64": base64.StdEncoding.EncodeToString([]byte(h.key)),
	} {
		if where := h.leaks(value, o, except...); len(where) > 0 {
			h.t.Errorf("%s got into %s", name, strings.Join(where, ", "))
		}
	}
}

// TestPlantedKey makes every tool show credentials that got into files and
// variables. They reach neither the model, nor the screen, nor logs, nor the
// disk, nor a recording of the turn.
func TestPlantedKey(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "auto", "none")
	level(t, "auto")
	h.tools()["approval"] = map[string]any{"mode": "off"}
	h.exec()["allowedEnvKeys"] = []string{"CANARY_API_KEY"}
	leak := filepath.Join(h.ws, "leak.txt")
	h.write(leak, fmt.Sprintf("the key is %s\nand %s\nencoded %s\n", h.key, h.envKey, base64.StdEncoding.EncodeToString([]byte(h.key))))
	h.write(filepath.Join(h.ws, "long.txt"), strings.Repeat(strings.Repeat("x", 99)+"\n", 400)+h.key+"\n")
	h.web.handle("/echo", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "you sent %s", h.key) })
	h.web.handle("/search", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"results":[{"title":"found %s","url":"https://example.org/","content":"%s"}]}`, h.key, h.envKey)
	})
	h.desk("token " + h.key)
	h.model.opening = []call{
		{"exec", `{"command":"env; cat leak.txt; cat leak.txt >&2; exit 3"}`},
		{"exec", `{"command":"cat long.txt","max_output_chars":50000}`},
		{"exec", `{"command":"cat leak.txt; sleep 0.2; cat leak.txt","yield_time_ms":0}`},
		{"list_exec_sessions", `{}`},
		{"read_file", `{"path":"leak.txt"}`},
		{"grep", `{"pattern":"key is","output_mode":"content"}`},
		{"edit_file", `{"path":"leak.txt","old_text":"and nothing like it","new_text":"x"}`},
		{"edit_file", `{"path":"leak.txt","old_text":"the key","new_text":"this key"}`},
		{"web_fetch", `{"url":"{{web}}/echo"}`},
		{"web_search", `{"query":"hours"}`},
		{"mcp_desk_lookup", `{}`},
		{"exec", `{"command":"ls $(cat leak.txt)"}`},
		{"no_such_tool", `{}`},
	}
	h.args = []string{"--record", filepath.Join(h.home, "recording.ndjson")}
	o := h.ask("show me everything")
	o.ended(t)
	all := strings.Join(h.model.lastResults(), "\n")
	if n := strings.Count(all, "[redacted:"); n < 8 {
		t.Errorf("only %d values were taken out, so this shows little:\n%s", n, all)
	}
	h.noSecrets(o, ".nanobot/workspace/leak.txt", ".nanobot/workspace/long.txt")
	for _, where := range []string{"undo", "sessions", "run"} {
		if info, err := os.Stat(filepath.Join(h.data, where)); err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v", where, info.Mode())
		}
	}
	// What is shown later is as clean as what was shown first.
	for _, args := range [][]string{{"sessions", "list"}, {"sessions", "show", "cli:direct"}, {"undo", "--list"}, {"status"}, {"doctor", "security"}, {"config", "show"}} {
		later := h.wait(h.command(t.Context(), args...))
		for _, s := range []string{h.key, h.envKey} {
			if strings.Contains(later.stdout+later.stderr, s) && args[0] != "undo" {
				t.Errorf("nanobot %s shows a credential", strings.Join(args, " "))
			}
		}
	}
}

// A provider that repeats the key in its error, at once and in the middle of
// an answer, does not get it before anybody's eyes.
func TestPlantedKeyInProviderErrors(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(h *house, w http.ResponseWriter){
		"refused": func(h *house, w http.ResponseWriter) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s","code":"invalid_api_key"}}`, h.key)
		},
		"in the stream": func(h *house, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half \"}}]}\n\ndata: {\"error\":{\"message\":\"key %s is used up\"}}\n\n", h.key)
		},
		"not JSON": func(h *house, w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprintf(w, "<html>upstream said: Authorization: Bearer %s</html>", h.key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, "none", "host")
			srv := newSite(t, "127.0.0.1")
			srv.handle("/v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Should-Retry", "false")
				answer(h, w)
			})
			h.config["providers"] = map[string]any{"custom": map[string]any{"apiBase": srv.url + "/v1", "apiKey": h.key}}
			h.config["agents"].(map[string]any)["defaults"].(map[string]any)["providerRetryMode"] = "standard" // made by newHouse
			o := h.ask("hello")
			if o.code == 0 || len(srv.seen()) == 0 {
				t.Errorf("exit code %d after %d requests, want an error", o.code, len(srv.seen()))
			}
			h.noSecrets(o)
		})
	}
}

// A tool that panics with the key in its hands ends as an error without it.
func TestPlantedKeyInPanic(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "none", "host")
	h.seal()
	var logs bytes.Buffer
	type none struct{}
	boom := nanobot.NewTool(nanobot.Tool{Name: "boom", Description: "breaks"}, func(context.Context, nanobot.ToolCall, none) (nanobot.ToolResult, error) {
		panic("cannot log in with " + h.key)
	})
	fatal := nanobot.NewTool(nanobot.Tool{Name: "fatal", Description: "breaks"}, func(context.Context, nanobot.ToolCall, none) (nanobot.ToolResult, error) {
		return nanobot.ToolResult{}, errors.New("refused " + h.key)
	})
	bot, err := nanobot.New(t.Context(), nanobot.WithConfigFile(filepath.Join(h.data, "config.json")), nanobot.WithWorkspace(h.ws), nanobot.WithEnv(h.env()),
		nanobot.WithTools(boom, fatal), nanobot.WithLogger(slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	if err != nil {
		t.Fatal(err)
	}
	h.model.opening = []call{{"boom", "{}"}, {"fatal", "{}"}}
	res, err := bot.Run(t.Context(), nanobot.Input{Text: "break"})
	if cerr := bot.Close(); cerr != nil {
		t.Error(cerr)
	}
	if !strings.Contains(logs.String(), "tool panicked") {
		t.Errorf("the panic is not in the log: %s", logs.String())
	}
	h.noSecrets(outcome{stdout: fmt.Sprint(res, err), stderr: logs.String()})
}

// A process that is made to crash in the middle of a turn shows where it was,
// but no key, and leaves no memory image behind.
func TestPlantedKeyInCrash(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGSEGV} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, "none", "host")
			asked := make(chan struct{})
			var once sync.Once
			srv := newSite(t, "127.0.0.1")
			srv.handle("/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half \"}}]}\n\n")
				_ = http.NewResponseController(w).Flush() // the client may be gone
				once.Do(func() { close(asked) })
				<-r.Context().Done()
			})
			h.config["providers"] = map[string]any{"custom": map[string]any{"apiBase": srv.url + "/v1", "apiKey": h.key}}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			cmd := h.command(ctx, "agent", "-m", "hello", "--logs")
			cmd.Env = append(cmd.Env, "GOTRACEBACK=crash")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-asked:
			case <-ctx.Done():
				t.Fatal("it never asked the model")
			}
			infinite := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
			if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_CORE, &infinite, nil); err != nil {
				t.Logf("core files cannot be switched on: %v", err)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() == 0 {
				t.Errorf("it ended with %v, want a crash", err)
			}
			if !strings.Contains(stderr.String(), "goroutine") {
				t.Logf("no trace: %s", stderr.String())
			}
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.CoreDump() {
				t.Errorf("it left an image of its memory")
			}
			h.noSecrets(outcome{stdout: stdout.String(), stderr: stderr.String()})
		})
	}
}
