package signal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	program    = "signal-cli"
	startTime  = 2 * time.Minute // of a Java program on a small machine
	startPause = 250 * time.Millisecond
	loginTime  = 10 * time.Minute
	deviceName = "nanobot"
	scanNote   = "Open Signal on the phone, Settings, Linked devices, Link new device, and scan the code."
)

// startHint says of a daemon that does not answer how it is started.
func (o *options) startHint(err error) error {
	switch {
	case err == nil:
		return nil
	case o.Managed:
		return fmt.Errorf("signal-cli does not answer: %w", err)
	}

	account := ""
	if o.PhoneNumber != "" {
		account = "-a " + o.PhoneNumber + " "
	}
	return fmt.Errorf("signal-cli does not answer at %s (%w); start it: signal-cli %sdaemon --http %s --receive-mode on-connection, or set managed",
		o.base(), err, account, strings.TrimPrefix(o.base(), "http://"))
}

// probeProgram looks whether signal-cli is there. It does not start it: that
// would take the account from a gateway that runs.
func (o *options) probeProgram() chat.Report {
	return chat.Report{Identity: o.PhoneNumber, Checks: []chat.Check{checked(program, "is installed", kit.HasProgram(program))}}
}

// withProgram runs signal-cli while do goes on, and tells rpc where it is. Its
// end ends do and is an error.
func (o *options) withProgram(ctx context.Context, d *chat.Deps, rpc *client, account []string, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	child, err := o.start(ctx, d, account)
	if err != nil {
		return err
	}

	var watch sync.WaitGroup
	defer watch.Wait()
	defer child.Close()
	watch.Go(func() {
		<-child.Done()
		cancel()
	})
	base := "http://" + child.Address
	rpc.base.Store(&base)
	defer rpc.base.Store(nil)

	err = o.startHint(answers(ctx, rpc))
	if err == nil {
		err = do(ctx)
	}

	if failed := child.Failed(); failed != nil {
		return accountMissing(o, failed)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// accountMissing makes an error fatal if it says that signal-cli does not have
// the account.
func accountMissing(o *options, err error) error {
	for _, phrase := range []string{"is not registered", "No local users found", "does not exist"} {
		if strings.Contains(err.Error(), phrase) {
			return chat.Fatal(fmt.Errorf("signal-cli has no account %s (%w); link or register it: see docs/how-to/channels/signal.md", o.PhoneNumber, err))
		}
	}
	return err
}

// start starts signal-cli on a port of this machine that is free.
func (o *options) start(ctx context.Context, d *chat.Deps, account []string) (*kit.Child, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a port for signal-cli: %w", err)
	}

	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}

	var args []string
	if o.ConfigDir != "" {
		home, _ := os.UserHomeDir() // "" leaves the path as it is
		args = append(args, "--config", below(home, o.ConfigDir))
	}

	args = append(args, account...)
	// Messages must not get into our log.
	args = append(args, "daemon", "--http", address, "--receive-mode", "on-connection", "--no-receive-stdout")
	p := kit.Program{Name: program, Args: args, Address: address}
	for _, name := range []string{"JAVA_HOME", "JAVA_OPTS", "SIGNAL_CLI_OPTS"} {
		if v, there := os.LookupEnv(name); there {
			p.Env = append(p.Env, name+"="+v)
		}
	}

	child, err := kit.StartChild(ctx, d.Log, p)
	if errors.Is(err, kit.ErrNoProgram) {
		err = chat.Fatal(fmt.Errorf("%w; install it (see docs/how-to/channels/signal.md), or set managed to false and start the daemon yourself", err))
	}
	return child, err
}

// answers waits until signal-cli does.
func answers(ctx context.Context, rpc *client) error {
	late, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		err := rpc.check(late)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case wait.For(late, startPause) != nil:
			return err
		}
	}
}

// login links signal-cli to the account of a phone by a QR code, unless it has
// the account of the section already.
func login(ctx context.Context, d chat.Deps, section json.RawMessage, p chat.Dialog, force bool) (chat.Result, error) {
	o := defaults()
	if err := chat.Decode(section, o); err != nil {
		return chat.Result{}, err
	}
	if err := o.checkRest(); err != nil { // the number is what the login finds out
		return chat.Result{}, chat.Fatal(err)
	}

	h, err := d.Client(o.Proxy)
	if err != nil {
		return chat.Result{}, err
	}

	defer h.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()

	number := normal(o.PhoneNumber)
	rpc := newClient(o.base(), number, h)
	do := func(ctx context.Context) error {
		if err := rpc.check(ctx); err != nil {
			return o.startHint(err)
		}
		if number != "" && !force && rpc.call(ctx, "getUserStatus", map[string]any{"recipient": []string{number}}, nil) == nil {
			return nil
		}

		var err error
		number, err = link(ctx, rpc, p)
		return err
	}
	if o.Managed { // without an account, so that it accepts others
		err = o.withProgram(ctx, &d, rpc, nil, do)
	} else {
		err = do(ctx)
	}

	switch {
	case ctx.Err() != nil:
		return chat.Result{}, fmt.Errorf("link the account: %w: try again", ctx.Err())
	case err != nil:
		return chat.Result{}, fmt.Errorf("link the account: %w", err)
	}
	return chat.Result{Identity: number, Patch: map[string]any{"phoneNumber": number}}, nil
}

// link shows codes until one is scanned; signal-cli gives up on each after a
// while.
func link(ctx context.Context, rpc *client, p chat.Dialog) (string, error) {
	for {
		var begun struct {
			URI string `json:"deviceLinkUri"`
		}
		err := rpc.ask(ctx, kit.Call{Name: "startLink", Within: loginTime}, map[string]any{}, &begun)
		if e, ok := errors.AsType[*rpcError](err); ok && e.Code == codeNoMethod {
			return "", fmt.Errorf("the daemon serves one account only (%w): start it without -a, or run signal-cli link -n %s", err, deviceName)
		}
		if err != nil {
			return "", err
		}

		p.Tell(chat.Step{QR: begun.URI, Note: scanNote})
		var done struct {
			Number string `json:"number"`
		}
		err = rpc.ask(ctx, kit.Call{Name: "finishLink", Within: loginTime}, map[string]any{"deviceLinkUri": begun.URI, "deviceName": deviceName}, &done)
		if e, ok := errors.AsType[*rpcError](err); ok && e.mentions("timed out") && ctx.Err() == nil {
			continue
		}
		return done.Number, err
	}
}
