package security_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// comesLater is content that comes to a folder after the owner said yes to it for
// the conversation. How it comes is another process, so it is a neighbour as well.
func comesLater() []attempt {
	var list []attempt
	page := func(a *trial) call { return fetch(a.web.page("/q", "text/plain", "hello")) }
	for _, r := range []struct {
		how   string
		calls []call // of a conversation that read a page
		yes   string // to this the owner says yes for the conversation
		start string // in the same conversation, afterwards
	}{
		{"a new program by `write_file`", []call{write("tool/more.sh", startsIt+"\n")}, "sh tool/run.sh", "sh tool/more.sh"},
		{"a changed program by `write_file`", []call{write("tool/run.sh", startsIt+"\n")}, "sh tool/run.sh", "sh tool/run.sh"},
		{"a program of the same length by a command, which sets the old time", []call{sh("cp -p tool/run.sh was; echo 'touch ran.txt' > tool/run.sh; touch -r was tool/run.sh")}, "sh tool/run.sh", "sh tool/run.sh"},
		{"what a makefile includes, by `apply_patch`", []call{patch("tool/more.mk", "all:\n\t"+startsIt+"\n")}, "cd tool && make -s", "make -s -C tool -f Makefile -f more.mk"},
		{"a changed makefile by a command", []call{sh("printf 'all:\\n\\ttouch ../ran.txt\\n' > tool/Makefile")}, "cd tool && make -s", "cd tool && make -s"},
		{"a folder that is moved into it", []call{write("other/x.sh", startsIt+"\n"), sh("mv other tool/sub")}, "sh tool/run.sh", "sh tool/sub/x.sh"},
		{"a program deep below, by a subagent", []call{{"spawn", `{"task":"note it","wait":true}`}, write("tool/a/b/c.sh", startsIt+"\n")}, "sh tool/run.sh", "sh tool/a/b/c.sh"},
		{"a hard link to what another folder holds", []call{write("other.sh", startsIt+"\n"), sh("ln other.sh tool/linked.sh")}, "sh tool/run.sh", "sh tool/linked.sh"},
		{"a module that the program loads", []call{write("tool/part.py", "import os\nos.system('"+startsIt+"')\n")}, "cd tool && python3 -B main.py", "cd tool && python3 -B main.py"},
		{"a program in place of one that was removed", []call{sh("rm tool/run.sh"), write("tool/run.sh", startsIt+"\n")}, "sh tool/run.sh", "sh tool/run.sh"},
	} {
		list = append(list, attempt{
			route:  "the owner allows what is in a folder for the conversation; another conversation, which read a page, adds " + r.how,
			expect: "asked again: a yes covers what was there", config: attended, own: []string{"approved"},
			run: func(a *trial) {
				a.gate.start()
				// A command makes it, so all of the folder is from outside.
				a.turn("note it", page(a), sh(`mkdir tool && cd tool && echo 'echo started it' > run.sh && : > part.py &&
					printf 'import part\nprint("started it")\n' > main.py && printf 'all:\n\t@echo started it\n' > Makefile`))
				for i, times := range []string{"first", "again"} {
					asked := a.gate.workSaying("session", task{words: times, calls: []call{sh(r.yes)}})
					got := strings.Join(a.model.lastResults(), "\n")
					a.shows(strings.Contains(got, "started it") && len(asked) == 1-i, "%s: %d questions: %s", times, len(asked), tail(got))
				}

				a.fresh("go on", append([]call{page(a)}, r.calls...)...)
				asked := a.gate.workSaying("no", task{words: "and now", calls: []call{sh(r.start)}})
				if len(asked) == 0 {
					a.broke("nothing was asked")
				}
				if a.ranIt() {
					a.broke("it ran")
				}
			},
		})
	}
	return list
}

