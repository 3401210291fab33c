package kit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const childMode = "NANOBOT_TEST_CHILD"

// program is this test as another program, which does what mode says.
func program(mode string) kit.Program {
	return kit.Program{
		Name: os.Args[0], Args: []string{"-test.run=^TestChildProgram$"}, Env: []string{childMode + "=" + mode, "GOCOVERDIR=" + os.TempDir()},
		Token: httpsafe.NewSecret("secret-of-the-child"),
	}
}

func leave(code int) { os.Exit(code) } //nolint:forbidigo // the other program ends without the rest of the tests

// TestChildProgram is the other program.
func TestChildProgram(t *testing.T) {
	mode := os.Getenv(childMode)
	if mode == "" {
		return // this is the test itself
	}
	in := bufio.NewReader(os.Stdin)
	token, _ := in.ReadString('\n')
	switch mode {
	case "crash":
		fmt.Fprintln(os.Stderr, "cannot open the store with "+strings.TrimSpace(token))
		leave(3)
	case "rude":
		fmt.Fprintln(os.Stdout, "hello")
		_, _ = io.Copy(io.Discard, in)
		leave(0)
	case "far":
		fmt.Fprintln(os.Stdout, `{"listen":"192.0.2.1:80"}`)
		_, _ = io.Copy(io.Discard, in)
		leave(0)
	case "parent":
		d := chattest.NewRig(t).Deps("test")
		c, err := kit.StartChild(t.Context(), d.Log, program("stubborn"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(os.Stdout, "child "+c.Address)
		select {}
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	other := ""
	if mode == "family" {
		other = grandchild(t)
	}
	fmt.Fprintf(os.Stdout, "{\"listen\":%q}\n", l.Addr())
	fmt.Fprintf(os.Stderr, "token %s key %q grandchild %s\n", strings.TrimSpace(token), os.Getenv("SOME_API_KEY"), other)
	if mode == "stubborn" || mode == "family" {
		select {}
	}
	_, _ = io.Copy(io.Discard, in)
	leave(0)
}

// grandchild starts a further program and says where it listens.
func grandchild(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildProgram$")
	cmd.Env = append(os.Environ(), childMode+"=stubborn")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.Trim(strings.TrimPrefix(strings.TrimSpace(line), `{"listen":`), `"}`)
}

func listens(address string) bool {
	c, err := (&net.Dialer{Timeout: time.Minute}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// A program is started with its token, says where it listens, and ends with its
// channel, politely or not, with all that it started.
func TestChild(t *testing.T) {
	t.Setenv("SOME_API_KEY", "sk-not-for-others")
	for _, mode := range []string{"polite", "stubborn", "family"} {
		t.Run(mode, func(t *testing.T) {
			r := chattest.NewRig(t)
			d := r.Deps("test")
			ctx, cancel := context.WithCancel(t.Context())
			c, err := kit.StartChild(ctx, d.Log, program(mode))
			if err != nil {
				t.Fatalf("%v; log:\n%s", err, r.Log)
			}
			if !listens(c.Address) {
				t.Errorf("nothing listens at %s", c.Address)
			}
			r.Await("a line of the log", func() bool { return strings.Contains(r.Log.String(), "grandchild") })
			if log := r.Log.String(); strings.Contains(log, "secret-of-the-child") || strings.Contains(log, "sk-not-for-others") {
				t.Errorf("the log shows a secret:\n%s", log)
			}
			_, other, _ := strings.Cut(strings.TrimSpace(r.Log.String()), "grandchild ")
			other = strings.Trim(other, "\"\n")

			cancel()
			<-c.Done()
			if err := c.Failed(); err != nil || listens(c.Address) {
				t.Errorf("ended with %v, listens: %v", err, listens(c.Address))
			}
			if mode == "family" {
				if _, _, err := net.SplitHostPort(other); err != nil {
					t.Fatalf("the grandchild is at %q", other)
				}
				r.Await("the end of the grandchild", func() bool { return !listens(other) })
			}
		})
	}
}

// A program that cannot be used is an error that says why.
func TestChildFails(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"crash": "ended: exit status 3: cannot open the store with",
		"rude":  "its first line does not say where on this machine it listens",
		"far":   "its first line does not say where on this machine it listens",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d := chattest.NewRig(t).Deps("test")
			_, err := kit.StartChild(t.Context(), d.Log, program(mode))
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-of-the-child") {
				t.Errorf("Child: %v, want %q", err, want)
			}
		})
	}
	d := chattest.NewRig(t).Deps("test")
	if _, err := kit.StartChild(t.Context(), d.Log, kit.Program{Name: "nanobot-no-such-program"}); !errors.Is(err, kit.ErrNoProgram) {
		t.Errorf("Child: %v", err)
	}
}

// A program does not outlive a gateway that is killed, also if it does not look
// at its input where the kernel helps.
func TestChildOfKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		t.Skip("only the end of its input tells a program elsewhere")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildProgram$")
	cmd.Env = append(os.Environ(), childMode+"=parent")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(stdin, "x\n")
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "child ")
	if err != nil || !ok || !listens(address) {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	chattest.NewRig(t).Await("the end of the child", func() bool { return !listens(address) })
}
