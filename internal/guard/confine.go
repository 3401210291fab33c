package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// confiner puts commands and servers into sandboxes.
type confiner struct {
	policy    Policy
	places    *places
	tracker   *tracker // nil while only servers are confined
	protected []string
	names     []string // beginnings of further protected paths
	sockets   []string // of the user's session, see sessionSockets
	fixed     []string // inside the workspace, not to be changed
	box       opener   // opened by the first command
	strict    opener   // for those that are kept inside a folder, never without a sandbox
	covers    opener   // hides the data folder from what runs without a sandbox
	home      place    // the data folder
	proxy     *commandProxy
	seal      seal
	programs  *programs
}

// opener opens a sandbox once, with the first command.
type opener func(ctx context.Context) (*sandbox.Box, error)

func newConfiner(o Options, p *places, t *tracker) *confiner {
	c := &confiner{
		policy:    o.Policy,
		places:    p,
		tracker:   t,
		protected: p.deny,
		names:     p.protectedNames(),
		sockets:   sessionSockets(o.Getenv),
		fixed:     p.fixed(),
		covers:    lazyBox(sandbox.Hide, o.Log),
		home:      placeOf(o.Policy.DataDir),
		proxy:     newCommandProxy(o.Policy, o.State, o.Log),
		seal:      seal{workspace: o.Workspace},
		programs:  newPrograms(o, p),
	}

	c.box = lazyBox(c.policy.Sandbox, o.Log)
	if c.strict = c.box; c.policy.Sandbox == sandbox.None {
		c.strict = lazyBox(sandbox.Auto, o.Log)
	} else {
		c.programs.confine = c.confineLogin
	}
	return c
}

// lazyBox opens a sandbox with the first command.
func lazyBox(mode sandbox.Mode, log *slog.Logger) opener {
	var once sync.Once
	var box *sandbox.Box
	var err error
	return func(ctx context.Context) (*sandbox.Box, error) {
		once.Do(func() { box, err = sandbox.Open(ctx, sandbox.Options{Mode: mode, Log: log}) })
		return box, err
	}
}

// confine puts a command into the sandbox. What the agent follows is read-only
// for every command; a contained one cannot change hooks and settings of
// repositories either. readable are folders it may read besides. Commands of
// guests: confineGuest.
func (f *confiner) confine(c tool.Call, cmd *exec.Cmd, readable ...string) (shell.Confined, error) {
	if f.policy.Sandbox == sandbox.None {
		return f.cover(c, cmd)
	}

	box, err := f.box(context.Background()) // the probe is short and its result serves all later calls
	if err != nil {
		return shell.Confined{}, fmt.Errorf("the sandbox (tools.exec.sandbox %q) cannot be used here: %w", f.policy.Sandbox, err)
	}
	if err := f.mounted(box); err != nil {
		return shell.Confined{}, err
	}

	p := sandbox.Profile{
		Workspace: f.places.workspace,
		ReadOnly:  slices.Concat(f.policy.Exec.ReadOnly, f.fixed, readable),
		ReadWrite: slices.Clone(f.policy.Exec.ReadWrite),
		Protected: f.closed(),
		Network:   f.policy.Network,
		Limits:    f.policy.limits(),
	}
	return f.enclose(c, cmd, enclosure{box: box, profile: p, folder: f.places.workspace})
}

// cover runs a command without a sandbox, so that it sees neither the data
// folder nor other processes.
func (f *confiner) cover(c tool.Call, cmd *exec.Cmd) (shell.Confined, error) {
	w, err := f.tracker.watch(c, false)
	if err != nil {
		return shell.Confined{}, err
	}

	if f.tracker.readsOutside(c) {
		neutralGit(cmd)
	}

	release, err := f.coverWith(cmd, nil)
	if err != nil {
		w.end()
		return shell.Confined{}, err
	}
	return w.confined(release), nil
}

