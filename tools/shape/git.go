package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// program is the folder that every commit with a product has.
const program = "cmd/nanobot"

// choice is the commit that the report compares with.
type choice struct {
	commit string // "" if there is none
	date   string // its day
	why    string // which one it is, or why there is none
}

// chooseCommit returns the commit to compare with: the one that since names, or else
// the newest one of the main line that is a month older than the newest of all, or
// else the first one with the program.
func chooseCommit(ctx context.Context, root, since string) (choice, error) {
	if since != "" {
		commit, err := git(ctx, root, "rev-parse", "--short", "--verify", "--quiet", since+"^{commit}")
		if err != nil {
			return choice{}, fmt.Errorf("-since %s: git knows no such commit", since)
		}
		return describe(ctx, root, commit, "chosen by -since")
	}

	// A copy of the sources may lie in a folder of another repository.
	prefix, err := git(ctx, root, "rev-parse", "--show-prefix")
	if err != nil || prefix != "" {
		return choice{why: "there is no history of git here"}, nil
	}
	newest, err := git(ctx, root, "log", "-1", "--format=%h %cI")
	if err != nil {
		return choice{why: "there is no commit yet"}, nil
	}
	head, date, _ := strings.Cut(newest, " ")
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return choice{}, err
	}

	monthAgo := at.AddDate(0, -1, 0).Format(time.RFC3339)
	commit, err := git(ctx, root, "rev-list", "-1", "--first-parent", "--abbrev-commit", "--before="+monthAgo, "HEAD")
	if err != nil {
		return choice{}, err
	}
	if commit != "" {
		if _, err := git(ctx, root, "cat-file", "-e", commit+":"+program); err == nil {
			return describe(ctx, root, commit, "the newest one that is older than a month")
		}
	}

	shallow, err := git(ctx, root, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return choice{}, err
	}
	if shallow == "true" {
		return choice{why: "the history of this checkout is shorter than a month"}, nil
	}
	first, err := git(ctx, root, "log", "--reverse", "--first-parent", "--format=%h", "--", program)
	if err != nil {
		return choice{}, err
	}
	first, _, _ = strings.Cut(first, "\n")
	if first == "" || first == head {
		return choice{why: "no earlier commit has " + program}, nil
	}
	return describe(ctx, root, first, "the first one with "+program+"; none is older than a month")
}

func describe(ctx context.Context, root, commit, why string) (choice, error) {
	date, err := git(ctx, root, "log", "-1", "--format=%cs", commit)
	return choice{commit, date, why}, err
}

// readCommit returns the files with code of a commit.
func readCommit(ctx context.Context, root, commit string) ([]file, error) {
	cmd := exec.CommandContext(ctx, "git", "-C", root, "archive", "--format=tar", commit)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	files, err := readArchive(out)
	_, _ = io.Copy(io.Discard, out) // padding, which git waits to write
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return nil, fmt.Errorf("git archive: %w\n%s", err, said.String())
	}
	return files, nil
}

// git returns what a command of git prints.
func git(ctx context.Context, root string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
