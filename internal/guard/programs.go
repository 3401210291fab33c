package guard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// programs are the programs that the owner has besides those of the machine. Commands
// find them as the owner does in a terminal: by the PATH of the login shell,
// which is asked for it with the first command of this process. Its folders are
// readable in the sandbox, with what the programs in them consist of.
//
// Nothing a command can write decides about it: the login shell does not see
// the workspace, and folders that commands write to are left out.
type programs struct {
	exec   Exec
	getenv func(string) string
	env    []string
	home   string      // of the owner; "" is unknown
	state  store.Store // keeps the PATH for the next process; nil keeps nothing
	apart  []string    // folders that commands write to, and the data folder
	deny   []string    // credentials
	// confine puts the login shell into the sandbox; nil where commands have none.
	confine func(cmd *exec.Cmd, dir string) (release func(), err error)
	log     *slog.Logger

	once sync.Once
	read atomic.Pointer[found]
}

// found holds what the login shell said, and what follows from it.
type found struct {
	path   []string // folders, in order
	grants []string // what the programs in them consist of
	vars   []string // by which version managers find their root
}

// remembered is the document with the PATH that was read last.
type remembered struct {
	Path string `json:"path"`
}

// loaded asks the login shell, once.
func (p *programs) loaded() *found {
	p.once.Do(func() {
		vars, err := p.login()
		if err != nil {
			p.log.Warn("the PATH of the login shell is not known; commands use that of nanobot", "err", err)
			vars = map[string]string{"PATH": p.getenv("PATH")}
		} else if data, err := json.Marshal(remembered{Path: vars["PATH"]}); err == nil && p.state != nil {
			if _, err := p.state.Put(context.Background(), string(datadir.LoginPath), data, store.Any, false); err != nil {
				p.log.Warn("keep the PATH of the login shell", "err", err)
			}
		}

		f := &found{path: p.folders(vars["PATH"])}
		g := granter{p: p, seen: map[string]bool{}}
		for _, dir := range f.path {
			g.folder(dir)
		}

		f.vars = g.managers(f.path, vars)
		f.grants = g.out
		p.read.Store(f)
	})
	return p.read.Load()
}

// login runs the login shell outside of any turn.
func (p *programs) login() (map[string]string, error) {
	if p.home == "" {
		return nil, errors.New("the home folder is not known")
	}
	if slices.ContainsFunc(p.apart, func(dir string) bool { return diskio.Within(resolved(p.home), dir) }) {
		return nil, errors.New("commands can write to the home folder, so its start-up files are not run")
	}

	dir, err := os.MkdirTemp("", "nanobot-login-")
	if err != nil {
		return nil, err
	}

	defer os.RemoveAll(dir) //nolint:errcheck // an empty folder
	o := shell.Login{Home: p.home, Dir: dir, Environ: p.env}
	if p.confine != nil {
		o.Wrap = func(cmd *exec.Cmd) (func(), error) { return p.confine(cmd, dir) }
	}
	return shell.LoginEnv(context.Background(), o) // it is bounded, and serves later calls, too
}

// folders are the folders of a PATH that commands may use, and those of the
// machine.
func (p *programs) folders(path string) []string {
	var out []string
	for _, dir := range withSystem(path) {
		if dir = filepath.Clean(dir); !slices.Contains(out, dir) && p.usable(dir) {
			out = append(out, dir)
		}
	}
	return out
}

// withSystem are the folders of a PATH, and those of the machine.
func withSystem(path string) []string {
	return filepath.SplitList(path + string(filepath.ListSeparator) + shell.SystemPath())
}

// usable reports a folder that is there and that commands cannot write to.
func (p *programs) usable(dir string) bool {
	target, err := filepath.EvalSymlinks(dir)
	return err == nil && filepath.IsAbs(dir) && !p.near(filepath.Clean(dir)) && !p.near(target)
}

// near reports a folder that commands can write to, or that is not for them.
func (p *programs) near(dir string) bool {
	return slices.ContainsFunc(slices.Concat(p.apart, p.deny), func(a string) bool { return diskio.Within(dir, a) })
}

// wide reports a folder that holds more than programs.
func (p *programs) wide(dir string) bool {
	holds := slices.Concat(p.apart, p.deny)
	if p.home != "" {
		holds = append(holds, resolved(p.home))
	}
	return slices.ContainsFunc(holds, func(a string) bool { return diskio.Within(a, dir) })
}

// Path is the search path of commands.
func (p *programs) Path() string {
	return strings.Join(p.loaded().path, string(filepath.ListSeparator))
}

