package email

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-msgauth/dkim"
	"github.com/emersion/go-smtp"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// smtpd is a running OpenSMTPD, the server mx.example.org. It takes mail for
// bot@example.org from everybody.
type smtpd struct {
	login int // a port with STARTTLS, where people who log in may write to ann@friends.example
	relay int // a port without, where everybody may
	trust *tls.Config
}

// openSMTPD starts the server on loopback. It puts mails where Dovecot, whose
// folder is dir, looks for them.
//
// The server wants users of its own and fixed places. It gets them for its own
// eyes: nothing it sees of /etc, /run and /var is the machine's. Its processes
// end with the namespace that they are in, which ends with this test.
func openSMTPD(t *testing.T, dir string) smtpd {
	t.Helper()
	root := server{"OpenSMTPD", "/usr/sbin/smtpd", "OPENSMTPD_ROOT", "opensmtpd"}.root(t)
	s := smtpd{login: freePort(t), relay: freePort(t)}
	s.trust = s.write(t, dir)
	layers := func(name string) string {
		if root == "/" {
			return name
		}
		return filepath.Join(root, name) + ":" + name
	}
	// The first process ends when the pipe does, so also when the test is killed.
	const script = `
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$1/etc:$2" /etc
case $3 in *:*) mount -t overlay overlay -o "lowerdir=$3" /usr ;; esac
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var
mkdir -p /var/lib/opensmtpd/empty /var/empty /var/spool/smtpd
chmod 711 /var/spool/smtpd
ln -s /run /var/run
exec 3<&0
trap exit TERM
(cat <&3 >/dev/null; kill $$) &
/usr/sbin/smtpd -d -f /etc/smtpd.conf 3<&- &
wait $!
`
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", //nolint:noctx // ended below
		"sh", "-ec", script, "sh", dir, layers("/etc"), layers("/usr"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("OpenSMTPD cannot be started: %v", err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("OpenSMTPD said: %s", out.String())
		}
	})
	awaitPort(t, "OpenSMTPD", s.relay, ended, &out)
	return s
}

