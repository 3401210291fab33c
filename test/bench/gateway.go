package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	ws "github.com/coder/websocket"
)

const (
	benchToken = "bench-token"
	startWait  = 20 * time.Second
)

// gateway is a running `nanobot gateway`.
type gateway struct {
	cmd   *exec.Cmd
	addr  string
	dir   string
	ready time.Duration // from exec to a /readyz that says so
	errs  bytes.Buffer
}

// gatewayHome writes the configuration of a gateway with the WebSocket channel:
// defaults, but for the model's address and the daily budget, which a benchmark
// would use up. More is put into the channels section, top beside it.
func gatewayHome(dir, url, more, top string) (string, error) {
	return writeHome(dir, url, fmt.Sprintf(`{"websocket":{"enabled":true,"token":%q}%s}`, benchToken, more), top)
}

// writeHome writes such a configuration with these channels.
func writeHome(dir, url, channels, top string) (string, error) {
	if err := os.MkdirAll(filepath.Join(dir, "workspace"), 0o700); err != nil {
		return "", err
	}
	conf := fmt.Sprintf(`{"agents":{"defaults":{"model":"custom/bench","provider":"custom","workspace":%q,"budget":{"dailyUsd":0,"unpricedDailyTokens":0}}},
		"providers":{"custom":{"apiBase":%q,"apiKey":"bench-key"}},"channels":%s%s}`,
		filepath.Join(dir, "workspace"), url+"/v1", channels, top)
	path := filepath.Join(dir, "config.json")
	return path, os.WriteFile(path, []byte(conf), 0o600)
}

// startGateway starts the program and waits until it is ready.
func (b *bench) startGateway(dir, conf string) (*gateway, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	sock := filepath.Join(b.dir, "n") // a short path: socket names are limited
	_ = os.Remove(sock)
	told, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: sock, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	defer told.Close()
	g := &gateway{addr: "127.0.0.1:" + port, dir: dir}
	g.cmd = exec.Command(b.binary, "gateway", "-c", conf, "-p", port)
	if b.profiles != "" {
		g.cmd = exec.Command(b.self, "gateway", conf, port, b.profiles)
	}
	g.cmd.Env = append(append(env(dir), "NOTIFY_SOCKET="+sock), b.more...)
	g.cmd.Stderr, g.cmd.Stdout = &g.errs, &g.errs
	start := time.Now()
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	var buf [256]byte
	_ = told.SetReadDeadline(start.Add(startWait))
	if _, err := told.Read(buf[:]); err != nil {
		g.stop()
		return nil, fmt.Errorf("the gateway did not become ready: %w\n%s", err, &g.errs)
	}
	if err := g.health(); err != nil {
		g.stop()
		return nil, fmt.Errorf("%w\n%s", err, &g.errs)
	}
	g.ready = time.Since(start)
	return g, nil
}

func (g *gateway) health() error {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + g.addr + "/readyz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("/readyz: %s: %s", resp.Status, body)
	}
	return nil
}

func (g *gateway) stop() {
	_ = g.cmd.Process.Signal(os.Interrupt)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		_ = g.cmd.Process.Kill()
		<-done
	}
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// usage is what a process holds.
type usage struct {
	rss, own, disk int64 // bytes; own is without pages of files
	fds, threads   int
	goroutines     int
}

func (g *gateway) usage() (u usage, err error) {
	proc := filepath.Join("/proc", strconv.Itoa(g.cmd.Process.Pid))
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		name, rest, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			u.rss = n << 10
		case "RssAnon":
			u.own = n << 10
		case "Threads":
			u.threads = int(n)
		}
	}
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return u, err
	}
	u.fds = len(fds)
	u.goroutines = g.metric("nanobot_goroutines")
	err = filepath.Walk(g.dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			u.disk += info.Size()
		}
		return nil
	})
	return u, err
}

// metric reads a number from /metrics; -1 if it is not there.
func (g *gateway) metric(name string) int {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + g.addr + "/metrics")
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			f, _ := strconv.ParseFloat(rest, 64)
			return int(f)
		}
	}
	return -1
}

// talker is a client of the gateway with a chat of its own.
type talker struct {
	conn *ws.Conn
	chat string
	n    int
	buf  bytes.Buffer
}

func (g *gateway) connect(ctx context.Context, chat string) (*talker, error) {
	url := "ws://" + g.addr + "/?client_id=" + chat + "&token=" + benchToken
	for try := 0; ; try++ {
		conn, resp, err := ws.Dial(ctx, url, nil) //nolint:bodyclose // the package says that it needs no closing
		if err == nil {
			conn.SetReadLimit(16 << 20)
			return &talker{conn: conn, chat: chat}, nil
		}
		if try == 100 || resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
			return nil, err
		}
		time.Sleep(5 * time.Millisecond) // the channel is just being started
	}
}

