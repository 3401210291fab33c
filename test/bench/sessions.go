package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

const (
	manySessions = 1000
	atOnce       = 50
	turnsEach    = 3
)

// sessions runs many conversations in a process of its own and compares its
// throughput with a process that only sends and syncs. Both are measured three
// times in turn, because a disk has moods; the median ratio counts.
func (b *bench) sessions() error {
	type round struct {
		took, floor time.Duration
		rss         int64
	}
	var rounds []round
	for i := range b.times(3, 1) {
		took, floor, rss, err := b.manySessions(filepath.Join(b.dir, fmt.Sprint("sessions-", i)))
		if err != nil {
			return err
		}
		rounds = append(rounds, round{took, floor, rss})
	}
	slices.SortStableFunc(rounds, func(x, y round) int { return cmp.Compare(ratio(x.floor, x.took), ratio(y.floor, y.took)) })
	m := rounds[len(rounds)/2]
	total := float64(manySessions * turnsEach)
	share := 100 * ratio(m.floor, m.took)
	b.add(fmt.Sprintf("%d sessions, %d at a time, %d turns each: throughput", manySessions, atOnce, turnsEach),
		fmt.Sprintf("%.0f turns/s, %.0f %%", total/m.took.Seconds(), share), fmt.Sprintf("%.0f turns/s", total/m.floor.Seconds()), ">= 50 % of floor", share >= 50)
	b.add("peak RSS of that process", mib(m.rss), "", "< 100 MiB", m.rss < 100<<20)
	b.add("messages lost or out of order", "0", "", "0", true)
	return nil
}

func (b *bench) manySessions(dir string) (took, floor time.Duration, rss int64, err error) {
	srv := newServer(true)
	defer srv.Close()
	conf, ws, err := home(dir, srv.URL, `,"limits":{"maxConcurrentRequests":50}`)
	if err != nil {
		return 0, 0, 0, err
	}
	if took, rss, err = b.child(dir, "sessions", conf, ws); err != nil {
		return 0, 0, 0, err
	}
	if err := verify(dir, ws); err != nil {
		return 0, 0, 0, err
	}
	body := filepath.Join(dir, "body.json")
	if err := os.WriteFile(body, srv.body(-1), 0o600); err != nil {
		return 0, 0, 0, err
	}
	srv.keep = false
	floor, _, err = b.child(dir, "floor", srv.URL, body)
	return took, floor, rss, err
}

// child runs a part in another process and returns the time it reports.
func (b *bench) child(dir string, args ...string) (time.Duration, int64, error) {
	cmd := exec.Command(b.self, args...)
	cmd.Env = env(dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, err
	}
	var ns, rss int64
	if _, err := fmt.Sscan(string(out), &ns, &rss); err != nil {
		return 0, 0, err
	}
	return time.Duration(ns), rss, nil
}

// peakRSS is the memory high-water mark of this process. The figure a parent
// gets from the kernel would include the parent's own memory before exec.
func peakRSS() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	kb, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseInt(kb, 10, 64)
	return n * 1024
}

func child(args []string) error {
	var took time.Duration
	var err error
	switch args[0] {
	case "model":
		return runModel()
	case "gateway":
		return runGateway(args[1], args[2], args[3])
	case "sessions":
		took, err = runSessions(args[1], args[2])
	case "floor":
		took, err = runFloor(args[1], args[2])
	case "read":
		took, err = readPage(args[1])
	case "search-build":
		took, err = buildSearch(args[1])
	default:
		err = errors.New("unknown part " + args[0])
	}
	if err == nil {
		fmt.Println(took.Nanoseconds(), peakRSS())
	}
	return err
}

