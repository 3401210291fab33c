package httpsafe_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// forge is every package host, over plain HTTP, except that the mirror has
// its own answer about what is stored.
type forge struct {
	*world
	stored map[string]bool // archives

	mu   sync.Mutex
	got  []*http.Request
	body int64 // bytes of all requests
}

func newForge(t *testing.T) *forge {
	t.Helper()
	r := &forge{world: newWorld(t), stored: map[string]bool{}}
	h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n, _ := io.Copy(io.Discard, req.Body) // all of it: an answer would come before the end of a body that is refused
		r.mu.Lock()
		defer r.mu.Unlock()
		r.body += n
		r.got = append(r.got, req.Clone(context.WithoutCancel(req.Context())))
		if strings.HasSuffix(req.URL.Path, ".zip") && !r.stored[req.URL.Path] {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	r.plain.Close()
	r.plain = httptest.NewServer(h)
	t.Cleanup(r.plain.Close)
	r.secure.Close()
	r.secure = httptest.NewUnstartedServer(h)
	r.secure.TLS = &tls.Config{Certificates: []tls.Certificate{certificateFor(t, "proxy.golang.org")}, MinVersion: tls.VersionTLS12}
	r.secure.StartTLS()
	t.Cleanup(r.secure.Close)
	return r
}

// arrived are the requests since the last call.
func (r *forge) arrived() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.got
	r.got = nil
	return out
}

