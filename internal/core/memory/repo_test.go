package memory

import (
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/gitstore"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/guard/change"
)

// The record of sources names the versions as they are called after they were
// taken over from the workspace.
func TestTakenVersionsKeepTheirSources(t *testing.T) {
	t.Parallel()
	p := newPlace(t, storetest.Disk)
	ctx := t.Context()
	old, err := gitstore.Open(gitstore.Options{WorkTree: p.ws, Writer: change.NewWriter(p.ws, nil), Dir: filepath.Join(p.ws, ".git"), Files: []string{"USER.md", ".gitignore"}, Email: "nanobot@dream"})
	must(t, err)
	must(t, old.WriteWork("USER.md", []byte("- cat\n")))
	must(t, old.WriteWork(".gitignore", []byte("/*\n"))) // is not taken, so ids change
	id, _, err := old.Commit(ctx, "dream: one", "")
	must(t, err)
	h := p.open(t)
	o := h.o
	must(t, writeRows(o.Store, fileProvenance, []fact{{Commit: id}, {Commit: "elsewhere"}}, 2))

	n, err := TakeOverVersions(ctx, o, func(string) bool { return false })
	if err != nil || n != 1 {
		t.Fatalf("took %d versions, %v", n, err)
	}
	repo, err := OpenRepo(RepoOptions{Dir: h.Dir(), Workspace: p.ws})
	must(t, err)
	log, err := repo.Log(ctx, 0)
	must(t, err)
	facts, err := readRows[fact](o.Store, fileProvenance)
	must(t, err)
	if len(log) != 1 || len(facts) != 2 || facts[0].Commit != log[0].ID || facts[1].Commit != "elsewhere" || log[0].ID == id {
		t.Errorf("versions %+v, sources %+v; the old id was %s", log, facts, id)
	}
}
