// Command floors moves the packages of one floor to their new folders and changes
// every import and every other mention of their paths. It is for the length of the
// move alone: a branch from before the move is carried over by running it there,
// floor by floor, and rebasing.
//
//	go run ./floors -root .. base
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed table.txt
var table string

type move struct{ floor, from, to string }

func moves() []move {
	var out []move
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) == 3 && f[0] != "#" {
			out = append(out, move{f[0], f[1], f[2]})
		}
	}
	// The longest path first: it beats those that it lies below.
	slices.SortFunc(out, func(a, b move) int { return len(b.from) - len(a.from) })
	return out
}

func main() {
	root := flag.String("root", "..", "the folder of the repository")
	flag.Parse()
	if err := run(*root, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root, floor string) error {
	all := moves()
	if !slices.ContainsFunc(all, func(m move) bool { return m.floor == floor }) {
		return fmt.Errorf("there is no floor %q", floor)
	}
	out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		return fmt.Errorf("list the files: %w", err)
	}
	files := strings.Split(strings.Trim(string(out), "\x00"), "\x00")

	for i, file := range files {
		to, moved := target(all, floor, file)
		if !moved {
			continue
		}
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(to)), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(root, file), filepath.Join(root, to)); err != nil {
			return err
		}
		files[i] = to
	}

	var errs []error
	for _, file := range files {
		errs = append(errs, rewrite(root, file, all, floor))
	}
	return errors.Join(errs...)
}

// target is the new path of a file, if its package is on the floor.
func target(all []move, floor, file string) (string, bool) {
	for _, m := range all {
		if rest, ok := strings.CutPrefix(file, m.from+"/"); ok {
			return m.to + "/" + rest, m.floor == floor
		}
	}
	return file, false
}

// rewrite changes the mentions of paths in a file. Decision records and the
// changelog are history.
func rewrite(root, file string, all []move, floor string) error {
	for _, history := range []string{"docs/decisions/", "changelog/", "CHANGELOG.md", "tools/floors/", "internal/webui/pages/dist/", "internal/web/pages/dist/"} {
		if strings.HasPrefix(file, history) {
			return nil
		}
	}
	path := filepath.Join(root, file)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	old, err := os.ReadFile(path)
	if err != nil || bytes.IndexByte(old, 0) >= 0 || !bytes.Contains(old, []byte("internal/")) {
		return err
	}
	text := replacePaths(string(old), all, floor)
	if text == string(old) {
		return nil
	}
	return os.WriteFile(path, []byte(text), info.Mode().Perm())
}

// replacePaths replaces each path of a package that moves, wherever it stands. The
// longest path decides.
func replacePaths(text string, all []move, floor string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, "internal/")
		if i < 0 {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:i])
		text = text[i:]
		from, to := "internal/", "internal/"
		for _, m := range all {
			if strings.HasPrefix(text, m.from) && ends(text[len(m.from):]) {
				from = m.from
				to = from
				if m.floor == floor {
					to = m.to
				}
				break
			}
		}
		b.WriteString(to)
		text = text[len(from):]
	}
}

// ends reports whether a path ends before the text.
func ends(text string) bool {
	if text == "" {
		return true
	}
	c := text[0]
	return c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
}
