package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// tracker knows which files came from outside and records what commands and tools
// write.
type tracker struct {
	posture Posture
	origins *origins
	jail    *diskio.Jail
	media   string   // all its files came from outside
	share   string   // the folder of the workspace that guests write to; "" if there is none
	writing sync.Map // key of a call to writing, of running calls that write files
	watches sync.Map // key of a call to its *watch, of commands that run
	log     *slog.Logger
}

// record returns the record of the files of a call; nil for guests, whose files are
// all from outside for the owner.
func (t *tracker) record(c tool.Call) (*origin.Store, error) {
	if c.Scope != "" {
		return nil, nil
	}
	return t.origins.of(c.Project.Dir)
}

// recordAt is the record that a file belongs to which a tool names: of a
// conversation that was started elsewhere, those of the workspace have theirs.
func (t *tracker) recordAt(c tool.Call, path string) (*origin.Store, error) {
	if c.Project.Started && c.Scope == "" && diskio.Within(path, t.jail.Workspace()) {
		return t.origins.of("")
	}
	return t.record(c)
}

// follows are the files of the folder a command works in that the agent takes
// for instructions.
func follows(c tool.Call) []string {
	if c.Project.Started {
		return []string{FolderFile}
	}
	return datadir.FollowedFiles()
}

// sight is a folder that a command sees, and the record of its files.
type sight struct {
	rec   *origin.Store
	dir   string // absolute
	cache bool   // it is the cache of clean commands; those that are contained have another one
}

// sights returns what a command of a call can read of the workspace and of
// other folders with a record. There is none for guests.
func (t *tracker) sights(c tool.Call) ([]sight, error) {
	if c.Scope != "" {
		return nil, nil
	}

	main, err := t.origins.of("")
	if err != nil {
		return nil, err
	}

	workspace, dir := t.jail.Workspace(), c.Project.Dir
	if dir == "" || diskio.Within(dir, workspace) || diskio.Within(dir, resolved(workspace)) {
		if dir == "" || !c.Project.Only && !c.Project.Started {
			dir = workspace
		}
		return []sight{{rec: main, dir: dir}}, nil
	}

	own, err := t.origins.of(dir)
	if err != nil {
		return nil, err
	}

	switch {
	case c.Project.Started && t.posture.Sandbox == sandbox.None: // nothing keeps it from the workspace
		return []sight{{rec: own, dir: dir}, {rec: main, dir: workspace}}, nil
	case c.Project.Only, c.Project.Started:
		return []sight{{rec: own, dir: dir}, {rec: main, dir: t.origins.cache, cache: true}}, nil
	}
	return []sight{{rec: main, dir: workspace}, {rec: own, dir: dir}}, nil
}

// contained says why a command must not do more than a stranger's: it has the
// rights of the least trusted thing it can read. "" means that it is clean.
func (t *tracker) contained(c tool.Call) string {
	if why := t.containedAnyway(c); why != "" {
		return why
	}
	sights, err := t.sights(c)
	if err != nil {
		return err.Error()
	}
	return t.readable(sights)
}

// containedAnyway is contained without a look at what there is to read.
func (t *tracker) containedAnyway(c tool.Call) string {
	switch {
	case t.posture.Sandbox == sandbox.None && !c.Project.Only:
		return "nothing confines it"
	case c.Tainted:
		return "content from outside is in this conversation"
	case c.Scope != "":
		return "it is a guest's"
	}
	return ""
}

// readable says what a command can read from outside; "" is nothing.
func (t *tracker) readable(sights []sight) string {
	for _, at := range sights {
		if example := at.rec.Example(at.dir); example != "" {
			return "it can read a file from outside: " + example
		}
	}
	if list, err := os.ReadDir(t.share); t.share != "" && err == nil && len(list) > 0 {
		return "it can read what guests share"
	}
	return ""
}

// watch observes a command from start to end, to decide whether what it writes and
// prints counts as from outside. What it could read is looked at again with every
// question, because others write while it runs.
type watch struct {
	windows []*origin.Window            // none: nothing is recorded
	why     string                      // it is contained from the start; "" if it was clean then
	started atomic.Bool                 // and so that other goroutines may know
	tainted atomic.Bool                 // content from outside was typed into it
	used    atomic.Pointer[func() bool] // reports whether it made connections; nil: it cannot
	shared  sharedFolder                // that guests write to
	absent  []string                    // files that the agent would follow, which were not there
	folder  string                      // the workspace; "" if the command cannot reach it
	follows []string                    // files of its folder that the agent takes for instructions
	rec     *origin.Store
	counts  atomic.Pointer[func()] // starts to count what it sends; nil: nothing is counted
	ended   sync.Once
	settled atomic.Bool
	over    func() // the command prints nothing any more
	log     *slog.Logger
}

