package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// Workspace is a folder that the agent works in, as the data folder knows it.
// What is in the folder itself says nothing about who it is: commands write
// there.
type Workspace struct {
	ID    string
	Path  string   // free of links
	Data  string   // the data folder
	Notes []string // what the user should know about how it was found
	Entry Entry    // as it was last read

	state store.Store
}

// tableWait is how long to wait for a process that takes over old files.
const tableWait = 60 * time.Second

// Identify finds a workspace in the table of a data folder, or adds it. It is
// known by its path or, after it was moved, by the folder itself.
func Identify(state store.Store, data, workspace string) (*Workspace, error) {
	here, err := identify(workspace)
	if err != nil {
		return nil, err
	}

	w := &Workspace{Path: here.Path, Data: data, state: state}

	t, err := readTable(state)
	if err == nil && t != nil {
		if id := t.byPath(here.Path); id != "" && t.Workspaces[id].sameRoot(here) {
			w.ID, w.Entry = id, *t.Workspaces[id]
			return w, nil
		}
	}

	return w, w.locked(func() error { return w.resolve(here) })
}

// Find is Identify without adding anything; ok is false for a workspace that
// the data folder has not seen.
func Find(state store.Store, data, workspace string) (w *Workspace, ok bool, err error) {
	here, err := identify(workspace)
	if err != nil {
		return nil, false, err
	}

	t, err := readTable(state)
	if err != nil {
		return nil, false, err
	}

	if t == nil {
		if t, _, err = rebuild(data); err != nil {
			return nil, false, err
		}
	}

	w = &Workspace{Path: here.Path, Data: data, state: state}
	if w.ID = t.byPath(here.Path); w.ID == "" {
		w.ID = t.byRoot(here)
	}
	if w.ID == "" {
		w.ID, _ = w.copied(t, here)
	}

	if w.ID == "" {
		return w, false, nil
	}

	w.Entry = *t.Workspaces[w.ID]
	return w, true, nil
}

// Dir returns the folder of this workspace below a folder of the data folder.
func (w *Workspace) Dir(name string) string { return filepath.Join(w.Data, name, w.ID) }

// Update changes the record of the workspace, while no other process does. What
// fn did is kept when it returns nil.
func (w *Workspace) Update(fn func(*Entry) error) error {
	return w.locked(func() error {
		t, err := readTable(w.state)
		if err != nil {
			return err
		}
		if t == nil || t.Workspaces[w.ID] == nil {
			return fmt.Errorf("%s lost its entry for %s; start again", w.state.Where(fileTable), w.Path)
		}

		r := t.Workspaces[w.ID]
		if err := fn(r); err != nil {
			return err
		}

		w.Entry = *r
		return t.save(w.state, w.ID)
	})
}

// Once runs take, if what older programs left of a kind was not taken over yet,
// and notes that it was. It fails, and will be tried again, when take does.
func (w *Workspace) Once(kind string, now time.Time, take func() error) error {
	if !w.Entry.Imported[kind].IsZero() {
		return nil
	}
	return w.Update(func(r *Entry) error {
		if !r.Imported[kind].IsZero() {
			return nil // another process was faster
		}
		if err := take(); err != nil {
			return err
		}

		if r.Imported == nil {
			r.Imported = map[string]time.Time{}
		}

		r.Imported[kind] = now.UTC().Truncate(time.Second)
		return nil
	})
}

// locked runs fn while no other process changes the table.
func (w *Workspace) locked(fn func() error) error {
	release, err := store.WaitLock(context.Background(), w.state, fileTable+".lock", tableWait)
	if err != nil {
		return err
	}
	return errors.Join(fn(), release())
}

// resolve finds or makes the entry of a folder and saves it.
func (w *Workspace) resolve(here Entry) error {
	t, err := w.open()
	if err != nil {
		return err
	}

	id := w.find(t, here)
	if id == "" {
		id = w.unseen(t, here)
	}

	if id == "" {
		var from string
		if id, from = w.copied(t, here); id != "" {
			w.addNote("%s is a copy of %s: the conversations, jobs and memory go on here, apart from those there. Run the gateway with one of them only, or jobs run twice and chats get two answers.", w.Data, from)
		}
	}

	if id == "" {
		id = newWorkspaceID()
		t.Workspaces[id] = &Entry{Seen: time.Now().UTC().Truncate(time.Second)}
		w.hint(t)
	}

	if other := t.byPath(here.Path); other != "" && other != id {
		t.Workspaces[other].Path = ""
		if err := t.mark(w.state, other); err != nil {
			return err
		}
	}

	r := t.Workspaces[id]
	r.Path = here.Path
	if here.Inode != 0 {
		r.Device = here.Device
		r.Inode = here.Inode
		r.Born = here.Born
	}

	w.ID, w.Entry = id, *r
	return t.save(w.state, id)
}

