package shell_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// setting is one way to run the hostile commands. It travels to a process of
// its own, which is the agent: its environment holds a canary, and it may be
// killed if the sandbox fails.
type setting struct {
	Mode    sandbox.Mode
	Network sandbox.Network
	UID     uint32
	// Bare takes namespaces away, as many containers do.
	Bare  bool
	Kinds string
	Base  string
	// Control expects the canaries to be reached.
	Control bool
	// Part, if not 0, leaves out all but every eighth case, beginning with that
	// one, and those that use up the machine.
	Part int
}

func (s setting) name() string {
	n := fmt.Sprintf("%s network %s uid %d", s.Mode, s.Network, s.UID)
	if s.Bare {
		n += " without namespaces"
	}
	return n
}

// boundless reports whether the kernel counts no processes for the command:
// it does not for root outside a user or process namespace, and a fork bomb
// would take the machine down with it.
func (s setting) boundless() bool { return s.Bare && s.UID == 0 }

const settingVariable = "SHELL_TEST_SETTING"

// allVariable set to "all" (or a build server) runs every case in every
// setting, which takes a minute or two of a processor. Otherwise the first setting
// runs them all and each of the others an eighth of them.
const allVariable = "NANOBOT_ADVERSARIAL"

// T4, T8, T16 and all rows of the table: under every sandbox, as root and as
// an ordinary user, no canary is read or changed and none is connected to.
func TestAdversarial(t *testing.T) {
	t.Parallel()
	all := []setting{
		{Mode: sandbox.Auto, Network: sandbox.NetNone, UID: nobody},
		{Mode: sandbox.Auto, Network: sandbox.NetNone, UID: 0},
		{Mode: sandbox.Landlock, Network: sandbox.NetNone, UID: nobody, Bare: true},
		{Mode: sandbox.Landlock, Network: sandbox.NetNone, UID: 0, Bare: true},
		{Mode: sandbox.Bwrap, Network: sandbox.NetNone, UID: nobody},
		{Mode: sandbox.Bwrap, Network: sandbox.NetNone, UID: 0},
		{Mode: sandbox.Auto, Network: sandbox.NetProxy, UID: nobody, Kinds: "N"},
		{Mode: sandbox.Bwrap, Network: sandbox.NetProxy, UID: nobody, Kinds: "N"},
		{Mode: sandbox.Auto, Network: sandbox.NetHost, UID: nobody, Kinds: "A"},
	}
	if testing.Short() {
		all = all[:1]
	}
	complete := os.Getenv(allVariable) == "all" || os.Getenv("CI") != ""
	for i, s := range all {
		t.Run(s.name(), func(t *testing.T) {
			t.Parallel()
			if s.Kinds == "" {
				s.Kinds = "SGNLABH"
			}
			if !complete && i > 0 {
				s.Part = 1 + i%8
			}
			inSetting(t, s)
		})
	}
}

// Without a sandbox the canaries are reached; otherwise TestAdversarial would
// show nothing.
func TestAdversarialControl(t *testing.T) {
	t.Parallel()
	inSetting(t, setting{Mode: sandbox.None, Network: sandbox.NetHost, UID: nobody, Kinds: "SN", Control: true})
}

