package gitstore

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// trim drops the oldest commits when there are too many. The ids of the others
// stay: the oldest one that is kept is marked as the end of the history, in the
// way git itself does for shallow clones.
func (s *Store) trim(ctx context.Context, r *repo, t *tip) error {
	all, err := r.history(ctx, t.id, s.o.MaxCommits+1)
	if err != nil || len(all) <= s.o.MaxCommits {
		return err
	}
	return s.cut(ctx, r, all[:max(s.o.MaxCommits*4/5, 1)])
}

// cut ends the history behind the last of the commits that are kept.
func (s *Store) cut(ctx context.Context, r *repo, kept []Commit) error {
	last := kept[len(kept)-1]
	merged := func(c Commit) bool { return len(c.parents) > 1 }
	if len(last.parents) == 0 || slices.ContainsFunc(kept, merged) {
		return nil // branches were merged here by hand: it is the owner's to shorten
	}

	end, _ := parseHash(last.ID)
	if err := r.mark(pruneMark + last.parents[0].String()); err != nil {
		return err
	}
	if err := r.replace("shallow", []byte(last.ID+"\n")); err != nil {
		return err
	}

	r.shallow = map[hash]bool{end: true}
	if err := s.broken("shallow"); err != nil {
		return err
	}
	return s.prune(ctx, r, last.parents[0])
}

// reach lists the objects that can be reached from some, each behind the one
// that led to it. Missing ones are left out.
func (r *repo) reach(ctx context.Context, from ...hash) ([]hash, error) {
	seen := map[hash]bool{}
	var out []hash
	todo := slices.Clone(from)
	for len(todo) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}

		h := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[h] || h.zero() {
			continue
		}

		seen[h] = true
		kind, data, err := r.object(h, "")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}

		out = append(out, h)
		switch kind {
		case commitKind:
			c, err := r.commit(h)
			if err != nil {
				return nil, err
			}
			todo = append(append(todo, c.parents...), c.tree)

		case treeKind:
			entries, err := r.tree(h)
			if err != nil {
				return nil, err
			}
			for _, e := range entries {
				todo = append(todo, e.id)
			}

		case tagKind:
			if target, ok := strings.CutPrefix(string(data), "object "); ok && len(target) >= 40 {
				id, _ := parseHash(target[:40])
				todo = append(todo, id)
			}
		}
	}

	return out, nil
}

// roots returns the objects that may still be wanted: what references, the index
// and git's log of references name.
func (r *repo) roots() ([]hash, map[string]hash, error) {
	refs, err := r.packedRefs()
	if err != nil {
		return nil, nil, err
	}

	var out []hash
	text := func(name string) {
		b, err := r.root.ReadFile(name, maxPart)
		if err != nil {
			return
		}

		for word := range strings.FieldsSeq(string(b)) {
			if h, ok := parseHash(word); ok {
				out = append(out, h)
			}
		}
	}
	for _, dir := range []string{"refs", "logs"} {
		err := fs.WalkDir(r.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				return err
			}

			if d.IsDir() || strings.HasSuffix(name, ".lock") {
				return nil
			}

			if dir == "refs" {
				if refs[name], err = r.ref(name); err != nil {
					return err
				}
			} else {
				text(name)
			}

			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}

	for _, name := range []string{"HEAD", "ORIG_HEAD", "MERGE_HEAD", "FETCH_HEAD"} {
		text(name)
	}

	out = slices.AppendSeq(out, maps.Values(refs))
	if b, err := r.root.ReadFile("index", maxPart); err == nil {
		entries, _ := parseIndex(b) // a damaged one names nothing
		for _, e := range entries {
			out = append(out, e.id)
		}
	}
	return out, refs, nil
}