// watch begins to observe a command. Its windows are opened before it is decided
// whether it is contained: what is marked in between is seen by one or the other.
func (t *tracker) watch(c tool.Call, seals bool) (*watch, error) {
	w := &watch{why: t.containedAnyway(c), over: func() { t.watches.Delete(callKey(c)) }, log: t.log}
	t.watches.Store(callKey(c), w)
	w.started.Store(w.why != "")
	sights, err := t.sights(c)
	if err != nil {
		return nil, err
	}
	if len(sights) == 0 {
		return w, nil
	}

	w.rec, w.follows = sights[0].rec, follows(c)
	w.shared = sharedFolder{dir: t.share, changed: origin.Changed(t.share)}
	if c.Project.Started { // its folder is the user's own, in which nothing is moved
		seals = true // it has no sealed folders
	} else {
		w.folder = t.jail.Workspace()
	}

	for _, name := range w.follows {
		if w.folder == "" {
			break
		}
		if _, err := os.Lstat(filepath.Join(w.folder, name)); errors.Is(err, fs.ErrNotExist) {
			w.absent = append(w.absent, name)
		}
	}

	for _, at := range sights {
		if at.cache && w.why != "" {
			continue
		}

		window, err := at.rec.Begin(origin.Running{Unsealed: !seals, Outside: w.brought, Dir: at.dir, Flipped: w.flipped})
		if err != nil {
			w.end()
			w.close()
			return nil, fmt.Errorf("a command does not run without a record of what it brings in: %w", err)
		}

		w.windows = append(w.windows, window)
	}

	if w.why == "" {
		w.why = t.readable(sights)
	}
	if w.why != "" {
		w.started.Store(true)
		w.record()
	}
	return w, nil
}

// sharedFolder is the folder that guests write to, as it was when a command began.
type sharedFolder struct {
	dir     string
	changed time.Time
}

// isOutside reports whether there is or was something in it since.
func (s sharedFolder) isOutside() bool {
	if s.dir == "" {
		return false
	}
	list, err := os.ReadDir(s.dir)
	return err == nil && len(list) > 0 || !origin.Changed(s.dir).Equal(s.changed)
}

// brought reports whether the command itself may have brought in content from
// outside, or could read some when it began. It does not look at the record.
func (w *watch) brought() bool {
	if w.started.Load() || w.tainted.Load() {
		return true
	}
	used := w.used.Load()
	return used != nil && (*used)()
}

// outside reports whether what the command printed and wrote until now may come
// from outside. It looks again: at what it did, and at what became readable for
// it since it began, by whichever conversation or process.
func (w *watch) outside() bool {
	if w.brought() {
		return true
	}

	for _, window := range w.windows {
		if window.Outside() {
			w.flipped()
			return true
		}
	}

	if w.shared.isOutside() {
		w.taint()
		return true
	}
	return false
}

// flipped starts to count what the command sends, because something from outside
// became readable for it.
func (w *watch) flipped() {
	if counts := w.counts.Load(); counts != nil {
		(*counts)()
	}
}

// counting says how to start to count what the command sends.
func (w *watch) counting(start func()) { w.counts.Store(&start) }

// connections looks at the record with each connection: what comes through the
// first one is content from outside, and what the command sends counts from the
// moment when it can read some.
func (w *watch) connections(a *httpsafe.Access) {
	decide := a.Decide
	a.Decide = func(ctx context.Context, r httpsafe.HostRequest) (httpsafe.Reach, error) {
		for _, window := range w.windows {
			if window.Flipped() {
				w.flipped()
			}
		}

		reach, err := decide(ctx, r)
		if err == nil {
			w.record()
		}
		return reach, err
	}
}

// taint records that content from outside reaches the command.
func (w *watch) taint() {
	w.tainted.Store(true)
	w.record()
	w.flipped()
}

// record tells other processes that the command brings in content from outside.
func (w *watch) record() {
	for _, window := range w.windows {
		if err := window.Taint(); err != nil {
			w.log.Error("record that a command reads what came from outside", "err", err)
		}
	}
}

// settleTime limits the search for files that a command wrote.
const settleTime = 30 * time.Second

// end records what the command wrote, once, when it has ended or can no longer
// write.
func (w *watch) end() { w.ended.Do(w.settle) }

func (w *watch) settle() {
	w.settled.Store(true)
	if len(w.windows) == 0 {
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), settleTime) // the turn may be over
	defer cancel()
	outside := w.outside()
	for i, window := range w.windows {
		var err error
		switch {
		case outside:
			err = window.Foreign(ctx)
		case i == 0:
			err = window.Clean(w.follows...)
		default:
			err = window.Clean()
		}

		if err != nil {
			w.log.Error("record what a command wrote; its window stays open", "err", err)
		}
	}

	w.setAside()
}

