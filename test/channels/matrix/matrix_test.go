// Package matrix_test checks the channel Matrix against programs of others: a
// Synapse homeserver, and the client library matrix-nio with encryption of its
// own. The same library checks the fake homeserver that our other tests use.
package matrix_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	peerTimeout  = 2 * time.Minute // of one order
	startTimeout = 2 * time.Minute // of Synapse
)

type object = map[string]any

// peer is a person with matrix-nio.
type peer struct {
	t     *testing.T
	in    io.Writer
	lines chan string
}

func newPeer(t *testing.T, python, homeserver, user, password string, encrypted bool) *peer {
	t.Helper()
	store := ""
	if encrypted {
		store = t.TempDir()
	}
	cmd := exec.Command(python, "peer.py", homeserver, user, password, store) //nolint:noctx // ends with its input
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, in: in, lines: make(chan string)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(p.lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		for line := range p.lines {
			t.Logf("an answer that the test did not wait for: %s", line)
		}
		<-done
		if err := cmd.Wait(); err != nil {
			t.Errorf("peer.py: %v", err)
		}
	})
	return p
}

// do gives an order and returns what came of it.
func (p *peer) do(order object) object {
	p.t.Helper()
	data, err := json.Marshal(order)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.in.Write(append(data, '\n')); err != nil {
		p.t.Fatalf("%s: %v", data, err)
	}
	select {
	case line, ok := <-p.lines:
		var out object
		if !ok || json.Unmarshal([]byte(line), &out) != nil {
			p.t.Fatalf("%s: the answer is %q", data, line)
		}
		if out["failed"] != nil {
			p.t.Fatalf("%s: %v", data, out["failed"])
		}
		return out
	case <-time.After(peerTimeout):
		p.t.Fatalf("%s: no answer", data)
	}
	return nil
}

func (p *peer) login() object { p.t.Helper(); return p.do(object{"do": "login"}) }

// receive waits for a message with these words.
func (p *peer) receive(text string) object {
	p.t.Helper()
	return p.do(object{"do": "receive", "text": text})
}

// synapse starts a homeserver and returns where it is.
func synapse(t *testing.T, python string) string {
	t.Helper()
	dir := t.TempDir()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`server_name: localhost
pid_file: %[1]s/pid
listeners: [{port: %[2]s, type: http, bind_addresses: ['127.0.0.1'], resources: [{names: [client]}]}]
database: {name: sqlite3, args: {database: '%[1]s/db'}}
log_config: %[1]s/log.yaml
media_store_path: %[1]s/media
signing_key_path: %[1]s/key
report_stats: false
enable_registration: true
enable_registration_without_verification: true
registration_shared_secret: x
macaroon_secret_key: y
max_upload_size: 1M
trusted_key_servers: []
federation_domain_whitelist: []
bcrypt_rounds: 4
rc_invites: {per_room: {per_second: 1000, burst_count: 1000}, per_user: {per_second: 1000, burst_count: 1000}}
rc_login: {address: {per_second: 1000, burst_count: 1000}, account: {per_second: 1000, burst_count: 1000}}
rc_joins: {local: {per_second: 1000, burst_count: 1000}}
rc_message: {per_second: 1000, burst_count: 1000}
rc_registration: {per_second: 1000, burst_count: 1000}
rc_joins_per_room: {per_second: 1000, burst_count: 1000}
`, dir, port)
	logging := "version: 1\nhandlers: {file: {class: logging.FileHandler, filename: " + dir + "/log}}\nroot: {level: WARNING, handlers: [file]}\n"
	for name, text := range map[string]string{"homeserver.yaml": config, "log.yaml": logging} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := []string{"-m", "synapse.app.homeserver", "-c", filepath.Join(dir, "homeserver.yaml")}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, python, append(run, "--generate-keys")...).CombinedOutput(); err != nil {
		t.Fatalf("synapse: %v\n%s", err, out)
	}
	cmd := exec.Command(python, run...) //nolint:noctx // ended below
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})

	url := "http://" + address
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := get(ctx, url+"/health"); err == nil {
			return url
		}
		select {
		case err := <-ended:
			ended <- err
			text, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("synapse ended: %v\n%s", err, text)
		case <-ctx.Done():
			t.Fatal("synapse does not start")
		case <-tick.C:
		}
	}
}

var errStatus = errors.New("unexpected status")

func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := new(http.Client).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errStatus
	}
	return nil
}

// register makes an account at a Synapse.
func register(t *testing.T, url, name, password string) {
	t.Helper()
	body := fmt.Sprintf(`{"username":%q,"password":%q,"auth":{"type":"m.login.dummy"},"inhibit_login":true}`, name, password)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/_matrix/client/v3/register", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		t.Fatalf("register %s: %s", name, text)
	}
}
