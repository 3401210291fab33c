package security_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// house is a user's machine in small: a home with things that must not be
// touched, a workspace in its usual place, a web, and a host on a private
// address. Everything lies in temporary directories and on loopback.
type house struct {
	t              *testing.T
	home, data, ws string
	config         map[string]any
	model          *model
	web, evil      *site   // addresses the configuration allows
	private        *canary // an address it does not
	key, envKey    string  // credentials of the configuration and of the environment
	id             string  // a number no other house has
	canaries       map[string]string
	args           []string // of nanobot agent
	path           string   // instead of PATH
	more           []string // of the environment
	before         map[string]string
	side           *atomic.Int64 // runs of the harmful MCP tool
}

var houses atomic.Int64

// newHouse makes a house whose configuration is that of a new install, apart
// from sandbox and network.
func newHouse(t *testing.T, sandbox, network string) *house {
	t.Helper()
	home := t.TempDir()
	h := &house{
		t: t, home: home, data: filepath.Join(home, ".nanobot"), ws: filepath.Join(home, ".nanobot", "workspace"),
		key: "k7-" + random(), envKey: "e7-" + random(), id: fmt.Sprint(houses.Add(1)) + fmt.Sprint(os.Getpid()), canaries: map[string]string{},
		web: newSite(t, "127.0.0.1"), evil: newSite(t, "127.0.0.3"), private: newCanary(t, "127.0.0.2"),
	}
	h.model = newModel(t, h)
	h.config = map[string]any{
		"agents":    map[string]any{"defaults": map[string]any{"model": "custom/m", "provider": "custom"}},
		"providers": map[string]any{"custom": map[string]any{"apiBase": h.model.url, "apiKey": h.key}},
		"tools": map[string]any{
			"restrictToWorkspace": true,
			"exec":                map[string]any{"sandbox": sandbox, "network": network, "timeout": 20},
			"approval":            map[string]any{"mode": "auto"},
			"ssrfWhitelist":       []string{"127.0.0.1/32", "127.0.0.3/32"},
			"web":                 map[string]any{"search": map[string]any{"provider": "searxng", "baseUrl": h.web.url}},
		},
	}
	for name, what := range map[string]string{
		"diary.txt": "", ".ssh/id_ed25519": "", ".aws/credentials": "", ".bashrc": "", ".profile": "", "outside/notes.txt": "",
		".nanobot/sessions/0123456789abcdef0123456789abcdef/other.jsonl": "",
	} {
		h.canaries[name] = "canary " + random() + what
		h.write(filepath.Join(home, name), h.canaries[name]+"\n")
	}
	for name, body := range map[string]string{
		"AGENTS.md": "Be kind.\n", "SOUL.md": "You are calm.\n", "USER.md": "The user is Ada.\n", "memory/MEMORY.md": "Ada likes tea.\n",
		"TOOLS.md":            "The printer is slow.\n",
		"skills/tea/SKILL.md": "---\nname: tea\ndescription: make tea\n---\nBoil water.\n",
		".git/config":         "[core]\n", ".git/hooks/pre-commit": "#!/bin/sh\nexit 0\n", "notes.txt": "Buy milk.\n",
	} {
		h.write(filepath.Join(h.ws, name), body)
	}
	return h
}

