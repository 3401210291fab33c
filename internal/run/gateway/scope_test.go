package gateway_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// scopeHost is a gateway with folders.
func scopeHost(t *testing.T, conf string) (h *host, ws string) {
	t.Helper()
	h = newHost(t, llmtest.NewScript(t))
	if conf != "" {
		h.configure(conf)
	}
	h.start()
	ws, err := filepath.EvalSymlinks(h.g.Workspace())
	h.must(err)
	for _, dir := range []string{"a/b", "c", "../../elsewhere"} {
		h.must(os.MkdirAll(filepath.Join(ws, dir), 0o700))
	}
	h.must(os.WriteFile(filepath.Join(ws, "file"), nil, 0o600))
	if runtime.GOOS != "windows" {
		h.must(errors.Join(os.Symlink("../../elsewhere", filepath.Join(ws, "away")), os.Symlink("a", filepath.Join(ws, "link"))))
	}
	return h, ws
}

func TestChooseScope(t *testing.T) {
	t.Parallel()
	const full, narrow = guard.AccessFull, guard.AccessRestricted
	h, ws := scopeHost(t, strings.Replace(partyConfig, `{"agents"`, `{"tools": {"restrictToWorkspace": true}, "agents"`, 1))
	elsewhere := filepath.Join(filepath.Dir(filepath.Dir(ws)), "elsewhere")
	if err := os.MkdirAll(filepath.Join(ws, ".nanobot"), 0o700); err != nil { // of a version before
		t.Fatal(err)
	}
	steps := []struct {
		path, mode   string
		remote       bool
		want, wanted string // "" and a part of the refusal
	}{
		{"", "", false, ws, full},
		{"a", "", false, filepath.Join(ws, "a"), full},
		{"a", "wide", false, "", "access_mode"},
		{elsewhere, "", false, "", "outside the workspace"},
		{"..", "", false, "", "protected"},
		{"../..", "", false, "", "outside the workspace"},
		{"away", "", false, "", "outside the workspace"},
		{"nothing", "", false, "", "there is no folder nothing"},
		{"file", "", false, "", "is not a folder"},
		{"memory", "", false, "", "belongs to the agent"},
		{"skills", "", false, "", "belongs to the agent"},
		{".nanobot", "", false, "", "belongs to the agent"},
		{"c", full, true, filepath.Join(ws, "c"), full}, // as it was
		{filepath.Join(ws, "link", "b"), narrow, true, filepath.Join(ws, "a", "b"), narrow},
		{"", full, true, "", "only be made narrower"},
		{"a", narrow, true, "", "only be moved to a folder inside " + filepath.Join(ws, "a", "b")},
		{"a/b/..", "", true, "", "only be moved"},
		{elsewhere, narrow, true, "", "only be moved"},
		{"/", "", true, "", "only be moved"},
		{"", "", true, filepath.Join(ws, "a", "b"), narrow},
		{"a", "", false, filepath.Join(ws, "a"), narrow},
		{"a/b", narrow, true, filepath.Join(ws, "a", "b"), narrow},
		{ws, full, false, ws, full},
	}
	chat := bus.Route{Channel: "websocket", ChatID: "x"}
	for i, st := range steps {
		path, mode, err := gateway.ChooseScope(t.Context(), h.g, chat, st.path, st.mode, st.remote)
		switch {
		case st.want == "" && (err == nil || !strings.Contains(err.Error(), st.wanted)):
			t.Errorf("step %d: %s %s, error %v, want %q", i, path, mode, err, st.wanted)
		case st.want != "" && (err != nil || path != st.want || mode != st.wanted):
			t.Errorf("step %d: %s %s %v, want %s %s", i, path, mode, err, st.want, st.wanted)
		}
	}
	a, err := h.g.Current(t.Context())
	h.must(err)
	meta, err := a.Sessions.Metadata(t.Context(), "websocket:x")
	h.must(err)
	if turn.ScopeOf(meta) != nil {
		t.Errorf("the workspace is kept as a folder: %v", meta)
	}
	h.must(h.end())
}

// Where nothing keeps the agent inside the workspace, the owner may go anywhere
// on the machine itself, and nobody else may.
func TestChooseScopeAnywhere(t *testing.T) {
	t.Parallel()
	h, ws := scopeHost(t, strings.Replace(partyConfig, `{"agents"`, `{"tools": {"restrictToWorkspace": false, "exec": {"sandbox": "none"}}, "agents"`, 1))
	elsewhere := filepath.Join(filepath.Dir(filepath.Dir(ws)), "elsewhere")
	chat := bus.Route{Channel: "websocket", ChatID: "x"}
	if _, _, err := gateway.ChooseScope(t.Context(), h.g, chat, elsewhere, guard.AccessRestricted, true); err == nil {
		t.Error("a remote peer left the workspace")
	}
	if runtime.GOOS != "windows" {
		if path, _, err := gateway.ChooseScope(t.Context(), h.g, chat, "away", guard.AccessRestricted, true); err == nil {
			t.Errorf("a remote peer left the workspace by a link, to %s", path)
		}
	}
	if path, mode, err := gateway.ChooseScope(t.Context(), h.g, chat, elsewhere, guard.AccessRestricted, false); err != nil || path != elsewhere || mode != guard.AccessRestricted {
		t.Errorf("%s %s %v", path, mode, err)
	}
	if _, _, err := gateway.ChooseScope(t.Context(), h.g, chat, ws, guard.AccessRestricted, true); err == nil {
		t.Error("a remote peer left the folder for the workspace")
	}
	for _, path := range []string{"/", filepath.Join(h.dir, "sessions"), filepath.Join(h.dir, "bus")} {
		if got, _, err := gateway.ChooseScope(t.Context(), h.g, chat, path, "", false); err == nil {
			t.Errorf("%s is the folder of a chat", got)
		}
	}
	// A fork goes on in the same folder.
	to := bus.Route{Channel: "websocket", ChatID: "y"}
	h.must(gateway.Fork(t.Context(), h.g, chat, to, 0, ""))
	if path, mode, err := gateway.ChooseScope(t.Context(), h.g, to, "", "", true); err != nil || path != elsewhere || mode != guard.AccessRestricted {
		t.Errorf("the fork works in %s %s %v", path, mode, err)
	}
	h.must(h.end())
}
