package gitstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ownFile(string) bool { return false }

// old is a store whose repository is the work tree's own, as versions before
// kept it.
func (b *bench) old() *bench {
	b.t.Helper()
	return openBench(b.t, filepath.Dir(b.work), func(o *Options) { o.Dir = filepath.Join(b.work, gitFolder) })
}

// python makes a repository as Python nanobot does, with the real program: a
// branch called master, no mark of ours, rules about ignored files. The program
// makes it once; every test has a copy.
func (b *bench) python() {
	b.t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		b.t.Skip("there is no git program")
	}
	tree, err := pythonTree()
	must(b.t, err)
	must(b.t, os.CopyFS(b.work, tree))
}

// pythonTree is the work tree that python copies.
var pythonTree = sync.OnceValues(func() (fstest.MapFS, error) {
	dir, err := os.MkdirTemp("", "gitstore-python-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)

	write := func(name, text string) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	}
	git := func(args ...string) {
		cmd := exec.CommandContext(context.Background(), "git", args...)
		cmd.Dir, cmd.Env = dir, cleanEnv()
		if out, failed := cmd.CombinedOutput(); failed != nil {
			err = errors.Join(err, fmt.Errorf("git %v: %w\n%s", args, failed, out))
		}
	}
	commit := func(subject string) {
		git("add", ".")
		git("-c", "user.name=nanobot", "-c", "user.email=nanobot@dream", "commit", "-q", "--author=nanobot <nanobot@dream>", "-m", subject)
	}
	write(".gitignore", "/*\n!memory/\n!SOUL.md\n!USER.md\n!memory/MEMORY.md\n!.gitignore\n")
	write("SOUL.md", "soul\n")
	write("USER.md", "user\n")
	write("memory/MEMORY.md", "old\n")
	git("init", "-q", "-b", "master")
	commit("init: nanobot memory store")
	write("memory/MEMORY.md", "old\nmore\n")
	commit("dream: one")
	git("tag", "mine")

	tree := fstest.MapFS{}
	return tree, errors.Join(err, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		file := &fstest.MapFile{Mode: fs.ModeDir | 0o700} // some folders are empty
		if !d.IsDir() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			file = &fstest.MapFile{Mode: 0o600, Data: data}
		}
		tree[filepath.ToSlash(name)] = file
		return nil
	}))
})

// What Python nanobot and versions before kept in the work tree is taken over
// once, loose or packed, and works like a history of our own. The old repository
// stays as it is and is never looked at again.
func TestImport(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(b *bench){
		"of Python nanobot": (*bench).python,
		"packed":            func(b *bench) { b.python(); runGit(b.t, b.work, "gc", "-q", "--aggressive") },
		"packed refs, no HEAD branch": func(b *bench) {
			b.python()
			runGit(b.t, b.work, "pack-refs", "--all")
			runGit(b.t, b.work, "checkout", "-q", "--detach")
		},
		"of a version before": func(b *bench) {
			o := b.old()
			b.write("SOUL.md", "soul\n")
			b.write("USER.md", "user\n")
			b.write("memory/MEMORY.md", "old\n")
			o.commit("")
			b.write("memory/MEMORY.md", "old\nmore\n")
			o.commit("dream: one")
			b.write("notes.txt", "the user's\n")
			o.git("add", "-f", "notes.txt")
			o.git("commit", "-qm", "by hand")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			prepare(b)
			ctx, git := t.Context(), filepath.Join(b.work, gitFolder)
			before := snapshotOf(t, git)
			ids := strings.Fields(runGitOut(t, b.work, "log", "--format=%H", "--", "memory/MEMORY.md"))

			got, err := b.Import(ctx, ownFile)
			must(t, err)
			if want := []string{"dream: one", "init: nanobot memory store"}; !slices.Equal(b.subjects(), want) || got.Versions != 2 {
				t.Fatalf("imported %+v, log %v; want %v", got, b.subjects(), want)
			}
			b.sound()
			log, err := b.Log(ctx, 0)
			must(t, err)
			for i, id := range ids {
				if got.IDs[id] != log[i].ID {
					t.Errorf("%s became %q, want %s", id, got.IDs[id], log[i].ID)
				}
			}
			if log[0].Email != "nanobot@dream" || log[0].Time.IsZero() || b.git("ls-tree", "-r", "--name-only", "HEAD") != "SOUL.md\nUSER.md\nmemory/MEMORY.md\n" {
				t.Errorf("newest = %+v", log[0])
			}
			if again, err := openBench(t, filepath.Dir(b.work)).Import(ctx, ownFile); err != nil || again.Versions != 0 {
				t.Errorf("a second import = %+v, %v", again, err)
			}

			b.write("memory/MEMORY.md", "old\nmore\nnew\n")
			two := b.commit("dream: two")
			u, err := b.UndoOnly(ctx, log[0].ID)
			must(t, err)
			if got := b.text("memory/MEMORY.md"); got != "old\nnew\n" {
				t.Errorf("after the undo of one: %q", got)
			}
			_, err = b.Restore(ctx, u.Commit)
			must(t, err)
			_, err = b.Restore(ctx, two)
			must(t, err)
			if got := b.text("memory/MEMORY.md"); got != "old\nmore\n" {
				t.Errorf("after the restore: %q", got)
			}
			_, err = b.Rewrite(ctx, func(_ string, data []byte) []byte { return bytes.ReplaceAll(data, []byte("more\n"), nil) }, func(s string) string { return s })
			must(t, err)
			b.write("memory/MEMORY.md", "old\nlast\n")
			b.commit("after")
			b.sound()
			if strings.Contains(allObjects(b), "more") {
				t.Error("a version still holds what was forgotten")
			}
			if diff := cmp.Diff(before, snapshotOf(t, git)); diff != "" {
				t.Errorf("the old repository changed (-before +after):\n%s", diff)
			}
			must(t, os.RemoveAll(git))
			must(t, os.WriteFile(git, []byte("gitdir: elsewhere\n"), 0o600))
			if n := len(b.subjects()); n < 3 {
				t.Errorf("%d versions without the old repository", n)
			}
		})
	}
}

