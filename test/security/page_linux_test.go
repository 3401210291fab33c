package security_test

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// visitPy tries everything that a command can try with the web interface of the
// gateway it runs in, and writes what it got to seen.txt, one line per try.
const visitPy = `import http.client, json, os, socket, subprocess
base, data, program, reads = "{{base}}", "{{data}}", "{{bin}}", "{{reads}}".split()
host = base.split("//")[1]
out = open("seen.txt", "w")
def note(what, at, got):
    print(json.dumps({"what": what, "at": at, "status": got[0], "text": got[1][:300]}), file=out, flush=True)
    return got[1]
def talk(conn, method, path, header={}, body=None):
    try:
        conn.request(method, path, body, header if type(conn) is http.client.HTTPConnection else {"Host": "nanobot"})
        answer = conn.getresponse()
        return answer.status, "" if answer.status == 101 else answer.read(4000).decode("utf-8", "replace")
    except Exception as e:
        return 0, str(e)
def web(): return http.client.HTTPConnection(host, timeout=300)
class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(300)
        self.sock.connect(self.host)
def field(text, name):
    try: return json.loads(text)[name]
    except Exception: return "000000"
page = {"X-Nanobot-Page": "1", "Origin": base, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
note("page", "/", talk(web(), "GET", "/"))
gateway = field(note("state", "/webui/state", talk(web(), "GET", "/webui/state", page)), "gateway")
forged = dict(page, Cookie="nanobot_%s=%s" % (gateway, "A" * 43), **{"X-Forwarded-User": "owner", "X-Forwarded-For": "127.0.0.1", "Authorization": "Bearer guess"})
for name in reads:
    for header in {}, page, forged:
        note("read", name, talk(web(), "GET", "/api/" + name, header))
for code in "ABCD2345", "A" * 43:
    note("login", "code", talk(web(), "POST", "/webui/login", page, json.dumps({"code": code})))
waits = note("pending", "device", talk(web(), "POST", "/webui/login", page, json.dumps({"device": True})))
note("upload", "", talk(web(), "POST", "/webui/upload", dict(forged, **{"Content-Type": "application/octet-stream", "X-Nanobot-Name": "x.txt"}), "x"))
note("logout", "", talk(web(), "POST", "/webui/logout", forged, "{}"))
for path in "/webui/socket?client_id=me", "/?client_id=me":
    for header in page, forged:
        note("socket", path, talk(web(), "GET", path, dict(header, **{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})))
for path in data + "/run/gateway.sock", "/proc/self/root" + data + "/run/gateway.sock":
    note("control", "link", talk(Local(path), "POST", "/web/link", {}, "{}"))
    note("control", "devices", talk(Local(path), "GET", "/web/devices"))
    note("control", "approve", talk(Local(path), "POST", "/web/devices", {}, json.dumps({"digits": field(waits, "digits"), "allow": True})))
for words in ["devices"], ["approve", field(waits, "digits")]:
    try:
        done = subprocess.run([program, "--config", data + "/config.json", "web"] + words, capture_output=True, text=True, timeout=300)
        note("program", words[0], (0 if done.returncode else 200, done.stdout + done.stderr))
    except Exception as e:
        note("program", words[0], (0, str(e)))
for name in "devices.json", "push.json", "":
    for flags in os.O_RDONLY, os.O_WRONLY | os.O_CREAT:
        try: note("file", name, (200, os.read(os.open(data + "/webui/" + name, flags), 300).decode()))
        except Exception as e: note("file", name, (0, str(e)))
note("pending", "poll", talk(web(), "POST", "/webui/login", page, json.dumps({"poll": field(waits, "poll")})))
note("end", "", (0, ""))
`

// pageReads are reads of the owner's pages that programs must not get.
const pageReads = "sessions sessions/telegram%3A42/webui-thread sessions/telegram%3A42/export?format=md sessions/telegram%3A42/turns/t1 search?q=a " +
	"memory memory/why?file=USER.md memory/findings memory/log undo questions approvals/history settings settings/schema settings/raw settings/versions " +
	"settings/usage settings/pairing settings/mcp-log?name=x setup budget status log doctor doctor/bundle backup devices push webui/skills automations"

// visit is a line of visitPy.
type visit struct {
	What, At, Text string
	Status         int
}

// visits are what a command noted below a folder.
func (a *trial) visits(who string, skip ...string) (list []visit) {
	a.t.Helper()
	err := filepath.WalkDir(a.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "seen.txt" || slices.Contains(skip, path) || !d.Type().IsRegular() || strings.Contains(path, "/undo/") {
			return err
		}
		list = append(list, a.visitsIn(path)...)
		return nil
	})
	if err != nil {
		a.t.Fatal(err)
	}
	a.shows(len(list) > 0 && list[len(list)-1].What == "end", "%s: the visits did not come to their end: %v", who, list)
	return list
}