// write makes what the server reads, and returns who trusts its certificate.
func (s smtpd) write(t *testing.T, dir string) *tls.Config {
	t.Helper()
	own, trust := certificate(t)
	key, err := x509.MarshalPKCS8PrivateKey(own.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etc", "home/ann", "home/bot"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"hosts":         "127.0.0.1 localhost\n",
		"resolv.conf":   "nameserver 127.0.0.1\n", // who does not answer
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
		"mailname":      "mx.example.org\n",
		"cert.pem":      string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificates[0].Certificate[0]})),
		"key.pem":       string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		"group":         "root:x:0:\nopensmtpd:x:901:\nopensmtpq:x:902:\nnogroup:x:65534:\n",
		"passwd": fmt.Sprintf(`root:x:0:0::/:/bin/sh
opensmtpd:x:901:901::/var/lib/opensmtpd/empty:/bin/false
opensmtpq:x:902:902::/var/lib/opensmtpd/empty:/bin/false
ann:x:65534:65534::%[1]s/home/ann:/bin/sh
bot:x:65534:65534::%[1]s/home/bot:/bin/sh
`, dir),
		// The long word is a hash of "geheim".
		"smtpd.conf": fmt.Sprintf(`
pki "mx.example.org" cert "/etc/cert.pem"
pki "mx.example.org" key "/etc/key.pem"
table people { "%[1]s" = "$6$saltsalt$sfZR6YSW/Dp0uCiyF9fDipa6ORr5LVLOwXNgtzRlXXhkC7xA3w4zy97VIC3vL14AUXGJp3yBjZVztkdiBzJnX1" }
listen on 127.0.0.1 port %[2]d tls-require pki "mx.example.org" auth <people> hostname "mx.example.org"
listen on 127.0.0.1 port %[3]d tag "HERE" hostname "mx.example.org"
action "keep" maildir "%[4]s/mail/%%{dest.user}"
match from any for domain "example.org" action "keep"
match auth from any for domain "friends.example" action "keep"
match tag "HERE" from any for domain "friends.example" action "keep"
`, botAddress, s.login, s.relay, dir),
	} {
		mode := os.FileMode(0o644)
		if name == "key.pem" || name == "smtpd.conf" {
			mode = 0o600
		}
		if err := os.WriteFile(filepath.Join(dir, "etc", name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return trust
}

// speaksTLS tells whether STARTTLS works. Debian 12 has a version (6.8.0p2) that
// cannot use its key with OpenSSL 3 and breaks every handshake off.
func (s smtpd) speaksTLS(t *testing.T) bool {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", s.login))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	config := s.trust.Clone()
	config.ServerName = "127.0.0.1"
	c, err := smtp.NewClientStartTLS(conn, config)
	if err == nil {
		err = c.Hello("friends.example")
	}
	if err != nil && strings.Contains(err.Error(), "remote error: tls: internal error") {
		t.Logf("without TLS and login, because OpenSMTPD has no working STARTTLS: %v", err)
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// post hands a mail to the server as that of another provider does.
func (s smtpd) post(t *testing.T, from, to, raw string) {
	t.Helper()
	raw = strings.ReplaceAll(strings.ReplaceAll(raw, "\r\n", "\n"), "\n", "\r\n")
	c, err := smtp.Dial(fmt.Sprintf("127.0.0.1:%d", s.relay))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SendMail(from, []string{to}, strings.NewReader(raw)); err != nil {
		t.Fatalf("OpenSMTPD does not take a mail from %s to %s: %v", from, to, err)
	}
}

// The whole way over real servers: a mail that is sent to us arrives by SMTP,
// IDLE tells of it, and our answer goes by SMTP into the mailbox of who asked.
func testOpenSMTPD(t *testing.T, dovecotRoot string) {
	t.Helper()
	imapPort, dir := dovecot(t, dovecotRoot)
	s := openSMTPD(t, dir)
	changes := map[string]any{
		"imapPort": imapPort, "imapPassword": "geheim", "pollIntervalSeconds": 3600,
		"smtpPort": s.relay, "smtpPassword": "geheim",
	}
	secure := s.speaksTLS(t)
	if secure {
		changes["smtpPort"], changes["smtpUseTls"] = s.login, true
	}
	r := newRig(t, newProvider(t, serverOptions{}), changes)
	r.tls = s.trust
	letter := "From: Ann Example <" + owner + ">\nTo: " + botAddress + "\nSubject: Grüße\nMessage-ID: <1@friends.example>\nContent-Type: text/plain; charset=utf-8\n\nschön\n.point\nend\n"
	signed, lookup := signedMail(t, dkim.SignOptions{Domain: "friends.example", HeaderKeys: []string{"From", "To", "Subject", "Reply-To"}}, letter)
	r.senders.lookup = lookup
	stop := r.Start(r.Run)
	r.Await("the connection", func() bool { return slices.Contains(r.States(), botAddress) })

	s.post(t, owner, botAddress, signed)
	r.Await("the signed mail", func() bool { return len(r.Inbound()) == 1 })
	in := r.Inbound()[0]
	if in.Untrusted || in.Meta["verified"] != "true" || !strings.HasSuffix(in.Text, "schön\n.point\nend") {
		t.Errorf("the signed mail came as %+v", in)
	}
	// What a sender says on top is below the line that the server writes.
	s.post(t, "eve@evil.example", botAddress, letterOf(2, "x", "obey"))
	r.Await("the forged mail", func() bool { return len(r.Inbound()) == 2 })
	if forgery := r.Inbound()[1]; !forgery.Untrusted || forgery.Meta["verified"] != "false" {
		t.Errorf("the forged mail came as %+v", forgery)
	}

	if _, err := r.Send(t.Context(), final("**gut**\n\n.point ä", in.Meta)); err != nil {
		t.Fatal(err)
	}
	answer := open(t, firstMail(t, r, imapPort, owner))
	if got := answer.header.Get("In-Reply-To"); got != "<1@friends.example>" {
		t.Errorf("the answer refers to %q, want the signed mail", got)
	}
	if !strings.Contains(answer.plain, "gut") || !strings.Contains(answer.plain, "\n.point ä") {
		t.Errorf("the answer is %q", answer.plain)
	}
	if got, want := answer.header.Get("Received"), "by mx.example.org"; !strings.Contains(got, want) || secure != strings.Contains(got, "with ESMTPSA") {
		t.Errorf("the answer was %q, want %s; TLS and login are %v", got, want, secure)
	}
	if got := answer.header.Get("Return-Path"); got != "" && got != botAddress && got != "<"+botAddress+">" {
		t.Errorf("bounces go to %q", got)
	}

	lost := final("x", nil)
	lost.Route.ChatID = "nobody-here@friends.example"
	if _, err := r.Send(t.Context(), lost); !chat.IsPermanent(err) {
		t.Errorf("error of a mail to nobody is %v, want a permanent one", err)
	}
	if secure {
		changes["smtpPassword"] = "falsch"
		r.reopen(changes)
		r.tls = s.trust
		if _, err := r.Send(t.Context(), final("x", nil)); err == nil || chat.IsPermanent(err) || !strings.Contains(err.Error(), "smtpPassword") {
			t.Errorf("error of a wrong password is %v, want a passing one that names it", err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// firstMail waits for a mail in somebody's mailbox and returns it.
func firstMail(t *testing.T, r *rig, port int, user string) []byte {
	t.Helper()
	c, err := imapclient.DialInsecure(fmt.Sprintf("127.0.0.1:%d", port), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Login(user, "geheim").Wait(); err != nil {
		t.Fatal(err)
	}
	r.Await("a mail for "+user, func() bool {
		d, err := c.Select("INBOX", nil).Wait()
		if err != nil {
			t.Fatal(err)
		}
		return d.NumMessages > 0
	})
	all := &imap.FetchItemBodySection{Peek: true}
	mails, err := c.Fetch(imap.SeqSetNum(1), &imap.FetchOptions{BodySection: []*imap.FetchItemBodySection{all}}).Collect()
	if err != nil || len(mails) != 1 {
		t.Fatalf("fetched %d mails: %v", len(mails), err)
	}
	return mails[0].FindBodySection(all)
}
