// Package change changes files of workspaces and records what turns changed.
//
// A Record is the one record of what the turns of an owner, or of a guest, did to
// files, wherever they worked. It hides that each folder has a log of its own:
// the workspace, the folder a program was started in, the folder of a chat. A
// call is recorded in the logs of the folders that it changes; turns are shown
// and undone as if there were one log.
//
// A Writer writes for the program itself: memory, skills, prompts and templates.
// No log has that. The owner undoes it elsewhere, such as among the versions of
// the memory.
//
// It promises:
//
//   - A turn has one id and is undone in all folders at once; so is the undo.
//   - Every process that works with the same workspace sees the same turns, also
//     those in folders that it does not work in itself.
//   - Nothing is written into a folder but its own files: logs lie in the data
//     folder.
//   - A content that is put back or written takes with it where it came from.
//
// These write into a workspace without it: a restore of a backup, which unpacks
// beside the workspace, marks there what came from outside and then moves all
// of it into its place; the copies for the Python program, which are data of this
// program in the form of the other one; the removal of a skill or of files that
// were imported, which brings no content; and empty folders that a sandbox
// needs. Media, results and pictures lie in the data folder, in folders whose
// files are all from outside.
//
// A Record is safe for concurrent use, also by several processes.
package change

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/guard/change/undo"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Options of a Record. Dir and Jail are required.
type Options struct {
	// Dir is where the logs are kept, out of reach of every tool: that of the
	// workspace in the folder itself, those of other folders below it.
	Dir string
	// Jail opens the files that tools reach; its workspace is the first folder.
	Jail *diskio.Jail
	// Rules say what jails of other folders refuse. Also are folders, without
	// links, that every call reaches; Workspace is not used.
	Rules diskio.JailOptions
	// Exclude are files and folders that belong to the program.
	Exclude []string
	// Origin is the record that says where the files of a folder come from; ""
	// is the workspace. nil: nothing is recorded.
	Origin func(dir string) (*origin.Store, error)
	// Busy is as in undo.Options.
	Busy func(session string) bool
	// MaxBytes bounds each log; 0 is the default of package undo.
	MaxBytes int64

	Now func() time.Time // nil is time.Now
	Log *slog.Logger     // nil discards
}

// Record keeps the changes of files.
type Record struct {
	o    Options
	main *folder

	mu    sync.Mutex
	other map[string]*folder   // by path
	calls map[string][]*folder // that a call between Before and After may change
}

// folder is a folder with its log.
type folder struct {
	*undo.Store
	path  string
	jail  *diskio.Jail // nil: the one of the options
	using int          // calls and questions; guarded by Record.mu
}

// Open prepares a record. It does not touch the disk.
func Open(o Options) (*Record, error) {
	if o.Dir == "" || o.Jail == nil {
		return nil, errors.New("change: a folder for the logs and a jail are needed")
	}

	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	r := &Record{o: o, other: map[string]*folder{}, calls: map[string][]*folder{}}
	main, err := r.store(o.Dir, o.Jail, "")
	if err != nil {
		return nil, err
	}

	r.main = &folder{Store: main, path: o.Jail.Workspace()}
	return r, nil
}

// store opens a log.
func (r *Record) store(dir string, jail *diskio.Jail, prefix string) (*undo.Store, error) {
	exclude := slices.Clone(r.o.Exclude)
	if prefix != "" { // the workspace has a log of its own
		exclude = append(exclude, r.o.Dir, r.main.path, diskio.ResolveExisting(r.main.path))
	}

	o := undo.Options{
		Dir:      dir,
		Jail:     jail,
		Exclude:  exclude,
		Prefix:   prefix,
		Busy:     r.o.Busy,
		MaxBytes: r.o.MaxBytes,
		Log:      r.o.Log,
		Now:      r.o.Now,
	}
	if r.o.Origin != nil {
		o.Origins = r.origins
	}
	return undo.Open(o)
}

// Close gives up the logs. No other method may be running.
func (r *Record) Close() error {
	err := r.main.Close()
	for _, f := range r.other {
		err = errors.Join(err, f.Close(), f.jail.Close())
	}
	return err
}

// Before keeps what a call is about to change. writable are the folders that a
// command of this call can write to, as far as they are watched; none is the
// workspace. When Before returns nil the old content is durable; an error means
// that this call is not covered, which Undo will say, and the call may run all
// the same.
func (r *Record) Before(ctx context.Context, t tool.Tool, c tool.Call, writable ...string) error {
	if t.ReadOnly || c.TurnID == "" || t.Paths == nil && t.Sink != tool.SinkCommand {
		return nil
	}

	parts, err := r.parts(t, c, writable)
	for _, p := range parts {
		if p.in != r.main {
			if lerr := r.label(ctx, p.in); lerr != nil { // without it the log would not be found again
				err = errors.Join(err, lerr)
				continue
			}
		}
		err = errors.Join(err, p.in.Before(ctx, p.tool, c))
	}

	if len(parts) > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.releaseCall(c) // of a call with the same id whose end was never told
		for _, p := range parts {
			r.calls[callKey(c)] = append(r.calls[callKey(c)], p.in)
		}
	}

	return err
}