// confineTo puts the commands of a conversation that is kept inside a folder
// into a sandbox, also where other commands run without one.
func (f *confiner) confineTo(c tool.Call, cmd *exec.Cmd) (shell.Confined, error) {
	if c.Project.Started && f.policy.Sandbox == sandbox.None {
		return f.cover(c, cmd)
	}
	if home, err := os.UserHomeDir(); c.Project.Started && err == nil && diskio.Within(resolved(home), c.Project.Dir) {
		return f.confineHome(c, cmd)
	}

	box, err := f.strict(context.Background()) // as in confine
	if err != nil {
		return shell.Confined{}, fmt.Errorf("this chat is kept inside the folder %s, and nothing here can keep commands there: %w", c.Project.Dir, err)
	}

	p, err := f.only(box, c)
	if err != nil {
		return shell.Confined{}, err
	}
	return f.enclose(c, cmd, enclosure{box: box, profile: p, folder: c.Project.Dir})
}

// confineHome confines a command of a conversation that was started in the home
// folder: it starts there and reads it, but writes only to the workspace. A new
// file in a home folder may be one that other programs run.
func (f *confiner) confineHome(c tool.Call, cmd *exec.Cmd) (shell.Confined, error) {
	rec, err := f.tracker.record(c)
	if err != nil {
		return shell.Confined{}, err
	}

	c.Tainted = c.Tainted || rec.Example(c.Project.Dir) != "" // it can read that file
	// A folder around the workspace cannot be granted, but what is in it can.
	home := c.Project.Dir
	entries, err := os.ReadDir(home)
	if err != nil {
		return shell.Confined{}, err
	}

	var readable []string
	for _, e := range entries[:min(len(entries), maxHome)] {
		if path := filepath.Join(home, e.Name()); !diskio.Within(resolved(f.places.workspace), path) {
			readable = append(readable, path)
		}
	}

	c.Project = tool.Project{}
	return f.confine(c, cmd, readable...)
}

// maxHome bounds the entries of a home folder that a command can read: each is a
// mount.
const maxHome = 1000

// only is the profile of a command that is kept inside a folder. What the
// settings open for commands can be read, unless it is of the workspace.
func (f *confiner) only(box *sandbox.Box, c tool.Call) (sandbox.Profile, error) {
	dir := c.Project.Dir
	if err := f.mounted(box); err != nil {
		return sandbox.Profile{}, err
	}

	spaces := []string{f.places.workspace, house(f.tracker.jail, f.places.workspace)}
	p := sandbox.Profile{
		Workspace: dir,
		Exact:     true,
		Protected: f.closed(),
		Network:   f.policy.Network,
		Limits:    f.policy.limits(),
	}
	if c.Project.Started && diskio.Within(spaces[1], dir) { // it has rules and records of its own
		p.Protected = append(p.Protected, spaces[1])
	}

	for _, path := range slices.Concat(f.policy.Exec.ReadOnly, f.policy.Exec.ReadWrite) {
		target, err := filepath.EvalSymlinks(path)
		if err == nil && !slices.ContainsFunc(spaces, func(ws string) bool { return diskio.Within(target, ws) || diskio.Within(ws, target) }) {
			p.ReadOnly = append(p.ReadOnly, target)
		}
	}

	for _, path := range f.fixed {
		if path = resolved(path); diskio.Within(path, dir) {
			p.ReadOnly = append(p.ReadOnly, path)
		}
	}

	for _, name := range besides(c) {
		if path := filepath.Join(spaces[1], name); !diskio.Within(path, dir) {
			p.ReadOnly = append(p.ReadOnly, path)
		}
	}

	if runtime.GOOS == "linux" && !box.Level().MountNS && slices.ContainsFunc(p.Protected, func(path string) bool { return diskio.Within(path, dir) }) {
		return p, errors.New("commands do not run in this chat: the sandbox of this machine cannot hide the protected files that are in its folder")
	}
	return p, nil
}

// enclosure holds what the sandbox of one command starts from.
type enclosure struct {
	box     *sandbox.Box
	profile sandbox.Profile
	folder  string // whose repositories are sealed
}