func runGitOut(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out := (&bench{t: t, work: dir, Store: &Store{o: Options{Dir: filepath.Join(dir, gitFolder)}}}).git(args...)
	return out
}

// Only the newest versions are taken, of a history of any length.
func TestImportOfALongHistory(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *Options) { o.MaxCommits = 20 })
	old := b.old()
	for i := range 60 {
		b.write("USER.md", fmt.Sprintf("version %d\n", i))
		old.commit(fmt.Sprint("c", i))
	}
	must(t, os.Remove(filepath.Join(old.Path(), lockName)))
	got, err := b.Import(t.Context(), ownFile)
	must(t, err)
	if log := b.subjects(); got.Versions != 20 || len(log) != 20 || log[0] != "c59" || log[19] != "c40" {
		t.Errorf("imported %d: %v", got.Versions, log)
	}
	b.write("USER.md", "next\n")
	b.commit("next")
	b.sound()
}

// A repository of the user, or none, is nothing to import and nothing to tell.
func TestNothingToImport(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(b *bench){
		"none":      func(*bench) {},
		"just made": func(b *bench) { runGit(b.t, b.work, "init", "-q") },
		"empty":     func(b *bench) { must(b.t, os.Mkdir(filepath.Join(b.work, gitFolder), 0o700)) },
		"a file":    func(b *bench) { b.write(gitFolder, "gitdir: ../elsewhere\n") },
		"a project": func(b *bench) {
			runGit(b.t, b.work, "init", "-q")
			b.write("main.go", "x\n")
			runGit(b.t, b.work, "add", ".")
			runGit(b.t, b.work, "commit", "-qm", "mine")
		},
		"a project with memory": func(b *bench) {
			runGit(b.t, b.work, "init", "-q")
			b.write("SOUL.md", "x\n")
			runGit(b.t, b.work, "add", ".")
			runGit(b.t, b.work, "commit", "-qm", "mine")
			runGit(b.t, b.work, "commit", "-q", "--allow-empty", "--author=nanobot <nanobot@dream>", "-m", "dream: one")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			prepare(b)
			if got, err := b.Import(t.Context(), ownFile); err != nil || got.Versions != 0 {
				t.Errorf("import = %+v, %v", got, err)
			}
			if _, err := os.Lstat(b.private); err == nil {
				t.Error("a repository was made")
			}
		})
	}
}