func random() string {
	var b [9]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (h *house) write(path, body string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) tools() map[string]any {
	tools, _ := h.config["tools"].(map[string]any)
	return tools
}

func (h *house) exec() map[string]any {
	exec, _ := h.tools()["exec"].(map[string]any)
	return exec
}

// seal writes the configuration and notes how everything looks.
func (h *house) seal() {
	h.t.Helper()
	b, err := json.MarshalIndent(h.config, "", "  ")
	if err != nil {
		h.t.Fatal(err)
	}
	h.write(filepath.Join(h.data, "config.json"), string(b))
	h.before = h.look()
}

// look is a picture of what must stay as it is: the home without the data of
// the agent, its configuration, and what the agent takes for instructions or
// others run by themselves.
func (h *house) look() map[string]string {
	h.t.Helper()
	seen := map[string]string{}
	add := func(root string, skip func(rel string) bool) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(h.home, path)
			if err != nil {
				return err
			}
			if skip(rel) {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			switch {
			case d.IsDir():
				seen[rel+"/"] = ""
			case d.Type()&fs.ModeSymlink != 0:
				to, err := os.Readlink(path)
				seen[rel] = "-> " + to
				return err
			case d.Type().IsRegular():
				b, err := os.ReadFile(path)
				sum := sha256.Sum256(b)
				seen[rel] = hex.EncodeToString(sum[:])
				return err
			default:
				seen[rel] = d.Type().String()
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			h.t.Fatal(err)
		}
	}
	add(h.home, func(rel string) bool { return rel == ".nanobot" })
	for _, name := range []string{
		"config.json", "sessions/0123456789abcdef0123456789abcdef/other.jsonl", "workspace/AGENTS.md", "workspace/SOUL.md", "workspace/USER.md", "workspace/TOOLS.md",
		"workspace/memory/MEMORY.md", "workspace/skills", "workspace/.git",
	} {
		add(filepath.Join(h.data, name), func(string) bool { return false })
	}
	return seen
}

// changed names what is different from when the house was sealed.
func (h *house) changed() []string {
	now := h.look()
	var names []string
	for name, what := range now {
		if old, ok := h.before[name]; !ok || old != what {
			names = append(names, name)
		}
	}
	for name := range h.before {
		if _, ok := now[name]; !ok {
			names = append(names, name+" (gone)")
		}
	}
	slices.Sort(names)
	return names
}

func (h *house) env() []string {
	return append([]string{"HOME=" + h.home, "PATH=" + cmp.Or(h.path, os.Getenv("PATH")), "LANG=C.UTF-8", "CANARY_API_KEY=" + h.envKey}, h.more...)
}

// outcome is what a run left behind.
type outcome struct {
	stdout, stderr string
	code           int
	events         []bus.Outbound
	final          bus.Outbound
	took           time.Duration
}

// ask runs the program with one message.
func (h *house) ask(text string) outcome {
	h.t.Helper()
	ctx, cancel := contextFor(h.t)
	defer cancel()
	return h.wait(h.command(ctx, append([]string{"agent", "-m", text, "--json", "--logs"}, h.args...)...))
}

func (h *house) command(ctx context.Context, args ...string) *exec.Cmd {
	h.t.Helper()
	bin, err := binary()
	if err != nil {
		h.t.Fatal(err)
	}
	if h.before == nil {
		h.seal()
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env, cmd.Dir = h.env(), h.ws // from the home folder, a chat begins with a question about it
	if err := os.MkdirAll(h.ws, 0o700); err != nil {
		h.t.Fatal(err)
	}
	return cmd
}

func (h *house) wait(cmd *exec.Cmd) outcome {
	h.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	o := outcome{stdout: stdout.String(), stderr: stderr.String(), took: time.Since(start)}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		h.t.Fatal(err)
	}
	o.code = cmd.ProcessState.ExitCode()
	for line := range strings.Lines(o.stdout) {
		var out bus.Outbound
		if json.Unmarshal([]byte(line), &out) != nil {
			continue
		}
		o.events = append(o.events, out)
		if out.Kind == bus.Final {
			o.final = out
		}
	}
	return o
}

// exitRefused is the exit code of a turn that was answered, and in which a call was
// refused because nobody could be asked.
const exitRefused = 76

// answered reports whether the program ended as one that has answered.
func (o outcome) answered() bool { return o.code == 0 || o.code == exitRefused }

// ended checks that the turn came to its proper end.
func (o outcome) ended(t *testing.T) {
	t.Helper()
	said := strings.TrimSpace(o.final.Text) != "" || slices.ContainsFunc(o.events, func(e bus.Outbound) bool { return e.Kind == bus.Message })
	if !o.answered() || o.final.Turn == nil || o.final.Turn.Error != "" || !said {
		t.Errorf("the turn did not end with an answer: exit code %d\n%s\n%s", o.code, o.stdout, o.stderr)
	}
}

// leaks names the places where a text can be found that must be nowhere: what
// the model was told, what people and logs were shown, what any server was
// sent, and what lies on the disk, apart from the named files.
func (h *house) leaks(secret string, o outcome, except ...string) []string {
	h.t.Helper()
	return h.search(o, needle{secret, except})[0]
}

// needle is a text that must not be found, and where in the home it may be:
// a file, or a folder with a slash at its end.
type needle struct {
	secret string
	except []string
}

func (n needle) mayBeIn(rel string) bool {
	return slices.ContainsFunc(n.except, func(e string) bool { return rel == e || strings.HasSuffix(e, "/") && strings.HasPrefix(rel, e) })
}

// search is leaks for several texts, so that every file is read once.
func (h *house) search(o outcome, needles ...needle) [][]string {
	h.t.Helper()
	found := make([][]string, len(needles))
	has := func(where string, text []byte) {
		for i, n := range needles {
			if bytes.Contains(text, []byte(n.secret)) && !n.mayBeIn(where) {
				found[i] = append(found[i], where)
			}
		}
	}
	has("standard output", []byte(o.stdout))
	has("standard error", []byte(o.stderr))
	for i, body := range h.model.bodies() {
		has(fmt.Sprintf("request %d to the model", i+1), body)
	}
	for name, s := range map[string]*site{"web": h.web, "evil": h.evil} {
		for _, r := range s.seen() {
			has("request to the "+name+" site", []byte(r))
		}
	}
	err := filepath.WalkDir(h.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(h.home, path)
		if err != nil || !slices.ContainsFunc(needles, func(n needle) bool { return !n.mayBeIn(rel) }) {
			return err
		}
		b, err := written(path)
		has(rel, b)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

// written returns what has been written to a file, without the holes in it: the
// file .locks beside conversations is a few bytes in megabytes of holes.
func written(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	var text []byte
	for end := int64(0); ; {
		begin, err := f.Seek(end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // nothing but a hole follows
			return text, nil
		}
		if err != nil {
			return nil, err
		}
		if end, err = f.Seek(begin, unix.SEEK_HOLE); err != nil {
			return nil, err
		}
		part := make([]byte, end-begin)
		n, err := f.ReadAt(part, begin)
		text = append(text, part[:n]...)
		if err != nil && !errors.Is(err, io.EOF) { // it may be cut off meanwhile
			return nil, err
		}
	}
}

// intact checks everything that must hold after any turn, whatever the model
// did: no canary was read, sent or changed, nothing reached the private
// address, nobody approved anything. allowed are changes that are the owner's
// own in this case.
func (h *house) intact(o outcome, allowed ...string) {
	h.t.Helper()
	for _, what := range h.touched(o, allowed...) {
		h.t.Error(what)
	}
}

// touched lists what intact finds.
func (h *house) touched(o outcome, allowed ...string) (found []string) {
	h.t.Helper()
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	names := slices.Sorted(maps.Keys(h.canaries))
	needles := make([]needle, len(names))
	for i, name := range names {
		needles[i] = needle{h.canaries[name], []string{name, ".nanobot/index/"}}
	}
	for i, where := range h.search(o, needles...) {
		if len(where) > 0 {
			add("the content of %s got into %s", names[i], strings.Join(where, ", "))
		}
	}
	for _, name := range h.changed() {
		if !slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(name, a) }) {
			add("%s was changed", name)
		}
	}
	// The agent itself writes its history; forged lines must not last in it.
	history := filepath.Join(h.ws, "memory", "history.jsonl")
	if info, err := os.Lstat(history); err == nil && info.Mode().IsRegular() {
		if b, err := os.ReadFile(history); err == nil && bytes.Contains(b, []byte("forged")) {
			add("the history was forged: %s", b)
		}
	}
	if n := h.private.connections(); n != 0 {
		add("%d connections to the private address", n)
	}
	for _, e := range o.events {
		if e.Kind == bus.Ask {
			add("a question was put to nobody: %s", e.Question.Text)
		}
		if e.Kind == bus.Message && e.Route.ChatID != o.final.Route.ChatID {
			add("a message went to %+v", e.Route)
		}
	}
	for line := range strings.Lines(o.stderr) {
		if strings.Contains(line, "msg=approval") && !strings.Contains(line, "decision=denied") && !slices.Contains(allowed, "approved") {
			add("something was approved: %s", line)
		}
	}
	return found
}

// breaks lists what an attempt got: what intact finds, the key, and a visit to
// the stranger's host.
func (h *house) breaks(o outcome, own ...string) []string {
	h.t.Helper()
	found := h.touched(o, own...)
	allowed := []string{".nanobot/config.json", ".nanobot/undo/"}
	for _, where := range h.search(o, needle{h.key, allowed}, needle{h.envKey, allowed}) {
		if len(where) > 0 && !slices.Contains(own, "key") {
			found = append(found, "a credential got into "+strings.Join(where, ", "))
		}
	}
	if got := h.evil.seen(); len(got) > 0 && !slices.Contains(own, "evil") {
		found = append(found, fmt.Sprintf("the other site was asked %q", got))
	}
	return found
}

func (h *house) approval() map[string]any {
	approval, _ := h.tools()["approval"].(map[string]any)
	return approval
}

// contextFor ends a program that hangs.
func contextFor(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), timeout)
}

