package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/files"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
	"github.com/nanobot-go/nanobot/internal/tool/web"
)

// coreTools are those that a small model keeps.
var coreTools = []string{"read_file", "exec", "edit_file", "write_file", "list_dir", "grep"}

// productTools are the tools of a default installation.
func productTools(t *testing.T, workspace string) *tool.Set {
	t.Helper()
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: workspace, Restrict: true})
	if err != nil {
		t.Fatal(err)
	}
	exec, err := shell.New(shell.Options{Workspace: workspace, Restrict: true})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := web.New(web.Options{})
	if err != nil {
		t.Fatal(err)
	}
	own := append(owntool.My(owntool.Settings{Offer: true}, nil), owntool.AskUser(), owntool.Message(owntool.Messenger{}))
	set, err := tool.NewSet(slices.Concat(files.Tools(files.Options{Jail: jail}), exec.Tools(), pages, own)...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// heads measures what each tier sends before the user has said a word.
func heads(t *testing.T, bootstrap, memory string) map[string]head {
	t.Helper()
	workspace := t.TempDir()
	for name, body := range map[string]string{"AGENTS.md": bootstrap, "memory/MEMORY.md": memory} {
		path := filepath.Join(workspace, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set := productTools(t, workspace)
	p := prompt.New(prompt.Options{Workspace: workspace, Skills: skill.Open(skill.Options{Workspace: workspace}), Now: time.Now})
	out := map[string]head{}
	for _, window := range []int{4096, 8192, 16384, 65536} {
		tier := prompt.TierOf(window)
		tools, err := tier.Tools(set)
		if err != nil {
			t.Fatal(err)
		}
		// Names of this machine must not count.
		system := strings.NewReplacer(workspace, "/home/ann/.nanobot/workspace", ", "+runtime.GOARCH+";", ", amd64;").Replace(p.System("cli", "", guard.Place{Workspace: workspace}, tier))
		h := head{window: window, tools: tools.Names(), systemTokens: runner.EstimateHead(system, nil), tokens: runner.EstimateHead(system, tools.Defs()), bytes: len(system)}
		for _, d := range tools.Defs() {
			h.bytes += len(d.Name) + len(d.Description) + len(d.Schema)
		}
		out[tier.Name] = h
	}
	return out
}

type head struct {
	window, bytes, systemTokens, tokens int
	tools                               []string
}

// The numbers of docs/how-to/small-models.md. A change of prompt or tools that makes
// them larger must be meant.
func TestTierHeads(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/how-to/small-models.md")
	if err != nil {
		t.Fatal(err)
	}
	fresh := heads(t, "", "")
	full := heads(t, strings.Repeat("Always be kind to animals.\n", 2000), strings.Repeat("- She likes tea.\n", 2000))
	for _, name := range []string{"tiny", "small", "medium", "full"} {
		a, b := fresh[name], full[name]
		t.Logf("%s: %+v, with long files %d tokens", name, a, b.tokens)
		row := fmt.Sprintf("| %s | %d | %d | %d |", name, len(a.tools), a.bytes, a.tokens)
		if name != "full" {
			row += fmt.Sprintf(" %d |", b.tokens)
		}
		if runtime.GOOS == "linux" && !strings.Contains(string(doc), row) { // exec is described differently elsewhere
			t.Errorf("docs/how-to/small-models.md lacks this row (numbers changed?):\n%s", row)
		}
		if name != "full" && b.tokens > a.window/2 {
			t.Errorf("%s: the head takes %d tokens of %d, more than half", name, b.tokens, a.window)
		}
	}
	for _, core := range coreTools {
		if !slices.Contains(fresh["tiny"].tools, core) {
			t.Errorf("the tiny tier lacks %s: %v", core, fresh["tiny"].tools)
		}
	}
}

// Tools of others are kept while there is room, never at the cost of the core.
func TestTierTools(t *testing.T) {
	t.Parallel()
	set := productTools(t, t.TempDir())
	big := tool.Tool{Name: "a_big", Description: strings.Repeat("long ", 2000), Schema: []byte(`{"type":"object"}`)}
	small := tool.Tool{Name: "mine", Description: "Short.", Schema: []byte(`{"type":"object"}`)}
	set, err := set.With(big, small)
	if err != nil {
		t.Fatal(err)
	}
	for _, window := range []int{4096, 8192, 16384} {
		tier := prompt.TierOf(window)
		got, err := tier.Tools(set)
		if err != nil {
			t.Fatal(err)
		}
		names := got.Names()
		for _, core := range append(slices.Clone(coreTools), "mine") {
			if !slices.Contains(names, core) {
				t.Errorf("%s: no %s in %v", tier.Name, core, names)
			}
		}
		if slices.Contains(names, "a_big") || runner.EstimateHead("", got.Defs()) > tier.ToolTokens {
			t.Errorf("%s: %v are too much", tier.Name, names)
		}
		if again, _ := tier.Tools(set); !slices.Equal(names, again.Names()) {
			t.Errorf("%s: the choice is not stable", tier.Name)
		}
	}
	if got, err := prompt.TierOf(0).Tools(set); err != nil || got != set {
		t.Errorf("full tier: %v, %v; want the set itself", got.Names(), err)
	}
	if got, err := prompt.TierOf(4096).Tools(nil); err != nil || len(got.Names()) != 0 {
		t.Errorf("no tools: %v, %v", got.Names(), err)
	}
}
