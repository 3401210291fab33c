package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	ws "github.com/coder/websocket"
)

// pricedHost is a name outside of this machine, so that its model has a price. The
// model's server is the proxy that leads there: nothing leaves this machine.
const (
	pricedHost  = "model.bench.example"
	pricedModel = "gpt-4o-mini"
)

// side is one of the two programs that are compared.
type side struct {
	bench *bench
	m     *model

	figures map[string][]float64 // by measure, one for each round
}

// measure is one figure of a comparison.
type measure struct {
	name string
	unit string
	more bool // more is better
}

var measures = []measure{
	{name: "start to first request", unit: "ms"},
	{name: "processor time of a one-shot", unit: "ms"},
	{name: "peak memory of a one-shot", unit: "MiB"},
	{name: "package initialisation", unit: "allocations"},
	{name: "package initialisation, best", unit: "ms"},
	{name: "gateway: start to ready", unit: "ms"},
	{name: "gateway: idle memory", unit: "MiB"},
	{name: "own time per turn, free", unit: "ms"},
	{name: "own time per turn, priced", unit: "ms"},
	{name: "growth of the own time over 750 messages", unit: "ms"},
	{name: "50 clients, free", unit: "turns/s", more: true},
	{name: "50 clients, priced", unit: "turns/s", more: true},
	{name: "processor time per request at 50 clients, free", unit: "ms"},
	{name: "processor time per request at 50 clients, priced", unit: "ms"},
	{name: "written per request at 50 clients, free", unit: "KB"},
	{name: "written per request at 50 clients, priced", unit: "KB"},
	{name: "exec of true", unit: "ms"},
	{name: "WebSocket connection", unit: "ms"},
	{name: "SIGTERM to exit, answers wait for clients", unit: "ms"},
	{name: "memory at rest after many chats", unit: "MiB"},
}

// against compares this program with that of another commit. Rounds alternate between
// the two, so that both see the same machine; what counts is the ratio of the medians.
func against(b *bench, rev string, rounds int) error {
	m, err := b.startModel()
	if err != nil {
		return err
	}
	defer m.close()
	theirs := *b
	theirs.dir = filepath.Join(b.dir, "theirs")
	theirs.binary = filepath.Join(b.dir, "nanobot-theirs")
	if err := os.MkdirAll(theirs.dir, 0o700); err != nil {
		return err
	}
	if err := buildRevision(rev, b.dir, theirs.binary); err != nil {
		return err
	}
	ours := side{bench: b, m: m, figures: map[string][]float64{}}
	other := side{bench: &theirs, m: m, figures: map[string][]float64{}}
	for i := range rounds {
		both := []*side{&ours, &other}
		if i%2 == 1 {
			slices.Reverse(both)
		}
		for _, s := range both {
			fmt.Fprintf(os.Stderr, "round %d of %d, %s...\n", i+1, rounds, filepath.Base(s.bench.binary))
			if err := s.round(i); err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(s.bench.binary), err)
			}
		}
	}
	printComparison(rev, rounds, ours.figures, other.figures)
	return nil
}

// buildRevision builds the program of a commit as its own Makefile does.
func buildRevision(rev, dir, out string) error {
	tree := filepath.Join(dir, "revision")
	if msg, err := exec.Command("git", "worktree", "add", "--detach", tree, rev).CombinedOutput(); err != nil {
		return fmt.Errorf("check %s out: %w\n%s", rev, err, msg)
	}
	defer func() { _ = exec.Command("git", "worktree", "remove", "--force", tree).Run() }()
	var flags []byte
	for _, name := range []string{"deploy/build.flags", "build.flags"} {
		if data, err := os.ReadFile(filepath.Join(tree, filepath.FromSlash(name))); err == nil {
			flags = data
			break
		}
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out+".built", "./cmd/nanobot")
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+strings.Join(strings.Fields(string(flags)), " "))
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", rev, err, msg)
	}
	return exec.Command("cp", out+".built", out).Run()
}

func printComparison(rev string, rounds int, ours, theirs map[string][]float64) {
	fmt.Printf("\n%d rounds in turn, medians\n\n| Measure | %s | now | ratio |\n|---|---|---|---|\n", rounds, rev)
	for _, m := range measures {
		if len(ours[m.name]) == 0 || len(theirs[m.name]) == 0 {
			continue
		}
		a, b := middle(theirs[m.name]), middle(ours[m.name])
		better := ""
		if m.more {
			better = ", more is better"
		}
		fmt.Printf("| %s (%s%s) | %.4g | %.4g | %.2f |\n", m.name, m.unit, better, a, b, b/max(a, 1e-9))
	}
}

func (s *side) note(name string, value float64) { s.figures[name] = append(s.figures[name], value) }

func inMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// round measures everything once.
func (s *side) round(i int) error {
	dir := filepath.Join(s.bench.dir, fmt.Sprint("round-", i))
	steps := []func(string) error{s.oneShots, s.initialisation, s.starts, s.talk, s.crowd, s.commands, s.ends}
	for n, step := range steps {
		if err := step(filepath.Join(dir, strconv.Itoa(n))); err != nil {
			return err
		}
	}
	return nil
}

