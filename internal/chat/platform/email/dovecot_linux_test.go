package email

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// server is a program of Debian that is started from its packages.
type server struct {
	name, binary string
	env          string // names a folder with unpacked packages
	packages     string
}

// root finds an installed server, or unpacks Debian's packages into a folder:
// the one that env names if it is set, else a new one where CI is true.
// Libraries that the packages need come along if they are missing here.
func (s server) root(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skipf("%s can be started by root only", s.name)
	}
	if _, err := os.Stat(s.binary); err == nil {
		return "/"
	}
	if dir := os.Getenv(s.env); dir != "" {
		return dir
	}
	if os.Getenv("CI") != "true" {
		t.Skipf("%s is not installed; with CI=true its packages are fetched", s.name)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `
for lib in $(apt-cache depends -i "$@" | sed -n 's/^.*Depends: \(lib[^ ]*\)$/\1/p' | sort -u); do
	dpkg-query -W "$lib" >/dev/null 2>&1 || set -- "$@" "$lib"
done
apt-get download "$@" && for f in *.deb; do dpkg -x "$f" root || exit 1; done`, "sh")
	cmd.Args = append(cmd.Args, strings.Fields(s.packages)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("%s is not installed and its packages cannot be fetched: %v: %s", s.name, err, out)
	}
	return filepath.Join(dir, "root")
}

func dovecotRoot(t *testing.T) string {
	t.Helper()
	return server{"Dovecot", "/usr/sbin/dovecot", "DOVECOT_ROOT", "dovecot-core dovecot-imapd"}.root(t)
}

// freePort is a port of loopback that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal("no TCP address")
	}
	return addr.Port
}

// dovecot starts the server on loopback and returns its port, and the folder
// that has the mails of somebody@anywhere in mail/somebody.
func dovecot(t *testing.T, root string) (port int, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "dovecot") //nolint:usetesting // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, name := range []string{"", "mail", "home"} { // the mails are nobody's
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	port = freePort(t)
	conf := fmt.Sprintf(`
protocols = imap
listen = 127.0.0.1
base_dir = %[1]s/run
state_dir = %[1]s/state
auth_mechanisms = plain
disable_plaintext_auth = no
ssl = no
default_internal_user = nobody
default_internal_group = nogroup
default_login_user = nobody
mail_location = maildir:%[1]s/mail/%%n
mail_uid = nobody
mail_gid = nogroup
log_path = %[1]s/log
passdb {
  driver = static
  args = password=%[3]s
}
userdb {
  driver = static
  args = uid=nobody gid=nogroup home=%[1]s/home/%%n
}
service imap-login {
  chroot =
  inet_listener imap {
    address = 127.0.0.1
    port = %[2]d
  }
  inet_listener imaps {
    port = 0
  }
}
service anvil {
  chroot =
}
namespace inbox {
  inbox = yes
  mailbox Archive {
    auto = create
  }
}
`, dir, port, "geheim")
	file := filepath.Join(dir, "dovecot.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	// The server looks for its parts at fixed places. If it was only unpacked
	// they are put there for its eyes alone.
	script := `exec /usr/sbin/dovecot -F -c "$1"`
	if root != "/" {
		script = `mount --make-rprivate / && mount -t overlay overlay -o "lowerdir=$2/usr:/usr" /usr && ` + script
	}
	cmd := exec.Command("unshare", "-m", "sh", "-c", script, "sh", file, root) //nolint:noctx // ended below
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Skipf("Dovecot cannot be started: %v", err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
		if t.Failed() {
			log, err := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("Dovecot said: %s%s %v", out.String(), log, err)
		}
	})
	awaitPort(t, "Dovecot", port, ended, &out)
	return port, dir
}

func awaitPort(t *testing.T, name string, port int, ended <-chan struct{}, out fmt.Stringer) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(10 * time.Minute)
	for {
		if c, err := new(net.Dialer).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ended:
			t.Skipf("%s does not run here: %s", name, out)
		case <-limit:
			t.Fatalf("%s does not listen", name)
		}
	}
}

