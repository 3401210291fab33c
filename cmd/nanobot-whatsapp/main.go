// Nanobot-whatsapp is a linked device of a WhatsApp account for nanobot, which
// starts it and talks to it over a WebSocket of this machine. It is a program of
// its own since the library that speaks Signal's protocol for it is under the
// GNU General Public License, version 3: see README.md.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetFlags(0)
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Getenv); err != nil {
		log.Println(err)
		os.Exit(1)
	}
}

// settings are what the program is started with.
type settings struct {
	store, files, address, token string
	selfChat                     bool
	child                        bool // nanobot started it: it ends with its input
}

func parse(args []string, in *bufio.Reader, env func(string) string) (settings, error) {
	dir := env("AUTH_DIR")
	if home, err := os.UserHomeDir(); dir == "" && err == nil {
		dir = filepath.Join(home, ".nanobot", "whatsapp-auth")
	}

	var s settings
	set := flag.NewFlagSet("nanobot-whatsapp", flag.ContinueOnError)
	set.StringVar(&s.store, "store", filepath.Join(dir, "neonize.db"), "`file` with the linked device")
	set.StringVar(&s.files, "files", filepath.Join(dir, "files"), "`folder` for received files until nanobot has them")
	set.BoolVar(&s.selfChat, "self-chat", false, "hand over what the account writes to itself")
	if err := set.Parse(args); err != nil {
		return s, err
	}

	s.address, s.token = "127.0.0.1:0", env("BRIDGE_TOKEN")
	if s.token != "" { // like the bridge of Python nanobot
		port := env("BRIDGE_PORT")
		if port == "" {
			port = "3001"
		}
		s.address = net.JoinHostPort("127.0.0.1", port)
		return s, nil
	}

	s.child = true
	line, err := in.ReadString('\n')
	if s.token = strings.TrimSpace(line); err != nil || s.token == "" {
		return s, errNoToken
	}
	return s, nil
}

// run serves until ctx or the input ends.
func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer, env func(string) string) error {
	in := bufio.NewReader(stdin)
	s, err := parse(args, in, env)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.child {
		go func() {
			_, _ = io.Copy(io.Discard, in)
			cancel()
		}()
	}

	container, err := openStore(ctx, s.store, logger{"store"})
	if err != nil {
		return err
	}

	defer container.Close() //nolint:errcheck // it ends anyway
	b := newBridge(ctx, s.token, s.files, s.selfChat)
	a, err := newAccount(ctx, container, env("NANOBOT_WHATSAPP_PROXY"), logger{"whatsapp"}, b.event)
	if err != nil {
		return err
	}

	b.wa = a
	defer b.work.Wait()
	defer a.Disconnect()
	defer cancel()

	l, err := net.Listen("tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if _, err := fmt.Fprintf(stdout, "{\"listen\":%q}\n", l.Addr()); err != nil {
		return err
	}

	b.begin()
	server := &http.Server{Handler: b, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
