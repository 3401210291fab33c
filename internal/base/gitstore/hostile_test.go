package gitstore

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A repository in the work tree whose settings start programs or lead elsewhere
// starts none and leads nowhere when it is imported, or later: no program is run
// and no setting of the repository is read.
func TestHostileRepository(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil || runtime.GOOS == "windows" {
		t.Skip("git and sh are needed: ", err)
	}
	b := newBench(t)
	b.write("SOUL.md", "soul")
	b.write("memory/MEMORY.md", "memory")
	b.old().commit("first")
	out := filepath.Join(filepath.Dir(b.work), "out")
	must(t, os.MkdirAll(filepath.Join(out, "objects"), 0o700))
	ran := "touch " + filepath.Join(out, "ran")
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(b.work, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), mode))
	}
	for _, hook := range []string{"pre-commit", "post-commit", "post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman"} {
		write(".git/hooks/"+hook, "#!/bin/sh\n"+ran+"\n", 0o700)
	}
	write("included", "[core]\n\tfsmonitor = "+ran+"\n", 0o600)
	must(t, os.WriteFile(filepath.Join(out, "included"), []byte("[core]\n\tpager = "+ran+"\n"), 0o600))
	write(".git/config", "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "+ran+"\n\thooksPath = hooks\n\tworktree = "+out+"\n\tsshCommand = "+ran+
		"\n[filter \"x\"]\n\tclean = "+ran+"\n\tsmudge = "+ran+"\n\tprocess = "+ran+"\n[diff]\n\texternal = "+ran+"\n[diff \"x\"]\n\ttextconv = "+ran+
		"\n[gpg]\n\tprogram = "+ran+"\n[commit]\n\tgpgSign = true\n[include]\n\tpath = "+filepath.Join(out, "included")+"\n", 0o600)
	write(".gitattributes", "* filter=x diff=x\n", 0o600)
	write(".git/info/attributes", "* filter=x diff=x\n", 0o600)
	write(".git/objects/info/alternates", filepath.Join(out, "objects")+"\n", 0o600)
	write(".git/commondir", out+"\n", 0o600)
	before := snapshotOf(t, out)

	// What fails, fails: only what happens outside, and what runs, counts.
	ctx := t.Context()
	if got, err := b.Import(ctx, ownFile); err != nil || got.Versions != 1 {
		t.Errorf("import = %+v, %v", got, err)
	}
	b.tryWrite("SOUL.md", "changed")
	id, _, _ := b.Commit(ctx, "second", "")
	_, _ = b.Log(ctx, 10)
	_, _, _ = b.Show(ctx, id)
	_, _ = b.Diff(ctx, "", id)
	_, _ = b.File(ctx, id, "SOUL.md")
	_, _ = b.Restore(ctx, id)
	_, _ = b.UndoOnly(ctx, id)
	_, _ = b.Rewrite(ctx, func(_ string, data []byte) []byte { return append(data, 'x') }, func(s string) string { return s })
	if diff := cmp.Diff(before, snapshotOf(t, out)); diff != "" {
		t.Errorf("something ran, or changed outside (-before +after):\n%s", diff)
	}

	// The test can fail: the program itself would have run it.
	cmd := exec.CommandContext(ctx, "git", "-C", b.work, "-c", "core.worktree="+b.work, "status")
	_ = cmd.Run()
	_ = os.Remove(filepath.Join(b.work, ".git", "commondir"))
	cmd = exec.CommandContext(ctx, "git", "-C", b.work, "--work-tree="+b.work, "status")
	_ = cmd.Run()
	if _, err := os.Stat(filepath.Join(out, "ran")); err != nil {
		t.Errorf("git itself runs nothing here, so this test tests nothing: %v", err)
	}
}