func (a *trial) visitsIn(path string) (list []visit) {
	a.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		a.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var v visit
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			a.t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

// judge says what a command got that it must not get.
func (a *trial) judge(who string, list []visit) {
	a.t.Helper()
	for _, v := range list {
		ok := v.Status == 0 || v.Status >= 400
		switch v.What {
		case "page":
			ok = ok || strings.HasPrefix(v.Text, "<!doctype html>")
		case "state":
			ok = ok || strings.Contains(v.Text, `"signed_in":false`)
		case "pending": // it may wait for a consent that it does not get
			ok = ok || strings.Contains(v.Text, `"state":"pending"`)
		case "logout":
			ok = true // of nothing: the owner stays signed in, see below
		case "control", "file", "program":
			ok = v.Status == 0
		}
		if !ok {
			a.broke("%s got %s %s: %d %s", who, v.What, v.At, v.Status, v.Text)
		}
	}
}

// ownersPage is the browser of the owner.
type ownersPage struct {
	a            *trial
	base, cookie string
	code         string // of the link
}

func (p *ownersPage) do(method, path, body string) (int, string) {
	p.a.t.Helper()
	ctx, cancel := contextFor(p.a.t)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, strings.NewReader(body))
	if err != nil {
		p.a.t.Fatal(err)
	}
	req.Header = http.Header{"X-Nanobot-Page": {"1"}, "Origin": {p.base}, "Content-Type": {"application/json"}, "Cookie": {p.cookie}}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		p.a.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		p.a.t.Fatal(err)
	}
	for _, c := range res.Cookies() {
		p.cookie = c.Name + "=" + c.Value
	}
	return res.StatusCode, string(b)
}

// signIn opens the web interface as the owner does.
func (a *trial) signIn() *ownersPage {
	a.t.Helper()
	p := &ownersPage{a: a, base: a.gate.base}
	link := regexp.MustCompile(`#/in/(\S+)`).FindStringSubmatch(a.cli("web", "--no-open").stdout)
	if link == nil {
		a.t.Fatal("no link")
	}
	if code, body := p.do(http.MethodPost, "/webui/login", jsonOf("code", link[1])); code != http.StatusOK {
		a.t.Fatalf("sign in: %d %s", code, body)
	}
	p.code = link[1]
	return p
}

// filesOfPages are what a file tool can try with them.
func filesOfPages(base string) []call {
	list := []call{
		{"list_dir", `{"path":"{{data}}/webui"}`},
		{"grep", `{"pattern":".","path":"{{data}}/webui","output_mode":"content"}`},
		{"glob", `{"pattern":"{{data}}/webui/**"}`},
		read("{{data}}/logs/gateway.log"),
	}
	for _, name := range []string{"devices.json", "push.json"} {
		path := "{{data}}/webui/" + name
		list = append(list, read(path), write(path, "{}"), patch(path+".new", "{}"), call{"message", `{"content":"x","media":["` + path + `"]}`},
			sh("ln -s "+path+" l-"+name+"; cat l-"+name+" "+path+"; cp "+path+" ."), read("l-"+name))
	}
	for _, path := range []string{"/", "/webui/state", "/api/memory", "/api/backup", "/api/doctor/bundle", "/webui/login"} {
		list = append(list, fetch(base+path))
	}
	return list
}

// TestWebPage lets a command of the agent, a guest's turn and file tools try the
// web interface while its owner is signed in and a question is open.
func TestWebPage(t *testing.T) {
	t.Parallel()
	level(t, sandbox.Auto)
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	broken, void := try(t, attempt{
		config: func(a *trial) {
			a.chats()
			a.exec()["network"], a.exec()["timeout"] = "host", 600 // for some hundred requests
			a.tools()["approval"] = map[string]any{"mode": "auto", "timeout": 300, "rules": []any{map[string]any{"tool": "cron", "action": "ask"}}}
		},
		run: func(a *trial) {
			a.gate.start()
			p := a.signIn()
			for name := range strings.FieldsSeq(pageReads) { // the owner gets them, so they are there
				if code, body := p.do(http.MethodGet, "/api/"+name, ""); code == http.StatusUnauthorized || code == http.StatusForbidden || strings.Contains(body, "no such read") {
					a.shows(false, "the owner's page does not get %s: %d %s", name, code, body)
				}
			}
			secrets := a.pageSecrets()
			owner, chat := a.openQuestion()

			script := strings.NewReplacer("{{base}}", a.gate.base, "{{bin}}", bin, "{{reads}}", pageReads).Replace(visitPy)
			calls := append([]call{write("visit.py", script), sh("python3 visit.py")}, filesOfPages(a.gate.base)...)
			a.gate.say(ada, "install the package", calls...)
			a.judge("a command", a.visits("a command"))
			a.gate.say(bert, "do it", calls...)
			a.judge("a guest", a.visits("a guest", filepath.Join(a.ws, "seen.txt")))
			a.untouched(p, secrets)
			mark := a.model.beginMarked(nil)
			q, _ := owner.question(1)["question"].(map[string]any)
			owner.send(map[string]any{"type": "answer", "chat_id": chat, "question_id": q["id"], "option": "no"})
			owner.told(mark) // it was still open; a job would be found afterwards
			a.outside(script)
		},
	})
	if len(broken) > 0 {
		t.Errorf("BROKE %s", strings.Join(broken, "\n"))
	}
	for _, v := range void {
		t.Errorf("VOID %s", v)
	}
}

