package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// turns measures what a turn costs in a running process, beyond sending the
// same bytes and syncing two lines, with 10 and with 10,000 stored messages.
func (b *bench) turns() error {
	// Small times are noisy: three rounds in turn, the median ratio counts.
	type pair struct{ short, long cost }
	var pairs []pair
	for i := range b.times(3, 1) {
		short, err := b.turnCost(i, 10)
		if err != nil {
			return err
		}
		long, err := b.turnCost(i, 10000)
		if err != nil {
			return err
		}
		pairs = append(pairs, pair{short, long})
	}
	slices.SortStableFunc(pairs, func(x, y pair) int {
		return cmp.Compare(ratio(x.long.own(), x.short.own()), ratio(y.long.own(), y.short.own()))
	})
	short, long := pairs[len(pairs)/2].short, pairs[len(pairs)/2].long
	b.add("own time per turn, 10 stored messages (median)", ms(short.own()), ms(short.floor)+" for the same bytes", "<= 1.5 ms", short.own() <= 1500*time.Microsecond)
	r := ratio(long.own(), short.own())
	b.add("own time per turn, 10,000 stored messages (median)", fmt.Sprintf("%s, %.2fx", ms(long.own()), r), ms(long.floor)+" for the same bytes", "<= 1.5x of 10", r <= 1.5)
	b.add("bytes appended per turn at 10 / 10,000 messages", fmt.Sprintf("%d / %d", short.appended, long.appended), "", "O(new)", long.appended < 2*short.appended)
	return nil
}

type cost struct {
	turn, floor time.Duration
	appended    int64
}

func (c cost) own() time.Duration { return max(c.turn-c.floor, 0) }

func (b *bench) turnCost(round, stored int) (cost, error) {
	srv := newServer(false)
	defer srv.Close()
	dir := filepath.Join(b.dir, fmt.Sprint("turn-", round, "-", stored))
	conf, ws, err := home(dir, srv.URL, "")
	if err != nil {
		return cost{}, err
	}
	ctx := context.Background()
	logFile, err := fill(ctx, dir, ws, stored)
	if err != nil {
		return cost{}, err
	}
	bot, err := nanobot.New(ctx, nanobot.WithConfigFile(conf), nanobot.WithWorkspace(ws), nanobot.WithEnv(env(dir)))
	if err != nil {
		return cost{}, err
	}
	defer bot.Close()
	var all []time.Duration
	var before int64
	n := b.times(300, 60)
	for i := range n + 5 {
		if i == 5 { // the first turns load the session and warm up
			before = size(logFile)
		}
		start := time.Now()
		if _, err := bot.Run(ctx, nanobot.Input{Text: "hello", Session: "bench"}); err != nil {
			return cost{}, err
		}
		if i >= 5 {
			all = append(all, time.Since(start))
		}
	}
	grown := (size(logFile) - before) / int64(n)
	floor, err := floorTurn(srv, dir, n)
	return cost{median(all), floor, grown}, err
}

// fill writes a session with that many short messages.
func fill(ctx context.Context, dir, ws string, n int) (string, error) {
	store, err := session.Open(session.Options{DataDir: dir, Store: disk.Open(dir, nil), Workspace: ws, Fsync: session.FsyncNever})
	if err != nil {
		return "", err
	}
	s, err := store.Acquire(ctx, "bench")
	if err != nil {
		return "", err
	}
	for i := range n {
		role := llm.User
		if i%2 == 1 {
			role = llm.Assistant
		}
		if err := s.Append(session.Record{Message: llm.Message{Role: role, Content: llm.Text(fmt.Sprint("message ", i, " ", strings.Repeat("word ", 8)))}}); err != nil {
			return "", err
		}
	}
	if err := s.Release(); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(store.Dir(), "*.jsonl"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("session file: %v %v", files, err)
	}
	return files[0], nil
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// floorTurn sends the same body over one connection and syncs two lines.
func floorTurn(srv *server, dir string, n int) (time.Duration, error) {
	body := srv.body(-1)
	f, err := os.OpenFile(filepath.Join(dir, "floor.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	client := &http.Client{}
	var all []time.Duration
	for range n {
		start := time.Now()
		if err := syncLine(f); err != nil {
			return 0, err
		}
		resp, err := client.Post(srv.URL+"/v1/chat/completions", "application/json", bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return 0, err
		}
		resp.Body.Close()
		if err := syncLine(f); err != nil {
			return 0, err
		}
		all = append(all, time.Since(start))
	}
	return median(all), nil
}

func syncLine(f *os.File) error {
	if _, err := f.WriteString(`{"role":"user","content":"hello"}` + "\n"); err != nil {
		return err
	}
	return f.Sync()
}
