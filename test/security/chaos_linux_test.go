package security_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/sandbox"
)

// Variables of TestAnyProgram: how long it goes on, and with what luck.
const (
	secondsVariable = "NANOBOT_PROGRAM_SECONDS"
	seedVariable    = "NANOBOT_PROGRAM_SEED"
)

// names that random programs make, rename, link and remove: those the program
// uses or used, and others.
func chaosNames() []string {
	return []string{
		".nanobot", ".nanobot/templates.json", ".nanobot/workspace-id", ".nanobot/workspace-id.lock", ".nanobot/tool-results", "cron", "cron/jobs.json", "cron/jobs.json.good",
		"cron.lock", "sessions", "sessions/telegram_42.jsonl", "triggers", "triggers/inbox", "memory", "memory/history.jsonl", "memory/MEMORY.md", "memory/.git", "skills", "skills/tea",
		"AGENTS.md", "SOUL.md", "HEARTBEAT.md", "USER.md", ".git", ".git/config", "prompts", "prompts/evaluator.md", "generated", "share", "media", "a", "a/b", "b", "c", "notes.txt", "out.txt",
	}
}

// randomProgram is a script of steps with any names of the workspace.
func randomProgram(r *rand.Rand, a *trial) string {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	names := chaosNames()
	targets := []string{
		a.home + "/.bashrc", a.home + "/.ssh", a.home + "/.ssh/id_ed25519", a.home + "/outside", a.home + "/outside/new", a.home, a.data, a.data + "/config.json", a.data + "/sessions",
		"/proc/self/root" + a.home + "/diary.txt", "../../..", "../../outside", "..", "/dev/zero", "/etc/passwd",
	}
	var b strings.Builder
	b.WriteString("cd " + a.ws + "\n")
	for range 10 + r.IntN(40) {
		x, y := pick(names), pick(names)
		fmt.Fprintf(&b, "mkdir -p \"$(dirname %s)\"; ", x)
		switch r.IntN(13) {
		case 0:
			fmt.Fprintf(&b, "ln -sfn %s %s\n", pick(targets), x)
		case 1:
			fmt.Fprintf(&b, "rm -rf %s; ln -s %s %s\n", x, pick(targets), x)
		case 2:
			fmt.Fprintf(&b, "mv -f %s %s\n", x, y)
		case 3:
			fmt.Fprintf(&b, "rm -rf %s; mkdir -p %s\n", x, x)
		case 4:
			fmt.Fprintf(&b, "rm -rf %s; mkfifo %s\n", x, x)
		case 5:
			fmt.Fprintf(&b, "echo '{\"x\":%d}' > %s\n", r.IntN(100), x)
		case 6:
			fmt.Fprintf(&b, "cp -a %s %s\n", pick(targets), x)
		case 7:
			fmt.Fprintf(&b, "ln -f %s %s; ln -f %s %s\n", pick(targets), x, y, x)
		case 8:
			fmt.Fprintf(&b, "unshare -rm sh -c 'mount --bind %s %s; cat %s/* %s; mount -t tmpfs t %s; touch %s/x' </dev/null\n", pick(targets), x, x, x, y, y)
		case 9:
			fmt.Fprintf(&b, "cat %s %s/* </dev/null | head -c 300\n", pick(targets), pick(targets))
		case 10:
			fmt.Fprintf(&b, "chmod %o %s\n", r.IntN(0o1000), x)
		case 11:
			fmt.Fprintf(&b, "python3 -c 'import os,sys; os.rename(sys.argv[1],sys.argv[2])' %s %s\n", x, y)
		default:
			fmt.Fprintf(&b, "rm -rf %s\n", x)
		}
	}
	return b.String()
}

// TestAnyProgram lets random programs do anything to the names of a workspace
// while turns, jobs, restarts, backups and undo go on. Afterwards no byte
// outside of the workspace is different, and none of the protected ones was
// read by anything.
func TestAnyProgram(t *testing.T) {
	t.Parallel()
	level(t, sandbox.Auto)
	seconds, seed := 20, uint64(time.Now().UnixNano())
	if testing.Short() {
		seconds = 5
	}
	if n, err := strconv.Atoi(os.Getenv(secondsVariable)); err == nil {
		seconds = n
	}
	if n, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64); err == nil {
		seed = n
	}
	t.Logf("%s=%d", seedVariable, seed)
	luck := rand.New(rand.NewPCG(seed, 1))
	a := &trial{house: newHouse(t, "auto", "none")}
	a.approval()["timeout"] = 1
	a.chats()
	a.gate.start()
	turns, programs := 0, 0
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); turns++ {
		programs += a.anyTurn(luck)
		switch luck.IntN(7) {
		case 0:
			a.gate.start()
		case 1:
			a.backup()
		case 2:
			a.cli("undo", "--force")
		case 3:
			a.cli("cron", "add", "-m", "tea", "--every", "2h")
		case 4:
			a.gate.tg.Say(ada, "/undo force")
		case 5:
			a.gate.tg.Say(ada, "/new")
		}
	}
	a.gate.stop()
	t.Logf("%d turns, %d programs", turns, programs)
	if programs == 0 {
		t.Error("no program ran, so this shows nothing")
	}
	for _, what := range append(append(a.broken, a.void...), a.breaks(a.all, ".nanobot/workspace/")...) {
		t.Errorf("seed %d: %s", seed, what)
	}
}

// anyTurn is a turn with random programs, some of which go on.
func (a *trial) anyTurn(luck *rand.Rand) (programs int) {
	a.t.Helper()
	// The names of the programs are the owner's; they are put there without
	// following what earlier ones made of the workspace.
	root, err := os.OpenRoot(a.ws)
	if err != nil {
		a.t.Fatal(err)
	}
	defer root.Close()
	names := chaosNames()
	var calls []call
	for i := range 1 + luck.IntN(2) {
		name := fmt.Sprintf("program%d.sh", i)
		_ = root.RemoveAll(name) // it may not be there
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			continue
		}
		_, err = f.WriteString(randomProgram(luck, a))
		_ = f.Close()
		if err != nil {
			a.t.Fatal(err)
		}
		programs++
		if luck.IntN(3) == 0 {
			calls = append(calls, call{"exec", fmt.Sprintf(`{"command":"sh %s","yield_time_ms":0}`, name)})
		} else {
			calls = append(calls, call{"exec", fmt.Sprintf(`{"command":"sh %s","timeout":4}`, name)})
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
	a.gate.say(ada, "go on", calls...)
	return programs
}
