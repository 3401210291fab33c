package tui

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// counting streams one paragraph of numbered words, ten a second.
func counting(words int) script {
	return func(ctx context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
		for i := range words {
			if !yield(bus.Outbound{Kind: bus.Delta, Text: fmt.Sprintf("w%03d ", i)}, nil) {
				return
			}
			pause(ctx, 100*time.Millisecond)
		}
		yield(bus.Outbound{Kind: bus.Final, Streamed: true, Text: "x", Turn: &bus.Turn{ID: in.ID}}, nil)
	}
}

// wantWords checks that each of the first n words stands on the terminal once.
func (s *scene) wantWords(n int) {
	s.t.Helper()
	got := s.vt.text(s.t)
	words := strings.Join(strings.Fields(got), "") // the terminal may have folded a row in the middle of a word
	for i := range n {
		if c := strings.Count(words, fmt.Sprintf("w%03d", i)); c != 1 {
			s.t.Fatalf("word %d stands there %d times:\n%s", i, c, got)
		}
	}
}

// A paragraph longer than the window scrolls while it arrives: nothing of it is
// missing, and the area that is redrawn stays small.
func TestChatLongParagraph(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{}, counting(300))
		s.press("go\r")
		s.wait(25 * time.Second)
		s.wantWords(250)
		s.wait(10 * time.Second)
		s.wantWords(300)
		s.press("\x04")
		s.wantLeft()
	})
}

// Whatever size the terminal takes while a paragraph arrives, no copy of it is
// left behind.
func TestChatResizeDuringAParagraph(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := make(chan os.Signal, 1)
		s := start(t, Options{changed: changed}, counting(300))
		s.press("go\r")
		for _, size := range [][2]int{{30, 16}, {24, 8}, {60, 8}, {60, 24}, {31, 9}} {
			s.wait(5 * time.Second)
			s.vt.resize(size[0])
			s.vt.setRows(size[1])
			changed <- os.Interrupt
			synctest.Wait()
		}
		s.wait(10 * time.Second)
		s.wantWords(300)
		s.press("\x04")
		s.wantLeft()
	})
}