// Elsewhere says where a program is that a command did not find.
func (p *programs) Elsewhere(name string) string {
	if at, err := p.search(name); err == nil {
		return fmt.Sprintf("[%s is %s on this machine, but something that it needs is missing inside the sandbox. The user can open its folder: tools.exec.sandboxRoBinds.]", name, at)
	}

	all := filepath.SplitList(p.getenv("PATH"))
	if p.home != "" {
		all = append(all, filepath.Join(p.home, ".local", "bin"), filepath.Join(p.home, "bin"))
	}

	at, err := lookIn(all, name, nil)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("[%s is installed as %s, but commands do not see it. The user can change that: add its folder to PATH in the start-up files of the login shell and restart nanobot, or set tools.exec.pathAppend and tools.exec.sandboxRoBinds.]", name, at)
}

// search finds a program in the folders where commands look for it, as far as
// those are known without asking the login shell.
func (p *programs) search(name string) (string, error) {
	var middle []string
	var usable func(dir string) bool
	switch f := p.read.Load(); {
	case slices.Contains(p.exec.AllowedEnv, "PATH"):
		middle = filepath.SplitList(p.getenv("PATH"))
	case f != nil:
		middle = f.path
	default:
		path := p.getenv("PATH")
		if p.state != nil {
			data, _, err := p.state.Doc(context.Background(), string(datadir.LoginPath))
			var known remembered
			if err == nil && json.Unmarshal(data, &known) == nil && known.Path != "" {
				path = known.Path
			}
		}

		middle, usable = withSystem(path), p.usable
	}

	at, err := lookIn(filepath.SplitList(p.exec.PathPrepend), name, nil)
	if err != nil {
		at, err = lookIn(middle, name, usable)
	}
	if err != nil {
		at, err = lookIn(filepath.SplitList(p.exec.PathAppend), name, nil)
	}
	return at, err
}

// lookPath finds a program as commands do.
func (p *programs) lookPath(name string) (string, error) {
	if runtime.GOOS == "windows" {
		return exec.LookPath(name)
	}
	return p.search(name)
}

// LookPath finds a program as commands do.
func (g *Guard) LookPath(name string) (string, error) { return g.confiner.programs.lookPath(name) }

// LookPathOf is LookPath without a guard. It needs the configuration, the
// workspace, the state and the environment.
func LookPathOf(o Options) func(name string) (string, error) {
	return newPrograms(o, placesOf(o)).lookPath
}

// GuestLookPath finds a program as commands of guests do: only those of the machine.
func GuestLookPath(name string) (string, error) {
	return lookIn(filepath.SplitList(shell.SystemPath()), name, nil)
}

