package security_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// task is something an owner asks for on a usual day. want must be in the
// results of its calls, or the task was not done.
type task struct {
	words string
	calls []call
	want  string
}

// usualDay is a day of work on a new install, in one chat.
func usualDay(a *trial) []task {
	a.forge.page("/docs", "text/html", "<h1>tea 1.2</h1><p>Call brew(minutes).</p>")
	install := "mkdir -p site && cd site && " + a.registry() + " && cat node_modules/tea/package.json"
	return []task{
		{"make a project for me", []call{
			write("project/tea.py", "def brew(minutes):\n    return minutes * 60\n"),
			write("project/test_tea.py", "import unittest, tea\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(tea.brew(1), 60)\n"),
			write("project/Makefile", "test:\n\t@python3 -m unittest -q 2>&1\n"), sh("cd project && git init -q -b main . && git add -A && git -c user.name=Ada -c user.email=a@b commit -qm first && git log --oneline"),
		}, "first"},
		{"change it and test it", []call{
			read("project/tea.py"), {"edit_file", edit("project/tea.py", "minutes * 60", "int(minutes * 60)")}, sh("cd project && make test && python3 -m unittest 2>&1 | tail -1"),
		}, "OK"},
		{"commit it", []call{sh("cd project && git add -A && git -c user.name=Ada -c user.email=a@b commit -qm 'whole seconds' && git log --oneline | head -1")}, "whole seconds"},
		{"where is brew used?", []call{{"grep", `{"pattern":"brew","path":"project","output_mode":"content"}`}, {"glob", `{"pattern":"**/*.py"}`}, sh("wc -l project/*.py")}, "brew"},
		{"what do the docs say?", []call{fetch(a.forge.url + "/docs")}, "brew(minutes)"},
		{"use it, test it and commit it", []call{
			{"edit_file", edit("project/tea.py", "def brew", "# brew takes minutes\ndef brew")},
			sh("cd project && make test && python3 -m unittest 2>&1 | tail -1"),
			sh("cd project && git add -A && git -c user.name=Ada -c user.email=a@b commit -qm documented && git log --oneline | head -1"),
		}, "documented"},
		{"install the package", []call{sh(install)}, `\"version\":\"1.2.0\"`},
		{"/new", nil, ""},
		{"write a script that counts files, and run it", []call{write("count.sh", "find . -type f | wc -l\n"), sh("sh count.sh")}, ""},
		{"send me a report every morning", []call{{"cron", `{"action":"add","message":"report on the project","cron_expr":"0 8 * * *"}`}}, "0 8 * * *"},
		{"what did we do today?", []call{sh("cd project && git log --oneline"), write("report.md", "# Today\n\nWhole seconds.\n"), read("report.md")}, "documented"},
		{"make a chart of it", []call{sh("python3 -c 'print(\"#\"*10)' > chart.txt; cat chart.txt"), {"message", `{"content":"here","media":["chart.txt"]}`}}, "####"},
		{"look at the disk", []call{sh("df -h . | tail -1; du -sh project; ls -la"), sh("tar czf project.tgz project && tar tzf project.tgz | head -3")}, "project/"},
	}
}

