package keyring_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"go.uber.org/goleak"

	"github.com/nanobot-go/nanobot/internal/base/keyring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startBus starts a message bus of the test's own, without any service.
func startBus(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("dbus-daemon is not installed: ", err)
	}
	dir, err := os.MkdirTemp("", "bus") //nolint:usetesting // a socket's name must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	conf := filepath.Join(dir, "bus.conf")
	text := `<busconfig><type>session</type><listen>unix:path=` + dir + `/bus</listen><auth>EXTERNAL</auth><policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--config-file="+conf, "--nofork", "--print-address=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("dbus-daemon did not start: ", err)
	}
	return strings.TrimSpace(address)
}

func ring(t *testing.T, address string, wait time.Duration) *keyring.Ring {
	t.Helper()
	return keyring.Open(keyring.Options{DataDir: "/data", Wait: wait, Getenv: func(k string) string {
		return map[string]string{"DBUS_SESSION_BUS_ADDRESS": address}[k]
	}})
}

// service is a Secret Service that checks what it is sent.
type service struct {
	t    *testing.T
	conn *dbus.Conn

	mu        sync.Mutex
	sessions  int
	items     map[dbus.ObjectPath]*held
	locked    bool   // until a question is answered
	answer    string // to a question: yes, no, or nothing for none ever
	noDefault bool
}

type held struct {
	attributes map[string]string
	value      string
}

type wire struct {
	Session     dbus.ObjectPath
	Parameters  []byte
	Value       []byte
	ContentType string
}

func startService(t *testing.T, address string) *service {
	t.Helper()
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s := &service{t: t, conn: conn, items: map[dbus.ObjectPath]*held{}, answer: "yes"}
	for _, e := range []struct {
		methods map[string]any
		path    dbus.ObjectPath
		name    string
	}{
		{map[string]any{"OpenSession": s.openSession, "Unlock": s.unlock, "SearchItems": s.search}, "/org/freedesktop/secrets", "org.freedesktop.Secret.Service"},
		{map[string]any{"CreateItem": s.create}, "/org/freedesktop/secrets/aliases/default", "org.freedesktop.Secret.Collection"},
		{map[string]any{"Prompt": s.prompt}, "/org/freedesktop/secrets/prompt/p1", "org.freedesktop.Secret.Prompt"},
	} {
		if err := conn.ExportMethodTable(e.methods, e.path, e.name); err != nil {
			t.Fatal(err)
		}
	}
	if reply, err := conn.RequestName("org.freedesktop.secrets", dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatalf("name: %v, %v", reply, err)
	}
	return s
}

// set changes what the service is like.
func (s *service) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *service) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.items)
}

func fault(name string) *dbus.Error { return dbus.NewError(name, []any{"refused"}) }

func (s *service) openSession(algorithm string, input dbus.Variant) (dbus.Variant, dbus.ObjectPath, *dbus.Error) {
	if text, ok := input.Value().(string); algorithm != "plain" || !ok || text != "" {
		s.t.Errorf("OpenSession(%q, %v)", algorithm, input)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions++
	return dbus.MakeVariant(""), dbus.ObjectPath(fmt.Sprintf("/org/freedesktop/secrets/session/s%d", s.sessions)), nil
}

func (s *service) unlock(what []dbus.ObjectPath) ([]dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(what) != 1 {
		s.t.Errorf("Unlock(%q)", what)
	}
	if s.noDefault && what[0] == "/org/freedesktop/secrets/aliases/default" {
		return nil, "/", fault("org.freedesktop.Secret.Error.NoSuchObject")
	}
	if s.locked {
		return []dbus.ObjectPath{}, "/org/freedesktop/secrets/prompt/p1", nil
	}
	return what, "/", nil
}

func (s *service) prompt(string) *dbus.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer == "" {
		return nil
	}
	s.locked = s.answer != "yes"
	err := s.conn.Emit("/org/freedesktop/secrets/prompt/p1", "org.freedesktop.Secret.Prompt.Completed", s.locked, dbus.MakeVariant([]dbus.ObjectPath{}))
	if err != nil {
		s.t.Error(err)
	}
	return nil
}

func (s *service) search(attributes map[string]string) (open, locked []dbus.ObjectPath, _ *dbus.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(attributes) != 2 || attributes["service"] == "" || attributes["username"] == "" {
		s.t.Errorf("SearchItems(%q)", attributes)
	}
	open, locked = []dbus.ObjectPath{}, []dbus.ObjectPath{}
	for path, it := range s.items {
		if it.attributes["service"] != attributes["service"] || it.attributes["username"] != attributes["username"] {
			continue
		}
		if s.locked {
			locked = append(locked, path)
		} else {
			open = append(open, path)
		}
	}
	return open, locked, nil
}

func (s *service) create(properties map[string]dbus.Variant, secret wire, replace bool) (item, prompt dbus.ObjectPath, _ *dbus.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locked {
		return "/", "/", fault("org.freedesktop.Secret.Error.IsLocked")
	}
	attributes, ok := properties["org.freedesktop.Secret.Item.Attributes"].Value().(map[string]string)
	if !ok || !replace || properties["org.freedesktop.Secret.Item.Label"].Value() == nil {
		s.t.Errorf("CreateItem(%v, replace %v)", properties, replace)
	}
	s.takes(secret)
	path := dbus.ObjectPath(fmt.Sprintf("/org/freedesktop/secrets/collection/login/%d", len(s.items)+1))
	s.items[path] = &held{attributes, string(secret.Value)}
	methods := map[string]any{
		"GetSecret": func(session dbus.ObjectPath) (wire, *dbus.Error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.locked {
				return wire{}, fault("org.freedesktop.Secret.Error.IsLocked")
			}
			return wire{session, []byte{}, []byte(s.items[path].value), "text/plain"}, nil
		},
		"SetSecret": func(secret wire) *dbus.Error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.takes(secret)
			s.items[path].value = string(secret.Value)
			return nil
		},
		"Delete": func() (dbus.ObjectPath, *dbus.Error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.items, path)
			return "/", nil
		},
	}
	if err := s.conn.ExportMethodTable(methods, path, "org.freedesktop.Secret.Item"); err != nil {
		s.t.Error(err)
	}
	return path, "/", nil
}

func (s *service) takes(secret wire) {
	if want := fmt.Sprintf("/org/freedesktop/secrets/session/s%d", s.sessions); string(secret.Session) != want || len(secret.Parameters) > 0 || secret.ContentType == "" {
		s.t.Errorf("a secret with session %q, %d parameters, type %q; want session %q", secret.Session, len(secret.Parameters), secret.ContentType, want)
	}
}

func TestSecretService(t *testing.T) {
	t.Parallel()
	address := startBus(t)
	s := startService(t, address)
	sys, why := keyring.OfSystem(func(k string) string {
		return map[string]string{"DBUS_SESSION_BUS_ADDRESS": address}[k]
	})
	if sys == nil {
		t.Fatal(why)
	}
	ctx := t.Context()
	if _, err := sys.Get(ctx, "svc", "ann"); !errors.Is(err, keyring.ErrNotFound) {
		t.Errorf("Get before: %v", err)
	}
	for _, value := range []string{"first", "second ünï\n", strings.Repeat("x", 50_000)} {
		if err := sys.Set(ctx, "svc", "ann", value); err != nil {
			t.Fatal(err)
		}
		if got, err := sys.Get(ctx, "svc", "ann"); err != nil || got != value {
			t.Errorf("Get = %.20q, %v", got, err)
		}
	}
	if n := s.count(); n != 1 {
		t.Errorf("items: %d", n)
	}

	s.set(func() { s.locked = true })
	if got, err := sys.Get(ctx, "svc", "ann"); err != nil || len(got) != 50_000 {
		t.Errorf("after a question: %.20q, %v", got, err)
	}
	s.set(func() { s.locked, s.answer = true, "no" })
	if _, err := sys.Get(ctx, "svc", "ann"); err == nil || !strings.Contains(err.Error(), "question was not answered") {
		t.Errorf("after a no: %v", err)
	}
	s.set(func() { s.locked = false })
	if err := sys.Delete(ctx, "svc", "ann"); err != nil || s.count() > 0 {
		t.Errorf("Delete: %v, %d left", err, s.count())
	}
	if err := sys.Delete(ctx, "svc", "ann"); !errors.Is(err, keyring.ErrNotFound) {
		t.Errorf("Delete again: %v", err)
	}
	s.set(func() { s.noDefault = true })
	if err := sys.Set(ctx, "svc", "ann", "v"); err == nil || !strings.Contains(err.Error(), "no default keyring") {
		t.Errorf("without a default keyring: %v", err)
	}
}

// What a server without a desktop has. Nothing waits longer than it is told to,
// and each reason is named.
func TestHeadless(t *testing.T) {
	t.Parallel()
	const wait = 3 * time.Second
	mute := func(t *testing.T) string {
		t.Helper()
		dir, err := os.MkdirTemp("", "mute") //nolint:usetesting // a socket's name must be short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		var lc net.ListenConfig
		l, err := lc.Listen(t.Context(), "unix", filepath.Join(dir, "bus"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return "unix:path=" + filepath.Join(dir, "bus")
	}
	for name, c := range map[string]struct {
		address func(t *testing.T) string
		why     string
	}{
		"no bus":     {func(*testing.T) string { return "" }, "there is no D-Bus session"},
		"autolaunch": {func(*testing.T) string { return "autolaunch:" }, "not a socket in the file system"},
		"abstract":   {func(*testing.T) string { return "unix:abstract=/tmp/x" }, "not a socket in the file system"},
		"gone":       {func(t *testing.T) string { return "unix:path=" + t.TempDir() + "/bus" }, "there is no D-Bus session at "},
		"no service": {startBus, "this D-Bus session has no Secret Service"},
		"mute bus":   {mute, "did not answer within 3s"},
		"locked for ever": {func(t *testing.T) string {
			address := startBus(t)
			s := startService(t, address)
			s.set(func() { s.locked, s.answer = true, "" })
			return address
		}, "did not answer within 3s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := c.address(t)
			dir := t.TempDir()
			r := keyring.Open(keyring.Options{DataDir: dir, Wait: wait, Getenv: func(k string) string {
				return map[string]string{"DBUS_SESSION_BUS_ADDRESS": address}[k]
			}})
			began := time.Now()
			place, err := r.Set(t.Context(), "k", "v")
			if took := time.Since(began); took > wait+time.Minute {
				t.Errorf("it took %s", took)
			}
			if err != nil || place.File != filepath.Join(dir, "secrets", "k") || !strings.Contains(place.Why, c.why) {
				t.Errorf("Set = %+v, %v", place, err)
			}
		})
	}
}

func TestBusSocket(t *testing.T) {
	t.Parallel()
	var got []string
	for _, a := range []string{"unix:path=/run/user/1/bus", "unix:path=/x,guid=12", "unix:abstract=/x", "tcp:host=h", "unix:path=x", "unix:path=/a;unix:path=/b", ""} {
		path, ok := keyring.BusSocket(a)
		if ok {
			got = append(got, path)
		}
	}
	if want := []string{"/run/user/1/bus", "/x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := ring(t, "", 0).Get(t.Context(), "a/b"); err == nil || !strings.Contains(err.Error(), "no system keyring") {
		t.Errorf("without a keyring: %v", err)
	}
}
