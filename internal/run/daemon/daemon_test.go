package daemon

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMain lets the test binary be the program in the background.
func TestMain(m *testing.M) {
	if os.Getenv("DAEMON_TEST") == "wait" {
		_, _ = io.WriteString(os.Stdout, "started\n")
		time.Sleep(time.Minute) //nolint:forbidigo // to be ended by the test
		panic("nobody ended the program in the background")
	}
	m.Run()
}

func TestInstance(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, log := filepath.Join(dir, "run", "x.json"), filepath.Join(dir, "logs", "x.log")
	if _, err := Find(path); !errors.Is(err, ErrNotRunning) {
		t.Fatalf("nothing there: %v", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pid, done, err := Start(exe, nil, append(os.Environ(), "DAEMON_TEST=wait"), log)
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity(pid)
	if err != nil {
		t.Fatal(err)
	}
	me := Instance{PID: pid, Identity: id, Started: time.Now(), Mode: "background"}
	if err := me.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Find(path)
	if err != nil || got.PID != pid {
		t.Fatalf("got %+v, %v", got, err)
	}
	longer, shorter := me, me
	longer.Workspace = strings.Repeat("x", 5000)
	for _, i := range []Instance{longer, shorter} {
		if err := i.Write(path); err != nil {
			t.Fatal(err)
		}
		if got, err := Find(path); err != nil || got.Workspace != i.Workspace {
			t.Errorf("written over another: got a workspace of %d bytes, want %d; %v", len(got.Workspace), len(i.Workspace), err)
		}
	}
	other := got
	other.Identity = "start:1"
	if id != "" && other.alive() {
		t.Error("a process with the same number but another start counts as ours")
	}
	if gently, err := got.Stop(t.Context(), time.Minute); err != nil || !gently {
		t.Errorf("stop: gently %v, %v", gently, err)
	}
	<-done
	if _, err := Find(path); !errors.Is(err, ErrNotRunning) {
		t.Errorf("after the end: %v", err)
	}
	if _, ok := errors.AsType[*StaleError](func() error { _, err := Find(path); return err }()); !ok {
		t.Error("the file that is left is not called stale")
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(path); err == nil || errors.Is(err, ErrNotRunning) {
		t.Errorf("damaged file: %v", err)
	}
	for name, left := range map[string]string{"empty": "", "zeroes": "\x00\x00\x00"} {
		if err := os.WriteFile(path, []byte(left), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Find(path); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("beside the description: %v, %v", left, err)
	}
}

func TestLogFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "logs", "a.log")
	var spare bytes.Buffer
	l, err := OpenLog(path, 100, 2, &spare)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 29) + "\n"
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 4 {
				if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
					t.Errorf("wrote %d, %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, name := range []string{path, path + ".1", path + ".2"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(data))
	}
	if diff := cmp.Diff([]int{30, 90, 90}, sizes); diff != "" {
		t.Errorf("sizes: %s", diff)
	}
	if _, err := os.Stat(path + ".3"); err == nil {
		t.Error("more old logs than asked for")
	}
	if spare.Len() > 0 {
		t.Errorf("spare: %q", spare.String())
	}
}

func TestLogFileWithoutDisk(t *testing.T) {
	t.Parallel()
	var spare bytes.Buffer
	l, err := OpenLog(filepath.Join(t.TempDir(), "a.log"), 10, 1, &spare)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.f.Close() // as if the disk were gone
	if _, err := l.Write([]byte("hello")); err != nil || spare.String() != "hello" {
		t.Errorf("%q, %v", spare.String(), err)
	}
}

func TestNotifier(t *testing.T) {
	t.Parallel()
	addr := filepath.Join(t.TempDir(), "n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: addr, Net: "unixgram"})
	if err != nil {
		t.Skip("no such sockets here: ", err)
	}
	defer conn.Close()
	env := map[string]string{"NOTIFY_SOCKET": addr, "WATCHDOG_USEC": "120000000"}
	n := NewNotifier(func(k string) string { return env[k] })
	if n.Watchdog() != time.Minute {
		t.Errorf("watchdog every %s", n.Watchdog())
	}
	if err := n.Send("READY=1"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	got, err := conn.Read(buf)
	if err != nil || string(buf[:got]) != "READY=1" {
		t.Errorf("got %q, %v", buf[:got], err)
	}
	if err := NewNotifier(func(string) string { return "" }).Send("READY=1"); err != nil {
		t.Errorf("without a service manager: %v", err)
	}
}

func TestCrashes(t *testing.T) {
	t.Parallel()
	c := OpenCrashes(filepath.Join(t.TempDir(), "run", "starts.json"))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3 {
		if n, err := c.Begin(now.Add(time.Duration(i)*time.Second), 2*time.Minute); n != i || err != nil {
			t.Errorf("start %d: %d, %v", i, n, err)
		}
	}
	if err := c.Remove(now.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, _ := c.Begin(now.Add(3*time.Second), 2*time.Minute); n != 2 {
		t.Errorf("%d starts after one was taken back, want 2", n)
	}
	if n, _ := c.Begin(now.Add(time.Hour), 2*time.Minute); n != 0 {
		t.Errorf("an hour later: %d", n)
	}
	if n, _ := c.Begin(now.Add(time.Hour+time.Second), 2*time.Minute); n != 1 {
		t.Errorf("after a note that is shorter than the one before: %d", n)
	}
	if err := c.Clear(); err != nil {
		t.Fatal(err)
	}
	if n, _ := c.Begin(now.Add(time.Hour+time.Second), 2*time.Minute); n != 0 {
		t.Errorf("after a good end: %d", n)
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	s := Service{
		Name: "bot", About: "A bot\nwith 100%", Command: []string{"/opt/my bot", "run", `--x=a"b$c`},
		Env: []string{"HOME=/home/a & b", "COST=5$"}, Folder: "/srv",
	}
	unit := s.systemd()
	for _, want := range []string{
		"Description=A bot with 100%%\n", `ExecStart="/opt/my bot" run "--x=a\"b$$c"` + "\n", "Type=notify\n",
		"WorkingDirectory=/srv\n", `Environment="HOME=/home/a & b"` + "\nEnvironment=COST=5$\n", "WantedBy=default.target\n", "RestartPreventExitStatus=78\n",
	} {
		if !strings.Contains(unit, want) {
			t.Errorf("no %q in\n%s", want, unit)
		}
	}
	dec := xml.NewDecoder(strings.NewReader(s.launchd()))
	dec.Strict = true
	var texts []string
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, s.launchd())
		}
		if c, ok := tok.(xml.CharData); ok && strings.TrimSpace(string(c)) != "" {
			texts = append(texts, string(c))
		}
	}
	if got := strings.Join(texts, "|"); !strings.Contains(got, `Label|bot|ProgramArguments|/opt/my bot|run|--x=a"b$c|`) || !strings.Contains(got, "HOME|/home/a & b") {
		t.Errorf("plist: %s", got)
	}
}
