package terminal_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/platform/terminal"
)

// childDir names the data folder of a test that runs this program again as a terminal
// which is killed.
const childDir = "NANOBOT_TEST_TERMINAL"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		takeAndHang(dir)
	}
	goleak.VerifyTestMain(m)
}

// takeAndHang is a terminal that takes a message and dies before it is on the screen.
func takeAndHang(dir string) {
	r, err := box(dir, time.Now).Attach(context.Background(), "cli:a")
	if err != nil {
		panic(err)
	}
	for len(r.Claim(context.Background())) == 0 {
		continue
	}
	if err := os.WriteFile(filepath.Join(dir, "taken"), nil, 0o600); err != nil {
		panic(err)
	}
	select {}
}

// box is the mailbox as one more process sees it.
func box(dir string, now func() time.Time) *terminal.Mailbox {
	return terminal.OpenMailbox(disk.Open(dir, nil), now, nil)
}

func message(id, text string) bus.Outbound {
	return bus.Outbound{ID: id, Kind: bus.Final, Route: bus.Route{Channel: "cli", ChatID: "a"}, Text: text}
}

func add(t *testing.T, b *terminal.Mailbox, out bus.Outbound) string {
	t.Helper()
	name, err := b.Add(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func attach(t *testing.T, b *terminal.Mailbox, session string) *terminal.Reader {
	t.Helper()
	r, err := b.Attach(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// take is what a terminal takes, and shows if it lives long enough.
func take(t *testing.T, r *terminal.Reader, show bool) string {
	t.Helper()
	var texts []string
	for _, out := range r.Claim(t.Context()) {
		texts = append(texts, out.Text)
		if !show {
			continue
		}
		if err := r.Shown(t.Context(), out.ID); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(texts, "|")
}

func TestEachMessageIsShownOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gateway := box(dir, time.Now)
	add(t, gateway, message("1", "tea"))
	add(t, gateway, message("2", "cake"))
	first := attach(t, box(dir, time.Now), "cli:a")
	if got := take(t, first, true); got != "tea|cake" {
		t.Fatalf("the next terminal shows %q, want both in their order", got)
	}
	add(t, gateway, message("1", "tea")) // a gateway that died before it noted the delivery
	if got := take(t, first, true) + take(t, attach(t, box(dir, time.Now), "cli:b"), true); got != "" {
		t.Errorf("shown again: %q", got)
	}
}

func TestOwnTerminalFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gateway := box(dir, time.Now)
	own, other := attach(t, box(dir, time.Now), "cli:a"), attach(t, box(dir, time.Now), "cli:b")
	add(t, gateway, message("1", "tea"))
	if got := take(t, other, true); got != "" {
		t.Errorf("a terminal of another conversation shows %q", got)
	}
	if got := take(t, own, true); got != "tea" {
		t.Errorf("its own terminal shows %q", got)
	}
	if err := own.Close(); err != nil {
		t.Fatal(err)
	}
	add(t, gateway, message("2", "cake"))
	if got := take(t, other, true); got != "cake" {
		t.Errorf("the terminal that is left shows %q", got)
	}
}

func TestWhatIsTakenWaitsForNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gateway := box(dir, time.Now)
	name := add(t, gateway, message("1", "tea"))
	if !gateway.Waiting(t.Context(), name) || gateway.AnyOpen(t.Context()) {
		t.Error("a message waits, and no terminal is open")
	}
	r := attach(t, box(dir, time.Now), "cli:b")
	if !gateway.AnyOpen(t.Context()) {
		t.Error("a terminal is open")
	}
	take(t, r, false)
	if gateway.Waiting(t.Context(), name) {
		t.Error("a terminal is about to show the message")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if !gateway.Waiting(t.Context(), name) || gateway.AnyOpen(t.Context()) {
		t.Error("the terminal left without showing the message")
	}
}

func TestKilledTerminalLeavesItsMessages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gateway := box(dir, time.Now)
	name := add(t, gateway, message("1", "tea"))
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+dir)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "taken")); err == nil {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("the terminal took nothing")
		}
	}
	if gateway.Waiting(t.Context(), name) {
		t.Error("the terminal lives and has the message")
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if gateway.AnyOpen(t.Context()) {
		t.Error("a killed terminal counts as open")
	}
	if got := take(t, attach(t, box(dir, time.Now), "cli:a"), true); got != "tea" {
		t.Errorf("the next terminal shows %q", got)
	}
}

func TestOldMessages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := time.Date(2026, 3, 1, 9, 30, 0, 0, time.Local)
	now := func() time.Time { return at }
	b := box(dir, now)
	add(t, b, message("1", "tea"))
	at = at.Add(time.Hour)
	r := attach(t, b, "cli:a")
	if got := take(t, r, true); got != "(2026-03-01 09:30)\n\ntea" {
		t.Errorf("an hour later: %q", got)
	}
	at = at.Add(30 * 24 * time.Hour)
	for i := range 3 {
		add(t, b, message("n"+strconv.Itoa(i), "cake"))
	}
	files, err := filepath.Glob(filepath.Join(dir, "terminal", "*.json"))
	if err != nil || len(files) != 3 {
		t.Errorf("after a month there are %d messages (%v), want those that were not shown", len(files), err)
	}
}

// An open terminal shows a message when it comes.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := attach(t, box(dir, time.Now), "cli:a")
	got := make(chan bus.Outbound)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, func(out bus.Outbound) { got <- out }) }()
	for _, text := range []string{"tea", "cake"} {
		add(t, box(dir, time.Now), message(text, text))
		if out := <-got; out.Text != text || out.Kind != bus.Message {
			t.Errorf("shown %+v, want %s", out, text)
		}
	}
	stop()
	<-ended
}
