package guard_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// typed sends a command line as the owner's web interface does.
func (s *shared) typed(line string, change ...func(*bus.Inbound)) (final string, all []bus.Outbound) {
	s.t.Helper()
	in := bus.Inbound{Route: bus.Route{Channel: "websocket", ChatID: "owner"}, SenderID: "7", Text: line, Shell: true, Interactive: true}
	for _, f := range change {
		f(&in)
	}
	for out, err := range s.app.Agent.Ask(s.t.Context(), in) {
		if err != nil {
			s.t.Fatal(err)
		}
		if all = append(all, out); out.Kind == bus.Final {
			final = out.Text
		}
	}
	return final, all
}

// A command line of the owner goes the way of the model's commands, without a
// question: the rules, the time limit and undo are the same.
func TestUserShell(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are for a POSIX shell")
	}
	s := newShared(t, `{"tools":{"approval":{"mode":"ask"},"exec":{"sandbox":"none","timeout":8,"denyPatterns":["forbidden"]}}}`)
	got, all := s.typed("cat notes.txt; echo changed > notes.txt")
	if !strings.Contains(got, ownTag+" 3") || !strings.HasPrefix(got, "```\n") || !strings.Contains(got, "Exit code: 0") {
		t.Errorf("got %q", got)
	}
	edited := false
	for _, o := range all {
		if o.Kind == bus.Ask {
			t.Errorf("somebody was asked %q", o.Text)
		}
		edited = edited || o.Kind == bus.FileEdit
	}
	if !edited {
		t.Error("the change of the file is not shown")
	}
	s.typed("/undo", func(in *bus.Inbound) { in.Shell = false })
	if b, _ := os.ReadFile(filepath.Join(s.ws, "notes.txt")); string(b) != ownTag+" 3\n" {
		t.Errorf("after /undo the file is %q", b)
	}
	for line, want := range map[string]string{
		"sleep 600":             "was stopped after 8s",
		"echo forbidden things": "the user forbids commands that match",
		"rm -rf /":              "the command was not run",
		"echo 'open":            "not valid bash",
	} {
		if got, _ := s.typed(line); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	if got, _ := s.typed("cat notes.txt", func(in *bus.Inbound) { in.Scope = guest }); strings.Contains(got, ownTag) {
		t.Errorf("a guest got %q", got)
	}
}

func TestUserShellSwitchedOff(t *testing.T) {
	t.Parallel()
	s := newShared(t, `{"tools":{"exec":{"enable":false}}}`)
	if got, _ := s.typed("cat notes.txt"); !strings.Contains(got, "switched off") {
		t.Errorf("got %q", got)
	}
}
