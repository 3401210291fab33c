package schedule

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/store"
)

// Where the original, and versions before, kept jobs and triggers in a
// workspace. Commands write there, so it is read once, at the first start with
// the workspace, and later only when a person asks for it.
const (
	oldJobs       = "cron/jobs.json"
	oldGoodCopy   = "cron/jobs.json.good"
	oldActions    = "cron/action.jsonl"
	oldTriggers   = "triggers/triggers.json"
	oldInbox      = "triggers/inbox"
	oldProcessing = "triggers/processing"

	maxOldFile       = 16 << 20 // bytes
	maxOldDeliveries = 1000
)

// Taken is what TakeOver took over.
type Taken struct {
	Jobs       int // without the program's own
	Triggers   int
	Deliveries int
	Left       []string // what was not taken, and why
}

// takeover is one TakeOver.
type takeover struct {
	s    *Scheduler
	tree *diskio.Tree
	Taken
}

// TakeOver copies the jobs and triggers that the workspace holds into Dir,
// unless there are some already. Without any in the workspace it takes those of
// elsewhere, a file of the oldest versions in the data folder, away. Deliveries
// that still waited count as coming from outside: nothing says who wrote them.
func (s *Scheduler) TakeOver(ctx context.Context, elsewhere string) (Taken, error) {
	if !s.store.empty(ctx) {
		return Taken{}, nil
	}
	x := &takeover{s: s}
	var err error
	if x.tree, err = diskio.OpenTree(s.Workspace); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return x.Taken, err
	}
	if x.tree != nil {
		defer x.tree.Close() //nolint:errcheck // only read from
	}
	switch jobs, actions := x.read(oldJobs), x.read(oldActions); {
	case jobs != nil || actions != nil:
		err = x.jobs(ctx, jobs, x.read(oldGoodCopy), actions)
	case elsewhere != "":
		err = x.fromElsewhere(ctx, elsewhere)
	default:
		err = nil
	}
	if err != nil {
		return x.Taken, err
	}
	return x.Taken, x.triggers(ctx)
}

// read reads a file of the workspace; nil when there is none that can be read.
func (x *takeover) read(name string) []byte {
	if x.tree == nil {
		return nil
	}
	data, err := x.tree.ReadFile(name, maxOldFile)
	switch {
	case err == nil && x.foreign(name):
		return nil
	case err == nil && data == nil:
		return []byte{}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		x.left(err)
	}
	return data
}

// foreign reports, and notes, that a file came from outside.
func (x *takeover) foreign(name string) bool {
	path := filepath.Join(x.s.Workspace, filepath.FromSlash(name))
	if x.s.Foreign == nil || !x.s.Foreign(path) {
		return false
	}
	x.left(fmt.Errorf("%s: it came from outside", path))
	return true
}

func (x *takeover) left(err error) {
	x.Left = append(x.Left, err.Error())
	x.s.Log.Warn("a file of the workspace was not taken over", "err", err)
}

// jobs makes the store of what was read. A damaged file is taken over as it is,
// so that the next look at it says so.
func (x *takeover) jobs(ctx context.Context, data, good, actions []byte) error {
	st := x.s.store
	for name, body := range map[string][]byte{goodCopy: good, fileJobs: data} {
		if body == nil {
			continue
		}
		if _, err := st.state.Put(ctx, name, body, store.Any, true); err != nil {
			return err
		}
	}
	if data != nil {
		if err := st.mirrored(ctx, data); err != nil { // it becomes the copy
			return err
		}
	}
	err := st.update(ctx, func(t *table) error {
		for line := range bytes.Lines(actions) {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			if err := t.act(line); err != nil {
				x.s.Log.WarnContext(ctx, "an entry of action.jsonl is left out", "entry", string(line), "err", err)
			}
			t.defined = true
		}
		x.Jobs = len(t.own())
		return nil
	})
	if damage, ok := errors.AsType[*CorruptError](err); ok {
		x.left(damage)
		return nil
	}
	return err
}

