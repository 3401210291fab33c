package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/origin"
	"github.com/nanobot-go/nanobot/internal/sandbox"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/approve"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// origins are the records of files from outside: one for the workspace, and one
// for each folder outside of it that a conversation works in.
type origins struct {
	dir       string // in the data folder
	workspace string
	name      string // of the record of the workspace
	cache     string // of clean commands
	log       *slog.Logger

	mu    sync.Mutex
	other map[string]*origin.Store
	main  *origin.Store
}

// of is the record of the folder that a path lies in.
func (o *origins) of(dir string) (*origin.Store, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if dir == "" || diskio.Within(dir, o.workspace) || diskio.Within(dir, resolved(o.workspace)) {
		if o.main != nil {
			return o.main, nil
		}
		s, err := origin.Open(origin.Options{
			Dir:    o.dir,
			Name:   o.name,
			Root:   o.workspace,
			Roots:  []string{o.cache},
			Sealed: datadir.FollowedFolders(),
			Log:    o.log,
		})
		o.main = s
		return s, err
	}

	if s := o.other[dir]; s != nil {
		return s, nil
	}
	if o.other == nil || len(o.other) >= maxOthers {
		o.other = map[string]*origin.Store{}
	}
	s, err := origin.Open(origin.Options{
		Dir:   o.dir,
		Name:  folderRecord(dir),
		Root:  dir,
		Roots: []string{o.cache},
		Log:   o.log,
	})
	if err == nil {
		o.other[dir] = s
	}
	return s, err
}

// in is of, for later.
func (o *origins) in(dir string) func() (*origin.Store, error) {
	return func() (*origin.Store, error) { return o.of(dir) }
}

// foreign reports whether a file of the workspace came from outside.
func (o *origins) foreign(path string) bool {
	s, err := o.of("")
	return err != nil || s.Foreign(path)
}

// foreign reports whether a file of the workspace came from outside, for those
// who would follow what it says.
func (a *App) foreign(path string) bool { return a.safety == nil || a.safety.origins.foreign(path) }

// record is the record of the files of a call; nil for people with a scope,
// whose files are all from outside for the owner.
func (s *safety) record(c tool.Call) (*origin.Store, error) {
	if c.Scope != "" {
		return nil, nil
	}
	return s.origins.of(c.Project.Dir)
}

// contained says why a command must not do more than a stranger's: it has the
// rights of the least trusted thing it can read. "" means that it is clean.
func (s *safety) contained(c tool.Call) string {
	if s.Sandbox == sandbox.None && !c.Project.Only {
		return "nothing confines it"
	}
	if c.Tainted {
		return "content from outside is in this conversation"
	}
	rec, err := s.record(c)
	switch {
	case err != nil:
		return err.Error()
	case rec == nil:
		return "it is a guest's"
	}
	dir := c.Project.Dir
	if dir == "" || !c.Project.Only {
		dir = s.jail.Workspace()
	}
	if example := rec.Example(dir); example != "" {
		return "it can read a file from outside: " + example
	}
	if list, err := os.ReadDir(s.share); s.share != "" && err == nil && len(list) > 0 {
		return "it can read what guests share"
	}
	return ""
}

// watch follows a command from its start to its end, to know what came from
// outside of what it wrote and printed.
type watch struct {
	window  *origin.Window              // nil: nothing is recorded
	why     string                      // it is contained; "" if it is clean
	tainted atomic.Bool                 // content from outside was typed into it
	used    atomic.Pointer[func() bool] // reports whether it made connections; nil: it cannot
	absent  []string                    // files that the agent would follow, which were not there
	folder  string                      // the workspace
	rec     *origin.Store
	counts  func() // from now on what it sends counts; may be nil
	ended   sync.Once
	log     *slog.Logger
}

// watch begins to follow a command.
func (s *safety) watch(c tool.Call, seals bool) (*watch, error) {
	w := &watch{why: s.contained(c), log: s.log}
	rec, err := s.record(c)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return w, nil
	}
	w.rec, w.folder = rec, s.jail.Workspace()
	for _, name := range datadir.FollowedFiles() {
		if _, err := os.Lstat(filepath.Join(w.folder, name)); errors.Is(err, fs.ErrNotExist) {
			w.absent = append(w.absent, name)
		}
	}
	if w.window, err = rec.Begin(origin.Running{Unsealed: !seals, Outside: w.outside}); err != nil {
		return nil, fmt.Errorf("a command does not run without a record of what it brings in: %w", err)
	}
	return w, nil
}

