package security_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// An attempt on package hosts needs hosts with their names, at addresses that the
// program takes for public. The test starts itself again in namespaces of its own:
// there every name leads to internetAddr, where the attempt has a server. The
// program is the real one, and nothing in it is told of this.

// insideVariable tells this program that it runs in such namespaces.
const insideVariable = "NANOBOT_SECURITY_INSIDE"

// notInside is the exit code of a process that could not prepare its namespaces.
const notInside = 3

// internetAddr is where every name leads. The kernel of the namespace accepts
// connections to it, but no interface has it: addresses of the machine itself are
// refused.
const internetAddr = "9.9.9.9"

// nameServer is where the program finds names.
const nameServer = "127.0.0.53"

func isInside() bool { return os.Getenv(insideVariable) != "" }

// enterInternet prepares the namespaces that the process was started in.
func enterInternet(dir string) error {
	for _, args := range [][]string{{"link", "set", "lo", "up"}, {"-4", "route", "add", "local", internetAddr + "/32", "dev", "lo"}} {
		if out, err := exec.CommandContext(context.Background(), "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	for path, text := range map[string]string{"/etc/resolv.conf": "nameserver " + nameServer + "\n", "/etc/hosts": "127.0.0.1 localhost\n"} {
		file := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		if err := unix.Mount(file, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("put a file over %s: %w", path, err)
		}
	}
	return nil
}

// tryInside runs one attempt in namespaces of its own, and returns what it got. It
// skips the test where the kernel lends none.
func tryInside(t *testing.T, id string) (broken []string) {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := contextFor(t)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-test.run", "^TestAttempts$/^try$/^"+strings.ReplaceAll(id, ".", `\.`)+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideVariable+"=1", binVariable+"="+bin)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil && strings.Contains(string(out), "--- PASS: TestAttempts/try/"+id):
		return nil
	case err == nil, ended && exit.ExitCode() == notInside:
		t.Skipf("no internet of its own here: %s", out)
	case !ended:
		t.Skipf("the kernel lends no namespaces: %v", err)
	}
	return []string{string(out)}
}

// internet is what lies behind all names: one server that remembers everything.
type internet struct {
	mu       sync.Mutex
	names    []string // that were looked up
	requests []arrival
}

// arrival is a request as it came to a host.
type arrival struct {
	host, method, uri string
	header            http.Header
	body              int
}

// newInternet starts the servers of all names, and makes the program trust them as
// it trusts the authorities of the system.
func newInternet(a *trial) *internet {
	a.t.Helper()
	n := &internet{}
	authority, key := newAuthority(a.t)
	file := filepath.Join(a.t.TempDir(), "authority.pem")
	a.write(file, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw})))
	a.more = append(a.more, "SSL_CERT_FILE="+file)

	for port, secure := range map[string]bool{"80": false, "443": true} {
		l, err := new(net.ListenConfig).Listen(a.t.Context(), "tcp", net.JoinHostPort(internetAddr, port))
		if err != nil {
			a.t.Fatal(err)
		}
		if secure {
			l = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				return newLeaf(hello.ServerName, authority, key)
			}})
		}
		n.serve(a.t, l)
	}
	n.answerNames(a.t)
	return n
}

func (n *internet) serve(t *testing.T, l net.Listener) {
	t.Helper()
	srv := &http.Server{Handler: n, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), MaxHeaderBytes: 8 << 20}
	var done sync.WaitGroup
	done.Go(func() { _ = srv.Serve(l) }) // ends with Close
	t.Cleanup(func() {
		_ = srv.Close()
		done.Wait()
	})
}

// ServeHTTP implements http.Handler.
func (n *internet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	size, _ := io.Copy(io.Discard, r.Body) // it may be cut
	n.mu.Lock()
	n.requests = append(n.requests, arrival{host: r.Host, method: r.Method, uri: r.RequestURI, header: r.Header, body: int(size)})
	n.mu.Unlock()
	switch {
	case strings.HasPrefix(r.URL.Path, "/elsewhere"):
		http.Redirect(w, r, "https://evil.example/took"+r.URL.RawQuery, http.StatusFound)
	case strings.Contains(r.URL.Path, "/evil.example/"):
		http.NotFound(w, r) // is not stored
	default:
		fmt.Fprintln(w, "stored")
	}
}

// answerNames is a name server for which all names lead to the internet.
func (n *internet) answerNames(t *testing.T) {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(nameServer), Port: 53})
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for buf := make([]byte, 4096); ; {
			size, from, err := conn.ReadFromUDP(buf)
			if err != nil {
				return
			}
			if answer := n.answer(bytes.Clone(buf[:size])); answer != nil {
				_, _ = conn.WriteToUDP(answer, from) // it asks again
			}
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		done.Wait()
	})
}

func (n *internet) answer(question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) == 0 {
		return nil
	}
	q := m.Questions[0]
	n.mu.Lock()
	n.names = append(n.names, strings.TrimSuffix(q.Name.String(), "."))
	n.mu.Unlock()
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: [4]byte(net.ParseIP(internetAddr).To4())},
		}}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// seen are all requests and all names so far.
func (n *internet) seen() (requests []arrival, names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.requests), slices.Clone(n.names)
}

// told is what of a request others than the operator of the host get to see.
func (r arrival) told() (list []string) {
	add := func(is bool, what string) {
		if is {
			list = append(list, what)
		}
	}
	agent := r.header.Get("User-Agent")
	unstored := strings.Contains(r.uri, "/lookup/evil.example")
	add(!slices.Contains(packageNames(), r.host), "a host of a stranger was asked: "+r.host)
	add(agent != "nanobot" && (!strings.HasPrefix(agent, "git/") || strings.Contains(agent, "secret")), "a program named itself: "+agent)
	add(r.header.Get("Authorization") != "" || r.header.Get("Cookie") != "", "a program signed in")
	add(r.method != http.MethodGet && r.method != http.MethodHead && !strings.HasSuffix(r.uri, "/git-upload-pack"), "a request to change something: "+r.method)
	add(r.method == http.MethodGet && r.body > 0, "a request to read has a body")
	switch r.host {
	case "proxy.golang.org":
		add(r.header.Get("Disable-Module-Fetch") != "true" && !unstored, "the mirror fetches from the host of the path")
		add(unstored, "the mirror looks up what it does not have")
	case "sum.golang.org":
		add(unstored, "the sums are looked up for what the mirror does not have")
	case "github.com":
		add(strings.Contains(r.uri, "/releases/") || strings.Contains(r.uri, "/search") || strings.Contains(r.uri, "receive-pack"), "a stranger sees it at github.com")
	case "media.githubusercontent.com":
		add(true, "a stranger sees how much is read")
	}
	return list
}

// packageNames are those package hosts that attempts ask.
func packageNames() []string {
	return []string{"pypi.org", "registry.npmjs.org", "proxy.golang.org", "sum.golang.org", "github.com", "media.githubusercontent.com", "index.crates.io"}
}

// carried is how many bytes came that a program chooses. What it repeats in each
// request says nothing.
func carried(requests []arrival) (sum int) {
	said := map[string]bool{}
	for _, r := range requests {
		sum += len(r.method) + len(r.uri) + r.body
		for _, name := range slices.Sorted(maps.Keys(r.header)) {
			for _, v := range r.header[name] {
				if line := name + ": " + v; !said[line] {
					said[line] = true
					sum += len(line)
				}
			}
		}
	}
	return sum
}

func newAuthority(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of the attempts"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// newLeaf is the certificate of any name.
func newLeaf(name string, authority *x509.Certificate, key *ecdsa.PrivateKey) (*tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
