package doctor_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/doctor"
)

func TestExposed(t *testing.T) {
	t.Parallel()
	const closed = `"restrictToWorkspace": true, "exec": {"sandbox": "auto", "network": "none"}`
	for _, tt := range []struct {
		name, tools string
		mode        os.FileMode
		want        []string
	}{
		{"open", `"restrictToWorkspace": false, "exec": {"sandbox": "none"}`, 0o600, []string{"without a sandbox and file tools can reach the whole disk"}},
		{"only restricted", `"restrictToWorkspace": true, "exec": {"sandbox": "none"}`, 0o600, []string{"tools.restrictToWorkspace does not confine them"}},
		{"no commands", `"restrictToWorkspace": false, "exec": {"enable": false, "sandbox": "none"}`, 0o600, []string{"file tools can reach the whole disk"}},
		{"written by hand", ``, 0o600, nil},
		{"the network", `"restrictToWorkspace": true, "exec": {"sandbox": "auto", "network": "host"}`, 0o600, []string{"any public host"}},
		{"closed", closed, 0o600, nil},
		{"readable for others", closed, 0o644, []string{"other users of this machine can read"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" && tt.mode != 0o600 {
				t.Skip("files have no such modes here")
			}
			file := filepath.Join(t.TempDir(), "config.json")
			if err := os.WriteFile(file, []byte(`{"tools": {`+tt.tools+`}}`), tt.mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file, tt.mode); err != nil {
				t.Fatal(err)
			}
			l, err := config.Load(config.Options{Path: file})
			if err != nil {
				t.Fatal(err)
			}
			got := doctor.Exposed(l)
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i, w := range tt.want {
				if !strings.Contains(got[i], w) {
					t.Errorf("got %q, want %q in it", got[i], w)
				}
			}
		})
	}
}

// The web interface is reported where other machines reach it, on either listener.
func TestWebReach(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{}`: false,
		`{"gateway": {"webui": {"enabled": true}}}`:                                                                           false,
		`{"gateway": {"host": "0.0.0.0"}}`:                                                                                    false, // the pages are off there
		`{"gateway": {"host": "0.0.0.0", "webui": {"enabled": true}}}`:                                                        true,
		`{"gateway": {"webui": {"enabled": true}}, "channels": {"websocket": {"enabled": true, "host": "192.0.2.1"}}}`:        true,
		`{"gateway": {"webui": {"enabled": true}}, "channels": {"websocket": {"enabled": false, "host": "192.0.2.1"}}}`:       false,
		`{"gateway": {"webui": {"enabled": true}}, "channels": {"websocket": {"enabled": true, "unixSocketPath": "/run/n"}}}`: false,
	} {
		file := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := doctor.Security(t.Context(), app.Options{Config: config.Options{Path: file}})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(r.Findings(), func(c doctor.Check) bool { return c.ID == "webui.reach" }); got != want {
			t.Errorf("%s: reported %v", text, got)
		}
	}
}