// outside reports whether the command may have brought in content so far.
func (w *watch) outside() bool {
	if w.why != "" || w.tainted.Load() {
		return true
	}
	used := w.used.Load()
	return used != nil && (*used)()
}

// settleTime bounds the walk for files that a command wrote.
const settleTime = 30 * time.Second

// end records what the command left behind, once: it has ended, or may not write
// any more.
func (w *watch) end() { w.ended.Do(w.settle) }

func (w *watch) settle() {
	if w.window == nil {
		return
	}
	var err error
	if w.outside() {
		ctx, cancel := context.WithTimeout(context.Background(), settleTime) // the turn may be over
		defer cancel()
		err = w.window.Foreign(ctx)
	} else {
		err = w.window.Clean(datadir.FollowedFiles()...)
	}
	if err != nil {
		w.log.Error("record what a command wrote; its window stays open", "err", err)
	}
	w.setAside()
}

// setAside takes files away that a command has put where the agent would follow
// them. They stay beside under another name for the owner to look at.
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

// confined is the command for the tool that runs it. The parts are released in
// this order.
func (w *watch) confined(release ...func()) shell.Confined {
	return shell.Confined{
		Outside: w.outside,
		Taint: func() {
			w.tainted.Store(true)
			if w.counts != nil {
				w.counts()
			}
		},
		Release: sync.OnceFunc(func() {
			for _, f := range release {
				f()
			}
			w.end()
		}),
	}
}

// confine puts a command into the sandbox. What the agent follows is read-only
// for every command; a contained one cannot change hooks and settings of
// repositories either. Those of guests: guestProfile.
func (s *safety) confine(a *App) func(c tool.Call, cmd *exec.Cmd) (shell.Confined, error) {
	return func(c tool.Call, cmd *exec.Cmd) (shell.Confined, error) {
		if s.Sandbox == sandbox.None {
			w, err := s.watch(c, false)
			if err != nil {
				return shell.Confined{}, err
			}
			release, err := s.coverWith(a, cmd, nil)
			if err != nil {
				w.end()
				return shell.Confined{}, err
			}
			return w.confined(release), nil
		}
		box, err := s.box(context.Background()) // the probe is short and its result serves all later calls
		if err != nil {
			return shell.Confined{}, fmt.Errorf("the sandbox (tools.exec.sandbox %q) cannot be used here: %w", s.Sandbox, err)
		}
		if err := s.mounted(box); err != nil {
			return shell.Confined{}, err
		}
		cfg := a.Config.Config.Tools.Exec
		p := sandbox.Profile{
			Workspace: a.Workspace,
			ReadOnly:  slices.Concat(cfg.SandboxROBinds, s.fixed),
			ReadWrite: slices.Clone(cfg.SandboxRWBinds),
			Protected: s.closed(),
			Network:   s.Network,
			Limits:    s.limits(cfg),
		}
		return s.enclose(c, cmd, enclosure{box: box, profile: p, folder: a.Workspace})
	}
}

// enclosure is what the sandbox of one command starts from.
type enclosure struct {
	box     *sandbox.Box
	profile sandbox.Profile
	folder  string // whose repositories are sealed
}