// Real servers, which are fetched once for both tests.
func TestDovecot(t *testing.T) {
	t.Parallel()
	root := dovecotRoot(t)
	t.Run("alone", func(t *testing.T) { t.Parallel(); testDovecot(t, root) })
	t.Run("with OpenSMTPD", func(t *testing.T) { t.Parallel(); testOpenSMTPD(t, root) })
}

// cable is a way to a port of loopback that can be cut.
type cable struct {
	port int

	mu   sync.Mutex
	ends []net.Conn
}

// newCable lays a way to a port.
func newCable(t *testing.T, to int) *cable {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal("no TCP address")
	}
	c := &cable{port: addr.Port}
	var work sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		c.cut()
		work.Wait()
	})
	work.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := new(net.Dialer).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", to))
			if err != nil {
				_ = near.Close()
				continue
			}
			c.mu.Lock()
			c.ends = append(c.ends, near, far)
			c.mu.Unlock()
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				work.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					_ = near.Close()
					_ = far.Close()
				})
			}
		}
	})
	return c
}

// cut ends all connections.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range c.ends {
		_ = end.Close()
	}
	c.ends = nil
}

// The whole way over a real IMAP server: IDLE, a cut connection, flags, MOVE, a
// restart, a mail too large to be fetched, and the answer in the thread.
func testDovecot(t *testing.T, root string) {
	t.Helper()
	port, _ := dovecot(t, root)
	line := newCable(t, port)
	r := newRig(t, newProvider(t, serverOptions{}), nil)
	changes := map[string]any{"imapPort": line.port, "imapPassword": "geheim", "postAction": "move", "postActionMoveMailbox": "Archive", "allowedAttachmentTypes": []string{"*"}}
	r.reopen(changes)
	c, err := imapclient.DialInsecure(fmt.Sprintf("127.0.0.1:%d", port), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Login(botAddress, "geheim").Wait(); err != nil {
		t.Fatal(err)
	}
	put := func(raw string) {
		t.Helper()
		raw = strings.ReplaceAll(raw, "\n", "\r\n")
		cmd := c.Append("INBOX", int64(len(raw)), nil)
		if _, err := cmd.Write([]byte(raw)); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	count := func(mailbox string) (all, unseen uint32) {
		t.Helper()
		d, err := c.Status(mailbox, &imap.StatusOptions{NumMessages: true, NumUnseen: true}).Wait()
		if err != nil {
			t.Fatal(err)
		}
		return *d.NumMessages, *d.NumUnseen
	}
	put(letterOf(1, "first", "one"))
	put("From: eve@elsewhere.example\nSubject: x\n\nx\n")
	stop := r.Start(r.Run)
	r.Await("the first mail", func() bool { return len(r.Inbound()) == 1 })
	r.Await("the connection", func() bool { return slices.Contains(r.States(), botAddress) })
	put(letterOf(2, "second", "two"))
	r.Await("the mail that IDLE tells of", func() bool { return len(r.Inbound()) == 2 })
	connections := len(r.States())
	line.cut()
	r.Await("another connection", func() bool { return slices.Contains(r.States()[connections:], botAddress) })
	put(letterOf(5, "after the cut", "five"))
	r.Await("the mail after the cut", func() bool { return len(r.Inbound()) == 3 })
	r.Await("the move", func() bool { all, _ := count("Archive"); return all == 3 })
	if all, unseen := count("INBOX"); all != 1 || unseen != 1 {
		t.Errorf("%d mails in INBOX, %d unread, want the stranger's, unread", all, unseen)
	}
	if _, unseen := count("Archive"); unseen != 0 {
		t.Errorf("%d unread in Archive, want none", unseen)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	put(letterOf(3, "third", "three"))
	put(largeMail(4))
	r.reopen(changes)
	stop = r.Start(r.Run)
	r.Await("the mails after a restart", func() bool { return len(r.Inbound()) == 5 })
	checkLargeMail(t, r.Inbound()[4])
	if err := stop(); err != nil {
		t.Error(err)
	}
	in := r.Inbound()[3]
	if _, err := r.Send(t.Context(), final("done", in.Meta)); err != nil {
		t.Fatal(err)
	}
	if got := open(t, r.mails()[0].raw).header.Get("In-Reply-To"); got != "<3@friends.example>" || !strings.HasSuffix(in.Text, "three") {
		t.Errorf("the answer refers to %q", got)
	}
}