func (t *talker) close() { _ = t.conn.CloseNow() }

// say sends a message.
func (t *talker) say(ctx context.Context, text string) error {
	t.n++
	return t.conn.Write(ctx, ws.MessageText, fmt.Appendf(nil, `{"type":"message","chat_id":%q,"turn_id":"t%d","content":%q}`, t.chat, t.n, text))
}

// turn sends a message and reads until its answer is complete.
func (t *talker) turn(ctx context.Context, i int) error {
	if err := t.say(ctx, "hello "+strconv.Itoa(i)); err != nil {
		return err
	}
	said := false
	for {
		_, r, err := t.conn.Reader(ctx)
		if err != nil {
			return err
		}
		t.buf.Reset()
		if _, err := io.Copy(&t.buf, r); err != nil {
			return err
		}
		switch f := t.buf.Bytes(); {
		case bytes.HasPrefix(f, []byte(`{"event":"delta"`)), bytes.HasPrefix(f, []byte(`{"event":"message"`)):
			said = said || bytes.Contains(f, []byte("How can I help?"))
		case bytes.HasPrefix(f, []byte(`{"event":"error"`)):
			return fmt.Errorf("the gateway says %s", f)
		case bytes.HasPrefix(f, []byte(`{"event":"turn_end"`)):
			if !said {
				return fmt.Errorf("a turn without its answer: %s", f)
			}
			return nil
		}
	}
}

// gateways measures the start and the rest of a gateway.
func (b *bench) gateways() error {
	m, err := b.startModel()
	if err != nil {
		return err
	}
	defer m.close()
	dir := filepath.Join(b.dir, "gateway")
	conf, err := gatewayHome(dir, m.serve(0), "", "")
	if err != nil {
		return err
	}
	var ready []time.Duration
	for i := range b.times(20, 5) + 1 {
		g, err := b.startGateway(dir, conf)
		if err != nil {
			return err
		}
		if i > 0 { // the first one makes the workspace
			ready = append(ready, g.ready)
		}
		g.stop()
	}
	b.add("gateway: exec to ready (median)", ms(median(ready)), "", fmt.Sprint("<= ", b.budget.GatewayReady.time()), median(ready) <= b.budget.GatewayReady.time())
	return b.idle(dir, conf)
}

// idle lets a gateway do nothing, before and after some turns.
func (b *bench) idle(dir, conf string) error {
	g, err := b.startGateway(dir, conf)
	if err != nil {
		return err
	}
	defer g.stop()
	ctx := context.Background()
	t, err := g.connect(ctx, "idle")
	if err != nil {
		return err
	}
	defer t.close()
	fresh, ticks, err := g.rest(time.Duration(b.times(22, 8)) * time.Second) // what a start leaves to do is done by then
	if err != nil {
		return err
	}
	start := time.Now()
	if err := t.turn(ctx, 0); err != nil {
		return err
	}
	first := time.Since(start)
	for i := range b.times(500, 100) {
		if err := t.turn(ctx, i); err != nil {
			return err
		}
	}
	used, _, err := g.rest(time.Duration(b.times(75, 40)) * time.Second)
	if err != nil {
		return err
	}
	show := func(u usage) string {
		return fmt.Sprintf("%s (%s own), %d goroutines, %d fds, %d threads", mib(u.rss), mib(u.own), u.goroutines, u.fds, u.threads)
	}
	b.add("gateway: idle RSS with the WebSocket channel", show(fresh), "", "<= 16 MiB", fresh.rss <= 16<<20)
	b.add("gateway: idle RSS some time after turns", show(used), "", "<= 16 MiB", used.rss <= 16<<20)
	b.add("gateway: processor time in 10 s of rest", fmt.Sprintf("%d ms", ticks*10), "", "0", ticks == 0)
	b.add("gateway: first turn after rest", ms(first), "", "", true)
	return nil
}

// rest waits and returns what is held afterwards and the ticks used in the
// last ten seconds at most.
func (g *gateway) rest(d time.Duration) (u usage, ticks int64, err error) {
	watch := min(d/2, 10*time.Second)
	time.Sleep(d - watch)
	before, err := g.ticks()
	if err != nil {
		return u, 0, err
	}
	time.Sleep(watch)
	after, err := g.ticks()
	if err != nil {
		return u, 0, err
	}
	u, err = g.usage()
	return u, after - before, err
}

func (g *gateway) ticks() (int64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var n int64
	for _, f := range fields[11:13] { // utime, stime
		t, _ := strconv.ParseInt(f, 10, 64)
		n += t
	}
	return n, nil
}