func (s *side) oneShots(dir string) error {
	srv := newServer(false)
	defer srv.Close()
	conf, work, err := home(dir, srv.URL, "")
	if err != nil {
		return err
	}
	cmd := func(i int) *exec.Cmd {
		return exec.Command(s.bench.binary, "agent", "-c", conf, "-w", work, "-s", fmt.Sprint("bench-", i), "-m", "hello")
	}
	var first, used []time.Duration
	for i := range s.bench.times(20, 6) + 1 {
		c := cmd(i)
		f, _, err := s.bench.startup(srv, c, dir)
		if err != nil {
			return err
		}
		if i > 0 { // the first one makes the workspace
			first = append(first, f)
			used = append(used, c.ProcessState.UserTime()+c.ProcessState.SystemTime())
		}
	}
	rss, err := s.bench.peakOf(cmd(-1), dir)
	if err != nil {
		return err
	}
	s.note("start to first request", inMS(median(first)))
	s.note("processor time of a one-shot", inMS(median(used)))
	s.note("peak memory of a one-shot", float64(rss)/(1<<20))
	return nil
}

var initLine = regexp.MustCompile(`(?m)^init \S+ @\S+ ms, ([0-9.]+) ms clock, \d+ bytes, (\d+) allocs`)

func (s *side) initialisation(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	best, allocations := 1e9, 0
	for range s.bench.times(10, 3) {
		cmd := exec.Command(s.bench.binary, "version")
		cmd.Env = append(env(dir), "GODEBUG=inittrace=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return err
		}
		total := 0.0
		allocations = 0
		for _, m := range initLine.FindAllSubmatch(out, -1) {
			took, _ := strconv.ParseFloat(string(m[1]), 64) // digits, by the expression
			n, _ := strconv.Atoi(string(m[2]))
			total += took
			allocations += n
		}
		best = min(best, total)
	}
	s.note("package initialisation", float64(allocations))
	s.note("package initialisation, best", best)
	return nil
}

// starts lets gateways start, one after the other, and the last one rest.
func (s *side) starts(dir string) error {
	conf, err := gatewayHome(dir, s.m.serve(0), "", "")
	if err != nil {
		return err
	}
	var ready []time.Duration
	n := s.bench.times(10, 3)
	for i := range n + 1 {
		g, err := s.bench.startGateway(dir, conf)
		if err != nil {
			return err
		}
		if i > 0 {
			ready = append(ready, g.ready)
		}
		if i == n {
			u, _, err := g.rest(time.Duration(s.bench.times(12, 3)) * time.Second)
			if err != nil {
				return err
			}
			s.note("gateway: idle memory", float64(u.rss)/(1<<20))
		}
		g.stop()
	}
	s.note("gateway: start to ready", inMS(median(ready)))
	return nil
}

// startWith starts a gateway with a model that is free, or one that has a price.
func (s *side) startWith(dir string, priced bool, delay time.Duration) (*gateway, error) {
	if !priced {
		conf, err := gatewayHome(dir, s.m.serve(delay), "", "")
		if err != nil {
			return nil, err
		}
		return s.bench.startGateway(dir, conf)
	}
	conf, err := gatewayHome(dir, fmt.Sprintf("http://%s/%d", pricedHost, delay.Milliseconds()), "", "")
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(conf)
	if err != nil {
		return nil, err
	}
	data = bytes.Replace(data, []byte("custom/bench"), []byte("custom/"+pricedModel), 1)
	if err := os.WriteFile(conf, data, 0o600); err != nil {
		return nil, err
	}
	b := *s.bench
	b.more = []string{"HTTP_PROXY=" + s.m.url}
	return b.startGateway(dir, conf)
}

// talk has turns with one client.
func (s *side) talk(dir string) error {
	for _, priced := range []bool{false, true} {
		name := "free"
		if priced {
			name = "priced"
		}
		if err := s.talkOne(filepath.Join(dir, name), name, priced); err != nil {
			return err
		}
	}
	return nil
}

func (s *side) talkOne(dir, name string, priced bool) error {
	g, err := s.startWith(dir, priced, 0)
	if err != nil {
		return err
	}
	defer g.stop()
	ctx := context.Background()
	ours, err := g.through(ctx, s.m, "one", 1, s.bench.times(200, 60))
	if err != nil {
		return fmt.Errorf("%w\n%s", err, &g.errs)
	}
	floor, err := s.m.straight(ctx, 0, ours, 1, s.bench.times(200, 60))
	if err != nil {
		return err
	}
	own := pair{ours, floor}.own()
	s.note("own time per turn, "+name, inMS(own))
	if priced {
		return nil
	}

	t, err := g.connect(ctx, "long")
	if err != nil {
		return err
	}
	defer t.close()
	var took []time.Duration
	n := s.bench.times(375, 100) // a turn is two messages
	for i := range n {
		start := time.Now()
		if err := t.turn(ctx, i); err != nil {
			return err
		}
		took = append(took, time.Since(start))
	}
	part := n / 5
	s.note("growth of the own time over 750 messages", inMS(median(took[n-part:])-median(took[5:5+part])))
	return nil
}