// inSetting runs the hostile commands in a process of their own.
func inSetting(t *testing.T, s setting) {
	t.Helper()
	s.Base = openDir(t)
	if err := os.Chown(s.Base, int(s.UID), int(s.UID)); err != nil && s.UID != 0 {
		t.Skipf("needs root to become another user: %v", err)
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	cmd := as(ctx, t, s.UID, "adversary", settingVariable+"="+string(b), "HOME="+s.Base+"/home",
		"CANARY_KEY="+canaryIn(s.Base), "ANTHROPIC_API_KEY="+canaryIn(s.Base))
	if s.Bare {
		withoutNamespaces(t, cmd, s.UID)
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true // a blow at its group must not hit this process
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch {
	case strings.Contains(text, "SKIP: "):
		t.Skip(text)
	case err != nil || !strings.Contains(text, "DONE "):
		t.Errorf("%v\n%s", err, text)
	default:
		t.Log(strings.TrimSpace(text))
	}
}

// withoutNamespaces starts the command where no namespace can be made: in a
// user namespace that allows no further ones, without any rights.
func withoutNamespaces(t *testing.T, cmd *exec.Cmd, uid uint32) {
	t.Helper()
	if _, err := exec.LookPath("setpriv"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root and setpriv to take namespaces away")
	}
	cmd.Args = []string{"sh", "-c", `echo 0 > /proc/sys/user/max_user_namespaces &&
		exec setpriv --reuid ` + strconv.Itoa(int(uid)) + ` --regid ` + strconv.Itoa(int(uid)) + ` --clear-groups --inh-caps=-all --bounding-set=-all ` + cmd.Path}
	cmd.Path = "/bin/sh"
	maps := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: nobody, HostID: nobody, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: maps, GidMappings: maps, GidMappingsEnableSetgroups: true,
	}
}

// canaryIn makes the canary of a setting from its directory, so that both
// processes know it and nothing else contains it.
func canaryIn(base string) string {
	return "cnry" + hex.EncodeToString([]byte(base[max(0, len(base)-16):]))
}

// adversary is the agent that gets the hostile commands.
type adversary struct {
	setting
	box     *sandbox.Box
	canary  string
	account string // a line of the real list of accounts
	port    string
	private string
	hits    atomic.Int64
	proxy   string
	failed  atomic.Bool
	reached atomic.Int64  // cases that read or changed something outside
	slowest atomic.Int64  // answer of another session meanwhile, in nanoseconds
	alone   time.Duration // what a command takes while nothing else runs
}

// controls chooses cases that only read, with programs that every system has.
func controls(h hostile) bool {
	n, _ := strconv.Atoi(strings.TrimRight(h.row, "abcdefghijklmnopqrstuvwxyz"))
	return n < 17 || h.kind == "N" && n < 37 && n != 33
}

// playAdversary is the part of the process that inSetting starts.
func playAdversary() int {
	a := &adversary{}
	if err := json.Unmarshal([]byte(os.Getenv(settingVariable)), &a.setting); err != nil {
		say("%v", err)
		return 1
	}
	if err := shell.Harden(); err != nil {
		say("%v", err)
		return 1
	}
	// Should the sandbox fail to hold a fork bomb, the machine must survive it.
	// This holds for ordinary users only.
	_ = unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 2000, Max: 2000})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop, err := a.open(ctx)
	if err != nil {
		say("%v", err)
		return 1
	}
	defer stop()
	st, err := a.stage()
	if err != nil {
		say("%v", err)
		return 1
	}
	_, a.alone = a.run(st, hostile{command: "echo alive"}, "0")
	_ = os.RemoveAll(filepath.Dir(st.out))
	begin := time.Now()
	before := peakMemory()
	n := a.runAll()
	if a.Control {
		say("DONE %d commands, %d reached a canary, %d connections", n, a.reached.Load(), a.hits.Load())
		if a.reached.Load() < 12 || a.hits.Load() < 5 {
			return 1
		}
		return 0
	}
	if grown := peakMemory() - before; grown > 256<<20 {
		a.fail("memory", "grew by %d MiB", grown>>20)
	}
	if a.failed.Load() {
		return 1
	}
	slowest := time.Duration(a.slowest.Load())
	if slowest > max(10*time.Second, 20*a.alone) { // two seconds, with room for a busy machine
		a.fail("another session", "waited %v for its answer", slowest)
		return 1
	}
	say("DONE %d commands in %v, others answered within %v; %s",
		n, time.Since(begin).Round(time.Millisecond), slowest.Round(time.Millisecond), a.box.Level())
	return 0
}

func (a *adversary) fail(what, format string, args ...any) {
	if a.Control {
		a.reached.Add(1)
		return
	}
	a.failed.Store(true)
	say("%s: %s", what, fmt.Sprintf(format, args...))
}

func (a *adversary) open(ctx context.Context) (stop func(), err error) {
	a.canary = canaryIn(a.Base)
	accounts, _ := os.ReadFile("/etc/passwd") // without it there is one canary less
	for line := range strings.Lines(string(accounts)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "root:") && !strings.HasPrefix(line, "nobody:") && len(line) > 10 {
			a.account = line
		}
	}
	if a.box, err = sandbox.Open(ctx, sandbox.Options{Mode: a.Mode, Self: "/proc/self/exe"}); err != nil {
		say("SKIP: %v", err)
		return nil, err
	}
	if level := a.box.Level(); a.Bare && (level.UserNS || level.PIDNS || level.MountNS) {
		return nil, errors.New("there are namespaces: " + level.String())
	}
	return a.listen(ctx)
}

