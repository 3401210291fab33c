package shell

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// What a command prints is shown in pieces while it runs: few, in order, never
// half a character, and nothing after its end.
func TestLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []string
		l := &live{ctx: t.Context(), call: tool.Call{ID: "c1", Name: "exec", Publish: func(_ context.Context, out bus.Outbound) error {
			if out.Kind != bus.ToolOutput || out.Tool.CallID != "c1" || out.Tool.Name != "exec" {
				t.Errorf("published %+v", out)
			}
			got = append(got, out.Text)
			return nil
		}}}
		out := liveSink{newCapture(1000), l}
		write := func(s string) {
			if _, err := out.Write([]byte(s)); err != nil {
				t.Error(err)
			}
		}
		pass := func() { time.Sleep(2 * liveEvery); synctest.Wait() }
		write("one ")
		write("two ")
		pass()
		write("\xe4\xb8") // the rest of the character is still to come
		pass()
		write("\xad\xff")
		pass()
		write(strings.Repeat("x", liveBytes) + "end")
		pass()
		write("late")
		l.close()
		write("later")
		pass()
		want := []string{"one two ", "中\uFFFD", strings.Repeat("x", liveBytes-3) + "end"}
		if !slices.Equal(got, want) {
			t.Errorf("pieces = %.80q, want %.80q", got, want)
		}
	})
}