// lookIn looks for a program in folders. A folder is judged only if the program
// is there, which costs less; nil takes all of them.
func lookIn(dirs []string, name string, usable func(dir string) bool) (string, error) {
	for _, dir := range dirs {
		at := filepath.Join(dir, name)
		st, err := os.Stat(at)
		if err == nil && filepath.IsAbs(dir) && st.Mode().IsRegular() && st.Mode()&0o111 != 0 && (usable == nil || usable(dir)) {
			return at, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

func newPrograms(o Options, places *places) *programs {
	cfg := o.Policy.Exec
	p := &programs{
		exec:   cfg,
		getenv: o.Getenv,
		env:    o.Env,
		home:   o.Getenv("HOME"),
		state:  o.State,
		deny:   places.deny,
		log:    o.Log,
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}

	for _, dir := range append([]string{places.workspace, o.Policy.DataDir}, cfg.ReadWrite...) {
		p.apart = append(p.apart, resolved(dir))
	}
	return p
}

// loginProfile returns what the login shell reaches: the start-up files and what
// they read, nothing to write and no network.
func (f *confiner) loginProfile(dir, home string) sandbox.Profile {
	read := []string{home}
	for _, name := range []string{"bash.bashrc", "bashrc", "environment", "zsh", "zshenv", "zprofile", "zshrc", "paths", "paths.d", "fish", "profile", "profile.d"} {
		read = append(read, filepath.Join("/etc", name))
	}
	return sandbox.Profile{
		Workspace: dir,
		ReadOnly:  read,
		Protected: append(f.closed(), f.places.workspace),
		Network:   sandbox.NetNone,
		Limits:    f.policy.limits(),
	}
}

// granter collects what the programs in folders consist of.
type granter struct {
	p    *programs
	seen map[string]bool
	out  []string
}

const (
	maxGrants  = 200  // further ones are not readable
	maxEntries = 4096 // of a folder that are looked at
)

// add makes a path readable, unless it is already or holds too much.
func (g *granter) add(path string) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil || g.p.wide(target) || g.p.near(target) || len(g.out) >= maxGrants {
		return
	}
	for _, at := range []string{path, target} { // a link is shown as one
		if !sandbox.Shows(at) && !slices.ContainsFunc(g.out, func(have string) bool { return diskio.Within(at, have) }) {
			g.out = append(g.out, at)
		}
	}
}

// folder adds a folder of programs, the libraries beside it and what its links
// and scripts lead to.
func (g *granter) folder(dir string) {
	target, err := filepath.EvalSymlinks(dir)
	if err != nil || g.seen[target] || sandbox.Shows(dir) || g.p.wide(target) {
		return
	}

	g.seen[target] = true
	g.add(dir)
	if prefix := filepath.Dir(target); isBin(target) && prefix != resolved(g.p.home) {
		for _, name := range []string{"lib", "lib32", "lib64", "libexec", "pyvenv.cfg"} {
			g.add(filepath.Join(prefix, name))
		}
	}

	entries, err := os.ReadDir(target)
	if err != nil {
		return
	}

	for _, e := range entries[:min(len(entries), maxEntries)] {
		at := filepath.Join(target, e.Name())
		program := at
		if e.Type()&fs.ModeSymlink != 0 {
			if program, err = filepath.EvalSymlinks(at); err != nil {
				continue
			}
			if g.p.near(program) { // it is there anyway, and whoever wrote it decides about nothing else
				continue
			}
			g.program(program)
		}

		if at = interpreter(program); at != "" {
			g.program(at)
		}
	}
}

func isBin(dir string) bool {
	return slices.Contains([]string{"bin", "sbin"}, filepath.Base(dir))
}

// program adds a program that a folder leads to.
func (g *granter) program(at string) {
	if at == "" || g.seen[at] || len(g.out) >= maxGrants {
		return
	}

	g.seen[at] = true
	const packages = "/node_modules/"
	switch i := strings.Index(at, packages); {
	case i >= 0: // the packages of a program need each other
		g.add(at[:i+len(packages)-1])
	case isBin(filepath.Dir(at)):
		g.folder(filepath.Dir(at))
		if target, err := filepath.EvalSymlinks(at); err == nil && target != at {
			g.program(target)
		}

	default:
		g.add(at)
	}
}

// interpreter is the program that a script names in its first line, if it is
// none of the machine; "" for all else.
func interpreter(path string) string {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return ""
	}

	f, err := os.Open(path)
	if err != nil {
		return ""
	}

	defer f.Close() //nolint:errcheck // opened for reading
	line, _ := bufio.NewReaderSize(f, 512).ReadSlice('\n')
	words := strings.Fields(strings.TrimPrefix(string(line), "#!"))
	if !strings.HasPrefix(string(line), "#!") || len(words) == 0 || !filepath.IsAbs(words[0]) || sandbox.Shows(words[0]) {
		return ""
	}
	return words[0]
}

// manager is a program that chooses between versions of others: what is on the
// PATH only starts what lies below its root.
type manager struct {
	on       string // the folder on the PATH, below the home folder
	root     string // below the home folder, unless the login shell says otherwise
	variable string // that names the root
	parts    string // what of the root is needed
}

func knownManagers() []manager {
	return []manager{
		{on: ".asdf/shims", root: ".asdf", variable: "ASDF_DATA_DIR", parts: "bin lib installs plugins shims asdf.sh"},
		{on: ".cargo/bin", root: ".rustup", variable: "RUSTUP_HOME", parts: "toolchains settings.toml update-hashes"},
		{on: ".local/share/mise/shims", root: ".local/share/mise", variable: "MISE_DATA_DIR", parts: "installs plugins shims"},
		{on: ".pyenv/shims", root: ".pyenv", variable: "PYENV_ROOT", parts: "bin libexec plugins pyenv.d shims version versions"},
		{on: ".rbenv/shims", root: ".rbenv", variable: "RBENV_ROOT", parts: "bin libexec plugins rbenv.d shims version versions"},
		{on: ".volta/bin", root: ".volta", variable: "VOLTA_HOME", parts: "bin tools hooks.json layout.v4"},
	}
}

// managers adds the roots of version managers and returns the variables that
// name them, since the home folder of commands is another one.
func (g *granter) managers(path []string, vars map[string]string) []string {
	var out []string
	for _, m := range knownManagers() {
		root := vars[m.variable]
		if !filepath.IsAbs(root) {
			root = filepath.Join(g.p.home, filepath.FromSlash(m.root))
		}

		on := filepath.Join(g.p.home, filepath.FromSlash(m.on))
		if st, err := os.Stat(root); g.p.home == "" || !slices.Contains(path, on) || err != nil || !st.IsDir() {
			continue
		}

		for part := range strings.FieldsSeq(m.parts) {
			g.add(filepath.Join(root, part))
		}
		out = append(out, m.variable+"="+root)
	}

	if g.p.home != "" && slices.ContainsFunc(out, func(kv string) bool { return strings.HasPrefix(kv, "ASDF_") }) {
		g.add(filepath.Join(g.p.home, ".tool-versions"))
	}
	return out
}