// listen waits for connections that must not come, on every address.
func (a *adversary) listen(ctx context.Context) (stop func(), err error) {
	var lc net.ListenConfig
	tcp, err := lc.Listen(ctx, "tcp", ":0")
	if err != nil {
		return nil, err
	}
	a.port = strconv.Itoa(tcp.Addr().(*net.TCPAddr).Port)
	udp, err := lc.ListenPacket(ctx, "udp", ":"+a.port)
	if err != nil {
		return nil, err
	}
	abstract, err := lc.Listen(ctx, "unix", "@shell-canary-"+a.port)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	for _, l := range []net.Listener{tcp, abstract} {
		wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				a.hits.Add(1)
				_ = c.Close()
			}
		})
	}
	wg.Go(func() {
		for {
			if _, _, err := udp.ReadFrom(make([]byte, 16)); err != nil {
				return
			}
			a.hits.Add(1)
		}
	})
	a.private = "127.0.0.1"
	addrs, _ := net.InterfaceAddrs()
	for _, addr := range addrs {
		if p, err := netip.ParsePrefix(addr.String()); err == nil && p.Addr().Is4() && p.Addr().IsPrivate() {
			a.private = p.Addr().String()
		}
	}
	stopProxy, err := a.startProxy(ctx)
	if err != nil {
		return nil, err
	}
	return func() {
		stopProxy()
		_ = tcp.Close()
		_ = udp.Close()
		_ = abstract.Close()
		wg.Wait()
	}, nil
}

// runAll runs every case, some side by side because many only wait.
func (a *adversary) runAll() int {
	jobs := make(chan hostile)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for h := range jobs {
				a.try(h)
			}
		})
	}
	n := 0
	for i, h := range hostiles(panicking{}, a.Kinds) {
		if h.list != "" || a.boundless() && strings.HasPrefix(h.row, "28") || a.Control && !controls(h) || a.Part > 0 && (i%8 != a.Part-1 || h.kind == "L") {
			continue
		}
		jobs <- h
		n++
	}
	close(jobs)
	wg.Wait()
	return n
}

// panicking is a testing.TB for a process that runs no test.
type panicking struct{ testing.TB }

func (panicking) Helper()                   {}
func (panicking) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (panicking) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

// stage is where one case plays: a home, a directory above the workspace and
// the workspace, each with its canaries.
type stage struct{ home, out, ws string }

func (a *adversary) stage() (stage, error) {
	dir, err := os.MkdirTemp(a.Base, "case")
	if err != nil {
		return stage{}, err
	}
	st := stage{home: filepath.Join(dir, "home"), out: filepath.Join(dir, "out"), ws: filepath.Join(dir, "out", "ws")}
	if err := furnish(st.ws); err != nil {
		return st, err
	}
	tcp := fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%s\necho x >&3\nexec 4<>/dev/tcp/%s/%s\necho x >&4\n", a.port, a.private, a.port)
	files := map[string]string{
		filepath.Join(st.ws, "tcp.sh"): tcp, filepath.Join(st.out, "config.json"): `{"key":"` + a.canary + `"}`,
		filepath.Join(st.out, a.canary): a.canary, filepath.Join(st.home, ".nanobot", "config.json"): a.canary,
		filepath.Join(st.home, ".ssh", "id_rsa"): a.canary, filepath.Join(st.home, ".netrc"): a.canary,
		filepath.Join(st.out, ".git", "HEAD"): "ref: refs/heads/main\n", filepath.Join(st.out, ".git", "config"): "[core]\nrepositoryformatversion = 0\n",
		filepath.Join(st.out, ".git", "objects", "x"): "", filepath.Join(st.out, ".git", "refs", "x"): "",
		filepath.Join(st.home, ".bashrc"): "# " + a.canary, filepath.Join(st.home, ".profile"): "# " + a.canary,
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return st, err
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			return st, err
		}
	}
	return st, nil
}

// snapshot describes everything outside the workspace, rights included.
func (st stage) snapshot() (string, error) {
	var b strings.Builder
	root := filepath.Dir(st.out)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == st.ws {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(data)
		}
		fmt.Fprintln(&b, path, info.Mode(), text)
		return nil
	})
	return b.String(), err
}

// try runs one case and looks what came of it.
func (a *adversary) try(h hostile) {
	what := a.name() + ": " + h.name()
	st, err := a.stage()
	if err != nil {
		a.fail(what, "%v", err)
		return
	}
	defer os.RemoveAll(filepath.Dir(st.out))
	before, err := st.snapshot()
	if err != nil {
		a.fail(what, "%v", err)
		return
	}
	hits := a.hits.Load()
	marker := a.marker()
	var meanwhile sync.WaitGroup
	if h.kind == "L" {
		meanwhile.Go(func() { a.other(what) })
	}
	r, took := a.run(st, h, marker)
	meanwhile.Wait()
	text := r.Content.Text
	if strings.Contains(text, a.canary) || a.account != "" && strings.Contains(text, a.account) {
		a.fail(what, "a canary was read: %.300s", text)
	}
	if after, err := st.snapshot(); err != nil || after != before {
		a.fail(what, "something outside changed (%v):\n%s\nbefore:\n%s", err, after, before)
	}
	if where := a.copies(st.ws); where != "" {
		a.fail(what, "a canary got into %s", where)
	}
	if n := a.hits.Load(); n != hits && a.Network != sandbox.NetHost {
		a.fail(what, "%d connections to a canary", n-hits)
	}
	if left := sleeping(marker); left != "" {
		a.fail(what, "still running: %s", left)
	}
	a.verdict(what, h, r, took)
}

