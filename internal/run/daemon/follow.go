package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// LogView says which part of a log to show.
type LogView struct {
	Lines  int    // from the end
	Follow bool   // wait for more
	Text   string // only lines that contain it
}

// ShowLog prints the end of a log and, if asked, what is added to it, also
// after it was put aside for a new one.
func ShowLog(ctx context.Context, w io.Writer, path string, v LogView) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no log yet: %s", path)
	}
	if err != nil {
		return err
	}

	end := &logEnd{path: path, text: v.Text, file: f, r: bufio.NewReader(f)}
	defer func() { _ = end.file.Close() }() // only read
	last := end.lines(v.Lines)
	if len(last) == 0 && !v.Follow {
		return fmt.Errorf("nothing was found in %s", path)
	}

	for _, line := range last {
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}

	if !v.Follow {
		return nil
	}
	return end.follow(ctx, w)
}

// logEnd reads a log up to its end, which moves.
type logEnd struct {
	path, text string
	file       *os.File
	r          *bufio.Reader
}

// lines returns the last n lines there are, of those with the text.
func (l *logEnd) lines(n int) []string {
	var last []string
	for {
		line, err := l.r.ReadString('\n')
		if line != "" && strings.Contains(line, l.text) {
			last = append(last, line)
			if len(last) > 2*n {
				last = append(last[:0], last[len(last)-n:]...)
			}
		}

		if err != nil {
			break
		}
	}

	return last[max(0, len(last)-n):]
}

// follow prints what is added until ctx ends.
func (l *logEnd) follow(ctx context.Context, w io.Writer) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		line, err := l.r.ReadString('\n')
		for err == nil {
			if strings.Contains(line, l.text) {
				if _, err := io.WriteString(w, line); err != nil {
					return err
				}
			}
			line, err = l.r.ReadString('\n')
		}

		if line != "" { // half a line: read it again when it is whole
			l.r = bufio.NewReader(io.MultiReader(strings.NewReader(line), l.file))
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}

		l.reopen()
	}
}

// reopen goes on with the file that took the name of the one that is read.
func (l *logEnd) reopen() {
	now, err := os.Stat(l.path)
	if err != nil {
		return
	}
	if was, err := l.file.Stat(); err != nil || os.SameFile(now, was) {
		return
	}

	if next, err := os.Open(l.path); err == nil {
		_ = l.file.Close() // only read
		l.file, l.r = next, bufio.NewReader(next)
	}
}