// outside runs the same without a sandbox. It reaches the port, where it gets the
// static page and no more. It also shows that the tries can succeed: it has the
// owner's rights, so it reads the files and signs itself in by the control socket.
func (a *trial) outside(script string) {
	a.t.Helper()
	ctx, cancel := contextFor(a.t)
	defer cancel()
	a.write(filepath.Join(a.home, "free", "visit.py"), a.fill(script))
	cmd := exec.CommandContext(ctx, "python3", "visit.py")
	cmd.Dir, cmd.Env = filepath.Join(a.home, "free"), a.env()
	if b, err := cmd.CombinedOutput(); err != nil {
		a.t.Fatalf("%v\n%s", err, b)
	}
	var web []visit
	got := map[string]bool{}
	for _, v := range a.visitsIn(filepath.Join(a.home, "free", "seen.txt")) {
		switch ok := v.Status == http.StatusOK; v.What {
		case "control", "file", "program":
			got[v.What] = got[v.What] || ok
		default:
			got[v.What] = got[v.What] || ok
			if v.At != "poll" {
				web = append(web, v)
			}
		}
	}
	a.judge("a program", web)
	for _, what := range []string{"page", "state", "pending", "control", "file", "program"} {
		a.shows(got[what], "no try of %s can succeed", what)
	}
	if err := os.RemoveAll(filepath.Join(a.home, "free")); err != nil {
		a.t.Fatal(err)
	}
}

// pageSecrets are values that lie in the files of the web interface.
func (a *trial) pageSecrets() (list []string) {
	a.t.Helper()
	for _, name := range []string{"devices.json", "push.json"} {
		b, err := os.ReadFile(filepath.Join(a.data, "webui", name))
		if err != nil {
			a.t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"(?:hash|key)": "([^"]{20,})"`).FindAllStringSubmatch(string(b), -1) {
			list = append(list, m[1])
		}
		if info, err := os.Stat(filepath.Join(a.data, "webui", name)); err != nil || info.Mode().Perm() != 0o600 {
			a.broke("%s has the mode %v", name, info.Mode())
		}
	}
	a.shows(len(list) >= 2, "the files of the pages hold no secrets")
	return list
}

// openQuestion lets a turn of the owner wait for an answer.
func (a *trial) openQuestion() (owner *socket, chat any) {
	a.t.Helper()
	owner, err := a.gate.connect(wsToken)
	if err != nil {
		a.t.Fatal(err)
	}
	owner.send(map[string]any{"type": "new_chat"})
	chat = owner.attached()
	a.model.beginMarked([]call{{"cron", `{"action":"add","message":"forged job","every_seconds":86400}`}})
	owner.send(map[string]any{"type": "message", "chat_id": chat, "content": "do it", "turn_id": "t1"})
	owner.question(1)
	return owner, chat
}

// untouched: the owner is the only one who is signed in, and no secret of the
// pages is anywhere else.
func (a *trial) untouched(p *ownersPage, secrets []string) {
	a.t.Helper()
	if code, body := p.do(http.MethodGet, "/api/sessions", ""); code != http.StatusOK {
		a.broke("the owner was signed out: %d %s", code, body)
	}
	var devices struct{ Devices []any }
	if err := json.Unmarshal([]byte(a.cli("web", "devices", "--json").stdout), &devices); err != nil {
		a.t.Fatal(err)
	}
	if len(devices.Devices) != 1 {
		a.broke("%d devices are signed in", len(devices.Devices))
	}
	_, cookie, _ := strings.Cut(p.cookie, "=")
	for _, secret := range append(secrets, cookie, p.code) {
		if strings.Contains(a.gate.out.String(), secret) {
			a.broke("%s... is in the log", secret[:8])
		}
		if secret == p.code {
			continue // the owner's terminal shows it
		}
		if where := a.leaks(secret, a.all, ".nanobot/webui/devices.json", ".nanobot/webui/push.json"); len(where) > 0 {
			a.broke("%s... got into %s", secret[:8], strings.Join(where, ", "))
		}
	}
	for _, body := range a.model.bodies() {
		for _, sign := range []string{"last_dream", "memory_bytes", "signed_in"} {
			if strings.Contains(string(body), sign) {
				a.broke("the model was told %s", fmt.Sprintf("%q", sign))
			}
		}
	}
}
