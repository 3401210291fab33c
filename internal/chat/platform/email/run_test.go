package email

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
)

// Whatever every channel must do, this one does.
func TestConformance(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		t.Helper()
		f, second := fixture(t, botAddress), fixture(t, "two@example.org")
		f.Second = &second
		return f
	})
}

// fixture is a mailbox at a provider of its own.
func fixture(t *testing.T, self string) chattest.Fixture {
	t.Helper()
	p := newProvider(t, serverOptions{})
	return chattest.Fixture{
		Driver: Driver(),
		Section: func(c chat.Common) json.RawMessage {
			all := map[string]any{"allowFrom": c.AllowFrom, "enabled": c.Enabled, "allowedAttachmentTypes": []string{"*/*"}, "fromAddress": self}
			if c.MaxMediaBytes > 0 {
				all["maxAttachmentSize"] = c.MaxMediaBytes
			}
			return p.section(all)
		},
		Owner: owner, Chat: func(sender string) string { return sender },
		Deliver: func(_ *testing.T, in chattest.In) { p.deliver(mailOf(in)) },
		Seen: func() []chattest.Seen {
			var out []chattest.Seen
			for _, m := range p.mails() {
				o := open(t, m.raw)
				s := chattest.Seen{Chat: m.to, Text: withoutContext(o.plain)}
				for name := range o.files {
					s.Files = append(s.Files, name)
				}
				out = append(out, s)
			}
			return out
		},
		Break:  func() { p.failNext(&net.OpError{Op: "write"}) },
		Refuse: func() { p.failNext(errNoUser()) },
		Cut:    p.cut, Repeats: true, MediaLimit: true, AnyName: true,
		Frame: func(_ *testing.T, frame []byte) { p.deliver(string(frame)) },
		Lacks: map[string]string{
			"Stranger":  "strangers get no code by mail: each one would be an answer to spam",
			"Group":     "a mail with several recipients is answered to its sender",
			"Touched":   "a mail comes as a whole: nothing else is asked of the server for it",
			"Limit":     "mail servers do not say when to try again, and a minute is longer than a case waits",
			"Streams":   "a mail cannot be changed",
			"Thread":    "a thread of mails has no place of its own",
			"Marks":     "mails have no reactions",
			"Tap":       "mails have no buttons",
			"Typing":    "mail knows no typing",
			"Acked":     "the mailbox keeps everything: how far we read is our own note; see TestSeenAfterSubmit",
			"Forge":     "a mail whose sender is not proven is heard as a stranger's; see TestForgedSender",
			"Backlog":   "the mailbox itself keeps what was not read, without a limit of age",
			"Impatient": "the connections of mail are made without the client of the house; see TestSilentServer",
			"Alias":     "mail knows a person by one address",
			"Pose":      "strangers are not answered, whatever their names are; see TestAddressesAreCompared",
		},
	}
}

func mailOf(in chattest.In) string {
	raw := proven + "From: " + in.Sender + "\nTo: " + botAddress + "\nSubject: test\nMessage-ID: <" + in.ID + "@friends.example>\n"
	if in.File == "" {
		return raw + "\n" + in.Text + "\n"
	}
	return raw + "Content-Type: multipart/mixed; boundary=b\n\n--b\n\n" + in.Text + "\n--b\nContent-Type: text/plain\nContent-Disposition: attachment; filename*=UTF-8''" +
		url.PathEscape(in.File) + "\n\ncontent of " + in.File + "\n--b--\n"
}

// withoutContext takes the header block away that the echo repeats.
func withoutContext(s string) string {
	if !strings.HasPrefix(s, "re: [EMAIL-CONTEXT]") {
		return s
	}
	_, body, _ := strings.Cut(s, "\n\n")
	return "re: " + body
}

func TestIdle(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"pollIntervalSeconds": 3600})
	stop := r.Start(r.Run)
	r.Await("the connection", func() bool { return slices.Contains(r.States(), botAddress) })
	for i := range 3 {
		r.deliver(letterOf(i, "x", "hi"))
		r.Await("the mail", func() bool { return len(r.Inbound()) == i+1 })
	}
	r.cut()
	r.deliver(letterOf(9, "x", "after"))
	r.Await("the mail after a cut", func() bool { return len(r.Inbound()) == 4 })
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if !slices.ContainsFunc(r.States(), func(s string) bool { return strings.Contains(s, ": ") }) {
		t.Errorf("states were %q, want a lost connection among them", r.States())
	}
}

