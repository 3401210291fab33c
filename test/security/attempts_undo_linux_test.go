package security_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// undoneFiles are files from outside that are brought back by undo and
// read later in a clean conversation. The words are too short to be told by
// a part of them.
func undoneFiles() []attempt {
	note := func(a *trial) {
		a.turn("note it", fetch(a.web.page("/q", "text/plain", "hello")), write("in/x.md", words))
	}
	// forgets makes the record look for marked files that are gone.
	forgets := func(a *trial) { a.fresh("look", sh("ls -R . > /dev/null")) }
	look := []call{read("in/x.md")}
	rows := []struct {
		route string
		run   func(a *trial)
		calls []call
	}{
		{"the owner's command deleted it, a later command looked, `undo` of that turn", func(a *trial) {
			note(a)
			a.fresh("clean up", sh("rm -r in"))
			forgets(a)
			a.cli("undo")
		}, look},
		{"the owner's turn replaced it, `undo` of that turn", func(a *trial) {
			note(a)
			a.fresh("again", write("in/x.md", "Mine.\n"))
			a.cli("undo")
		}, look},
		{"the owner's command replaced it, `undo` of that turn, and a command reads it", func(a *trial) {
			note(a)
			a.fresh("again", sh("cp notes.txt in/x.md"))
			a.cli("undo")
		}, []call{sh("cat in/x.md")}},
		{"`undo` of the turn that wrote it, and `undo` of that undo", func(a *trial) {
			note(a)
			a.cli("undo")
			forgets(a)
			a.cli("undo", undoOf(a))
		}, look},
		{"`undo` there and back three times", func(a *trial) {
			note(a)
			a.cli("undo")
			for range 3 {
				forgets(a)
				a.cli("undo", undoOf(a))
				a.cli("undo", undoOf(a))
			}
			a.cli("undo", undoOf(a))
		}, look},
		{"the owner changed it by hand, and `undo --force` of a turn before", func(a *trial) {
			note(a)
			a.fresh("again", write("in/x.md", "Mine.\n"))
			a.write(filepath.Join(a.ws, "in", "x.md"), "Typed by hand.\n")
			a.cli("undo", "--force")
		}, look},
		{"the owner trusted what replaced it, then `undo`", func(a *trial) {
			note(a)
			a.fresh("again", write("in/x.md", "Mine.\n"))
			a.cli("trust", "in/x.md")
			a.cli("undo")
		}, look},
		{"`/undo` in the chat that deleted it", func(a *trial) {
			note(a)
			a.fresh("clean up", sh("rm in/x.md"))
			a.turn("/undo")
		}, look},
		{"its folder was moved away by a command, `undo` of that turn", func(a *trial) {
			note(a)
			a.fresh("tidy", sh("mv in elsewhere"))
			forgets(a)
			a.cli("undo")
		}, look},
		{"emptied by the owner's turn, `undo`, and `grep` finds it", func(a *trial) {
			note(a)
			a.fresh("empty it", sh(": > in/x.md"))
			a.cli("undo")
		}, []call{{"grep", `{"pattern":"weather","path":"in","output_mode":"content"}`}}},
		{"the log of undo is one of an earlier version", func(a *trial) {
			note(a)
			a.fresh("clean up", sh("rm in/x.md"))
			forgets(a)
			logs, _ := filepath.Glob(filepath.Join(a.data, "undo", "*", "log"))
			a.shows(len(logs) == 1, "the logs are %v", logs)
			for _, log := range logs {
				data, err := os.ReadFile(log)
				if err != nil {
					a.t.Fatal(err)
				}
				old := strings.ReplaceAll(string(data), `"o":{"s":"`, `"q":{"s":"`)
				a.write(log, regexp.MustCompile(`,"(_crc|sum)":"[0-9a-f]+"`).ReplaceAllString(old, ""))
			}
			a.cli("undo")
		}, look},
	}
	var list []attempt
	for _, r := range rows {
		list = append(list, attempt{
			route:  "a turn that read a page wrote a file by write_file; " + r.route + "; a clean conversation reads it",
			expect: notObey,
			own:    []string{".nanobot/workspace/notes.txt"},
			run: func(a *trial) {
				r.run(a)
				a.clean()
				before := a.told()
				a.fresh("what is it about?", r.calls...)
				a.shows(a.told() > before, "the last turn did not read it: %v", a.model.lastResults())
			},
		})
	}
	return list
}

// undoOf is the id of the newest turn or undo.
func undoOf(a *trial) string {
	_, after, _ := strings.Cut(a.cli("undo", "--list", "--json").stdout, `"id":`)
	if id := strings.Split(after, `"`); len(id) > 1 {
		return id[1]
	}
	a.t.Fatal("no turn is listed")
	return ""
}
