package guard

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// TestNoStrangersBytesAreTheOwners lets tainted and clean turns, commands that go
// on running, the owner in a terminal and two processes work on one workspace in
// a random order. After each step every file with a stranger's words is marked in
// every process, and whoever reads one without knowing it would obey: nothing
// clean does.
func TestNoStrangersBytesAreTheOwners(t *testing.T) {
	t.Parallel()
	const steps = 60
	var seeds []uint64
	for i := range uint64(24) {
		seeds = append(seeds, i)
	}
	seeds = append(seeds, rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64())
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			for range steps {
				w.step()
				if t.Failed() {
					t.Fatalf("after these steps:\n%s", strings.Join(w.story, "\n"))
				}
			}
			w.endAll()
			w.check()
			if t.Failed() {
				t.Fatalf("after these steps, and when all commands had ended:\n%s", strings.Join(w.story, "\n"))
			}
		})
	}
}

// stranger is in everything that comes from outside, and in nothing else.
const stranger = "S!"

// world is a workspace, another folder with a record, and two processes.
type world struct {
	t         *testing.T
	r         *rand.Rand
	ws, other string
	away      string // where the owner keeps copies that nothing of ours sees
	data      string
	processes [2]*tracker
	running   []*runningCommand
	number    int
	sparse    bool // there is one file of a stranger at most, so that nothing else keeps a command from being clean
	story     []string
}

// runningCommand is a command of a process, with what it has printed.
type runningCommand struct {
	w       *watch
	by      int
	printed string
	frozen  bool
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	s, _, ws := keeper(t)
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), ws: ws, other: filepath.Join(filepath.Dir(ws), "other"), away: filepath.Join(filepath.Dir(ws), "away"), data: filepath.Join(filepath.Dir(ws), "origin")}
	for _, dir := range []string{w.other, w.away, filepath.Join(ws, "a", "b")} {
		w.must(os.MkdirAll(dir, 0o700))
	}
	w.must(os.Remove(filepath.Join(ws, "AGENTS.md"))) // a tainted turn's words in it are the owner's after a yes
	w.sparse = seed%2 == 1
	w.processes[0] = s
	w.start(1)
	return w
}

// start is a process that starts, or starts again.
func (w *world) start(i int) {
	old := w.processes[0]
	w.processes[i] = &tracker{
		posture: Posture{Sandbox: sandbox.Auto, Approval: old.posture.Approval},
		jail:    old.jail,
		origins: &origins{state: storetest.Disk(w.t, w.data), workspace: w.ws, name: "ws", cache: old.origins.cache, log: old.log},
		log:     old.log,
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v, after\n%s", err, strings.Join(w.story, "\n"))
	}
}

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, "  "+fmt.Sprintf(format, args...))
}

// step does one thing and checks everything.
func (w *world) step() {
	type act struct {
		weight int
		do     func()
	}
	acts := []act{
		{4, func() { w.write(true, false) }},
		{2, func() { w.write(true, true) }},
		{4, func() { w.write(false, false) }},
		{2, func() { w.write(false, true) }},
		{5, w.begin},
		{12, w.work},
		{4, w.end},
		{2, w.freeze},
		{8, w.owner},
		{2, w.ownerAway},
		{2, w.passing},
		{1, w.restart},
		{1, func() { w.pause() }},
	}
	total := 0
	for _, a := range acts {
		total += a.weight
	}
	n := w.r.IntN(total)
	for _, a := range acts {
		if n -= a.weight; n < 0 {
			a.do()
			break
		}
	}
	w.check()
}

// body is a content of a random size, with the words of a stranger or without.
func (w *world) body(foreign bool) string {
	w.number++
	text := fmt.Sprintf("%d\n", w.number)
	if foreign {
		text = stranger + text
	}
	if w.r.IntN(2) == 0 {
		text += strings.Repeat("and so on\n", 1+w.r.IntN(200))
	}
	return text
}

func (w *world) name() string {
	return []string{"", "a/", "a/b/", "c/"}[w.r.IntN(4)] + []string{"x", "y", "z.sh", "notes.md", "run"}[w.r.IntN(5)]
}

// files are those of the workspace, by their relative names.
func (w *world) files(root string) []string {
	var out []string
	w.must(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, _ := filepath.Rel(root, path)
			out = append(out, rel)
		}
		return err
	}))
	return out
}

func (w *world) anyFile() string {
	all := w.files(w.ws)
	return all[w.r.IntN(len(all))]
}

func (w *world) read(name string) string {
	b, err := os.ReadFile(filepath.Join(w.ws, name))
	w.must(err)
	return string(b)
}