// close ends the observation, when the command prints nothing any more.
func (w *watch) close() {
	w.over()
	for _, window := range w.windows {
		window.Close()
	}
}

// alone reports whether nothing but the command of a call brought anything from
// outside to where it worked, from its start until now.
func (t *tracker) alone(c tool.Call) bool {
	value, _ := t.watches.Load(callKey(c))
	w, ok := value.(*watch)
	if !ok || w.settled.Load() || w.shared.isOutside() {
		return false
	}
	return !slices.ContainsFunc(w.windows, func(window *origin.Window) bool { return !window.Alone() })
}

// setAside renames files that a command created where the agent would follow them.
// The owner finds them beside their old name.
func (w *watch) setAside() {
	for _, name := range w.absent {
		path := filepath.Join(w.folder, name)
		if _, err := os.Lstat(path); err != nil || !w.rec.Foreign(path) {
			continue
		}

		tree, err := diskio.OpenTree(w.folder)
		if err == nil {
			err = errors.Join(tree.Rename(name, name+".from-command"), w.rec.Mark(path+".from-command"), tree.Close())
		}

		if err != nil {
			w.log.Error("a command made a file that the agent would follow; it is not followed", "file", name, "err", err)
			continue
		}
		w.log.Warn("a command made a file that the agent would follow; it was set aside", "file", name, "now", name+".from-command")
	}
}

// confined is a command as the tool runs it. Its parts are released in this order.
func (w *watch) confined(release ...func()) shell.Confined {
	return shell.Confined{
		Outside: w.outside,
		Taint:   w.taint,
		Release: sync.OnceFunc(func() {
			for _, f := range release {
				f()
			}
			w.end()
			w.close()
		}),
	}
}

// writing describes the files that a running call writes.
type writing struct {
	paths    []string // absolute
	foreign  bool
	approved bool // the owner saw everything that is written and approved it
}

// writes marks the files that a call is about to write, so that the mark exists even
// if the process dies. An edit of a file from outside leaves it marked, and one such
// file among several marks all.
func (t *tracker) writes(c tool.Call, names []string) error {
	if rec, err := t.record(c); err != nil || rec == nil {
		return err
	}

	var p writing
	editsForeign := false
	for _, name := range names {
		path, err := t.jail.Path(c.Project.Path(name))
		if err != nil {
			continue // the tool refuses it
		}

		rec, err := t.recordAt(c, path)
		if err != nil {
			return err
		}

		p.paths = append(p.paths, path)
		if c.Name != "write_file" && rec.Foreign(path) {
			editsForeign = true // what the edit leaves in place came from outside
		}
	}

	p.foreign = c.Tainted || editsForeign
	switch {
	case t.posture.Approval == approve.Off:
		p.approved = true
	case c.Tainted && !editsForeign: // the owner was asked, and saw every word that is written
		p.approved = true
	}

	t.writing.Store(callKey(c), p)
	if !p.foreign {
		return nil
	}

	for _, path := range p.paths {
		rec, err := t.recordAt(c, path)
		if err != nil {
			return err
		}
		if err := rec.Expect(path); err != nil { // what is there now may be the owner's
			return err
		}
	}

	return nil
}

// wrote records the files that a call has written, with their content.
func (t *tracker) wrote(c tool.Call) error {
	value, _ := t.writing.LoadAndDelete(callKey(c))
	p, ok := value.(writing)
	if !ok {
		return nil
	}

	var err error
	for _, path := range p.paths {
		if _, serr := os.Lstat(path); serr != nil {
			continue // it was refused, or deleted
		}

		rec, rerr := t.recordAt(c, path)
		switch {
		case rerr != nil:
			err = errors.Join(err, rerr)
		case p.approved && t.followed(path):
			err = errors.Join(err, rec.Trust(path))
		case p.foreign:
			err = errors.Join(err, rec.Mark(path))
		default:
			err = errors.Join(err, rec.Wrote(path))
		}
	}

	return err
}

// followed reports whether the agent reads a file of the workspace as
// instructions.
func (t *tracker) followed(path string) bool {
	rel, err := filepath.Rel(resolved(t.jail.Workspace()), resolved(path))
	if err != nil {
		return false
	}
	rel = filepath.ToSlash(rel)
	return slices.Contains(datadir.FollowedFiles(), rel) ||
		slices.ContainsFunc(datadir.FollowedFolders(), func(dir string) bool { return rel == dir || strings.HasPrefix(rel, dir+"/") })
}
