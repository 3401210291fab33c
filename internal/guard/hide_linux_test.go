package guard_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
)

// pythonConfigs are configurations as people bring them along: no sandbox, no
// approvals, the whole disk, with the one switch that was there, or with the
// protection of our own folder switched off.
func pythonConfigs() []string {
	return []string{
		`{"providers":{"custom":{"apiKey":"CANARY-key-of-the-file"}}}`,
		`{"providers":{"custom":{"apiKey":"CANARY-key-of-the-file"}},"tools":{"restrictToWorkspace":true}}`,
		`{"providers":{"custom":{"apiKey":"CANARY-key-of-the-file"}},"tools":{"protectConfigDir":false,"exec":{"sandbox":""}}}`,
	}
}

// stateFiles decide about money and trust, or hold what others must not read.
func stateFiles() []string {
	files := []string{
		"config.json", "secrets.json", "usage/totals.json", "usage/2026-01.jsonl", "prices.json", "webui/state.json", "index/a.db",
		"run/nonces", "run/owner-chat.json", "pairing.json", "auth/mcp.json", "sessions/x.jsonl", "bus/1.log", "skills.json",
		"cron/jobs.json", "triggers.json", "something-of-tomorrow/x",
	}
	for _, n := range datadir.Closed() {
		if e, _ := datadir.Lookup(string(n)); !slices.ContainsFunc(files, func(f string) bool { return strings.HasPrefix(f+"/", string(n)+"/") }) {
			if e.Folder {
				n += "/x.json"
			}
			files = append(files, string(n))
		}
	}
	return files
}

