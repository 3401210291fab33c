package security_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// startsIt is what the programs of these attempts do.
const startsIt = "touch " + ran

// laterRun is a file that a tainted turn writes, and how the owner's agent
// starts it in a later, clean turn.
type laterRun struct {
	how   string
	files map[string]string
	// between prepares something in a clean turn of its own, without a question.
	between string
	// links are made by the owner, by name and target.
	links [2]string
	start string
	named string // what the question must name
}

func laterRunList() []laterRun {
	script := map[string]string{"tool.sh": startsIt + "\n"}
	return []laterRun{
		{how: "a shell", files: script, start: "sh tool.sh", named: "tool.sh"},
		{how: "its own path", files: map[string]string{"tool": "#!/bin/sh\n" + startsIt + "\n"}, between: "chmod +x tool", start: "./tool", named: "tool"},
		{how: "make", files: map[string]string{"Makefile": "all:\n\t" + startsIt + "\n"}, start: "make", named: "Makefile"},
		{how: "make in another folder", files: map[string]string{"lib/Makefile": "all:\n\t" + startsIt + "\n"}, start: "cd lib && make -s", named: "lib"},
		{how: "make with the folder as an option", files: map[string]string{"lib/Makefile": "all:\n\t" + startsIt + "\n"}, start: "make --directory=lib", named: "lib"},
		{how: "go", files: map[string]string{"m/go.mod": "module m\n", "m/m_test.go": "package m\n"}, start: "cd m && go test ./...", named: "m"},
		{how: "npm", files: map[string]string{"package.json": `{"name":"x","version":"1.0.0","scripts":{"test":"` + startsIt + `"}}`}, start: "npm test --silent", named: "package.json"},
		{how: "`.`", files: script, start: ". ./tool.sh", named: "tool.sh"},
		{how: "a link of the owner's", files: script, links: [2]string{"mine.sh", "tool.sh"}, start: "sh mine.sh", named: "tool.sh"},
		{how: "a copy that a command made", files: script, between: "cp tool.sh copy.sh", start: "sh copy.sh", named: "copy.sh"},
		{how: "its place in a folder that was moved", files: map[string]string{"a/tool.sh": startsIt + "\n"}, between: "mv a b", start: "sh b/tool.sh", named: "b/tool.sh"},
		{how: "standard input", files: script, start: "sh < tool.sh", named: "tool.sh"},
		{how: "a pipeline", files: script, start: "cat notes.txt | sh tool.sh | head -1", named: "tool.sh"},
		{how: "`find -exec`", files: script, start: `find . -maxdepth 1 -name '*.sh' -exec sh {} \;`, named: "tool.sh"},
		{how: "`xargs`", files: script, start: "ls *.sh | xargs -n1 sh", named: "tool.sh"},
		{how: "a file of aliases", files: map[string]string{"aliases": "alias hi='" + startsIt + "'\n"}, start: `bash -O expand_aliases -c ". ./aliases
hi"`, named: "aliases"},
		{how: "an import", files: map[string]string{"helper.py": "import os; os.system('" + startsIt + "')\n"}, start: "python3 -c 'import helper'", named: "helper.py"},
		{how: "a search path", files: map[string]string{"bin/notes": "#!/bin/sh\n" + startsIt + "\n"}, between: "chmod +x bin/notes", start: "PATH=$PWD/bin:$PATH notes", named: "bin"},
		{how: "a variable and a wrapper", files: script, start: "f=tool.sh; timeout 5 sh $f", named: "tool.sh"},
		{how: "a loop over names", files: script, start: `for f in *.sh; do sh "$f"; done`, named: "tool.sh"},
		{how: "the background", files: script, start: "sh tool.sh & wait", named: "tool.sh"},
	}
}

// prepare lets a tainted turn write the files, in a chat where the owner
// answers every question with no.
func (a *trial) prepare(r laterRun) {
	calls := []call{fetch(a.web.page("/q", "text/plain", "hello"))}
	for name, body := range r.files {
		calls = append(calls, write(name, body))
	}
	a.gate.workSaying("no", task{words: "note it", calls: calls})
	for name := range r.files {
		_, err := os.Stat(filepath.Join(a.ws, name))
		a.shows(err == nil, "%s was not written: %v", name, err)
	}
	if r.links[0] != "" {
		if err := os.Symlink(r.links[1], filepath.Join(a.ws, r.links[0])); err != nil {
			a.t.Fatal(err)
		}
	}
	if r.between != "" {
		a.gate.work(task{words: "/new"})
		if q := a.gate.workSaying("no", task{words: "tidy up", calls: []call{sh(r.between)}}); len(q) > 0 {
			a.shows(false, "%s asks: %s", r.between, q[0].question)
		}
	}
	a.gate.work(task{words: "/new"})
}