// part holds what a call changes in one folder.
type part struct {
	in   *folder
	tool tool.Tool
}

// parts divides a call by folders, each of which is in use then.
func (r *Record) parts(t tool.Tool, c tool.Call, writable []string) (parts []part, err error) {
	if t.Paths == nil {
		if len(writable) == 0 {
			writable = []string{r.main.path}
		}

		for _, dir := range writable {
			in, ferr := r.use(dir)
			if ferr != nil {
				err = errors.Join(err, ferr)
				continue
			}
			parts = append(parts, part{in, t})
		}

		return parts, err
	}

	byFolder := map[string][]string{}
	for _, name := range t.Paths(c.Input) {
		for _, abs := range undo.Resolve(r.o.Jail, name) {
			dir := r.dirOf(abs, c)
			byFolder[dir] = append(byFolder[dir], abs)
		}
	}

	for dir, names := range byFolder {
		in, ferr := r.use(dir)
		if ferr != nil {
			err = errors.Join(err, ferr)
			continue
		}
		own := t
		own.Paths = func(json.RawMessage) []string { return names }
		parts = append(parts, part{in, own})
	}

	return parts, err
}

// dirOf returns the folder whose log a path belongs to: the innermost of those the
// call works in, and the workspace for everything else.
func (r *Record) dirOf(abs string, c tool.Call) string {
	if r.isWorkspace(abs) {
		return r.main.path
	}

	best := ""
	for _, dir := range append([]string{c.Project.Dir}, r.o.Rules.Also...) {
		if dir != "" && !r.isWorkspace(dir) && within(abs, dir) && len(dir) > len(best) {
			best = dir
		}
	}
	return cmp.Or(best, r.main.path)
}

// isWorkspace reports whether a path lies in the workspace.
func (r *Record) isWorkspace(path string) bool {
	return diskio.Within(path, r.main.path) || diskio.Within(path, diskio.ResolveExisting(r.main.path))
}

func within(path, dir string) bool {
	return diskio.Within(path, dir) || diskio.Within(path, diskio.ResolveExisting(dir))
}

// After notes what a call left behind and returns it. It is called for every
// call, also one that failed, and does nothing for those Before did not see.
func (r *Record) After(ctx context.Context, c tool.Call) (edits []bus.Edit, err error) {
	r.mu.Lock()
	folders := slices.Clone(r.calls[callKey(c)])
	r.mu.Unlock()

	for _, f := range folders {
		more, ferr := f.After(ctx, c)
		edits, err = append(edits, more...), errors.Join(err, ferr)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.releaseCall(c)
	return edits, err
}

// releaseCall gives the folders of a call back. The caller holds the lock.
func (r *Record) releaseCall(c tool.Call) {
	for _, f := range r.calls[callKey(c)] {
		f.using--
	}
	delete(r.calls, callKey(c))
}

func callKey(c tool.Call) string { return c.TurnID + "\x00" + c.ID }

// use returns the folder with a path; release gives it back.
func (r *Record) use(dir string) (*folder, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.open(dir)
	if err != nil {
		return nil, err
	}
	f.using++
	return f, nil
}

func (r *Record) release(folders ...*folder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range folders {
		f.using--
	}
}

// open is use without counting. The caller holds the lock.
func (r *Record) open(dir string) (*folder, error) {
	if r.isWorkspace(dir) {
		return r.main, nil
	}
	if now := diskio.ResolveExisting(dir); now != dir {
		return nil, fmt.Errorf("the folder %s leads to %s now", dir, now)
	}
	if f := r.other[dir]; f != nil {
		return f, nil
	}

	rules := r.o.Rules
	rules.Workspace = dir
	rules.Also = nil
	rules.Restrict = true
	jail, err := diskio.OpenJail(rules)
	if err != nil {
		return nil, fmt.Errorf("open the folder %s: %w", dir, err)
	}

	log, err := r.store(filepath.Join(r.o.Dir, FolderName(dir)), jail, dir)
	if err != nil {
		return nil, errors.Join(err, jail.Close())
	}

	f := &folder{Store: log, path: dir, jail: jail}
	r.other[dir] = f
	return f, nil
}