// prune removes loose objects that only lead from old, children first, so that
// a second run finds what a first one left.
func (s *Store) prune(ctx context.Context, r *repo, old hash) error {
	roots, _, err := r.roots()
	if err != nil {
		return err
	}

	live, err := r.reach(ctx, roots...)
	if err != nil {
		return err
	}

	keep := map[hash]bool{}
	for _, h := range live {
		keep[h] = true
	}

	dead, err := r.reach(ctx, old)
	if err != nil {
		return err
	}

	for _, h := range slices.Backward(dead) {
		if keep[h] {
			continue
		}
		if err := r.root.Remove(loosePath(h)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	return nil
}

// Rewritten says what Rewrite changed.
type Rewritten struct {
	Files     []string          // whose earlier versions changed
	IDs       map[string]string // new ids of commits by their old ones
	Elsewhere []string          // other branches and tags, which may still hold the old versions
}

// Rewrite changes what the history says was in the tracked files and in the
// messages of commits, and destroys the old versions, so that something can be
// forgotten. Commits from the first changed one on get new ids. edit returns
// the new content of a file and message that of a message; both must give the
// same answer whenever they are asked.
func (s *Store) Rewrite(ctx context.Context, edit func(file string, data []byte) []byte, message func(string) string) (out Rewritten, err error) {
	err = s.write(ctx, func(r *repo, t *tip) error {
		w := &rewriter{r: r, ps: s.patterns(), edit: edit, message: message, done: map[hash]hash{}, files: map[string]bool{}}
		id, err := w.run(ctx, t.id)
		if err != nil {
			return err
		}

		out.IDs = map[string]string{}
		for from, to := range w.done {
			if from != to {
				out.IDs[from.String()] = to.String()
			}
		}

		out.Files = slices.Sorted(maps.Keys(w.files))
		_, refs, err := r.roots()
		if err != nil {
			return err
		}

		delete(refs, t.ref)
		out.Elsewhere = slices.Sorted(maps.Keys(refs))
		old := t.id
		if err := r.mark(purgeMark + old.String()); err != nil {
			return err
		}

		if id != old {
			if err := r.setRef(ctx, t.ref, old, id); err != nil {
				return err
			}
			t.id = id
		}

		if err := s.broken("rewritten"); err != nil {
			return err
		}
		return s.purge(ctx, r, t, old)
	})
	return out, err
}

// purgeMark with a commit behind it means that what only it led to is going.
const purgeMark = "purge "

// purge destroys what only an old commit led to, also where git keeps it aside.
func (s *Store) purge(ctx context.Context, r *repo, t *tip, old hash) error {
	for _, name := range []string{"logs/HEAD", "logs/" + t.ref, "ORIG_HEAD", "COMMIT_EDITMSG"} {
		if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	if err := s.refreshIndex(r, t); err != nil {
		return err
	}
	if err := r.loosen(ctx); err != nil {
		return err
	}
	return s.prune(ctx, r, old)
}

// loosen takes everything that is wanted out of the packs and removes them.
func (r *repo) loosen(ctx context.Context) error {
	if err := r.loadPacks(); err != nil || len(r.packs) == 0 {
		return err
	}

	roots, _, err := r.roots()
	if err != nil {
		return err
	}

	live, err := r.reach(ctx, roots...)
	if err != nil {
		return err
	}

	packs := r.packs
	for _, h := range live {
		kind, data, err := r.object(h, "")
		if err != nil {
			return err
		}

		r.packs = nil // so that it is written although it is in one
		_, err = r.store(kind, data)
		r.packs = packs
		if err != nil {
			return err
		}
	}

	r.packs = nil
	for _, p := range packs {
		for _, end := range []string{".idx", ".pack", ".rev", ".bitmap", ".mtimes", ".keep"} {
			if err := r.root.Remove(p.name + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}

	return errors.Join(r.root.RemoveAll("objects/pack/multi-pack-index"),
		r.root.RemoveAll("objects/info/commit-graph"), r.root.RemoveAll("objects/info/commit-graphs"))
}

// rewriter builds a history again.
type rewriter struct {
	r       *repo
	ps      []pattern
	edit    func(string, []byte) []byte
	message func(string) string
	done    map[hash]hash
	files   map[string]bool
}

// run rewrites a commit and, before it, all it is based on.
func (w *rewriter) run(ctx context.Context, tip hash) (hash, error) {
	for todo := []hash{tip}; len(todo) > 0; {
		if err := ctx.Err(); err != nil {
			return hash{}, err
		}

		h := todo[len(todo)-1]
		if _, ok := w.done[h]; ok {
			todo = todo[:len(todo)-1]
			continue
		}

		c, err := w.r.commit(h)
		if err != nil {
			return hash{}, err
		}

		ready := true
		for _, p := range c.parents {
			if _, ok := w.done[p]; !ok {
				todo, ready = append(todo, p), false
			}
		}

		if !ready {
			continue
		}
		if w.done[h], err = w.one(h, c); err != nil {
			return hash{}, err
		}
	}
	return w.done[tip], nil
}

// one rewrites a commit whose parents are done. Everything but the files, the
// parents, the message and a signature stays.
func (w *rewriter) one(h hash, c Commit) (hash, error) {
	files, err := w.r.tracked(c.tree, w.ps)
	if err != nil {
		return h, err
	}

	changes := map[string]*entry{}
	for name, e := range files {
		data, err := w.r.content(files, name)
		if err != nil {
			return h, err
		}

		edited := w.edit(name, slices.Clone(data))
		if string(edited) == string(data) {
			continue
		}

		w.files[name] = true
		id, err := w.r.store(blobKind, edited)
		if err != nil {
			return h, err
		}
		changes[name] = &entry{mode: e.mode, id: id}
	}

	tree := c.tree
	if len(changes) > 0 {
		if tree, err = w.r.change(c.tree, changes); err != nil {
			return h, err
		}
	}

	_, raw, err := w.r.object(h, commitKind)
	if err != nil {
		return h, err
	}

	head, text, _ := strings.Cut(string(raw), "\n\n")
	edited := w.message(text)
	same := tree == c.tree && edited == text
	for _, p := range c.parents {
		same = same && w.done[p] == p
	}

	if same {
		return h, nil
	}

	var b strings.Builder
	b.WriteString("tree " + tree.String() + "\n")
	for _, p := range c.parents {
		b.WriteString("parent " + w.done[p].String() + "\n")
	}

	for line := range strings.SplitSeq(head, "\n") {
		if strings.HasPrefix(line, "author ") || strings.HasPrefix(line, "committer ") {
			b.WriteString(line + "\n")
		}
	}

	b.WriteString("\n" + edited)
	return w.r.store(commitKind, []byte(b.String()))
}
