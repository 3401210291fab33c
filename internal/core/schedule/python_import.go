package schedule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
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

// Imported says what TakeOver imported.
type Imported struct {
	Jobs       int // without the program's own
	Triggers   int
	Deliveries int
	Left       []string // what was not taken, and why
}

// takeover is one TakeOver.
type takeover struct {
	s    *Scheduler
	tree *diskio.Tree
	Imported
}

// TakeOver copies the jobs and triggers that the workspace holds into Dir,
// unless there are some already. Without any in the workspace it takes those of
// elsewhere, a file of the oldest versions in the data folder, away. Deliveries
// that still waited count as coming from outside: nothing says who wrote them.
func (s *Scheduler) TakeOver(ctx context.Context, elsewhere string) (Imported, error) {
	if !s.store.empty(ctx) {
		return Imported{}, nil
	}

	x := &takeover{s: s}
	var err error
	if x.tree, err = diskio.OpenTree(s.Workspace); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return x.Imported, err
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
		return x.Imported, err
	}
	return x.Imported, x.triggers(ctx)
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
	if err != nil {
		return err
	}
	return st.tookActions(ctx, actions)
}

// own returns the jobs of people.
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

// Place returns the part of a store that holds the jobs of a workspace.
func Place(s store.Store, workspaceID string) store.Store {
	return store.Under(s, string(datadir.Cron), workspaceID)
}
