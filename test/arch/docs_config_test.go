package arch_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tailscale/hujson"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// A person types an example of the documentation into an empty file and starts: that
// can be used, and leaves nothing open that the example does not open itself.
func TestExamplesOfTheDocsAreSafe(t *testing.T) {
	t.Parallel()
	pages := append(documentPages(t), "README.md", "README.zh-CN.md")
	block := regexp.MustCompile("(?ms)^ *```jsonc?\n(.*?)^ *```")
	n := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range block.FindAllSubmatch(text, -1) {
			plain, err := hujson.Standardize(m[1])
			var top map[string]map[string]any
			if err != nil || json.Unmarshal(plain, &top) != nil || !isConfig(top) {
				continue // an example of something else
			}
			n++
			t.Run(fmt.Sprintf("%s/%d", filepath.Base(page), i+1), func(t *testing.T) {
				t.Parallel()
				loadExample(t, string(plain))
			})
		}
	}
	if n < 35 {
		t.Errorf("%d examples, want at least 35: they are not found", n)
	}
}

// isConfig reports whether an object has sections of the configuration only.
func isConfig(top map[string]map[string]any) bool {
	for name := range top {
		switch name {
		case "agents", "channels", "providers", "modelPresets", "transcription", "api", "gateway", "tools":
		default:
			return false
		}
	}
	return len(top) > 0
}

func loadExample(t *testing.T, text string) {
	t.Helper()
	home := t.TempDir()
	file := filepath.Join(home, "config.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var env []string
	for _, m := range regexp.MustCompile(`\$\{([A-Za-z_]\w*)`).FindAllStringSubmatch(text, -1) {
		env = append(env, m[1]+"=not-a-real-value")
	}
	l, err := config.Load(config.Options{Path: file, Home: home, Env: env, Sections: gateway.Sections(nil), Strict: true})
	if err != nil {
		t.Fatalf("the example cannot be used: %v", err)
	}
	if l.Python {
		t.Error("the example counts as a file of Python nanobot")
	}
	p := app.Posture(l)
	if !l.IsSet("tools.restrictToWorkspace") && !p.Restrict {
		t.Error("file tools reach the whole disk")
	}
	if !l.IsSet("tools.exec.sandbox") && p.Sandbox != sandbox.Auto {
		t.Errorf("sandbox %q, want auto", p.Sandbox)
	}
	if !l.IsSet("tools.exec.network") && p.Network != sandbox.NetProxy {
		t.Errorf("network %q, want proxy", p.Network)
	}
	if !l.IsSet("tools.approval.mode") && p.Approval != approve.Auto {
		t.Errorf("approvals %q, want auto", p.Approval)
	}
}