// enclose wraps a command with everything that depends on its turn.
func (s *safety) enclose(c tool.Call, cmd *exec.Cmd, e enclosure) (_ shell.Confined, err error) {
	paths, unsealed := s.seal.followed(e.folder)
	w, err := s.watch(c, e.box.Level().MountNS && !unsealed)
	if err != nil {
		return shell.Confined{}, err
	}
	release := []func(){}
	held := func() shell.Confined { return w.confined(release...) }
	defer func() {
		if err != nil {
			held().Release()
		}
	}()

	p := e.profile
	if w.why != "" {
		hooks, done := s.seal.repositories(e.folder)
		release = append(release, done)
		paths = append(paths, hooks...)
	}
	if err := s.shelve(cmd, &p, w.why != ""); err != nil {
		return shell.Confined{}, err
	}
	asked := c
	asked.Tainted = w.why != "" // what it may send is counted
	out, err := s.connect(e.box, &p, func() (*line, error) { return s.proxy.serve(asked) })
	if err != nil {
		return shell.Confined{}, err
	}
	release = append(release, out.stop)
	used := func() bool { return out.used().Requests > 0 }
	w.used.Store(&used)
	w.counts = out.taint
	p.ReadOnly = s.visible(append(slices.Clip(p.ReadOnly), paths...), p.Protected)
	p.ReadWrite = append(slices.Clip(p.ReadWrite), s.visible(pins(paths), p.Protected)...)

	freeze, cleanup, err := e.box.WrapFreezable(cmd, p)
	if err != nil {
		return shell.Confined{}, err
	}
	release = append([]func(){cleanup}, release...)
	confined := held()
	confined.Brief = !e.box.Level().Freeze
	confined.Freeze = func() error {
		if err := freeze(); err != nil {
			return err
		}
		w.end() // it changes nothing any more
		return nil
	}
	return confined, nil
}

// shelve gives a command what depends on whether it is contained: received
// files and long results for those that are, and a cache for packages. The
// caches are apart, so that what is fetched for one never reaches the other.
func (s *safety) shelve(cmd *exec.Cmd, p *sandbox.Profile, contained bool) error {
	cache := s.origins.cache
	if contained {
		p.ReadOnly = append(p.ReadOnly, s.media)
		cache += "-outside"
	}
	if err := diskio.MkdirAll(cache, 0o700); err != nil {
		return fmt.Errorf("make the cache of commands: %w", err)
	}
	p.ReadWrite = append(p.ReadWrite, cache)
	for name, dir := range map[string]string{
		"XDG_CACHE_HOME": "xdg", "GOCACHE": "go-build", "GOMODCACHE": "go-mod", "GOPATH": "go", "CARGO_HOME": "cargo",
		"npm_config_cache": "npm", "YARN_CACHE_FOLDER": "yarn", "PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv", "GRADLE_USER_HOME": "gradle",
	} {
		cmd.Env = append(cmd.Env, name+"="+filepath.Join(cache, dir))
	}
	return nil
}

// writing is what a running call writes.
type writing struct {
	paths    []string // absolute
	foreign  bool
	approved bool // by the owner, who saw all of what is written
}

// writes marks the files that a call is about to write, before it does, so
// that the mark is there whatever happens. A part of a file from outside, or
// several files of which one is, stays from outside.
func (s *safety) writes(c tool.Call, names []string) error {
	rec, err := s.record(c)
	if err != nil || rec == nil {
		return err
	}
	var p writing
	for _, name := range names {
		if path, err := s.jail.Path(c.Project.Path(name)); err == nil { // the tool refuses others
			p.paths = append(p.paths, path)
		}
	}
	part := c.Name != "write_file" && slices.ContainsFunc(p.paths, rec.Foreign)
	p.foreign, p.approved = c.Tainted || part, c.Tainted && !part || s.Approval == approve.Off
	s.writing.Store(callKey(c), p)
	if !p.foreign {
		return nil
	}
	return rec.Mark(p.paths...)
}

// wrote records what a call has written, with its content.
func (s *safety) wrote(c tool.Call) error {
	value, _ := s.writing.LoadAndDelete(callKey(c))
	p, ok := value.(writing)
	if !ok {
		return nil
	}
	rec, err := s.record(c)
	if err != nil || rec == nil {
		return err
	}
	for _, path := range p.paths {
		if _, serr := os.Lstat(path); serr != nil {
			continue // it was refused, or deleted
		}
		switch {
		case p.approved && s.followed(path):
			err = errors.Join(err, rec.Trust(path))
		case p.foreign:
			err = errors.Join(err, rec.Mark(path))
		default:
			err = errors.Join(err, rec.Wrote(path))
		}
	}
	return err
}

// followed reports whether the agent takes a file of the workspace for
// instructions.
func (s *safety) followed(path string) bool {
	rel, err := filepath.Rel(resolved(s.jail.Workspace()), resolved(path))
	if err != nil {
		return false
	}
	rel = filepath.ToSlash(rel)
	return slices.Contains(datadir.FollowedFiles(), rel) ||
		slices.ContainsFunc(datadir.FollowedFolders(), func(dir string) bool { return rel == dir || strings.HasPrefix(rel, dir+"/") })
}
