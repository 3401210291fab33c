//go:build unix

package mattermost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The real server is the last one that can be had as a Go module. The checksum
// is that of its source, whose go.sum has those of all that it needs.
const (
	serverModule = "github.com/mattermost/mattermost-server/v6@v6.7.2"
	serverSum    = "h1:rRss2/R5LNbyc/P1OA4kSWuVq+rmnxwepuwGpTwL+U4="
	serverEnv    = "NANOBOT_MATTERMOST"

	buildTime = 15 * time.Minute
	startTime = time.Minute
	stopTime  = 30 * time.Second
)

// server is a real Mattermost behind a proxy that can cut connections.
type server struct {
	URL             string // of the proxy
	Bot, Ann, Admin *account
	Team, Town      string // ids

	t       *testing.T
	program string
	env     []string
	dir     string
	inner   string // address of Mattermost itself
	stop    func()

	mu    sync.Mutex
	conns map[net.Conn]bool // WebSockets
}

// account is somebody at the server.
type account struct {
	ID, Token string
	base      string
}

// newServer builds and starts Mattermost with a database of its own, and makes a
// team, a bot and a person.
func newServer(t *testing.T) *server {
	t.Helper()
	if os.Getenv(serverEnv) != "real" {
		t.Skipf("set %s=real for the real server, whose first build takes some minutes", serverEnv)
	}
	program, source := buildServer(t)
	dir, err := os.MkdirTemp("", "nb-mm-") //nolint:usetesting // short, for the socket of the database
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, name := range []string{"i18n", "templates", "fonts"} {
		if err := os.Symlink(filepath.Join(source, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	database := startPostgres(t, filepath.Join(dir, "pg"))

	s := &server{t: t, program: program, dir: dir, inner: freeAddress(t), conns: map[net.Conn]bool{}, stop: func() {}}
	s.env = append(os.Environ(),
		"MM_SQLSETTINGS_DRIVERNAME=postgres", "MM_SQLSETTINGS_DATASOURCE="+database,
		"MM_SERVICESETTINGS_LISTENADDRESS="+s.inner, "MM_SERVICESETTINGS_SITEURL=http://"+s.inner,
		"MM_SERVICESETTINGS_ENABLEBOTACCOUNTCREATION=true", "MM_SERVICESETTINGS_ENABLEUSERACCESSTOKENS=true",
		"MM_SERVICESETTINGS_ENABLESECURITYFIXALERT=false", "MM_ANNOUNCEMENTSETTINGS_ADMINNOTICESENABLED=false", "MM_ANNOUNCEMENTSETTINGS_USERNOTICESENABLED=false",
		"MM_LOGSETTINGS_ENABLEDIAGNOSTICS=false", "MM_LOGSETTINGS_ENABLEFILE=false", "MM_LOGSETTINGS_CONSOLELEVEL=ERROR",
		"MM_TEAMSETTINGS_ENABLEOPENSERVER=true", "MM_PLUGINSETTINGS_ENABLE=false", "MM_RATELIMITSETTINGS_ENABLE=false",
		"MM_SERVICESETTINGS_ALLOWEDUNTRUSTEDINTERNALCONNECTIONS=127.0.0.1",
		"MM_FILESETTINGS_DIRECTORY="+filepath.Join(dir, "files"),
	)
	s.front()
	t.Cleanup(func() { s.stop() })
	s.start()
	s.people()
	return s
}

// buildServer builds the server in Go's own folder of modules and returns the
// program and the folder.
func buildServer(t *testing.T) (program, source string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), buildTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", serverModule).Output()
	var got struct{ Dir, Sum, Error string }
	if json.Unmarshal(out, &got) != nil || err != nil || got.Error != "" {
		t.Skipf("the source of the server cannot be fetched: %v %s", err, got.Error)
	}
	if got.Sum != serverSum {
		t.Fatalf("the checksum of the server's source is %s, want %s", got.Sum, serverSum)
	}
	dir, err := filepath.Abs(filepath.Join(".installed", "server"))
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "mattermost")
	// Its libraries of 2022 name functions that today's linker hides.
	cmd := exec.CommandContext(ctx, "go", "build", "-C", got.Dir, "-trimpath", "-ldflags=-s -w -checklinkname=0", "-o", program, "./cmd/mattermost")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	return program, got.Dir
}

// startPostgres starts a database in a folder and returns its address.
func startPostgres(t *testing.T, dir string) string {
	t.Helper()
	bin := ""
	if path, err := exec.LookPath("initdb"); err == nil {
		bin = filepath.Dir(path)
	} else if all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(all) > 0 {
		bin = filepath.Dir(all[len(all)-1])
	} else {
		t.Skip("PostgreSQL is not installed (on Debian: apt-get install postgresql)")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	attr := &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 { // it does not run as root
		attr.Credential = unprivileged(t, dir)
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(t.Context(), filepath.Join(bin, "initdb"), "-D", data, "-U", "mattermost", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
	initdb.Dir, initdb.SysProcAttr = dir, attr
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off") //nolint:noctx // ended below
	cmd.Dir, cmd.SysProcAttr = dir, attr
	gone, stop := launch(t, cmd, syscall.SIGINT)
	t.Cleanup(stop)
	await(t, "the database", gone, func() error {
		c, err := new(net.Dialer).DialContext(t.Context(), "unix", filepath.Join(dir, ".s.PGSQL.5432"))
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return "postgres://mattermost@/postgres?sslmode=disable&host=" + url.QueryEscape(dir)
}

// unprivileged is a user who may write to a folder and below.
func unprivileged(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Skipf("no user to run the database as: %v", err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2, os.Chown(dir, int(uid), int(gid)), os.Chmod(filepath.Dir(dir), 0o711)); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// launch starts a program. Gone is closed when it has ended, stop ends it.
func launch(t *testing.T, cmd *exec.Cmd, end syscall.Signal) (gone <-chan struct{}, stop func()) {
	t.Helper()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &said, &said, time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	return done, sync.OnceFunc(func() {
		_ = cmd.Process.Signal(end)
		late := time.AfterFunc(stopTime, func() { _ = cmd.Process.Kill() })
		<-done
		late.Stop()
		if t.Failed() {
			t.Logf("%s said at last:\n%s", filepath.Base(cmd.Path), said.Bytes()[max(0, said.Len()-20000):])
		}
	})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// await tries until try succeeds, as long as the program runs.
func await(t *testing.T, what string, gone <-chan struct{}, try func() error) {
	t.Helper()
	late := time.After(startTime)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-gone:
			t.Fatalf("%s has ended", what)
		case <-late:
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

// start starts Mattermost, again on the same data.
func (s *server) start() {
	s.t.Helper()
	cmd := exec.Command(s.program, "--config", filepath.Join(s.dir, "config.json")) //nolint:noctx // ended by stop
	cmd.Dir, cmd.Env = s.dir, s.env
	var gone <-chan struct{}
	gone, s.stop = launch(s.t, cmd, syscall.SIGTERM)
	await(s.t, "Mattermost", gone, func() error {
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.inner+"/api/v4/system/ping", http.NoBody)
		if err != nil {
			return err
		}
		res, err := new(http.Client).Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("HTTP status %d", res.StatusCode)
		}
		return nil
	})
}

// Restart ends the server and starts it again.
func (s *server) Restart() {
	s.stop()
	s.start()
}

// Cut drops all WebSockets.
func (s *server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
	clear(s.conns)
}

// front starts the proxy.
func (s *server) front() {
	s.t.Helper()
	target := &url.URL{Scheme: "http", Host: s.inner}
	l, err := new(net.ListenConfig).Listen(s.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	proxied := httputil.NewSingleHostReverseProxy(target)
	proxied.ErrorLog = log.New(io.Discard, "", 0) // the server is away at times
	proxy := &http.Server{
		Handler: controls(proxied, s),
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateHijacked {
				s.mu.Lock()
				s.conns[c] = true
				s.mu.Unlock()
			}
		},
	}
	var done sync.WaitGroup
	done.Go(func() { _ = proxy.Serve(l) })
	s.t.Cleanup(func() {
		s.Cut()
		_ = proxy.Close()
		done.Wait()
	})
	s.URL = "http://" + l.Addr().String()
}

// people makes a team, a bot and a person.
func (s *server) people() {
	s.t.Helper()
	nobody := &account{base: s.URL}
	login := func(name string) *account {
		const password = "Correct-horse-1"
		a := &account{base: s.URL}
		var made struct{ ID string }
		nobody.call(s.t, http.MethodPost, "/users", map[string]any{"username": name, "email": name + "@example.com", "password": password}, &made)
		head := nobody.call(s.t, http.MethodPost, "/users/login", map[string]any{"login_id": name, "password": password}, nil)
		a.ID, a.Token = made.ID, head.Get("Token")
		return a
	}
	s.Admin = login("admin") // the first one is
	s.Ann = login("ann")

	var team, town, bot, token struct {
		ID     string
		UserID string `json:"user_id"`
		Token  string
	}
	s.Admin.call(s.t, http.MethodPost, "/teams", map[string]any{"name": "main", "display_name": "Main", "type": "O"}, &team)
	s.Admin.call(s.t, http.MethodPost, "/bots", map[string]any{"username": "nb_bot", "display_name": "Nanobot"}, &bot)
	s.Admin.call(s.t, http.MethodPost, "/users/"+bot.UserID+"/tokens", map[string]any{"description": "test"}, &token)
	s.Bot = &account{ID: bot.UserID, Token: token.Token, base: s.URL}
	for _, who := range []*account{s.Ann, s.Bot} {
		s.Admin.call(s.t, http.MethodPost, "/teams/"+team.ID+"/members", map[string]any{"team_id": team.ID, "user_id": who.ID}, nil)
	}
	s.Admin.call(s.t, http.MethodGet, "/teams/"+team.ID+"/channels/name/town-square", nil, &town)
	s.Team, s.Town = team.ID, town.ID
}

// call asks the server for something.
func (a *account) call(t *testing.T, method, path string, body, into any) http.Header {
	t.Helper()
	var data io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.NewReader(text)
	}
	return a.send(t, method, "/api/v4"+path, "application/json", data, into)
}

func (a *account) send(t *testing.T, method, path, kind string, body io.Reader, into any) http.Header {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, a.base+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	if a.Token != "" {
		req.Header.Set("Authorization", "Bearer "+a.Token)
	}
	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %d %s %v", method, path, res.StatusCode, strings.TrimSpace(string(text)), err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return res.Header
}
