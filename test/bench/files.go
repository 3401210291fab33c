package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/files"
)

// tools opens the file family on a folder.
func tools(ws string) (*tool.Set, error) {
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: ws, Restrict: true})
	if err != nil {
		return nil, err
	}
	return tool.NewSet(files.Tools(files.Options{Jail: jail})...)
}

func call(set *tool.Set, name string, args any) (string, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return "", err
	}
	t, input, bad := set.Prepare(name, string(raw))
	if bad != nil {
		return "", errors.New(bad.Content.String())
	}
	res, err := tool.Execute(context.Background(), t, tool.Call{Name: name, Input: input}, slog.New(slog.DiscardHandler))
	if err == nil && res.IsError {
		err = errors.New(res.Content.String())
	}
	return res.Content.String(), err
}

// grep searches a tree of 100,000 files and compares with ripgrep.
func (b *bench) grep() error {
	rg, err := exec.LookPath("rg")
	if err != nil {
		b.rows = append(b.rows, row{"grep over 100,000 files", "not measured", "rg is not installed", "<= 2x of rg", ""})
		return nil
	}
	ws := filepath.Join(b.dir, "tree")
	if err := makeTree(ws, 100000); err != nil {
		return err
	}
	set, err := tools(ws)
	if err != nil {
		return err
	}
	var ours, theirs []time.Duration
	for range b.times(7, 3) {
		start := time.Now()
		out, err := call(set, "grep", map[string]any{"pattern": "needle_[0-9]+", "output_mode": "files_with_matches", "head_limit": 0})
		if err != nil {
			return err
		}
		ours = append(ours, time.Since(start))
		start = time.Now()
		cmd := exec.Command(rg, "-l", "--hidden", "--no-require-git", "--glob", "!.git", "needle_[0-9]+", ".")
		cmd.Dir = ws
		found, err := cmd.Output()
		if err != nil {
			return err
		}
		theirs = append(theirs, time.Since(start))
		if want := lines(string(found)); !strings.Contains(out, "needle-dir") && want > 0 && strings.Count(out, ".txt") != want {
			return fmt.Errorf("grep found %d files, rg %d", strings.Count(out, ".txt"), want)
		}
	}
	r := ratio(median(ours), median(theirs))
	b.add("grep over 100,000 files", fmt.Sprintf("%s, %.2fx", ms(median(ours)), r), ms(median(theirs))+" (ripgrep)", "<= 2x of rg", r <= 2)
	return nil
}

func makeTree(ws string, n int) error {
	text := strings.Repeat("the quick brown fox jumps over the lazy dog and runs away\n", 20)
	for i := range n {
		dir := filepath.Join(ws, fmt.Sprintf("d%02d", i%100), fmt.Sprintf("e%02d", i/100%50))
		if i < 5000 {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
		}
		body := text
		if i%1000 == 0 {
			body += fmt.Sprintf("here is needle_%d\n", i)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%06d.txt", i)), []byte(body), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(ws, ".gitignore"), []byte("*.log\n"), 0o600)
}

// read reads a page of a 10 GB file in a process of its own.
func (b *bench) read() error {
	ws := filepath.Join(b.dir, "big")
	if err := os.MkdirAll(ws, 0o700); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(ws, "big.txt"))
	if err != nil {
		return err
	}
	if _, err := f.WriteString(strings.Repeat("a line of text\n", 100000)); err != nil {
		return err
	}
	if err := f.Truncate(10 << 30); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	took, rss, err := b.child(b.dir, "read", ws)
	if err != nil {
		return err
	}
	b.add("read_file: a page of a 10 GB file, process peak RSS", fmt.Sprintf("%s in %s", mib(rss), ms(took)), "", "constant memory", rss < 32<<20)
	return nil
}

func readPage(ws string) (time.Duration, error) {
	set, err := tools(ws)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	out, err := call(set, "read_file", map[string]any{"path": "big.txt", "offset": 50000, "limit": 200})
	if err == nil && !strings.Contains(out, "50000| a line of text") {
		err = fmt.Errorf("unexpected page: %.200q", out)
	}
	return time.Since(start), err
}
