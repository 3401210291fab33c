package shell_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// execTool makes the tool and a caller that goes the whole way: cast, validate, run.
func execTool(t *testing.T, o shell.Options) func(args string) tool.Result {
	t.Helper()
	if o.Workspace == "" {
		o.Workspace = t.TempDir()
	}
	tl, err := shell.Tool(o)
	if err != nil {
		t.Fatalf("Tool: %v", err)
	}
	set, err := tool.NewSet(tl)
	if err != nil {
		t.Fatalf("NewSet: %v", err)
	}
	return func(args string) tool.Result {
		t.Helper()
		tl, raw, bad := set.Prepare("exec", args)
		if bad != nil {
			return *bad
		}
		r, err := tl.Run(t.Context(), tool.Call{Input: raw})
		if err != nil {
			t.Fatalf("Run(%s): %v", args, err)
		}
		return r
	}
}

func command(s string) string {
	b, _ := json.Marshal(map[string]string{"command": s})
	return string(b)
}

func TestDefinitionIsSmall(t *testing.T) {
	t.Parallel()
	tl, err := shell.Tool(shell.Options{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	b := []byte(`{"name":"exec","description":`)
	b = llm.AppendString(b, tl.Description)
	b = append(append(append(b, `,"schema":`...), tl.Schema...), '}')
	if len(b) > 700 {
		t.Errorf("definition has %d bytes, want at most 700: %s", len(b), b)
	}
	if tl.ReadOnly || !tl.Exclusive {
		t.Errorf("ReadOnly=%v Exclusive=%v, want false, true", tl.ReadOnly, tl.Exclusive)
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, args, want string }{
		{"stdout", `{"command":"echo hi"}`, "hi\n\nExit code: 0"},
		{"alias", `{"cmd":"echo hi"}`, "hi\n\nExit code: 0"},
		{"nothing", `{"command":"true"}`, "Exit code: 0"},
		{"both streams", `{"command":"echo a; echo b >&2"}`, "a\nSTDERR:\nb\n\nExit code: 0"},
		{"no newline", `{"command":"printf a; printf b >&2"}`, "a\nSTDERR:\nb\n\nExit code: 0"},
		{"exit code", `{"command":"echo no >&2; exit 3"}`, "STDERR:\nno\n\nExit code: 3"},
		{"killed by a signal", `{"command":"kill -9 $$"}`, "Exit code: 137"},
		{"invalid text", `{"command":"printf 'a\\377b'"}`, "a\uFFFDb\n\nExit code: 0"},
		{"no stdin", `{"command":"cat; echo end"}`, "end\n\nExit code: 0"},
		{"bash", `{"command":"[[ a == a ]] && echo yes"}`, "yes\n\nExit code: 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := execTool(t, shell.Options{Environ: os.Environ()})(c.args)
			if got.IsError || got.Content.Text != c.want {
				t.Errorf("got %q (error %v), want %q", got.Content.Text, got.IsError, c.want)
			}
		})
	}
}

func TestWorkingDirectory(t *testing.T) {
	t.Parallel()
	ws, outside := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.Mkdir(filepath.Join(ws, "sub"), 0o700), os.Symlink("/", filepath.Join(ws, "root")),
		os.Symlink("sub", filepath.Join(ws, "alias")), os.WriteFile(filepath.Join(ws, "file"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, dir string
		restrict  bool
		code      tool.Code
		want      string
	}{
		{"default", "", true, "", ws},
		{"relative", "sub", true, "", filepath.Join(ws, "sub")},
		{"absolute inside", filepath.Join(ws, "sub"), true, "", filepath.Join(ws, "sub")},
		{"link inside", "alias", true, "", filepath.Join(ws, "sub")},
		{"outside", "/etc", true, tool.DeniedPolicy, ""},
		{"home", "~", true, tool.DeniedPolicy, ""},
		{"link to the root", "root", true, tool.DeniedPolicy, ""},
		{"through a link", "root/etc", true, tool.DeniedPolicy, ""},
		{"up", "..", true, tool.DeniedPolicy, ""},
		{"sibling with the same prefix", ws + "-evil", true, tool.DeniedPolicy, ""},
		{"missing", "nope", true, tool.NotFound, ""},
		{"file", "file", true, tool.NotFound, ""},
		{"unrestricted", outside, false, "", outside},
		{"NUL", "a\x00b", false, tool.InvalidArgs, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run := execTool(t, shell.Options{Workspace: ws, Restrict: c.restrict, Environ: []string{"HOME=" + outside}})
			args, _ := json.Marshal(map[string]string{"command": "pwd", "working_dir": c.dir})
			got := run(string(args))
			if got.Code != c.code {
				t.Fatalf("code = %q (%s), want %q", got.Code, got.Content.Text, c.code)
			}
			if c.code == "" && !strings.HasPrefix(got.Content.Text, c.want+"\n") {
				t.Errorf("got %q, want directory %q", got.Content.Text, c.want)
			}
		})
	}
}

func TestTimeoutKeepsPartialOutput(t *testing.T) {
	t.Parallel()
	run := execTool(t, shell.Options{Timeout: 300 * time.Millisecond})
	begin := time.Now()
	got := run(command("echo started; sleep 60; echo never"))
	if got.Code != tool.TimedOut || !got.MayHaveRun {
		t.Errorf("code = %q, may have run = %v, want %q, true", got.Code, got.MayHaveRun, tool.TimedOut)
	}
	if !strings.Contains(got.Content.Text, "started") || strings.Contains(got.Content.Text, "never") {
		t.Errorf("got %q, want the output before the timeout", got.Content.Text)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
}