// write is a turn with a file tool. A clean one that edits a file has read it, and
// is not clean any more if that came from outside.
func (w *world) write(tainted, edits bool) {
	if tainted && w.enough() {
		return
	}
	i := w.r.IntN(2)
	c := tool.Call{ID: "1", SessionKey: "s", TurnID: fmt.Sprint(w.number), Name: "write_file", Tainted: tainted}
	name, body := w.name(), w.body(tainted)
	if edits {
		c.Name, name = "edit_file", w.anyFile()
		body = w.read(name) + body
	}
	w.tell("process %d: %s %s, tainted %v: %.20q", i, c.Name, name, tainted, body)
	s := w.processes[i]
	w.must(s.writes(c, []string{name}))
	path := filepath.Join(w.ws, name)
	w.must(os.MkdirAll(filepath.Dir(path), 0o700))
	if w.r.IntN(2) == 0 { // as an editor does that replaces files
		w.must(os.WriteFile(path+".new", []byte(body), 0o600))
		w.must(os.Rename(path+".new", path))
	} else {
		w.must(os.WriteFile(path, []byte(body), 0o600))
	}
	w.must(s.wrote(c))
}

// enough reports whether a sparse world has its stranger's file.
func (w *world) enough() bool {
	return w.sparse && slices.ContainsFunc(w.files(w.ws), func(name string) bool { return strings.Contains(w.read(name), stranger) })
}

func (w *world) begin() {
	if len(w.running) >= 4 {
		return
	}
	i, tainted := w.r.IntN(2), w.r.IntN(5) == 0 && !w.sparse
	w.tell("process %d: command %d begins, tainted %v", i, len(w.running), tainted)
	one, err := w.processes[i].watch(tool.Call{Tainted: tainted}, true)
	w.must(err)
	w.running = append(w.running, &runningCommand{w: one, by: i})
}

func (w *world) any() (int, *runningCommand) {
	if len(w.running) == 0 {
		return 0, nil
	}
	i := w.r.IntN(len(w.running))
	return i, w.running[i]
}

// work lets a command do what programs do.
func (w *world) work() {
	i, c := w.any()
	if c == nil {
		return
	}
	switch n := w.r.IntN(8); {
	case n < 3 || c.frozen || n == 6 && w.sparse:
		name := w.anyFile()
		c.printed += w.read(name)
		w.tell("command %d prints %s", i, name)
	case n == 3: // what it knows
		name := w.name()
		w.tell("command %d writes what it read to %s", i, name)
		w.put(name, c.printed+w.body(false))
	case n == 4:
		name := w.anyFile()
		w.tell("command %d copies %s", i, name)
		w.shell("cp "+name+" copy"+fmt.Sprint(w.number), w.ws)
		w.number++
	case n == 5:
		name := w.anyFile()
		w.tell("command %d moves %s", i, name)
		w.shell("mv "+name+" moved"+fmt.Sprint(w.number), w.ws)
		w.number++
	case n == 6: // it can use the network, and its first connection is recorded
		name := w.name()
		w.tell("command %d fetches %s", i, name)
		yes := func() bool { return true }
		c.w.record()
		c.w.used.Store(&yes)
		w.put(name, w.body(true))
	default: // somebody looks at what it printed
		w.look(i, c)
	}
}

func (w *world) put(name, body string) {
	path := filepath.Join(w.ws, name)
	w.must(os.MkdirAll(filepath.Dir(path), 0o700))
	w.must(os.WriteFile(path, []byte(body), 0o600))
}

// look is a look at the output of a command.
func (w *world) look(i int, c *runningCommand) {
	outside := c.w.outside()
	w.tell("the output of command %d counts as from outside: %v", i, outside)
	if strings.Contains(c.printed, stranger) && !outside {
		w.t.Errorf("command %d printed a stranger's words as its own", i)
	}
}

func (w *world) freeze() {
	i, c := w.any()
	if c == nil || c.frozen {
		return
	}
	w.tell("command %d is frozen", i)
	c.frozen = true
	c.w.end()
}

func (w *world) end() {
	i, c := w.any()
	if c == nil {
		return
	}
	w.look(i, c)
	w.tell("command %d ends", i)
	c.w.end()
	c.w.close()
	w.running = slices.Delete(w.running, i, i+1)
}

func (w *world) endAll() {
	for len(w.running) > 0 {
		w.end()
	}
}

// passing is a stranger's file that is there for a moment only, while every
// command looks.
func (w *world) passing() {
	name := fmt.Sprintf("passing%d", w.number)
	body := w.body(true)
	s := w.processes[w.r.IntN(2)]
	c := tool.Call{ID: "2", SessionKey: "s", TurnID: fmt.Sprint(w.number), Name: "write_file", Tainted: true}
	w.tell("a stranger's %s passes by, and every command prints it", name)
	w.must(s.writes(c, []string{name}))
	w.put(name, body)
	w.must(s.wrote(c))
	for _, c := range w.running {
		c.printed += body
	}
	w.must(os.Remove(filepath.Join(w.ws, name)))
	for _, s := range w.processes {
		s.contained(tool.Call{}) // the records notice that it is gone
	}
}