// own are the jobs of people.
func (t *table) own() []*Job {
	return slices.DeleteFunc(slices.Clone(t.Jobs), func(j *Job) bool { return j.broken == nil && j.Protected() })
}

func (x *takeover) fromElsewhere(ctx context.Context, file string) error {
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxOldFile {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := x.jobs(ctx, data, nil, nil); err != nil {
		return err
	}
	return os.Remove(file)
}

// triggers copies the triggers, and what was still waiting for them.
func (x *takeover) triggers(ctx context.Context) error {
	data := x.read(oldTriggers)
	if data == nil {
		return nil
	}
	old := &triggerTable{}
	var err error
	if old.extra, err = readObject(data, (*plainTriggerTable)(old)); err != nil {
		x.left(&CorruptError{Path: filepath.Join(x.s.Workspace, filepath.FromSlash(oldTriggers)), Err: err})
		return nil //nolint:nilerr // reported as left where it is
	}
	err = x.s.Triggers.update(ctx, func(t *triggerTable) (bool, error) {
		t.extra, x.Triggers = old.extra, 0
		for _, tr := range old.Triggers {
			if tr != nil && tr.ID != "" && t.find(tr.ID) == nil {
				t.Triggers = append(t.Triggers, tr)
				x.Triggers++
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for _, dir := range []string{oldProcessing, oldInbox} {
		if err := x.deliveries(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

func (x *takeover) deliveries(ctx context.Context, dir string) error {
	entries, err := x.tree.ReadDir(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			x.left(err)
		}
		return nil
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || x.Deliveries >= maxOldDeliveries {
			continue
		}
		data, err := x.tree.ReadFile(path.Join(dir, e.Name()), 2*triggerMax)
		if err != nil {
			x.left(err)
			continue
		}
		if x.foreign(path.Join(dir, e.Name())) {
			continue
		}
		var f deliveryFile
		if err := json.Unmarshal(data, &f); err != nil || f.Delivery.ID == "" {
			x.left(fmt.Errorf("%s is not a delivery", path.Join(dir, e.Name())))
			continue
		}
		f.Delivery.Trusted = false
		if err := x.s.Triggers.write(ctx, path.Join(inbox, e.Name()), f.Delivery); err != nil {
			return err
		}
		x.Deliveries++
	}
	return nil
}

// Untaken are the jobs in the workspace that the store does not have, as they
// stand there, and a word about the file that holds them, to be given to Take.
func (s *Scheduler) Untaken(ctx context.Context) (jobs []Job, state string, err error) {
	x, sum, err := s.workspaceTable()
	if err != nil || x == nil {
		return nil, "", err
	}
	have, err := s.store.Read(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, j := range x.own() {
		if j.broken == nil && !slices.ContainsFunc(have, func(o *Job) bool { return o.ID == j.ID }) {
			jobs = append(jobs, *j)
		}
	}
	return jobs, sum, nil
}

// Take adds what Untaken showed. If the file was changed since, nothing is taken.
func (s *Scheduler) Take(ctx context.Context, state string) (n int, err error) {
	x, sum, err := s.workspaceTable()
	if err != nil {
		return 0, err
	}
	if x == nil || sum != state {
		return 0, errors.New("the jobs in the workspace were changed meanwhile; look again")
	}
	err = s.store.update(ctx, func(t *table) error {
		n = 0
		for _, j := range x.own() {
			if j.broken != nil || t.find(j.ID) != nil {
				continue
			}
			t.Jobs = append(t.Jobs, j)
			n++
		}
		t.defined = true
		return s.store.accept(ctx)
	})
	if err == nil {
		s.poke()
	}
	return n, err
}

// workspaceTable reads the jobs that the workspace holds now; nil if there are none.
func (s *Scheduler) workspaceTable() (*table, string, error) {
	tree, err := diskio.OpenTree(s.Workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer tree.Close() //nolint:errcheck // only read from
	data, err := tree.ReadFile(oldJobs, maxOldFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	actions, err := tree.ReadFile(oldActions, maxOldFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	if data == nil && actions == nil {
		return nil, "", nil
	}
	t := &table{Version: 1}
	if data != nil {
		if t, err = decodeTable(data); err != nil {
			return nil, "", fmt.Errorf("%s cannot be read: %w", filepath.Join(s.Workspace, filepath.FromSlash(oldJobs)), err)
		}
	}
	for line := range bytes.Lines(actions) {
		_ = t.act(line) // what cannot be read is not shown
	}
	return t, hashOf(data) + hashOf(actions), nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// fileMirror remembers what the copy in the workspace was last, so that one
// that somebody else changed is told from it.
const fileMirror = "mirror"

// mirror writes the copy of the jobs into the workspace, for people and for
// other programs. One that somebody else changed is left alone: it is not read
// by itself, and nanobot migrate shows it. Without a copy everything works.
//
// The program's own jobs are not in it: another program would run them for
// ever. Nor are answers, which commands in the workspace would read.
func (s *Store) mirror(ctx context.Context, t *table) error {
	if s.workspace == "" {
		return nil
	}
	shown := &table{Version: t.Version, Jobs: t.own(), extra: t.extra}
	for i, j := range shown.Jobs {
		if j.State.Last != nil {
			plain := *j
			plain.State.Last = nil
			shown.Jobs[i] = &plain
		}
	}
	data, err := shown.encode()
	if err != nil {
		return err
	}
	switch err := s.writeMirror(ctx, data); {
	case errors.Is(err, errForeign):
		s.log.WarnContext(ctx, "the jobs in the workspace were changed by another program and are not used; see: nanobot migrate", "file", oldJobs)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		s.log.WarnContext(ctx, "the copy of the jobs in the workspace was not written", "err", err)
	}
	return nil
}

var errForeign = errors.New("changed by another program")

func (s *Store) writeMirror(ctx context.Context, data []byte) error {
	tree, err := diskio.OpenTree(s.workspace)
	if err != nil {
		return err
	}
	defer tree.Close() //nolint:errcheck // nothing is pending
	switch old, err := tree.ReadFile(oldJobs, maxOldFile); {
	case err == nil && bytes.Equal(old, data):
		return nil
	case err == nil && !s.isMirror(ctx, old):
		return errForeign
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := s.mirrored(ctx, data); err != nil {
		return err
	}
	if err := tree.MkdirAll(path.Dir(oldJobs), 0o700); err != nil {
		return err
	}
	return tree.WriteFile(oldJobs, data, 0o600)
}

// mirrored remembers a copy, and the one before it in case that the new one is
// not written any more.
func (s *Store) mirrored(ctx context.Context, data []byte) error {
	lines := hashOf(data) + "\n"
	if old, version, err := s.state.Doc(ctx, fileMirror); err == nil && version != store.Missing {
		first, _, _ := strings.Cut(string(old), "\n")
		lines += first + "\n"
	}
	_, err := s.state.Put(ctx, fileMirror, []byte(lines), store.Any, true)
	return err
}

func (s *Store) isMirror(ctx context.Context, data []byte) bool {
	known, _, err := s.state.Doc(ctx, fileMirror)
	return err == nil && slices.Contains(strings.Fields(string(known)), hashOf(data))
}

// accept makes what the workspace holds now the copy, to be replaced by the next.
func (s *Store) accept(ctx context.Context) error {
	tree, err := diskio.OpenTree(s.workspace)
	if err != nil {
		return err
	}
	defer tree.Close() //nolint:errcheck // only read from
	data, err := tree.ReadFile(oldJobs, maxOldFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.mirrored(ctx, data)
}

// Place is the part of a store that holds the jobs of a workspace.
func Place(s store.Store, workspaceID string) store.Store {
	return store.Under(s, string(datadir.Cron), workspaceID)
}
