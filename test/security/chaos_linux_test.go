package security_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// Flags of TestAnyProgram. A run ends after so many turns, whatever time it is.
var (
	programSeed  = flag.Uint64("program.seed", 0, "TestAnyProgram: repeat the run with this seed; 0 runs the fixed seeds and a random one")
	programTurns = flag.Int("program.turns", 0, "TestAnyProgram: turns of each seed; 0 is each event once")
)

// programSeeds are run every time, besides a random one.
func programSeeds() []uint64 { return []uint64{7, 1905} }

// names that random programs make, rename, link and remove: those the program
// uses or used, and others.
func chaosNames() []string {
	return []string{
		".nanobot", ".nanobot/templates.json", ".nanobot/workspace-id", ".nanobot/workspace-id.lock", ".nanobot/tool-results", "cron", "cron/jobs.json", "cron/jobs.json.good",
		"cron.lock", "sessions", "sessions/telegram_42.jsonl", "triggers", "triggers/inbox", "memory", "memory/history.jsonl", "memory/MEMORY.md", "memory/.git", "skills", "skills/tea",
		"AGENTS.md", "SOUL.md", "HEARTBEAT.md", "USER.md", "TOOLS.md", ".git", ".git/config", "prompts", "prompts/evaluator.md", "generated", "share", "media", "a", "a/b", "b", "c", "notes.txt", "out.txt",
	}
}

// chaosTargets are what a program tries to read and to change. All of it is in
// the house: a boundary that fails costs nobody anything.
func chaosTargets(a *trial) []string {
	list := []string{"..", "../..", "../../outside", "../config.json", "/proc/self/root" + a.home + "/diary.txt", "/proc/self/root" + a.home}
	for _, name := range []string{
		"", ".bashrc", ".ssh", ".ssh/id_ed25519", "outside", "outside/new", "outside/notes.txt", "etc", "etc/passwd", "etc/shadow", "etc/cron.d/new", ".config/app/token",
		".nanobot", ".nanobot/config.json", ".nanobot/sessions", ".nanobot/kept", ".nanobot/kept/ledger.json", ".nanobot/origin", ".nanobot/usage",
	} {
		list = append(list, filepath.Join(a.home, name))
	}
	return list
}

// Kinds of steps.
const (
	stepCreate  = "create"
	stepWrite   = "write"
	stepFolder  = "folder"
	stepRename  = "rename"
	stepLink    = "link"
	stepSymlink = "symlink"
	stepPipe    = "fifo"
	stepDevice  = "device"
	stepMode    = "mode"
	stepMount   = "mount"
	stepRead    = "read"
	stepRemove  = "remove"
)

func stepKinds() []string {
	return []string{stepCreate, stepWrite, stepFolder, stepRename, stepLink, stepSymlink, stepPipe, stepDevice, stepMode, stepMount, stepRead, stepRemove}
}

// programPy does steps, a list of lists, and says how often each kind was done
// and refused. Nothing in it waits.
const programPy = `import ctypes, json, os, shutil, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
def away(x):
    if os.path.isdir(x) and not os.path.islink(x): shutil.rmtree(x, ignore_errors=True)
    elif os.path.lexists(x): os.unlink(x)
def room(x):
    os.makedirs(os.path.dirname(x) or ".", exist_ok=True)
def have(x):
    if not os.path.lexists(x):
        room(x); put(x, "{}", os.O_CREAT | os.O_EXCL)
def put(x, text, flags):
    fd = os.open(x, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | flags, 0o600)
    try: os.write(fd, text.encode())
    finally: os.close(fd)
def look(x):
    if os.path.isdir(x):
        for n in sorted(os.listdir(x))[:20]: look(os.path.join(x, n)) if not os.path.isdir(os.path.join(x, n)) else print(n)
        return
    fd = os.open(x, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try: print(os.read(fd, 300))
    finally: os.close(fd)
def mount(src, dst, kind, flags):
    if libc.mount(src.encode(), dst.encode(), kind, flags, None) != 0: raise OSError(ctypes.get_errno(), "mount")
def mounts(x, y, t):
    pid = os.fork()
    if pid:
        if os.waitpid(pid, 0)[1] != 0: raise OSError(1, "mount")
        return
    try:
        if libc.unshare(0x10000000 | 0x20000) != 0: os._exit(1)
        mount(t, x, None, 4096)
        look(x)
        mount("t", y, b"tmpfs", 0)
    except BaseException: os._exit(1)
    os._exit(0)
def do(kind, x, y, t, n):
    if kind == "create":
        away(x); room(x); put(x, '{"x":%d}' % n, os.O_CREAT | os.O_EXCL)
    elif kind == "write": put(t if n % 2 else x, "forged %d" % n, os.O_CREAT | (os.O_TRUNC if n % 3 else os.O_APPEND))
    elif kind == "folder":
        away(x); os.makedirs(x)
    elif kind == "rename":
        have(x); room(y); os.rename(t if n % 4 == 0 else x, y)
    elif kind == "link":
        have(y); away(x); room(x); os.link(t if n % 2 else y, x)
    elif kind == "symlink":
        away(x); room(x); os.symlink(t, x)
    elif kind == "fifo":
        away(x); room(x); os.mkfifo(x)
    elif kind == "device":
        away(x); room(x); os.mknod(x, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    elif kind == "mode": os.chmod(t if n % 2 else x, n % 0o1000 | (0o700 if n % 2 else 0))
    elif kind == "mount": mounts(x, y, t)
    elif kind == "read": look(t)
    elif kind == "remove": away(t if n % 4 == 0 else x)
os.chdir(sys.argv[1])
count = {}
for step in json.load(open(sys.argv[2])):
    try:
        do(*step); how = "done"
    except Exception: how = "refused"
    count[step[0] + "-" + how] = count.get(step[0] + "-" + how, 0) + 1
print("steps:", " ".join("%s=%d" % c for c in sorted(count.items())), "end")
`

