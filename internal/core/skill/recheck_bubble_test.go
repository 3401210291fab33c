package skill_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/skill"
)

func TestNeedsAreLookedUpOncePerMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := options("")
		o.Builtin = fstest.MapFS{"skills/gh/SKILL.md": {Data: []byte("---\ndescription: d\nmetadata: {nanobot: {requires: {bins: gh}}}\n---\nx")}}
		lookups, installed := 0, false
		lookup := o.LookPath
		o.LookPath = func(name string) (string, error) {
			if lookups++; installed {
				return name, nil
			}
			return lookup(name)
		}
		lib := skill.Open(o)
		first := lib.Summary()
		installed = true
		time.Sleep(59 * time.Second)
		if got := lib.Summary(); got != first || lookups != 1 {
			t.Errorf("after 59 s: %d lookups, summary %q, want 1 and %q", lookups, got, first)
		}
		time.Sleep(time.Second)
		if got := lib.Summary(); strings.Contains(got, "unavailable") || lookups != 2 {
			t.Errorf("after a minute: %d lookups, summary %q", lookups, got)
		}
	})
}