// open reads the table. One that is damaged or lost is made again from the
// copies, one that never was from the markers of versions before.
func (w *Workspace) open() (*table, error) {
	t, err := readTable(w.state)
	if err == nil && t != nil {
		return t, nil
	}

	aside := ""
	if damage, ok := errors.AsType[*damagedError](err); ok {
		if err := w.writable(); err != nil {
			return nil, fmt.Errorf("%w, and cannot be made again here: %w", damage, err)
		}
		if aside, err = store.SaveDamaged(context.Background(), w.state, fileTable, damage.data, time.Now()); err != nil {
			return nil, err
		}
		aside = w.state.Where(aside)
	} else if err != nil {
		return nil, err
	}

	t, ours, err := rebuild(w.Data)
	if err != nil {
		return nil, err
	}

	switch {
	case aside != "":
		w.addNote("The list of workspaces was damaged and made again from what lies beside the conversations (%d found). The damaged file is kept as %s.", len(t.Workspaces), aside)
	case ours:
		w.addNote("The list of workspaces %s was missing and made again from what lies beside the conversations (%d found).", w.state.Where(fileTable), len(t.Workspaces))
	}

	for id := range t.Workspaces {
		if err := t.mark(w.state, id); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// writable makes sure that a table can be made again, before anything is done
// about one that looks damaged: it may only be hidden from this process.
func (w *Workspace) writable() error {
	root := filepath.Join(w.Data, dirRoot)
	if err := diskio.MkdirAll(root, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(root, ".probe-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (w *Workspace) addNote(format string, args ...any) {
	w.Notes = append(w.Notes, fmt.Sprintf(format, args...))
}

// find looks for a folder among the known ones.
func (w *Workspace) find(t *table, here Entry) string {
	path, root := t.byPath(here.Path), t.byRoot(here)
	if root == "" || root == path {
		return path
	}

	r := t.Workspaces[root]
	_, err := os.Lstat(r.Path)
	gone := r.Path == "" || errors.Is(err, fs.ErrNotExist)
	switch {
	case gone, here.Born != 0 && !sameDir(r.Path, here.Path):
		w.addNote("The workspace %s is the one that was in %s: its conversations, jobs and memory go on here.", here.Path, cmp.Or(r.Path, "another place"))
		return root
	case path == "" && sameDir(r.Path, here.Path):
		return root // another way to the same folder, such as a mount
	}

	return path
}

// unseen looks for a folder among those that only versions before have seen.
// They had kept an id in the workspace, which is believed for such entries
// alone, and never again after the entry has found its folder.
func (w *Workspace) unseen(t *table, here Entry) string {
	// A workspace that could not be written to was known by its path.
	sum := sha256.Sum256([]byte(here.Path))
	byPath := hex.EncodeToString(sum[:16])
	if r := t.Workspaces[byPath]; r != nil && r.Inode == 0 && r.Path == "" {
		return byPath
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(t.Workspaces)), func(r *Entry) bool { return r.Inode == 0 }) {
		return ""
	}

	id := oldID(here.Path)
	r := t.Workspaces[id]
	if r == nil || r.Inode != 0 {
		return ""
	}

	if r.Path != "" {
		if _, err := os.Lstat(r.Path); !errors.Is(err, fs.ErrNotExist) {
			return "" // this one is a copy
		}
		w.addNote("The workspace %s is the one that was in %s: its conversations, jobs and memory go on here.", here.Path, r.Path)
	}
	return id
}

// copied looks for the workspace of a data folder that was copied as a whole, and
// returns where the other one is. The workspace lies in the same place below it,
// and the table there has the same id, which no two folders are given.
func (w *Workspace) copied(t *table, here Entry) (id, from string) {
	data, err := filepath.EvalSymlinks(w.Data)
	if err != nil {
		return "", ""
	}

	inside, err := filepath.Rel(data, here.Path)
	if err != nil || !filepath.IsLocal(inside) {
		return "", ""
	}

	for _, id := range slices.Sorted(maps.Keys(t.Workspaces)) {
		other, ok := strings.CutSuffix(t.Workspaces[id].Path, string(filepath.Separator)+inside)
		if !ok || other == data {
			continue
		}

		raw, err := os.ReadFile(filepath.Join(other, fileTable))
		if err != nil {
			continue
		}
		if theirs, err := parseTable(raw); err == nil && theirs.Workspaces[id] != nil {
			return id, other
		}
	}

	return "", ""
}

// hint tells about workspaces that are gone, when one begins with nothing.
func (w *Workspace) hint(t *table) {
	var gone []string
	for _, r := range t.Workspaces {
		if _, err := os.Lstat(r.Path); r.Path != "" && errors.Is(err, fs.ErrNotExist) {
			gone = append(gone, r.Path)
		}
	}

	if belongs := w.elsewhere(t); belongs != "" && len(gone) == 0 {
		w.addNote("%s is a new workspace. The conversations in %s belong to %s; see them with: nanobot sessions list -w %s", w.Path, w.Data, belongs, belongs)
	}

	switch slices.Sort(gone); {
	case len(gone) > 1:
		w.addNote("%s is a new workspace. The conversations of %d workspaces that are not there any more are kept: %s. If it is one of them in another place: nanobot migrate --from OLD_PATH", w.Path, len(gone), strings.Join(gone, ", "))
	case len(gone) == 1:
		w.addNote("%s is a new workspace. The conversations of %s, which is not there any more, are kept; if it is the same workspace in another place: nanobot migrate --from %s", w.Path, gone[0], gone[0])
	}
}

// elsewhere returns the workspace that conversations of this data folder belong to, if
// the folder in use lies in the data folder as that one lay in another; "" otherwise.
func (w *Workspace) elsewhere(t *table) string {
	data, err := filepath.EvalSymlinks(w.Data)
	if err != nil {
		return ""
	}

	inside, err := filepath.Rel(data, w.Path)
	if err != nil || !filepath.IsLocal(inside) {
		return ""
	}

	for _, id := range slices.Sorted(maps.Keys(t.Workspaces)) {
		path := t.Workspaces[id].Path
		if !strings.HasSuffix(path, string(filepath.Separator)+inside) {
			continue
		}
		if logs, _ := filepath.Glob(filepath.Join(w.Data, dirRoot, id, "*"+suffixLog)); len(logs) > 0 { // the pattern is sound
			return path
		}
	}

	return ""
}

// Adopt gives a workspace the conversations, jobs and memory of one that was in
// another place and is gone. What the workspace has itself must be nothing.
func Adopt(state store.Store, data, workspace, old string) (*Workspace, error) {
	here, err := identify(workspace)
	if err != nil {
		return nil, err
	}
	if old, err = filepath.Abs(old); err != nil {
		return nil, err
	}

	w := &Workspace{Path: here.Path, Data: data, state: state}
	return w, w.locked(func() error {
		t, err := w.open()
		if err != nil {
			return err
		}

		id := t.byPath(old)
		if id == "" {
			return fmt.Errorf("no workspace was in %s", old)
		}

		// The data folder may be a copy, whose conversations nothing else has.
		copied, _ := w.copied(t, here)
		if _, err := os.Lstat(old); !errors.Is(err, fs.ErrNotExist) && copied != id {
			return fmt.Errorf("%s is still there; what belongs to it is only given to another folder when it is gone", old)
		}

		if mine := t.byPath(here.Path); mine != "" {
			if logs, _ := filepath.Glob(filepath.Join(data, dirRoot, mine, "*"+suffixLog)); len(logs) > 0 { // the pattern is sound
				return fmt.Errorf("%s has %d conversations of its own", here.Path, len(logs))
			}
			t.Workspaces[mine] = &Entry{Seen: t.Workspaces[mine].Seen, Imported: t.Workspaces[mine].Imported}
			if err := t.mark(state, mine); err != nil {
				return err
			}
		}

		r := t.Workspaces[id]
		r.Path = here.Path
		r.Device = here.Device
		r.Inode = here.Inode
		r.Born = here.Born
		w.ID, w.Entry = id, *r
		return t.save(state, id)
	})
}

// Relocate notes after a restore where a workspace is now.
func Relocate(state store.Store, data, id, workspace string) error {
	here, err := identify(workspace)
	if err != nil {
		return err
	}

	w := &Workspace{Path: here.Path, Data: data, state: state}
	return w.locked(func() error {
		t, err := w.open()
		if err != nil {
			return err
		}

		r := t.Workspaces[id]
		if r == nil {
			return fmt.Errorf("%s does not know %.40q", state.Where(fileTable), id)
		}

		if other := t.byPath(here.Path); other != "" && other != id {
			t.Workspaces[other].Path = ""
			if err := t.mark(state, other); err != nil {
				return err
			}
		}

		r.Path = here.Path
		r.Device = here.Device
		r.Inode = here.Inode
		r.Born = here.Born
		return t.save(state, id)
	})
}

// identify returns what tells one folder from another.
func identify(workspace string) (Entry, error) {
	path, err := filepath.Abs(workspace)
	if err != nil {
		return Entry{}, err
	}

	// The owner chose the way to it; links on it are theirs.
	if p, err := filepath.EvalSymlinks(path); err == nil {
		path = p
	}

	r := Entry{Path: path}
	r.Device, r.Inode, r.Born = folderIdentity(path)
	return r, nil
}

// sameRoot reports whether two records are of the same folder, as far as that
// is known.
func (r *Entry) sameRoot(o Entry) bool {
	return o.Inode == 0 || r.Device == o.Device && r.Inode == o.Inode && r.Born == o.Born
}

func sameDir(a, b string) bool {
	fa, errA := os.Stat(a)
	fb, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(fa, fb)
}

func newWorkspaceID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}

func isWorkspaceID(id string) bool {
	raw, err := hex.DecodeString(id)
	return err == nil && len(raw) == 16 && id == strings.ToLower(id)
}

// oldID returns the id that versions before kept in the workspace; "" if there is none.
func oldID(workspace string) string {
	tree, err := diskio.OpenTree(workspace)
	if err != nil {
		return ""
	}

	defer tree.Close() //nolint:errcheck // only read from
	data, err := tree.ReadFile(".nanobot/workspace-id", 256)
	if err != nil {
		return ""
	}
	if id := strings.ToLower(strings.TrimSpace(string(data))); isWorkspaceID(id) {
		return id
	}
	return ""
}
