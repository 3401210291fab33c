package shell_test

import (
	"encoding/json"
	"testing"

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