// What a command from outside wrote decides about nothing: one marked file among
// those that name the newest version is enough.
func TestForeignIsNotImported(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"HEAD", "refs/heads/master", "packed-refs", "shallow"} {
		b := newBench(t)
		b.python()
		git := filepath.Join(b.work, gitFolder)
		for _, more := range []string{"packed-refs", "shallow"} {
			must(t, os.WriteFile(filepath.Join(git, more), nil, 0o600))
		}
		marked := filepath.Join(git, filepath.FromSlash(name))
		_, err := b.Import(t.Context(), func(path string) bool { return path == marked })
		if source, ok := errors.AsType[*SourceError](err); !ok || !errors.Is(err, errForeign) || source.Dir != git {
			t.Errorf("%s: %v", name, err)
		}
		if log := b.subjects(); log != nil {
			t.Errorf("%s: imported %v", name, log)
		}
	}
}

// hostile are repositories that were made to do harm. Each looks like ours.
func hostile(t *testing.T) map[string]func(b *bench, git string) {
	t.Helper()
	put := func(path string, data []byte) {
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		_ = os.Remove(path) // git makes objects read-only
		must(t, os.WriteFile(path, data, 0o600))
	}
	sparse := func(path string, size int64) {
		put(path, nil)
		must(t, os.Truncate(path, size))
	}
	// point makes a commit of a tree the newest.
	point := func(git string, r *repo, tree hash, parents ...hash) hash {
		c := Commit{Subject: "x", Author: "nanobot", Email: "nanobot@dream", Time: time.Unix(1, 0), tree: tree, parents: parents}
		h, err := r.storeCommit(c)
		must(t, err)
		put(filepath.Join(git, "refs", "heads", "master"), []byte(h.String()+"\n"))
		return h
	}
	repoOf := func(b *bench) *repo {
		r, err := b.old().openRepo(t.Context(), false)
		must(t, err)
		t.Cleanup(func() { _ = r.close() })
		return r
	}
	return map[string]func(b *bench, git string){
		"huge HEAD": func(_ *bench, git string) { sparse(filepath.Join(git, "HEAD"), 1<<40) },
		"huge packed-refs": func(_ *bench, git string) {
			sparse(filepath.Join(git, "packed-refs"), 1<<40)
			must(t, os.Remove(filepath.Join(git, "refs", "heads", "master")))
		},
		"huge shallow": func(_ *bench, git string) { sparse(filepath.Join(git, "shallow"), 1<<40) },
		"HEAD leads out": func(_ *bench, git string) {
			put(filepath.Join(git, "HEAD"), []byte("ref: refs/../../../outside/file\n"))
		},
		"HEAD is itself": func(_ *bench, git string) { put(filepath.Join(git, "HEAD"), []byte("ref: HEAD\n")) },
		"a ref to a ref": func(_ *bench, git string) {
			put(filepath.Join(git, "refs", "heads", "master"), []byte("ref: refs/heads/master\n"))
		},
		"a folder for HEAD": func(_ *bench, git string) {
			must(t, os.Remove(filepath.Join(git, "HEAD")))
			must(t, os.Mkdir(filepath.Join(git, "HEAD"), 0o700))
		},
		"a huge index of a pack": func(b *bench, git string) {
			b.away(git)
			sparse(filepath.Join(git, "objects", "pack", "pack-x.idx"), 1<<40)
		},
		"many indexes": func(b *bench, git string) {
			b.away(git)
			head := append([]byte("\xfftOc\x00\x00\x00\x02"), bytes.Repeat([]byte{0, 0x1f, 0xff, 0xff}, 256)...)
			for i := range 40 {
				path := filepath.Join(git, "objects", "pack", fmt.Sprintf("pack-%d.idx", i))
				put(path, head)
				must(t, os.Truncate(path, maxIdx-1))
			}
		},
		"objects that lie elsewhere": func(b *bench, git string) {
			away := filepath.Join(filepath.Dir(b.work), "away")
			must(t, os.Rename(filepath.Join(git, "objects"), away))
			put(filepath.Join(git, "objects", "info", "alternates"), []byte(away+"\n"))
		},
		"a bomb": func(_ *bench, git string) {
			at := hash{1}
			chain := map[hash][]byte{}
			wide := packedAs(7, maxObject, nil, make([]byte, maxObject))
			size := len(packedAs(7, maxObject, nil, nil)) - len(packedAs(3, 0, nil, nil)) + 1
			for i := range maxDeltas {
				next := hash{1, byte(i + 1)}
				chain[at] = slices.Concat(wide[:size], next[:], wide[size:])
				at = next
			}
			packOf(t, git, chain)
			put(filepath.Join(git, "refs", "heads", "master"), []byte(hash{1}.String()+"\n"))
		},
		"folders without end": func(b *bench, git string) {
			r := repoOf(b)
			blob, err := r.store(blobKind, []byte("x"))
			must(t, err)
			tree, err := r.storeTree([]entry{{"SKILL.md", modeFile, blob}})
			must(t, err)
			for range 40 {
				tree, err = r.storeTree([]entry{{"a", modeDir, tree}, {"b", modeDir, tree}, {"c", modeDir, tree}})
				must(t, err)
			}
			tree, err = r.storeTree([]entry{{"skills", modeDir, tree}})
			must(t, err)
			point(git, r, tree)
		},
		"more than fits": func(b *bench, git string) {
			// With the race detector the real size takes long to compress, and the real time may be over first.
			b.importSize, b.importTime = 2*maxFile, time.Hour
			r := repoOf(b)
			var at hash
			rnd := uint64(1)
			for i := range b.importSize/maxFile + 2 {
				data := make([]byte, 0, maxFile)
				for len(data)+8 <= maxFile {
					rnd ^= rnd << 13
					rnd ^= rnd >> 7
					rnd ^= rnd << 17
					data = binary.LittleEndian.AppendUint64(data, rnd)
				}
				blob, err := r.store(blobKind, data)
				must(t, err)
				tree, err := r.storeTree([]entry{{"SOUL.md", modeFile, blob}})
				must(t, err)
				if i == 0 {
					at = point(git, r, tree)
				} else {
					at = point(git, r, tree, at)
				}
			}
		},
		"a tree for a commit": func(b *bench, git string) {
			tree, err := repoOf(b).storeTree(nil)
			must(t, err)
			put(filepath.Join(git, "refs", "heads", "master"), []byte(tree.String()+"\n"))
		},
		"a commit that is gone": func(b *bench, git string) {
			r := repoOf(b)
			blob, err := r.store(blobKind, []byte("x"))
			must(t, err)
			tree, err := r.storeTree([]entry{{"SOUL.md", modeFile, blob}})
			must(t, err)
			point(git, r, tree, hash{9})
		},
	}
}

