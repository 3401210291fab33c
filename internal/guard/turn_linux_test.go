package guard_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// TestCommandLosesWriteAccess leaves commands running, of the owner, of a
// conversation that has read something from outside, and of a guest.
func TestCommandLosesWriteAccess(t *testing.T) {
	t.Parallel()
	needMountNS(t)
	const writer = `echo begun > begun.txt; while read -r n; do { echo $n > after-$n; } 2>/dev/null && echo "$n wrote" || echo "$n denied"; done`
	for name, c := range map[string]struct {
		scope   string
		outside bool // the file counts as from outside
	}{
		"clean":   {},
		"outside": {outside: true},
		"guest":   {scope: guest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ws string
			appear := tool.Func(tool.Tool{Name: "appear", Description: "Wait for a file.", Trusted: !c.outside, Exclusive: true},
				func(_ context.Context, _ tool.Call, _ struct{}) (tool.Result, error) {
					tick := time.NewTicker(5 * time.Millisecond)
					defer tick.Stop()
					for range 12000 {
						if data, _ := os.ReadFile(filepath.Join(ws, "begun.txt")); len(data) > 0 {
							return tool.Text("it is there"), nil
						}
						<-tick.C
					}
					return tool.Fail(tool.TimedOut, "the command did not write in its turn"), nil
				})
			s := newShared(t, strings.ReplaceAll(execConfig, "%BIND%", t.TempDir()), func(o *app.Options) { o.Tools = []tool.Tool{appear} })
			ws = s.ws
			start := []map[string]any{call("exec", "command", writer, "yield_time_ms", 0), call("appear")}
			if c.scope != "" {
				s.putGuest("notes.txt", "x")
				s.putGuest("begun.txt", "x") // guests have no such tool
				ws, start = s.guestSpace(), start[:1]
			}
			if c.outside {
				s.put("begun.txt", "x")
				s.run("", call("appear"))
				if err := os.Remove(filepath.Join(ws, "begun.txt")); err != nil {
					t.Fatal(err)
				}
			}
			s.run(c.scope, start...)
			got := s.got.String()
			id := regexp.MustCompile(`session_id[^0-9a-zA-Z]+([0-9a-zA-Z-]+)`).FindStringSubmatch(got)
			if id == nil || c.scope == "" && !strings.Contains(got, "it is there") {
				t.Fatalf("no session: %s", got)
			}
			for _, n := range []string{"1", "2"} {
				s.run(c.scope, call("write_stdin", "session_id", id[1], "chars", n+"\n", "wait_for", n+" "))
				got := s.got.String()
				if !strings.Contains(got, n+" denied") || strings.Contains(got, "read-only for it") != (n == "1") {
					t.Errorf("turn %s: %s", n, got)
				}
				if _, err := os.Lstat(filepath.Join(ws, "after-"+n)); !os.IsNotExist(err) {
					t.Errorf("turn %s: it wrote after its turn: %v", n, err)
				}
			}
			if c.scope != "" {
				return
			}
			// What it wrote in its turn keeps its origin; what the owner writes while it
			// still runs is the owner's.
			s.put("later.txt", "the owner's words\n")
			s.say("", "/new")
			s.run("", call("read_file", "path", "later.txt"))
			if got := s.got.String(); !strings.Contains(got, "the owner's words") || strings.Contains(got, "untrusted") {
				t.Errorf("the owner's file counts as from outside: %s", got)
			}
			s.say("", "/new")
			s.run("", call("read_file", "path", "begun.txt"))
			if fenced := strings.Contains(s.got.String(), "untrusted"); fenced != c.outside {
				t.Errorf("from outside %v: %s", c.outside, s.got.String())
			}
		})
	}
}