// randomProgram is a list of steps with any names of the workspace. The first
// one of a run begins with a step of each kind on a name of its own, so how
// much a run shows is no matter of luck.
func randomProgram(r *rand.Rand, a *trial, first bool) []byte {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	names, targets, kinds := chaosNames(), chaosTargets(a), stepKinds()
	var steps [][]any
	if first {
		for _, kind := range kinds {
			steps = append(steps, []any{kind, "first/" + kind, "first/other", "program.py", 1})
		}
	}
	for range 10 + r.IntN(40) {
		steps = append(steps, []any{pick(kinds), pick(names), pick(names), pick(targets), r.IntN(1000)})
	}
	b, _ := json.Marshal(steps) // strings and numbers
	return b
}

// chaosEvents are what goes on between the turns of random programs.
func chaosEvents() map[string]func(a *trial) {
	return map[string]func(a *trial){
		"restart": func(a *trial) { a.gate.start() },
		"backup":  func(a *trial) { a.backup() },
		"undo":    func(a *trial) { a.cli("undo", "--force") },
		"job":     func(a *trial) { a.cli("cron", "add", "-m", "tea", "--every", "2h") },
		"undo in the chat": func(a *trial) {
			a.gate.tg.Say(ada, "/undo force")
		},
		"a new conversation": func(a *trial) { a.gate.tg.Say(ada, "/new") },
		"memory and skills": func(a *trial) {
			a.cli("memory", "show")
			a.cli("skill", "list")
		},
	}
}

// coverage counts what random programs did, over all seeds.
type coverage struct {
	mu    sync.Mutex
	steps map[string]int
	jobs  int
}

// TestAnyProgram lets random programs do anything to the names of a workspace
// while turns, jobs, restarts, backups and undo go on. Afterwards no byte
// outside of the workspace is different, and none of the protected ones was
// read by anything.
func TestAnyProgram(t *testing.T) { //nolint:tparallel // the group of subtests ends before the sums are looked at
	t.Parallel()
	level(t, sandbox.Auto)
	seeds := programSeeds()
	switch {
	case *programSeed == 1:
		seeds = []uint64{uint64(time.Now().UnixNano())}
	case *programSeed != 0:
		seeds = []uint64{*programSeed}
	case testing.Short():
		seeds = seeds[1:2]
	}
	cover := &coverage{steps: map[string]int{}}
	t.Run("seed", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				anyProgram(t, seed, cover)
				if t.Failed() {
					t.Logf("repeat it: go test ./test/security -run TestAnyProgram -program.seed=%d", seed)
				}
			})
		}
	})
	t.Logf("steps: %v, jobs that ran: %d", cover.steps, cover.jobs)
	if *programSeed != 0 || testing.Short() {
		return
	}
	for _, kind := range stepKinds() {
		done, refused := cover.steps[kind+"-done"], cover.steps[kind+"-refused"]
		if wants := kind != stepMount && kind != stepDevice; wants && done == 0 || done+refused == 0 {
			t.Errorf("%s was done %d times and refused %d times, so this shows too little", kind, done, refused)
		}
	}
	if cover.jobs == 0 {
		t.Error("no job ran, so this shows too little")
	}
}

