package shell_test

import (
	"encoding/json"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

func TestMain(m *testing.M) {
	if code, played := play(); played {
		os.Exit(code) //nolint:forbidigo // the test program plays another part
	}
	goleak.VerifyTestMain(m)
}

// newShell makes the tools and closes them with the test.
func newShell(tb testing.TB, o shell.Options) *shell.Shell {
	tb.Helper()
	sh, err := shell.New(o)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	tb.Cleanup(func() {
		if err := sh.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return sh
}

// execTool makes the tool and a caller that goes the whole way: cast, validate, run.
func execTool(t *testing.T, o shell.Options) func(args string) tool.Result {
	t.Helper()
	if o.Workspace == "" {
		o.Workspace = t.TempDir()
	}
	sh := newShell(t, o)
	set, err := tool.NewSet(sh.Tools()...)
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
	limits := map[string]int{"exec": 1000, "write_stdin": 800, "list_exec_sessions": 150}
	for _, tl := range newShell(t, shell.Options{Workspace: t.TempDir()}).Tools() {
		b := []byte(`{"name":"` + tl.Name + `","description":`)
		b = text.AppendJSON(b, tl.Description)
		b = append(append(append(b, `,"schema":`...), tl.Schema...), '}')
		if limit := limits[tl.Name]; len(b) > limit {
			t.Errorf("definition has %d bytes, want at most %d: %s", len(b), limit, b)
		}
		if readOnly := tl.Name == "list_exec_sessions"; tl.ReadOnly != readOnly || tl.Exclusive == readOnly {
			t.Errorf("%s: ReadOnly=%v Exclusive=%v", tl.Name, tl.ReadOnly, tl.Exclusive)
		}
	}
}