// TestContainedRequests sends to package hosts what a command may say whose
// words can be a stranger's.
func TestContainedRequests(t *testing.T) {
	t.Parallel()
	const asked = "the owner is asked"
	for name, tt := range map[string]struct {
		method, url string
		header      http.Header
		want        string // "" arrives
	}{
		"a module":                        {url: "http://proxy.golang.org/example.com/m/@v/v1.0.0.info"},
		"a file of npm":                   {url: "http://registry.npmjs.org/left-pad"},
		"a search":                        {url: "http://registry.npmjs.org/-/v1/search?text=x"},
		"git fetches":                     {url: "http://github.com/o/r.git/info/refs?service=git-upload-pack"},
		"git fetches from a group":        {url: "http://gitlab.com/g/sub/r.git/info/refs?service=git-upload-pack"},
		"an archive":                      {url: "http://github.com/o/r/archive/refs/tags/v1.tar.gz"},
		"an archive of GitLab":            {url: "http://gitlab.com/g/sub/r/-/archive/v1/r-v1.tar.gz"},
		"a raw file":                      {url: "http://codeberg.org/o/r/raw/branch/main/x"},
		"an archive of Bitbucket":         {url: "http://bitbucket.org/o/r/get/v1.tar.gz"},
		"a release":                       {url: "http://github.com/o/r/releases/download/v1/a", want: asked},
		"the latest release":              {url: "http://github.com/o/r/releases/latest/download/a", want: asked},
		"a page":                          {url: "http://github.com/o/r/blob/main/data", want: asked},
		"a page of a repository":          {url: "http://github.com/o/r", want: asked},
		"a page that imports":             {url: "http://github.com/o/r?go-get=1", want: asked},
		"a search for code":               {url: "http://github.com/search?q=data", want: asked},
		"an owner who is called archive":  {url: "http://github.com/archive/r/data/data", want: asked},
		"an archive without a name":       {url: "http://github.com/o/r/archive", want: asked},
		"an archive with a query":         {url: "http://github.com/o/r/archive/x.tar.gz?data=1", want: asked},
		"git with more in its query":      {url: "http://github.com/o/r/info/refs?service=git-upload-pack&data=1", want: asked},
		"old git":                         {url: "http://github.com/o/r/info/refs", want: asked},
		"an API of GitLab":                {url: "http://gitlab.com/api/v4/projects?search=data", want: asked},
		"a download of Bitbucket":         {url: "http://bitbucket.org/o/r/downloads/a", want: asked},
		"an attachment of Codeberg":       {url: "http://codeberg.org/attachments/data", want: asked},
		"a release of GitLab":             {url: "http://gitlab.com/g/r/-/releases/v1/downloads/a", want: asked},
		"large files":                     {url: "http://media.githubusercontent.com/media/o/r/main/a", want: asked},
		"a sign-in":                       {url: "http://github.com/o/r.git/info/refs?service=git-upload-pack", header: http.Header{"Authorization": {"Basic eDp5"}}, want: "without Authorization"},
		"a sign-in at a registry":         {url: "http://registry.npmjs.org/x", header: http.Header{"Authorization": {"Bearer data"}}, want: "without Authorization"},
		"the checksum of a stored module": {url: "http://sum.golang.org/lookup/example.com/stored@v1.0.0"},
		"only its go.mod":                 {url: "http://sum.golang.org/lookup/example.com/stored@v1.0.0/go.mod"},
		"a checksum of a new module":      {url: "http://sum.golang.org/lookup/evil.example/data@v1.0.0", want: "not stored"},
		"a checksum by way of the mirror": {url: "http://proxy.golang.org/sumdb/sum.golang.org/lookup/evil.example/data@v1.0.0", want: "not stored"},
		"a checksum in two spellings":     {url: "http://sum.golang.org/lookup/evil.example/data%40v1@v1.0.0", want: "not stored"},
		"a checksum with dots":            {url: "http://sum.golang.org/lookup/evil.example/data@../../../example.com/stored/@v/v1.0.0", want: "not stored"},
		"a checksum with an encoded dot":  {url: "http://sum.golang.org/lookup/evil.example/%2e%2e/example.com/stored@v1.0.0", want: "not stored"},
		"a checksum with a query":         {url: "http://sum.golang.org/lookup/example.com/stored@v1.0.0?x=data", want: "not stored"},
		"a checksum of another host":      {url: "http://sum.golang.org/lookup//evil.example/stored@v1.0.0", want: "not stored"},
		"a tile of the checksums":         {url: "http://sum.golang.org/tile/8/0/001"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newForge(t)
			r.stored["/example.com/stored/@v/v1.0.0.zip"] = true
			c, a, _ := newConnector(t, r.world, httpsafe.ProxyOptions{})
			a.Contained = func() bool { return true }
			a.Decide = func(_ context.Context, target httpsafe.HostRequest) (httpsafe.Reach, error) {
				if target.Exposes != "" {
					return httpsafe.ReachNone, &httpsafe.BlockedError{Reason: asked}
				}
				return httpsafe.ReachRead, nil
			}
			var head strings.Builder
			fmt.Fprintf(&head, "GET %s HTTP/1.1\r\nHost: x\r\nUser-Agent: secret\r\nX-Data: secret\r\nCookie: secret\r\nReferer: secret\r\nAccept-Language: secret\r\n", tt.url)
			for name, v := range tt.header {
				head.WriteString(name + ": " + v[0] + "\r\n")
			}
			status, _, _ := c.raw(head.String() + "Connection: close\r\n\r\n")
			arrived := slices.DeleteFunc(r.arrived(), func(req *http.Request) bool { return req.Method == http.MethodHead })
			why := strings.Join(a.Used().Refused, "; ")
			if tt.want != "" {
				if status != http.StatusForbidden || len(arrived) > 0 || !strings.Contains(why, tt.want) {
					t.Errorf("status %d, %d requests arrived, refused because %q; want %q", status, len(arrived), why, tt.want)
				}
				return
			}
			if status != http.StatusOK || len(arrived) != 1 {
				t.Fatalf("status %d, %d requests arrived: %s", status, len(arrived), why)
			}
			for name, values := range arrived[0].Header {
				if strings.Contains(strings.Join(values, " "), "secret") {
					t.Errorf("%s carries what the command chose: %q", name, values)
				}
			}
			if mirror := strings.HasPrefix(tt.url, "http://proxy.golang.org/"); mirror != (arrived[0].Header.Get("Disable-Module-Fetch") == "true") {
				t.Errorf("at %s the headers were %v", tt.url, arrived[0].Header)
			}
		})
	}
}