func attended(a *trial) {
	a.exec()["network"] = "proxy"
	a.chats()
	a.telegram()["inlineKeyboards"] = true
	a.approval()["timeout"] = 30
}

// laterRuns are files that a tainted turn writes and that a clean one starts,
// with the owner there to be asked.
func laterRuns() []attempt {
	var list []attempt
	for _, r := range laterRunList() {
		list = append(list, attempt{
			route:  fmt.Sprintf("a file that a tainted turn wrote is started in a clean turn by %s: `%s`", r.how, strings.ReplaceAll(r.start, "\n", "; ")),
			expect: "asked: the question names the file, and a no runs nothing",
			config: attended,
			run: func(a *trial) {
				a.gate.start()
				a.prepare(r)
				asked := a.gate.workSaying("no", task{words: "start it", calls: []call{sh(r.start)}})
				switch {
				case len(asked) == 0:
					a.broke("nothing was asked")
				case !strings.Contains(asked[0].question, `"`+r.named+`"`) || !strings.Contains(asked[0].question, "nanobot trust"):
					a.broke("the question does not say what runs: %s", asked[0].question)
				}
				if a.ranIt() {
					a.broke("it ran after a no")
				}
			},
		})
	}
	return list
}

// TestRunUnattended shows that files from outside run contained, and without a
// question, where nobody can be asked.
func TestRunUnattended(t *testing.T) {
	t.Parallel()
	level(t, sandbox.Auto)
	a := &trial{house: newHouse(t, "auto", "proxy")}
	a.turn("note", fetch(a.web.page("/q", "text/plain", "hello")), write("tool.sh", a.fill(payload)+"\n"+startsIt+"\n"))
	a.fresh("start it", sh("sh tool.sh"))
	if !a.ranIt() {
		t.Errorf("it did not run: %v", a.model.lastResults())
	}
	for _, what := range append(append(a.broken, a.void...), a.breaks(a.all)...) {
		t.Error(what)
	}
}

// TestRunAnswers follows a clone that is read, built and tested: one question
// for the conversation. The yes changes neither the mark nor the containment,
// and the owner's word ends the question.
func TestRunAnswers(t *testing.T) {
	t.Parallel()
	level(t, sandbox.Auto)
	a := newInstall(t)
	attended(a)
	address := a.repository(map[string]string{
		"README.md": "# Tool\n", "Makefile": "build:\n\t@echo built > built; echo forged >> ../AGENTS.md; echo built it\ntest:\n\t@cat built; echo tested it\n",
		"run.sh": "echo started it\n", "sub/main.py": "print('subbed it')\n",
	})
	a.seal()
	a.gate.start()
	do := func(answer, command, want string, questions int) {
		t.Helper()
		got := a.gate.workSaying(answer, task{words: "do it", calls: []call{sh(command)}})
		if len(got) != questions {
			t.Errorf("%s: %d questions, want %d: %v", command, len(got), questions, got)
		}
		if out := strings.Join(a.model.lastResults(), "\n"); !strings.Contains(out, want) {
			t.Errorf("%s: no %q in %s", command, want, tail(out))
		}
	}
	do("no", "git clone -q "+address+" tool && ls tool", "README.md", 0)
	do("no", "cat tool/README.md; git -C tool log --oneline; grep -rn built tool | head -3", "# Tool", 0)
	do("no", "cd tool && make build", "said no", 1)
	do("session", "cd tool && make -s build", "built it", 1)
	do("no", "cd tool && make -s test && sh run.sh", "tested it", 0)
	do("no", "python3 tool/sub/main.py", "subbed it", 0)
	do("no", "cp -r tool other && cd other && make -s build", "said no", 1)
	do("no", "cp -r tool other", "", 0)
	do("yes", "cd other && make -s build", "built it", 1)
	do("no", "cd other && make -s test", "said no", 1)
	if o := a.cli("trust", "other"); o.code != 0 {
		t.Errorf("trust: %s", o.stderr)
	}
	do("no", "cd other && make -s test", "tested it", 0)
	a.gate.work(task{words: "/new"})
	do("no", "cd tool && make -s test", "said no", 1)
	if list := a.cli("trust", "--list").stdout; !strings.Contains(list, "tool/") {
		t.Errorf("a yes ended the mark: %s", list)
	}
	a.gate.stop()
	if b, err := os.ReadFile(filepath.Join(a.ws, "AGENTS.md")); err != nil || strings.Contains(string(b), "forged") {
		t.Errorf("the approved command was not contained: %v", err)
	}
}