func anyProgram(t *testing.T, seed uint64, cover *coverage) {
	t.Helper()
	luck := rand.New(rand.NewPCG(seed, 1))
	a := &trial{house: newHouse(t, "auto", "none")}
	for _, name := range []string{"etc/passwd", "etc/shadow", ".config/app/token", ".nanobot/kept/ledger.json"} {
		a.canaries[name] = "canary " + random()
		a.write(filepath.Join(a.home, name), a.canaries[name]+"\n")
	}
	a.approval()["timeout"] = 20
	a.chats()
	a.telegram()["inlineKeyboards"] = true
	before := outsideBytes(t, a)
	a.gate.start()
	events := chaosEvents()
	order := sortedKeys(events)
	luck.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	turns := *programTurns
	if turns <= 0 {
		turns = len(order)
	}
	programs := 0
	for i := range turns {
		programs += a.anyTurn(luck, i == 0)
		if len(a.void) > 0 {
			break // it does not answer
		}
		events[order[i%len(order)]](a)
	}
	if len(a.void) == 0 {
		a.gate.say(ada, "are you there?")
	}
	a.gate.stop()
	if programs == 0 {
		t.Error("no program ran, so this shows nothing")
	}
	cover.count(a)
	for _, what := range append(append(a.broken, a.void...), a.breaks(a.all, ".nanobot/workspace/")...) {
		if strings.HasPrefix(what, "something was approved: ") && strings.Contains(what, `decision="approved: yes"`) {
			continue // by the owner
		}
		t.Error(what)
	}
	after := outsideBytes(t, a)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(sortedKeys(before), sortedKeys(after)...)))) {
		if before[name] != after[name] {
			t.Errorf("%s was %q and is %q", name, before[name], after[name])
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// outsideBytes is everything of the house outside of the workspace and of what
// the agent keeps itself: kind, mode, time of the last change and content.
// Links and pipes in the agent's own folders are listed as well: it makes none.
func outsideBytes(t *testing.T, a *trial) map[string]string {
	t.Helper()
	seen := map[string]string{}
	err := filepath.WalkDir(a.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(a.home, path)
		if err != nil || rel == "." {
			return err
		}
		if rel == filepath.Join(".nanobot", "workspace") {
			return fs.SkipDir
		}
		inside, ours := strings.CutPrefix(rel, ".nanobot/")
		if ours && !strings.HasPrefix(inside, "kept") {
			if d.Type()&(fs.ModeSymlink|fs.ModeNamedPipe|fs.ModeDevice) != 0 {
				seen[rel] = d.Type().String()
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen[rel] = info.Mode().String()
		if rel != ".nanobot" {
			seen[rel] += " " + info.ModTime().String()
		}
		if d.Type().IsRegular() {
			b, err := os.ReadFile(path)
			seen[rel] += " " + string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

var stepCount = regexp.MustCompile(`steps: ([a-z=0-9 -]*) end`)

// count notes what the programs of a trial said they did. A request repeats
// what earlier ones held, so each line counts once.
func (c *coverage) count(a *trial) {
	lines, jobs := map[string]bool{}, map[string]bool{}
	for _, body := range a.model.bodies() {
		for _, m := range stepCount.FindAllStringSubmatch(string(body), -1) {
			lines[m[1]] = true
		}
		if strings.Contains(string(body), "water the plants") && strings.Contains(string(body), "cron") {
			jobs[string(body)] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs += len(jobs)
	for line := range lines {
		for part := range strings.FieldsSeq(line) {
			kind, n, _ := strings.Cut(part, "=")
			k, _ := strconv.Atoi(n) // as the program printed it
			c.steps[kind] += k
		}
	}
}

// anyTurn is a turn with random programs, some of which go on. The first
// program of the first turn runs to its end. The owner says yes to every
// question: what holds is not the question.
func (a *trial) anyTurn(luck *rand.Rand, first bool) (programs int) {
	a.t.Helper()
	// The names of the programs are the owner's; they are put there without
	// following what earlier ones made of the workspace.
	root, err := os.OpenRoot(a.ws)
	if err != nil {
		a.t.Fatal(err)
	}
	defer root.Close()
	put := func(name string, body []byte) bool {
		_ = root.RemoveAll(name) // it may not be there
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return false
		}
		_, err = f.Write(body)
		_ = f.Close()
		if err != nil {
			a.t.Fatal(err)
		}
		return true
	}
	names := chaosNames()
	var calls []call
	for i := range 1 + luck.IntN(2) {
		name := fmt.Sprintf("program%d", i)
		whole := first && i == 0
		if !put(name+".json", randomProgram(luck, a, whole)) || !put("program.py", []byte(programPy)) {
			continue
		}
		programs++
		command := fmt.Sprintf("python3 program.py . %s.json", name)
		if luck.IntN(3) == 0 && !whole {
			calls = append(calls, call{"exec", fmt.Sprintf(`{"command":%q,"yield_time_ms":0}`, command)})
		} else {
			calls = append(calls, sh(command))
		}
		for _, more := range []call{
			write(names[luck.IntN(len(names))], "written by the agent"), read(names[luck.IntN(len(names))]), sh("seq 1 9000"),
			{"cron", `{"action":"add","message":"water the plants","every_seconds":1}`},
			{"list_dir", `{"path":"."}`},
			{"grep", `{"pattern":"canary","path":".","output_mode":"content"}`},
			{"message", jsonOf("content", "look") /* with no file */},
			{"edit_file", edit(names[luck.IntN(len(names))], "x", "y")},
		} {
			if luck.IntN(3) == 0 {
				calls = append(calls, more)
			}
		}
	}
	a.gate.work(task{words: "go on", calls: calls})
	return programs
}