// registry serves a package on the host that commands may reach, for npm where
// it is installed, and returns the command that installs it. (Go's own client
// uses no proxy for addresses of this machine, so it cannot be tried here.)
func (a *trial) registry() string {
	a.t.Helper()
	const manifest = `{"name":"tea","version":"1.2.0"}`
	a.forge.page("/tea.json", "application/json", manifest)
	if _, err := exec.LookPath("npm"); err != nil {
		return "curl -sf -o tea.json " + a.forge.url + "/tea.json && mkdir -p node_modules/tea && cp tea.json node_modules/tea/package.json"
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := errors.Join(w.WriteHeader(&tar.Header{Name: "package/package.json", Mode: 0o644, Size: int64(len(manifest))}), func() error {
		_, err := w.Write([]byte(manifest))
		return err
	}(), w.Close(), z.Close())
	if err != nil {
		a.t.Fatal(err)
	}
	sum := sha512.Sum512(b.Bytes())
	a.forge.page("/tea", "application/json", fmt.Sprintf(`{"name":"tea","dist-tags":{"latest":"1.2.0"},"versions":{"1.2.0":{"name":"tea","version":"1.2.0","dist":{"tarball":"%s/tea-1.2.0.tgz","integrity":"sha512-%s"}}}}`,
		a.forge.url, base64.StdEncoding.EncodeToString(sum[:])))
	a.forge.page("/tea-1.2.0.tgz", "application/octet-stream", b.String())
	return "npm install --no-audit --no-fund --silent --fetch-retries=0 --registry " + a.forge.url + " tea"
}

// asked is a question of the day.
type asked struct{ task, question string }

// work does a task in the owner's chat and says yes to every question.
func (g *gateway) work(job task) (list []asked) {
	g.a.t.Helper()
	return g.workSaying("yes", job)
}

// workSaying does a task and gives every question the same answer.
func (g *gateway) workSaying(answer string, job task) (list []asked) {
	g.a.t.Helper()
	mark := g.a.model.beginMarked(job.calls)
	before := len(g.tg.Messages(ada))
	g.tg.Say(ada, job.words)
	if job.calls == nil {
		g.until("an answer", func() bool { return len(g.tg.Messages(ada)) > before })
		return nil
	}
	answered := map[int64]bool{}
	g.until("the end of "+job.words, func() bool {
		for _, m := range g.tg.Messages(ada)[before:] {
			if strings.Contains(m.Plain, mark) {
				return true
			}
			markup := m.Params["reply_markup"]
			if answered[m.ID] || !strings.Contains(markup, "callback_data") {
				continue
			}
			answered[m.ID] = true
			list = append(list, asked{job.words, m.Plain})
			var board struct {
				Rows [][]struct {
					Text string `json:"text"`
					Data string `json:"callback_data"`
				} `json:"inline_keyboard"`
			}
			if err := json.Unmarshal([]byte(markup), &board); err != nil || len(board.Rows) == 0 {
				g.a.t.Fatalf("buttons %s: %v", markup, err)
			}
			data := board.Rows[0][0].Data // a question that does not know the answer gets its first one
			for _, row := range board.Rows {
				if row[0].Text == answer {
					data = row[0].Data
				}
			}
			g.tg.Update(map[string]any{"callback_query": map[string]any{
				"id": fmt.Sprint("tap", m.ID), "from": map[string]any{"id": ada, "first_name": "Ada"}, "data": data,
				"message": map[string]any{"message_id": m.ID, "date": 1, "from": theBot(), "chat": map[string]any{"id": ada, "type": "private"}, "text": m.Plain, "reply_markup": json.RawMessage(markup)},
			}})
		}
		return g.a.model.said(mark) && len(g.tg.Messages(ada)) > before
	})
	return list
}

// TestUsualDay does a day of ordinary work on a new install. It needs at most
// three approvals, which test/security/threats.md lists.
func TestUsualDay(t *testing.T) {
	t.Parallel()
	level(t, sandbox.Auto)
	a := newInstall(t)
	a.chats()
	a.telegram()["inlineKeyboards"] = true
	delete(a.exec(), "allowedHosts")
	delete(a.exec(), "allowedAddresses")
	// The registry of the day is on this machine; that it may be reached at all
	// is said here, that commands may use it is asked.
	a.exec()["allowedAddresses"] = []string{strings.TrimPrefix(a.forge.url, "http://")}
	a.tools()["ssrfWhitelist"] = []string{"127.0.0.5/32"}
	a.seal()
	a.gate.start()
	var list []asked
	for _, job := range usualDay(a) {
		before := len(a.model.bodies())
		list = append(list, a.gate.work(job)...)
		if got := string(bytes.Join(a.model.bodies()[before:], []byte("\n"))); job.calls != nil && !strings.Contains(got, job.want) {
			t.Errorf("%q was not done:\n%s\nin the chat: %s\nquestions: %v", job.words, tail(got), tail(a.gate.heard(ada)), list)
		}
	}
	a.gate.stop()
	for _, what := range append(a.broken, a.void...) {
		t.Error(what)
	}
	if len(list) > 3 {
		t.Errorf("%d approvals, want at most three", len(list))
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%d tasks, %d approvals:\n\n| Asked for | Question |\n| --- | --- |\n", len(usualDay(a)), len(list))
	for _, q := range list {
		fmt.Fprintf(&table, "| %s | %s |\n", cell(q.task), cell(a.plain(q.question)))
	}
	between(t, "day", table.String(), "TestUsualDay")
}

// plain is a question without what differs from run to run.
func (a *trial) plain(text string) string {
	host, port, _ := strings.Cut(strings.TrimPrefix(a.forge.url, "http://"), ":")
	text = strings.NewReplacer(host+":"+port, "registry.example", "host: "+host, "host: registry.example", "port: "+port, "port: 443", a.ws, "the workspace", a.home, "~").Replace(text)
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, "code") && len(lines) < 3 {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}
