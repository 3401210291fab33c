package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// oneShot measures a single `nanobot agent -m hello` from process start.
func (b *bench) oneShot() error {
	srv := newServer(true)
	defer srv.Close()
	dir := filepath.Join(b.dir, "oneshot")
	conf, ws, err := home(dir, srv.URL, "")
	if err != nil {
		return err
	}
	info, err := os.Stat(b.binary)
	if err != nil {
		return err
	}
	ours := func(i int) *exec.Cmd {
		return exec.Command(b.binary, "agent", "-c", conf, "-w", ws, "-s", fmt.Sprint("bench-", i), "-m", "hello")
	}
	if _, _, err := b.startup(srv, ours(-1), dir); err != nil { // makes the workspace
		return err
	}
	body := filepath.Join(dir, "body.json")
	if err := os.WriteFile(body, srv.body(-1), 0o600); err != nil {
		return err
	}
	var first, exit, floorFirst, floorExit []time.Duration
	rss, err := b.peakOf(ours(-2), dir)
	if err != nil {
		return err
	}
	n := b.times(60, 15)
	for i := range n {
		f, e, err := b.startup(srv, ours(i), dir)
		if err != nil {
			return err
		}
		first, exit = append(first, f), append(exit, e)
		f, e, err = b.startup(srv, exec.Command(b.floor, srv.URL+"/v1/chat/completions", body, filepath.Join(dir, fmt.Sprint("floor-", i))), dir)
		if err != nil {
			return err
		}
		floorFirst, floorExit = append(floorFirst, f), append(floorExit, e)
	}
	rf, re := ratio(median(first), median(floorFirst)), ratio(median(exit), median(floorExit))
	b.add("process start to first request (one-shot)", fmt.Sprintf("%s, %.1fx", ms(median(first)), rf), ms(median(floorFirst)), fmt.Sprintf("<= %dx floor", b.budget.OneShotStart), rf <= float64(b.budget.OneShotStart))
	b.add("process start to exit (one-shot)", fmt.Sprintf("%s, %.1fx", ms(median(exit)), re), ms(median(floorExit)), "<= 6x floor", re <= 6)
	b.add("peak RSS of a one-shot turn", mib(rss), "", "<= "+mib(b.budget.OneShotRSS), rss <= b.budget.OneShotRSS)
	b.add("stripped static binary", fmt.Sprintf("%.2f MB", float64(info.Size())/1e6), "", fmt.Sprintf("<= %d MB", b.budget.Binary/1e6), info.Size() <= b.budget.Binary)
	b.add("first request for \"hello\"", fmt.Sprintf("%d bytes", len(srv.body(-1))), "", fmt.Sprintf("<= %d bytes", b.budget.FirstRequest), len(srv.body(-1)) <= b.budget.FirstRequest)
	return nil
}

// startup runs a process and returns the time to its first request and to its exit.
func (b *bench) startup(srv *server, cmd *exec.Cmd, dir string) (first, exit time.Duration, err error) {
	cmd.Env = env(dir)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	exit = time.Since(start)
	if err != nil {
		return 0, 0, fmt.Errorf("%w\n%s", err, out)
	}
	return srv.lastArrival().Sub(start), exit, nil
}

// peakOf measures the memory of a process. It is started by the small floor
// program, because a process inherits the peak of the one it was forked from.
func (b *bench) peakOf(cmd *exec.Cmd, dir string) (int64, error) {
	launch := exec.Command(b.floor, append([]string{"-run"}, cmd.Args...)...)
	launch.Env = env(dir)
	out, err := launch.Output()
	if err != nil {
		return 0, err
	}
	kb, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return kb * 1024, err
}