// spread calls f(session, turn) with atOnce workers, turns of a session in order.
func spread(f func(s, turn int) error) (time.Duration, error) {
	jobs := make(chan int)
	errs := make(chan error, atOnce)
	var wg sync.WaitGroup
	start := time.Now()
	for range atOnce {
		wg.Go(func() {
			for s := range jobs {
				for turn := range turnsEach {
					if err := f(s, turn); err != nil {
						select {
						case errs <- err:
						default:
						}
					}
				}
			}
		})
	}
	for s := range manySessions {
		jobs <- s
	}
	close(jobs)
	wg.Wait()
	took := time.Since(start)
	select {
	case err := <-errs:
		return took, err
	default:
		return took, nil
	}
}

func runSessions(conf, ws string) (time.Duration, error) {
	debug.SetGCPercent(400) // as cmd/nanobot does
	ctx := context.Background()
	bot, err := nanobot.New(ctx, nanobot.WithConfigFile(conf), nanobot.WithWorkspace(ws), nanobot.WithEnv(os.Environ()))
	if err != nil {
		return 0, err
	}
	defer bot.Close()
	return spread(func(s, turn int) error {
		_, err := bot.Run(ctx, nanobot.Input{Text: fmt.Sprintf("turn %d of %d", turn, s), Session: fmt.Sprint("many:", s)})
		return err
	})
}

func runFloor(url, bodyFile string) (time.Duration, error) {
	body, err := os.ReadFile(bodyFile)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(bodyFile), "floor-")
	if err != nil {
		return 0, err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce}}
	return spread(func(s, _ int) error {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(s)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := syncLine(f); err != nil {
			return err
		}
		resp, err := client.Post(url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		return syncLine(f)
	})
}

// verify reads every session back.
func verify(dir, ws string) error {
	store, err := session.Open(session.Options{DataDir: dir, Store: disk.Open(dir, nil), Workspace: ws})
	if err != nil {
		return err
	}
	for s := range manySessions {
		turn := 0
		n := 0
		for r, err := range store.Records(context.Background(), fmt.Sprint("many:", s)) {
			if err != nil {
				return err
			}
			n++
			if r.Role != llm.User {
				continue
			}
			if want := fmt.Sprintf("turn %d of %d\n", turn, s); !strings.HasPrefix(r.Content.String(), want) {
				return fmt.Errorf("session %d: %q, want %q", s, r.Content.String(), want)
			}
			turn++
		}
		if n != 2*turnsEach {
			return fmt.Errorf("session %d has %d messages, want %d", s, n, 2*turnsEach)
		}
	}
	return nil
}

// prefix measures how much of each request the next one repeats, across turns
// and a restart, and how many connections sequential turns need.
func (b *bench) prefix() error {
	srv := newServer(true)
	defer srv.Close()
	dir := filepath.Join(b.dir, "prefix")
	conf, ws, err := home(dir, srv.URL, "")
	if err != nil {
		return err
	}
	ctx := context.Background()
	var conns int64
	for round := range 2 { // the second round is a restart
		bot, err := nanobot.New(ctx, nanobot.WithConfigFile(conf), nanobot.WithWorkspace(ws), nanobot.WithEnv(env(dir)))
		if err != nil {
			return err
		}
		for i := range 20 {
			if _, err := bot.Run(ctx, nanobot.Input{Text: fmt.Sprint("question ", round, i), Session: "p"}); err != nil {
				return err
			}
		}
		if err := bot.Close(); err != nil {
			return err
		}
		if round == 0 {
			conns = srv.conns.Load()
		}
	}
	worst := 1.0
	for i := 1; i < len(srv.bodies); i++ {
		worst = min(worst, float64(commonPrefix(srv.bodies[i-1], srv.bodies[i]))/float64(len(srv.bodies[i-1])))
	}
	if !json.Valid(srv.body(-1)) {
		return errors.New("the last request is not JSON")
	}
	b.add("bytes of a request repeated as a prefix by the next (worst of 39, one restart)", fmt.Sprintf("%.2f %%", 100*worst), "", ">= 99 %", worst >= 0.99)
	b.add("TCP connections for 20 sequential turns", fmt.Sprint(conns), "", "1", conns == 1)
	return nil
}