// away takes the loose objects of a repository away, so that packs are looked at.
func (b *bench) away(git string) {
	b.t.Helper()
	must(b.t, os.RemoveAll(filepath.Join(git, "objects")))
}

// A hostile repository is given up quickly, in little memory and with a reason;
// nothing is taken, and the history works. Memory is measured: nothing else runs.
func TestHostileImport(t *testing.T) {
	for name, harm := range hostile(t) {
		for _, marked := range []bool{true, false} {
			if !marked && name == "more than fits" {
				continue // slow to make
			}
			t.Run(fmt.Sprintf("%s, marked %t", name, marked), func(t *testing.T) {
				b := newBench(t)
				b.python()
				git := filepath.Join(b.work, gitFolder)
				if marked {
					must(t, os.WriteFile(filepath.Join(git, lockName), nil, 0o600))
				}
				harm(b, git)
				if !marked {
					_ = os.Remove(filepath.Join(git, lockName)) // made on the way
				}
				var mem runtime.MemStats
				runtime.ReadMemStats(&mem)
				used, begun := mem.TotalAlloc, time.Now()
				got, err := b.Import(t.Context(), ownFile)
				runtime.ReadMemStats(&mem)
				if took := time.Since(begun); took > importTime+time.Minute { // the end of the time is not noticed at once
					t.Errorf("it took %s", took)
				}
				if name == "more than fits" && !errors.Is(err, errTooMuch) {
					t.Errorf("the reason is %v, want %v", err, errTooMuch)
				}
				if n := (mem.TotalAlloc - used) >> 20; n > 1500 {
					t.Errorf("it took %d MiB of memory in all", n)
				}
				source, refused := errors.AsType[*SourceError](err)
				if got.Versions != 0 || err != nil && !refused || marked && !refused {
					t.Errorf("import = %+v, %v", got, err)
				}
				if refused && (source.Dir != git || len(err.Error()) > 500) {
					t.Errorf("the reason is %q", err)
				}
				b.write("SOUL.md", "mine\n")
				b.commit("one")
				b.sound()
			})
		}
	}
}