// restart is a process that ends and starts again; its commands end before.
func (w *world) restart() {
	if slices.ContainsFunc(w.running, func(c *runningCommand) bool { return c.by == 1 }) {
		return
	}
	w.tell("process 1 starts again")
	w.start(1)
}

// pause lets the clock of the files go on.
func (w *world) pause() {
	timer := time.NewTimer(15 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
}

func (w *world) shell(command, dir string) {
	cmd := exec.CommandContext(w.t.Context(), "sh", "-ec", command)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// owner is the owner in a terminal, in the workspace.
func (w *world) owner() {
	name, to := w.anyFile(), fmt.Sprintf("o%d", w.number)
	w.number++
	command := []string{
		"mv " + name + " " + to,
		"cp " + name + " " + to + " && rm " + name,
		"cp -p " + name + " " + to,
		"ln " + name + " " + to + " && rm " + name,
		"mkdir " + to + " && mv " + name + " " + to + "/in",
		"[ ! -d a ] || mv a " + to,
		"[ ! -d c ] || { cp -r c " + to + " && rm -r c; }",
		"tar cf ../away/t.tar . && tar xf ../away/t.tar " + "./" + name + " && rm ../away/t.tar",
		"rm " + name,
		"touch -d 2001-01-01 " + name,
		"mv " + name + " " + to + " && echo mine > " + name,
		"echo mine > " + to,
	}[w.r.IntN(12)]
	w.tell("the owner: %s", command)
	w.shell(command, w.ws)
	if len(w.files(w.ws)) == 0 {
		w.put("mine.txt", "mine\n")
	}
}

// ownerAway is the owner who takes files to another folder or a backup and brings
// them back, as an undo without a record would.
func (w *world) ownerAway() {
	to := fmt.Sprintf("r%d", w.number)
	w.number++
	if kept := w.files(w.away); len(kept) > 0 && w.r.IntN(2) == 0 {
		name := kept[w.r.IntN(len(kept))]
		w.tell("the owner restores %s as %s", name, to)
		w.shell("cp "+filepath.Join(w.away, name)+" "+to, w.ws)
		return
	}
	if len(w.running) > 0 {
		return // what a command is writing is known when it ends
	}
	name := w.anyFile()
	where := []string{w.away, w.other}[w.r.IntN(2)]
	w.tell("the owner takes %s to %s/%s", name, filepath.Base(where), to)
	w.shell("cp "+name+" "+filepath.Join(where, to), w.ws)
}

// check asks every process about every file.
func (w *world) check() {
	w.t.Helper()
	names := w.files(w.ws)
	for i, s := range w.processes {
		rec, err := s.origins.of("")
		w.must(err)
		for _, name := range names {
			if !strings.Contains(w.read(name), stranger) {
				continue
			}
			path := filepath.Join(w.ws, name)
			if !rec.Foreign(path) {
				w.t.Errorf("process %d: %s has a stranger's words and counts as the owner's", i, name)
			}
			if len(s.outside(tool.Call{}, "sh ./"+name, w.ws)) == 0 {
				w.t.Errorf("process %d: %s has a stranger's words and is run without a question", i, name)
			}
		}
		if why := s.contained(tool.Call{}); why == "" && slices.ContainsFunc(names, func(name string) bool { return strings.Contains(w.read(name), stranger) }) {
			w.t.Errorf("process %d: a command is clean that can read a stranger's words", i)
		}

		other, err := s.origins.of(w.other)
		w.must(err)
		w.checkOther(i, other)
	}
}

func (w *world) checkOther(i int, rec *origin.Store) {
	w.t.Helper()
	for _, name := range w.files(w.other) {
		path := filepath.Join(w.other, name)
		b, err := os.ReadFile(path)
		w.must(err)
		if strings.Contains(string(b), stranger) && !rec.Foreign(path) {
			w.t.Errorf("process %d: %s in the other folder has a stranger's words and counts as the owner's", i, name)
		}
	}
}

// A world without strangers has no marks, so that the test above is about
// something.
func TestOwnersBytesAreTheOwners(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		w := newWorld(t, seed)
		for range 40 {
			switch w.r.IntN(4) {
			case 0:
				w.write(false, w.r.IntN(2) == 0)
			case 1:
				w.owner()
			case 2:
				if len(w.running) < 3 {
					one, err := w.processes[w.r.IntN(2)].watch(tool.Call{}, true)
					w.must(err)
					w.running = append(w.running, &runningCommand{w: one})
				}
			default:
				w.end()
			}
		}
		w.endAll()
		for i, s := range w.processes {
			rec, err := s.origins.of("")
			w.must(err)
			if marked, err := rec.List(); err != nil || len(marked) > 0 || s.contained(tool.Call{}) != "" {
				t.Errorf("seed %d, process %d: %q is marked (%q), %v, after\n%s", seed, i, marked, s.contained(tool.Call{}), err, strings.Join(w.story, "\n"))
			}
		}
	}
}
