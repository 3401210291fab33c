//go:build unix

package chaos_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// notes follows the program's journal: when it told which message of a
// platform shows an answer, and when it told that an answer was delivered. From
// then on there is no excuse for another one.
type notes struct {
	path string

	mu   sync.Mutex
	file *os.File
	read *bufio.Reader
	line []byte             // not complete yet
	at   map[note]time.Time // when it was there first
	outs map[string][]note  // the names that are to be delivered, by the id of the delivery
}

// note is a message that shows an answer, or the name of a message that was
// answered.
type note struct{ channel, chat, id string }

func newNotes(home string) *notes {
	return &notes{path: filepath.Join(home, "bus", "journal.jsonl"), at: map[note]time.Time{}, outs: map[string][]note{}}
}

// follow looks again and again until ctx ends.
func (n *notes) follow(ctx context.Context) {
	for ctx.Err() == nil {
		n.look()
		hold(ctx, 10*time.Millisecond)
	}
}

// look reads what is new in the journal, which is rewritten now and then.
func (n *notes) look() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		n.drain()
		f, err := os.Open(n.path)
		if err != nil {
			return // it is not there yet
		}
		if n.file != nil && sameFile(f, n.file) {
			_ = f.Close()
			return
		}
		if n.file != nil {
			_ = n.file.Close()
		}
		n.file, n.read, n.line = f, bufio.NewReader(f), nil
	}
}

func sameFile(a, b *os.File) bool {
	x, errX := a.Stat()
	y, errY := b.Stat()
	return errX == nil && errY == nil && os.SameFile(x, y)
}

func (n *notes) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file != nil {
		_ = n.file.Close()
	}
}

// drain reads the open file to its end.
func (n *notes) drain() {
	for n.read != nil {
		more, err := n.read.ReadBytes('\n')
		n.line = append(n.line, more...)
		if err != nil {
			return
		}
		for _, id := range append(shownBy(n.line), n.deliveredBy(n.line)...) {
			if _, ok := n.at[id]; !ok {
				n.at[id] = time.Now()
			}
		}
		n.line = n.line[:0]
	}
}

// deliveredBy are the names that a line of the journal says were delivered. A
// line that tells of an answer to deliver is remembered.
func (n *notes) deliveredBy(line []byte) []note {
	type out struct {
		ID, Text string
		Route    struct {
			Channel string `json:"channel"`
			Chat    string `json:"chat_id"`
		}
	}
	var l struct {
		Out, Delivered string
		Msg            out
		Outs           []out
	}
	if bytes.HasPrefix(line, []byte(`{"in":`)) || json.Unmarshal(line, &l) != nil {
		return nil
	}
	if l.Delivered != "" {
		return n.outs[l.Delivered]
	}
	if l.Out != "" {
		l.Msg.ID = l.Out
		l.Outs = append(l.Outs, l.Msg)
	}
	for _, o := range l.Outs {
		n.outs[o.ID] = nil
		for _, name := range word.FindAllString(o.Text, -1) {
			n.outs[o.ID] = append(n.outs[o.ID], note{o.Route.Channel, o.Route.Chat, name})
		}
	}
	return nil
}

// shownBy are the messages that a line of the journal tells of.
func shownBy(line []byte) (list []note) {
	var l struct {
		Shown []string `json:"shown"`
		Route struct {
			Channel string `json:"channel"`
			Chat    string `json:"chat_id"`
		} `json:"route"`
	}
	if !bytes.HasPrefix(line, []byte(`{"shown":`)) || json.Unmarshal(line, &l) != nil {
		return nil
	}
	for _, id := range l.Shown {
		list = append(list, note{l.Route.Channel, l.Route.Chat, id})
	}
	return list
}

// of is when the journal first told of a message, or of the delivery of a name.
func (n *notes) of(channel, chat, id string) (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, ok := n.at[note{channel, chat, id}]
	return at, ok
}

// left counts the messages that the journal tells of at the end.
func (n *notes) left() (count int, err error) {
	f, err := os.Open(n.path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(f)
	for line := range bytes.Lines(data) {
		count += len(shownBy(line))
	}
	return count, err
}