// crowd has turns with many clients at once.
func (s *side) crowd(dir string) error {
	for _, name := range []string{"free", "priced"} {
		g, err := s.startWith(filepath.Join(dir, name), name == "priced", loadDelay)
		if err != nil {
			return err
		}
		err = s.crowdAt(g, name)
		g.stop()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, &g.errs)
		}
	}
	return nil
}

func (s *side) crowdAt(g *gateway, name string) error {
	each := s.bench.times(60, 20)
	if _, err := g.through(context.Background(), s.m, "warm", loadClients, 5); err != nil {
		return err
	}
	ticks, err := g.ticks()
	if err != nil {
		return err
	}
	written, err := g.written()
	if err != nil {
		return err
	}
	out, err := g.through(context.Background(), s.m, "many", loadClients, each)
	if err != nil {
		return err
	}
	ticksAfter, err := g.ticks()
	if err != nil {
		return err
	}
	writtenAfter, err := g.written()
	if err != nil {
		return err
	}
	requests := float64(loadClients * (each + 5)) // through warms up with five
	s.note("50 clients, "+name, out.rate())
	s.note("processor time per request at 50 clients, "+name, float64(ticksAfter-ticks)*10/requests)
	s.note("written per request at 50 clients, "+name, float64(writtenAfter-written)/1000/requests)
	return nil
}

// written returns how many bytes a process had written to the disk.
func (g *gateway) written() (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", g.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("no write_bytes in %s", data)
}

// commands measures what a command takes: from the answer that asks for it to the
// request with its result.
func (s *side) commands(dir string) error {
	var mu sync.Mutex
	var asked time.Time
	var took []time.Duration
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if !asked.IsZero() {
			took = append(took, time.Since(asked))
		}
		isCall := asked.IsZero()
		mu.Unlock()
		callTool(w, r)
		mu.Lock()
		defer mu.Unlock()
		asked = time.Time{}
		if isCall {
			asked = time.Now()
		}
	}))
	defer srv.Close()
	conf, err := gatewayHome(dir, srv.URL, "", `,"tools":{"approval":{"mode":"off"}}`)
	if err != nil {
		return err
	}
	g, err := s.bench.startGateway(dir, conf)
	if err != nil {
		return err
	}
	defer g.stop()
	ctx := context.Background()
	t, err := g.connect(ctx, "exec")
	if err != nil {
		return err
	}
	defer t.close()
	for i := range s.bench.times(30, 10) {
		if err := t.turn(ctx, i); err != nil {
			return fmt.Errorf("%w\n%s", err, &g.errs)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(took) < 5 {
		return fmt.Errorf("only %d commands ran\n%s", len(took), &g.errs)
	}
	s.note("exec of true", inMS(median(took[3:]))) // the first ones open the sandbox
	return nil
}

// ends measures connections, what stays of many chats, and the end while answers wait
// for clients that went away.
func (s *side) ends(dir string) error {
	conf, err := gatewayHome(dir, s.m.serve(0), "", "")
	if err != nil {
		return err
	}
	g, err := s.bench.startGateway(dir, conf)
	if err != nil {
		return err
	}
	defer g.stop()
	ctx := context.Background()
	var connections []time.Duration
	for i := range s.bench.times(60, 20) {
		start := time.Now()
		t, err := g.connect(ctx, fmt.Sprint("connect-", i))
		if err != nil {
			return err
		}
		if _, _, err := t.conn.Read(ctx); err != nil { // it is ready
			return err
		}
		connections = append(connections, time.Since(start))
		t.close()
	}
	s.note("WebSocket connection", inMS(median(connections)))

	chats := s.bench.times(2000, 200)
	for i := range chats {
		t, err := g.connect(ctx, fmt.Sprint("chat-", i))
		if err != nil {
			return err
		}
		if err := t.turn(ctx, 0); err != nil {
			return err
		}
		t.close()
	}
	if u, _, err := g.rest(time.Duration(s.bench.times(30, 5)) * time.Second); err == nil {
		s.note("memory at rest after many chats", float64(u.rss)/(1<<20))
	}

	for i := range 20 { // their answers come when they are gone
		t, err := g.connect(ctx, fmt.Sprint("gone-", i))
		if err != nil {
			return err
		}
		if err := t.say(ctx, "hello"); err != nil {
			return err
		}
		_ = t.conn.Close(ws.StatusNormalClosure, "")
	}
	time.Sleep(500 * time.Millisecond) // until the turns have ended
	start := time.Now()
	if err := g.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	_ = g.cmd.Wait() // how it ended is not what is measured
	s.note("SIGTERM to exit, answers wait for clients", inMS(time.Since(start)))
	return nil
}