// enclose wraps a command with everything that depends on its turn.
func (f *confiner) enclose(c tool.Call, cmd *exec.Cmd, e enclosure) (_ shell.Confined, err error) {
	paths, unsealed := f.seal.followed(e.folder)
	w, err := f.tracker.watch(c, e.box.Level().MountNS && !unsealed)
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
	own := f.programs.loaded()
	cmd.Env = append(cmd.Env, own.vars...)
	p.ReadOnly = slices.Concat(p.ReadOnly, own.grants)
	var above []string // folders that are mounted so that they cannot be renamed
	if w.why != "" {
		hooks, done := f.seal.repositories(e.folder)
		release = append(release, done)
		paths = append(paths, hooks...)

		neutralGit(cmd)
		share, over := f.keepShare(c, e.folder)
		paths, above = append(paths, share...), over
	}

	if err := f.shelve(cmd, &p, w.why != ""); err != nil {
		return shell.Confined{}, err
	}

	asked := c
	asked.Tainted = w.why != "" // what it may send is counted
	out, err := connect(e.box, &p, func() (*line, error) { return f.proxy.serve(asked, w.connections) })
	if err != nil {
		return shell.Confined{}, err
	}

	release = append(release, out.stop)
	used := func() bool { return out.used().Requests > 0 }
	w.used.Store(&used)
	w.counting(out.taint)

	if c.Project.Started && diskio.Within(resolved(f.places.workspace), c.Project.Dir) { // it is hidden, and nothing can be mounted there
		inside := func(path string) bool {
			return diskio.Within(path, f.places.workspace) || diskio.Within(path, resolved(f.places.workspace))
		}
		paths, p.ReadOnly = slices.DeleteFunc(paths, inside), slices.DeleteFunc(slices.Clone(p.ReadOnly), inside)
	}

	p.ReadOnly = f.visible(append(slices.Clip(p.ReadOnly), paths...), p.Protected)
	p.ReadWrite = append(slices.Clip(p.ReadWrite), f.visible(append(pins(paths), above...), p.Protected)...)

	freeze, cleanup, err := e.box.WrapFreezable(cmd, p)
	if err != nil {
		return shell.Confined{}, err
	}

	release = append([]func(){cleanup}, release...)
	confined := held()
	confined.Brief = !e.box.Level().Freeze
	confined.Writes = append([]string{p.Workspace}, p.ReadWrite...)
	confined.Freeze = func() error {
		if err := freeze(); err != nil {
			return err
		}
		w.end() // it changes nothing any more
		return nil
	}
	return confined, nil
}

// confineLogin puts the login shell into the sandbox of commands.
func (f *confiner) confineLogin(cmd *exec.Cmd, dir string) (func(), error) {
	box, err := f.box(context.Background()) // as in confine
	if err != nil {
		return nil, err
	}
	return box.Wrap(cmd, f.loginProfile(dir, f.programs.home))
}

// shelve gives a command what depends on whether it is contained: received
// files and long results for those that are, and a cache for packages. The
// caches are apart, so that what is fetched for one never reaches the other.
func (f *confiner) shelve(cmd *exec.Cmd, p *sandbox.Profile, contained bool) error {
	cache := f.tracker.origins.cache
	if contained {
		p.ReadOnly = append(p.ReadOnly, f.places.media)
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

// visible leaves out paths that lie in hidden ones. A folder around the
// workspace hides what is beside it, not what is in it.
func (f *confiner) visible(paths, hidden []string) []string {
	return slices.DeleteFunc(paths, func(p string) bool {
		return slices.ContainsFunc(hidden, func(h string) bool { return diskio.Within(p, h) && !diskio.Within(f.places.workspace, h) })
	})
}

// closed are the protected paths, with the copies there are now, the names that
// mounts give them now, and the sockets of the user's session.
func (f *confiner) closed() []string {
	all := f.copies()
	return slices.Concat(all, diskio.ShownAt(all, f.places.workspace), f.sockets)
}

// copies are the protected paths, with the copies there are now.
func (f *confiner) copies() []string {
	all := slices.Clone(f.protected)
	for _, p := range f.names {
		all = append(all, diskio.Named(p)...)
	}
	return all
}

// mounted refuses commands in a workspace that shows protected files through a
// mount, if the sandbox has no means to hide them.
func (f *confiner) mounted(box *sandbox.Box) error {
	if runtime.GOOS != "linux" || box.Level().MountNS {
		return nil
	}

	ws := resolved(f.places.workspace)
	for _, at := range diskio.ShownAt(f.copies(), ws) {
		if diskio.Within(at, ws) {
			return fmt.Errorf("commands do not run: the mount at %s shows protected files, and the sandbox of this machine cannot hide them; unmount it", at)
		}
	}
	return nil
}

// exposed reports that the sandbox cannot keep commands from changing what the
// agent follows.
func (f *confiner) exposed() bool {
	box, err := f.box(context.Background()) // as in confine
	return err == nil && !box.Level().MountNS
}