// replacedWhileItRuns are scripts of a command that the owner said yes to, without
// a sandbox. The command waits before it opens them, and the same turn, which has
// read a page, writes others.
func replacedWhileItRuns() []attempt {
	const (
		waits = "i=0; while [ ! -e go.txt ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done\n"
		begin = `{"command":%q,"yield_time_ms":0}`
	)
	evil := "touch ran.txt\n"
	var list []attempt
	for _, r := range []struct {
		how     string
		files   map[string]string
		command string
		link    [2]string
		replace []call
	}{
		{"a file that it sources, by `write_file`", map[string]string{"run.sh": waits + ". ./part.sh\n", "part.sh": "true\n"}, "sh run.sh", [2]string{}, []call{write("part.sh", evil)}},
		{"a script that it starts, by `write_file`", map[string]string{"run.sh": waits + "sh part.sh\n", "part.sh": "true\n"}, "sh run.sh", [2]string{}, []call{write("part.sh", evil)}},
		{"by `edit_file`", map[string]string{"run.sh": waits + ". ./part.sh\n", "part.sh": "true\n"}, "sh run.sh", [2]string{}, []call{{"edit_file", edit("part.sh", "true", "touch ran.txt")}}},
		{"by `apply_patch`", map[string]string{"run.sh": waits + ". ./part.sh\n", "part.sh": "true\n"}, "sh run.sh", [2]string{}, []call{{"apply_patch", `{"edits":[{"path":"part.sh","action":"replace","old_text":"true","new_text":"touch ran.txt"}]}`}}},
		{"under the name of a link to it", map[string]string{"run.sh": waits + ". ./part.sh\n", "part.sh": "true\n"}, "sh run.sh", [2]string{"alias.sh", "part.sh"}, []call{write("alias.sh", evil)}},
		{"the script itself, of which the shell reads the rest later", map[string]string{"run.sh": waits + strings.Repeat("#\n", 8192) + "true\n"}, "sh run.sh", [2]string{}, []call{{"edit_file", edit("run.sh", "\ntrue\n", "\ntouch ran.txt\n")}}},
		{"a script that the command line starts second", map[string]string{"run.sh": waits, "part.sh": "true\n"}, "sh run.sh && sh part.sh", [2]string{}, []call{write("part.sh", evil)}},
		{"by a subagent", map[string]string{"run.sh": waits + ". ./part.sh\n", "part.sh": "true\n"}, "sh run.sh", [2]string{}, []call{{"spawn", `{"task":"note it","wait":true}`}, write("part.sh", evil)}},
		{"a makefile that the script uses later", map[string]string{"run.sh": waits, "Makefile": "all:\n\ttrue\n"}, "sh run.sh; make -s", [2]string{}, []call{write("Makefile", "all:\n\ttouch ran.txt\n")}},
	} {
		list = append(list, attempt{
			route:  "sandbox `none`: the owner allows a command, the turn has read a page and replaces what it runs: " + r.how,
			expect: "refused: the approved command runs what was approved", own: []string{"approved"},
			config: func(a *trial) {
				attended(a)
				a.exec()["sandbox"], a.exec()["network"] = "none", "host"
				for name, body := range r.files {
					a.write(filepath.Join(a.ws, name), body)
				}
				if r.link[0] != "" {
					if err := os.Symlink(r.link[1], filepath.Join(a.ws, r.link[0])); err != nil {
						a.t.Fatal(err)
					}
				}
			},
			run: func(a *trial) {
				a.gate.start()
				calls := []call{fetch(a.web.page("/q", "text/plain", "hello")), {"exec", fmt.Sprintf(begin, r.command)}}
				calls = append(calls, r.replace...)
				calls = append(calls, write("go.txt", "go"), call{"write_stdin", `{"session_id":"{{session}}","wait_for":"never said","wait_timeout_ms":15000}`})
				asked := a.gate.work(task{words: "start it", calls: calls})
				a.shows(len(asked) > 0 && strings.Contains(asked[0].question, r.command), "nothing was asked")
				got := strings.Join(a.model.lastResults(), "\n")
				a.shows(strings.Contains(got, "was approved and still runs"), "nothing was refused: %s", tail(got))
				if a.ranIt() {
					a.broke("it ran")
				}
			},
		})
	}
	return list
}
