package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// A command cannot open a place for the next one by putting a link where the
// profile names something.
func TestPlantedLink(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		p := b.profile()
		p.ReadOnly = []string{filepath.Join(b.workspace, "cron"), filepath.Join(b.workspace, "sub", "jobs.json"), filepath.Join(b.workspace, "kept")}
		p.ReadWrite = []string{filepath.Join(b.workspace, "out")}
		b.must(t, p, `ln -s $OUT cron; ln -s $OUT out; mkdir sub real; ln -s $OUT/config.json sub/jobs.json; ln -s real kept; echo fine > real/f`)
		out, _ := b.run(t, p, `cat $OUT/config.json cron/config.json out/config.json sub/jobs.json; echo x > out/planted; cat kept/f`)
		if strings.Contains(out, canary) || !strings.HasSuffix(out, "fine\n") {
			t.Errorf("got %s", out)
		}
		if _, err := os.Stat(filepath.Join(b.outside, "planted")); err == nil {
			t.Error("a file was planted outside")
		}
	})
}

// A link that is put there after the profile was looked at opens nothing,
// either.
func TestLinkInTheLastMoment(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		if b.kind == bwrap {
			t.Skip("bubblewrap follows links")
		}
		top := t.TempDir() // another one, as the workspace's own may not be granted
		for _, dir := range []string{"ws/cron", "ws/proj", "away"} {
			if err := os.MkdirAll(filepath.Join(top, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(top, "away", "secret"), []byte(canary), 0o600); err != nil {
			t.Fatal(err)
		}
		swap := func(path string) {
			if err := errors.Join(os.RemoveAll(path), os.Symlink(filepath.Join(top, "away"), path)); err != nil {
				t.Fatal(err)
			}
		}
		for name, c := range map[string]struct {
			p    sandbox.Profile
			swap string
		}{
			"inside": {sandbox.Profile{Workspace: filepath.Join(top, "ws"), ReadOnly: []string{filepath.Join(top, "ws", "cron")}}, "ws/cron"},
			"itself": {sandbox.Profile{Workspace: filepath.Join(top, "ws", "proj"), Exact: true}, "ws/proj"},
		} {
			cmd := b.command(t.Context(), "cat "+filepath.Join(top, "away", "secret")+" "+filepath.Join(top, c.swap, "secret")+"; echo over")
			cmd.Dir = c.p.Workspace
			cleanup, err := b.Wrap(cmd, c.p)
			if err != nil {
				t.Fatal(err)
			}
			swap(filepath.Join(top, c.swap))
			out, _ := cmd.CombinedOutput()
			cleanup()
			if strings.Contains(string(out), canary) {
				t.Errorf("%s: got %s", name, out)
			}
			if b.Level().MountNS && (strings.Contains(string(out), "over") || !strings.Contains(string(out), "sandbox: ")) {
				t.Errorf("%s: the command ran: %s", name, out)
			}
		}
		if _, err := b.Wrap(b.command(t.Context(), "true"), sandbox.Profile{Workspace: filepath.Join(top, "ws", "proj"), Exact: true}); err == nil {
			t.Error("a link is taken for the workspace")
		}
	})
}