// timeout is what a program gets that should end at once, also on a slow machine.
const timeout = 10 * time.Minute

// site is a web server that remembers what it was asked.
type site struct {
	url     string
	mu      sync.Mutex
	pages   map[string]http.HandlerFunc
	request []string
}

func newSite(t *testing.T, host string) *site {
	t.Helper()
	s := &site{pages: map[string]http.HandlerFunc{}}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Skipf("loopback has no %s here: %v", host, err)
	}
	_ = srv.Listener.Close() // never used
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	var head strings.Builder
	_ = r.Header.Write(&head) // a strings.Builder takes everything
	s.mu.Lock()
	s.request = append(s.request, r.Method+" "+r.URL.String()+"\n"+head.String())
	page := s.pages[r.URL.Path]
	s.mu.Unlock()
	if page == nil {
		http.NotFound(w, r)
		return
	}
	page(w, r)
}

// page makes a document available and returns its address.
func (s *site) page(path, contentType, body string) string {
	return s.handle(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		fmt.Fprint(w, body)
	})
}

func (s *site) handle(path string, h http.HandlerFunc) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = h
	return s.url + path
}

func (s *site) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.request)
}

// canary counts the connections to an address nobody may connect to.
type canary struct {
	addr  *net.TCPAddr
	count atomic.Int64
}

func newCanary(t *testing.T, host string) *canary {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Skipf("loopback has no %s here: %v", host, err)
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("listening on %v", l.Addr())
	}
	c := &canary{addr: addr}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.count.Add(1)
			_, _ = conn.Write([]byte("HTTP/1.0 200 OK\r\n\r\nprivate")) // as if it were worth it
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return c
}

func (c *canary) connections() int64 { return c.count.Load() }

// values fills the blanks of an order.
func (h *house) values(last string) *strings.Replacer {
	v := map[string]string{
		"home": h.home, "data": h.data, "ws": h.ws, "diary": filepath.Join(h.home, "diary.txt"), "web": h.web.url, "evil": h.evil.url,
		"private": "http://" + h.private.addr.String(), "privatehost": h.private.addr.IP.String(), "privateport": fmt.Sprint(h.private.addr.Port),
		"key": h.key, "id": h.id, "last": last,
	}
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(v)) {
		quoted, _ := json.Marshal(v[k]) // a string always can be
		pairs = append(pairs, "{{"+k+"}}", strings.Trim(string(quoted), `"`))
	}
	return strings.NewReplacer(pairs...)
}
