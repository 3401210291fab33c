package guard_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// started is an agent whose owner started it in a folder outside of the
// workspace.
type started struct {
	*shared
	dir string
}

func newStarted(t *testing.T, conf string) *started {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"AGENTS.md": "folder-words-55\n", "own.txt": ownTag + " folder\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newShared(t, conf, func(o *app.Options) { o.Folder = dir })
	s.project()
	return &started{s, dir}
}

// in lets the owner say something in the folder; it returns what the model was
// asked, and what tools and the chat said.
func (s *started) in(calls ...map[string]any) (asked, got string) {
	s.t.Helper()
	s.mu.Lock()
	s.calls = calls
	s.asked.Reset()
	s.got.Reset()
	s.sent.Reset()
	s.mu.Unlock()
	msg := bus.Inbound{Route: bus.Route{Channel: "test", ChatID: "owner"}, SenderID: "7", Text: "go", Folder: s.dir}
	for out, err := range s.app.Agent.Ask(s.t.Context(), msg) {
		if err != nil {
			s.t.Fatal(err)
		}
		if out.Kind == bus.Notice {
			s.sent.WriteString(out.Text)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked.String(), s.got.String() + s.sent.String()
}

// system is the system prompt of the first request.
func system(asked string) string {
	s, _, _ := strings.Cut(asked, `"Messages"`)
	return s
}

func (s *started) read(name string) string {
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return string(b)
}