// certificateFor makes a certificate that is its own authority.
func certificateFor(t *testing.T, host string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		DNSNames:              []string{host},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestContainedUpload counts what git says while it fetches.
func TestContainedUpload(t *testing.T) {
	t.Parallel()
	r := newForge(t)
	c, a, _ := newConnector(t, r.world, httpsafe.ProxyOptions{})
	var budget httpsafe.Budget
	a.Contained = func() bool { return true }
	a.Spend = func(_ context.Context, u httpsafe.Use) error {
		if _, ok := budget.Spend(u); !ok {
			return &httpsafe.BlockedError{Reason: "used up"}
		}
		return nil
	}
	body := strings.Repeat("x", 100<<10)
	status, _, _ := c.raw("POST http://github.com/o/r.git/git-upload-pack HTTP/1.1\r\nHost: github.com\r\nContent-Type: application/x-git-upload-pack-request\r\n" +
		fmt.Sprintf("Content-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body))
	r.plain.Close() // ends when the host has read what came
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit := httpsafe.ClassPackages.Limit().Bytes; status == http.StatusOK || r.body > int64(limit) {
		t.Errorf("status %d: %d bytes went out in the body of a fetch, the limit is %d", status, r.body, limit)
	}
}

// Names of methods count, and names of trailers do not leave.
func TestMethodAndTrailers(t *testing.T) {
	t.Parallel()
	r := newForge(t)
	c, a, _ := newConnector(t, r.world, httpsafe.ProxyOptions{})
	spent := 0
	a.Decide = func(context.Context, httpsafe.HostRequest) (httpsafe.Reach, error) { return httpsafe.ReachFull, nil }
	a.Spend = func(_ context.Context, u httpsafe.Use) error {
		spent += u.Bytes
		return nil
	}
	method := strings.Repeat("X", 5000)
	status, _, _ := c.raw(method + " http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\nTransfer-Encoding: chunked\r\nTrailer: X-Secret\r\nConnection: close\r\n\r\n1\r\nx\r\n0\r\nX-Secret: y\r\n\r\n")
	if status != http.StatusOK || spent < len(method) {
		t.Errorf("status %d: %d bytes counted, %d left in the method", status, spent, len(method))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.got) != 1 || len(r.got[0].Trailer) > 0 {
		t.Errorf("what arrived: %+v", r.got)
	}
}

// TestHeadersCount fills the headers that a contained request may have.
func TestHeadersCount(t *testing.T) {
	t.Parallel()
	r := newForge(t)
	c, a, _ := newConnector(t, r.world, httpsafe.ProxyOptions{})
	var budget httpsafe.Budget
	a.Decide = func(context.Context, httpsafe.HostRequest) (httpsafe.Reach, error) { return httpsafe.ReachRead, nil }
	a.Contained = func() bool { return true }
	a.Spend = func(_ context.Context, u httpsafe.Use) error {
		if _, ok := budget.Spend(u); !ok {
			return &httpsafe.BlockedError{Reason: "used up"}
		}
		return nil
	}
	left := 0
	for i := range 400 {
		value := fmt.Sprintf("\"%04d%s\"", i, strings.Repeat("d", 2000))
		status, _, _ := c.raw("GET http://pypi.org/simple/x/ HTTP/1.1\r\nHost: pypi.org\r\nIf-None-Match: " + value + "\r\nAccept: text/" + value + "\r\nConnection: close\r\n\r\n")
		if status != http.StatusOK {
			break
		}
		left += 2 * len(value)
	}
	if limit := httpsafe.ClassPackages.Limit().Bytes; left > limit {
		t.Errorf("%d bytes left in headers, the limit is %d", left, limit)
	}
	// A package manager says the same with each request.
	var usual httpsafe.Budget
	for i := range 400 {
		use := httpsafe.Use{Host: "pypi.org", Class: httpsafe.ClassPackages, Requests: 1, Bytes: 30, Lines: []string{
			"Accept: " + strings.Repeat("x", 90), "Accept-Encoding: gzip, deflate", "User-Agent: nanobot",
		}}
		if _, ok := usual.Spend(use); !ok {
			t.Fatalf("an ordinary installation ends after %d requests", i)
		}
	}
}