// other is another session that wants an answer while a case runs.
func (a *adversary) other(what string) {
	st, err := a.stage()
	if err != nil {
		a.fail(what, "%v", err)
		return
	}
	defer os.RemoveAll(filepath.Dir(st.out))
	r, took := a.run(st, hostile{command: "echo alive"}, "0")
	if r.Content.Text != "alive\n\nExit code: 0" {
		a.fail(what, "another session got %.200q", r.Content.Text)
	}
	for {
		old := a.slowest.Load()
		if int64(took) <= old || a.slowest.CompareAndSwap(old, int64(took)) {
			return
		}
	}
}

func (a *adversary) verdict(what string, h hostile, r tool.Result, took time.Duration) {
	text := r.Content.Text
	refused := r.Code == tool.DeniedPolicy
	switch {
	case h.kind == "G" && !refused:
		a.fail(what, "was not refused: %.300s", text)
	case h.kind != "G" && r.Code != "" && r.Code != tool.TimedOut:
		a.fail(what, "must not be refused: %.300s", text)
	case (h.kind == "A" || h.kind == "B") && (r.IsError || strings.Contains(text, "Exit code: 126") || strings.Contains(text, "sandbox: ")):
		a.fail(what, "does not work: %.300s", text)
	case strings.Contains(text, "\nsandbox: ") || strings.HasPrefix(text, "STDERR:\nsandbox: "):
		a.fail(what, "the sandbox itself failed, so nothing was shown: %.300s", text)
	case h.kind == "L" && took > max(20*time.Second, 40*a.alone):
		a.fail(what, "took %v", took)
	case h.kind == "L" && len(text) > 12_000:
		a.fail(what, "printed %d bytes", len(text))
	}
}

// run calls the real tool.
func (a *adversary) run(st stage, h hostile, marker string) (tool.Result, time.Duration) {
	sh, err := shell.New(shell.Options{
		Workspace: st.ws, Restrict: true, Sandboxed: true, Environ: append(os.Environ(), "HOME="+st.home), Timeout: max(30*time.Second, 60*a.alone),
		Wrap: func(_ tool.Call, cmd *exec.Cmd) (shell.Confined, error) {
			cleanup, err := a.box.Wrap(cmd, sandbox.Profile{
				Workspace: st.ws, Network: a.Network, ProxySocket: a.proxy, Protected: []string{st.home, filepath.Join(st.out, "config.json")},
				Limits: sandbox.Limits{FileSize: 32 << 20, Processes: 64, Memory: 1 << 30},
			})
			return shell.Confined{Release: cleanup}, err
		},
	})
	if err != nil {
		panic(err)
	}
	defer sh.Close()
	command := strings.NewReplacer("@OUT@", st.out, "@HOME@", st.home, "@AGENT@", strconv.Itoa(os.Getpid()),
		"@PORT@", a.port, "@PRIVATE@", a.private, "9999", marker).Replace(h.command)
	in := args{"command": command}
	if h.kind == "L" {
		in["timeout"] = 3 + int(10*a.alone/time.Second) // a slow machine must be able to start it
	}
	b, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	begin := time.Now()
	r, err := sh.Tools()[0].Run(context.Background(), tool.Call{Input: b})
	if err != nil {
		panic(err)
	}
	return r, time.Since(begin)
}

// marker is a sleeping time no other process has.
func (a *adversary) marker() string {
	var id [3]byte
	_, _ = rand.Read(id[:])
	return fmt.Sprintf("9%d.%d", os.Getpid(), int(id[0])<<16|int(id[1])<<8|int(id[2]))
}

// sleeping names processes that have the marker as an argument.
func sleeping(marker string) string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		line, err := os.ReadFile(filepath.Join(d, "cmdline"))
		if err == nil && strings.Contains(string(line), marker) {
			found = append(found, d+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return strings.Join(found, ", ")
}

// copies finds a file of the workspace that holds a canary.
func (a *adversary) copies(ws string) (where string) {
	_ = filepath.WalkDir(ws, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // what cannot be opened cannot be read by the next command either
		}
		data, _ := os.ReadFile(path)
		if strings.Contains(string(data), a.canary) || a.account != "" && strings.Contains(string(data), a.account) {
			where = path
		}
		return nil
	})
	return where
}

// peakMemory is the most memory this process has had, in bytes.
func peakMemory() int64 {
	data, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10
		}
	}
	return 0
}