func TestPoll(t *testing.T) {
	t.Parallel()
	for name, caps := range map[string]imap.CapSet{
		"server without IDLE": {imap.CapIMAP4rev1: {}},
		"IDLE switched off":   {imap.CapIMAP4rev1: {}, imap.CapIdle: {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, newProvider(t, serverOptions{caps: caps}), map[string]any{"idle": name != "IDLE switched off"})
			r.o.PollIntervalSeconds = 1
			stop := r.Start(r.Run)
			r.Await("the connection", func() bool { return slices.Contains(r.States(), botAddress) })
			r.deliver(letterOf(1, "x", "hi"))
			r.Await("the mail", func() bool { return len(r.Inbound()) == 1 })
			if err := stop(); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

func TestRefusedLogin(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"imapPassword": "wrong", "smtpPassword": "wrong"})
	err := r.Run(t.Context(), r.Submit)
	if !chat.IsFatal(err) || !strings.Contains(err.Error(), "imapPassword") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("error is %v, want a fatal one that names the key", err)
	}
	r.welcome.Store(true)
	if err := r.Run(t.Context(), r.Submit); err == nil || chat.IsFatal(err) {
		t.Errorf("error is %v, want a passing one: the password was good before", err)
	}
	if _, err := r.Send(t.Context(), final("x", nil)); err == nil || chat.IsPermanent(err) || !strings.Contains(err.Error(), "smtpPassword") {
		t.Errorf("error of Send is %v, want a passing one that names the key", err)
	}
}

func TestMissingMailbox(t *testing.T) {
	t.Parallel()
	r := newRig(t, newProvider(t, serverOptions{}), map[string]any{"imapMailbox": "Nowhere"})
	if err := r.Run(t.Context(), r.Submit); err == nil || chat.IsFatal(err) || !strings.Contains(err.Error(), "Nowhere") {
		t.Errorf("error is %v, want a passing one that names the mailbox", err)
	}
}

// certificate is for 127.0.0.1, and who trusts it.
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"mail.example.org"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &tls.Config{RootCAs: pool}
}

func TestSubmissionWithTLS(t *testing.T) {
	t.Parallel()
	server, client := certificate(t)
	r := newRig(t, newProvider(t, serverOptions{tls: server}), map[string]any{"smtpUseTls": true})
	if _, err := r.Send(t.Context(), final("x", nil)); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("error is %v, want one about an unknown certificate", err)
	}
	r.tls = client
	if _, err := r.Send(t.Context(), final("x", nil)); err != nil {
		t.Error(err)
	}
	if n := len(r.mails()); n != 1 {
		t.Errorf("%d mails, want 1", n)
	}
}

// Both ways go through the proxy, which knows where the servers are.
func TestThroughProxy(t *testing.T) {
	t.Parallel()
	server, client := certificate(t)
	p := newProvider(t, serverOptions{tls: server})
	asked := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked <- req.Method + " " + req.Host
		_, port, _ := net.SplitHostPort(req.Host)
		there, err := new(net.Dialer).DialContext(req.Context(), "tcp", "127.0.0.1:"+port)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer there.Close()
		w.WriteHeader(http.StatusOK)
		here, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer here.Close()
		go func() { defer there.Close(); _, _ = io.Copy(there, in) }()
		_, _ = io.Copy(here, there)
	}))
	defer proxy.Close()
	r := newRig(t, p, map[string]any{"proxy": proxy.URL, "imapHost": "mail.example.org", "smtpHost": "mail.example.org", "smtpUseTls": true})
	r.tls = client
	if _, err := r.Send(t.Context(), final("x", nil)); err != nil {
		t.Error(err)
	}
	m, err := r.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.close()
	for _, l := range []net.Listener{p.smtp, p.imap} {
		if got, want := <-asked, "CONNECT mail.example.org:"+strconv.Itoa(l.Addr().(*net.TCPAddr).Port); got != want {
			t.Errorf("the proxy was asked to %s, want %s", got, want)
		}
	}
}