// Without any sandbox the file tools and the commands of an obedient model get
// neither the keys nor what decides about money and trust.
func TestOurDataIsClosedWithoutSandbox(t *testing.T) {
	t.Parallel()
	if _, err := sandbox.Open(t.Context(), sandbox.Options{Mode: sandbox.Hide}); err != nil {
		t.Skipf("this machine cannot hide anything: %v", err)
	}
	for i, conf := range pythonConfigs() {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			s := newShared(t, conf)
			for _, name := range stateFiles() {
				if path := filepath.Join(s.home, filepath.FromSlash(name)); name != "config.json" {
					if _, err := os.Lstat(path); err != nil {
						s.put("../"+name, "CANARY-state of "+name)
					}
				}
			}
			read := func() map[string]string {
				out := map[string]string{}
				for _, name := range stateFiles() {
					if b, err := os.ReadFile(filepath.Join(s.home, filepath.FromSlash(name))); err == nil && strings.Contains(string(b), "CANARY") {
						out[name] = string(b)
					}
				}
				return out
			}
			try := func(calls ...map[string]any) {
				s.run("", calls...)
				if got := s.got.String(); len(s.each) != len(calls) || strings.Contains(got, "CANARY-state") || strings.Contains(got, "CANARY-key-of") || strings.Contains(got, "CANARY-signal") {
					t.Errorf("%d calls, %d results; the model saw it: %.300q", len(calls), len(s.each), got[max(0, strings.Index(got, "CANARY-")-200):])
				}
			}
			was := read()
			for _, name := range stateFiles() {
				path := filepath.Join(s.home, filepath.FromSlash(name))
				up := "../" + name
				try(
					call("read_file", "path", path), call("read_file", "path", up), call("grep", "pattern", "CANARY", "path", filepath.Dir(path), "output_mode", "content"),
					call("write_file", "path", path, "content", "{}"), call("edit_file", "path", path, "old_text", "CANARY", "new_text", "x"),
					call("apply_patch", "patch", "*** Begin Patch\n*** Delete File: "+path+"\n*** End Patch"),
				)
				try(
					call("exec", "command", "cd .. && cat "+name), call("exec", "command", "d=$(dirname $PWD); base64 -d <<<"+encoded("cat $d/"+name)+" | bash"),
					call("exec", "command", "python3 -c \"import os;p=os.path.dirname(os.getcwd())+'/"+name+"';print(open(p).read());open(p,'w').write('{}')\""),
					call("exec", "command", "p=$(dirname $PWD); rm -rf $p/"+name+"; mv $p/"+name+" x; ln $p/"+name+" h; cat h x; cp -a $p copy; grep -r CANARY- copy"),
				)
			}
			try(call("exec", "command", fmt.Sprintf("tr '\\0' '\\n' < /proc/%[1]d/environ; cat /proc/%[1]d/cmdline; ls /proc/%[1]d/fd; kill -0 %[1]d && echo CANARY-signal", os.Getpid())))
			try(call("exec", "command", "d=$(dirname $PWD); find $d -type f ! -path \"$PWD/*\"; mv $d $d.moved; cat $d.moved/config.json; mv $d.moved $d"))
			for name, content := range was {
				if b, err := os.ReadFile(filepath.Join(s.home, filepath.FromSlash(name))); err != nil || string(b) != content {
					t.Errorf("%s was changed to %q, %v", name, b, err)
				}
			}
			// And ordinary work goes on.
			s.run("", call("exec", "command", "echo usual-work > made.txt && cat made.txt && ls "+s.ws+" | wc -l"))
			if !strings.Contains(s.got.String(), "usual-work") {
				t.Errorf("commands do not work: %s", s.got.String())
			}
		})
	}
}

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// MCP servers see no more of our data than commands do, and still use what the
// configuration names for them.
func TestServersDoNotSeeOurData(t *testing.T) {
	t.Parallel()
	if _, err := sandbox.Open(t.Context(), sandbox.Options{Mode: sandbox.Hide}); err != nil {
		t.Skipf("this machine cannot hide anything: %v", err)
	}
	for _, conf := range pythonConfigs() {
		home := t.TempDir()
		for name, text := range map[string]string{
			"config.json": conf, "usage/totals.json": "CANARY-state", "servers/mine/run.sh": "cat $(dirname $0)/own.txt; " + everything,
			"servers/mine/own.txt": "own-of-the-server", "workspace/x.txt": "of-the-workspace",
		} {
			path := filepath.Join(home, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		l, err := config.Load(config.Options{Home: home, Env: []string{"NANOBOT_HOME=" + home}})
		if err != nil {
			t.Fatal(err)
		}
		confined, stop := guard.OpenServers(t.Context(), guard.Options{
			Policy: guard.Policy{Posture: app.Posture(l), DataDir: l.DataDir, ConfigFile: l.File}, Workspace: filepath.Join(home, "workspace"), State: app.State(l, nil), Getenv: app.Getenv(nil),
		})
		cmd := exec.CommandContext(t.Context(), "/bin/bash", filepath.Join(home, "servers", "mine", "run.sh"))
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "DATA=" + home, fmt.Sprintf("AGENT=%d", os.Getpid())}
		cleanup, err := confined.Cover(mcp.Server{}, cmd)
		if err != nil {
			t.Fatal(err)
		}
		out, _ := cmd.CombinedOutput() // most of it fails
		cleanup()
		stop()
		if text := string(out); strings.Contains(text, "CANARY-") || !strings.Contains(text, "own-of-the-server") || !strings.Contains(text, "of-the-workspace") {
			t.Errorf("the server saw %s", text)
		}
	}
}

// everything tries to read what a server must not.
const everything = `cat $DATA/workspace/x.txt; cat $DATA/config.json; cat $DATA/servers/../config.json; cat $DATA/usage/totals.json
cat /proc/$AGENT/environ /proc/$AGENT/root$DATA/config.json; cd $DATA/servers/..; cat config.json; grep -r -h CANARY-[ks] --include=*.json $DATA; ln $DATA/config.json $DATA/servers/h; cat $DATA/servers/h
unshare -Urm sh -c "umount -l $DATA; cat $DATA/config.json"; kill -0 $AGENT && echo CAN""ARY-signal
`