// A server elsewhere that offers no TLS gets no password.
func TestNoPlainPasswordElsewhere(t *testing.T) {
	t.Parallel()
	p := newProvider(t, serverOptions{})
	r := newRig(t, p, map[string]any{"imapHost": "mail.example.org"})
	m := &mailbox{news: make(chan struct{}, 1)}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.imap.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	m.conn = conn
	if err := m.greet(r.post); err == nil || !strings.Contains(err.Error(), "STARTTLS") {
		t.Errorf("error is %v, want one about STARTTLS", err)
	}
	m.abort()
}

// A server that says nothing does not hold us forever, nor at the end.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	p := newProvider(t, serverOptions{})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal("no TCP address")
	}
	r := newRig(t, p, map[string]any{"imapPort": addr.Port, "smtpPort": addr.Port})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, r.Submit) }()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	_ = c.Close()
	ctx, cancel = context.WithCancel(t.Context())
	go func() { _, err := r.Send(ctx, final("x", nil)); done <- err }()
	if c, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("Send to a silent server worked")
	}
	_ = c.Close()
}

func TestOAuth(t *testing.T) {
	t.Parallel()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked++
		if q.FormValue("grant_type") != "refresh_token" || q.FormValue("refresh_token") != "long" || q.FormValue("client_id") != "c" || q.FormValue("client_secret") != "s" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
			return
		}
		_, _ = w.Write([]byte(`{"access_token":"short","expires_in":3600}`))
	}))
	defer s.Close()
	p := newProvider(t, serverOptions{})
	p.token = "short"
	oauth := map[string]any{"clientId": "c", "clientSecret": "s", "refreshToken": "long", "tokenUrl": s.URL}
	r := newRig(t, p, map[string]any{"oauth": oauth, "imapPassword": "", "smtpPassword": ""})
	for range 2 {
		if _, err := r.Send(t.Context(), final("x", nil)); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 1 {
		t.Errorf("%d tokens were fetched for two mails, want 1", asked)
	}
	oauth["refreshToken"] = "revoked"
	r.reopen(map[string]any{"oauth": oauth})
	if _, err := r.Send(t.Context(), final("x", nil)); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("error is %v, want the reason", err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	p := newProvider(t, serverOptions{})
	for _, c := range []struct {
		name    string
		changes map[string]any
		want    string
	}{
		{"consent", map[string]any{"consentGranted": false}, "consentGranted"},
		{"host", map[string]any{"imapHost": ""}, "imapHost is missing"},
		{"password", map[string]any{"smtpPassword": ""}, "smtpPassword is missing"},
		{"misspelled", map[string]any{"imapHosst": "x"}, `did you mean "imapHost"?`},
		{"plain elsewhere", map[string]any{"smtpHost": "mail.example.org"}, "smtpUseTls"},
		{"action", map[string]any{"postAction": "burn"}, "neither delete nor move"},
		{"move where", map[string]any{"postAction": "move"}, "postActionMoveMailbox"},
		{"pattern", map[string]any{"allowedAttachmentTypes": []string{"["}}, "allowedAttachmentTypes"},
		{"port", map[string]any{"imapPort": 70000}, "imapPort"},
		{"odd proxy", map[string]any{"proxy": "ftp://localhost:1"}, "proxy"},
		{"oauth key", map[string]any{"oauth": map[string]any{"clientID": "x"}}, "clientId"},
		{"oauth provider", map[string]any{"oauth": map[string]any{"provider": "yahoo"}}, "neither google nor microsoft"},
		{"oauth without token", map[string]any{"oauth": map[string]any{"provider": "google", "clientId": "x"}}, "refreshToken"},
		{"line end", map[string]any{"imapUsername": "a\r\nb"}, "imapUsername"},
	} {
		_, err := chat.Read(p.section(c.changes), defaults())
		if !chat.IsFatal(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want a fatal one with %q", c.name, err, c.want)
		}
	}
	o, err := chat.Read(p.section(map[string]any{"pollIntervalSeconds": 1, "oauth": nil, "postAction": nil}), defaults())
	if err != nil || o.PollIntervalSeconds != 5 || o.FromAddress != botAddress {
		t.Errorf("options are %+v, %v", o, err)
	}
}
