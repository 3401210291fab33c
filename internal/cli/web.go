package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/run/control"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
)

// webFlags are how a person wants to get to the pages.
type webFlags struct {
	noOpen, qr, code bool
	base             string
}

// webCommand is nanobot web.
type webCommand struct {
	*console
	home    *home
	gateway *gatewayCommand
}

func (c *webCommand) command() *cobra.Command {
	var f webFlags
	cmd := &cobra.Command{
		Use: "web", Aliases: []string{"webui"}, Short: "Open the web interface",
		Long: `web opens the web interface in your browser and signs it in. It uses the running
gateway, or starts one in the background. The link signs in one browser, once,
within five minutes.

To sign in a phone or another computer, use --qr or --code, or open the address
there and approve the digits it shows.`,
		Example: `  nanobot web
  nanobot web --code --url https://bot.example/   behind a proxy or in a container
  nanobot web devices
  nanobot web approve 481516`,
		Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.open(cmd.Context(), f) },
	}

	fl := cmd.Flags()
	fl.BoolVar(&f.noOpen, "no-open", false, "print the link and open no browser")
	fl.BoolVar(&f.qr, "qr", false, "show the link as a QR code, for a phone")
	fl.BoolVar(&f.code, "code", false, "show a code to type instead of a link")
	fl.StringVar(&f.base, "url", "", "`address` of the pages as the browser reaches them")
	cmd.AddCommand(c.devicesCommand(), c.approveCommand(), c.denyCommand(), c.revokeCommand())
	return cmd
}

// open signs a browser in.
func (c *webCommand) open(ctx context.Context, f webFlags) error {
	if f.base != "" {
		if u, err := url.Parse(f.base); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return usageError{errors.New("--url must be an address such as https://bot.example/")}
		}
	}

	l, err := c.home.readLenient()
	if err != nil {
		return err
	}

	want := control.WantedLink{Code: f.code, Base: f.base}
	link, err := control.To(l).Link(ctx, want)
	if errors.Is(err, daemon.ErrNotRunning) {
		if err := c.gateway.start(ctx, gatewayFlags{port: -1}); err != nil {
			return err
		}
		link, err = control.To(l).Link(ctx, want)
	}

	if err != nil {
		return err
	}
	if f.code {
		c.say("Open %s and type this code within five minutes:\n\n  %s-%s\n", link.Base, link.Code[:len(link.Code)/2], link.Code[len(link.Code)/2:])
		return nil
	}

	if f.qr {
		code, err := qrCode(link.Link)
		if err != nil {
			return err
		}
		fmt.Fprintln(c.Out, code)
		c.warnLoopback(link.Base)
	}

	open := !f.noOpen && !f.qr && c.hasBrowser()
	if open {
		openBrowser(ctx, link.Link)
		c.say("The web interface opens in your browser. If it does not, open this link within five minutes; it works once:\n\n  %s\n", link.Link)
		return nil
	}

	c.say("Open this link in your browser within five minutes; it works once:\n\n  %s\n", link.Link)
	if u, err := url.Parse(link.Base); err == nil && loopbackName(u.Hostname()) && c.getenv("SSH_CONNECTION") != "" {
		c.say("\nThis machine is remote. On your own computer, run this first:\n\n  ssh -L %s:%s %s\n", u.Port(), u.Host, "user@this-machine")
	}
	return nil
}

// warnLoopback says why a phone cannot use a link.
func (c *webCommand) warnLoopback(base string) {
	if u, err := url.Parse(base); err == nil && loopbackName(u.Hostname()) {
		c.say("Other devices do not reach this address: it is this machine's own. Use --url with the one they reach, or set gateway.webui.publicUrl.\n")
	}
}

func loopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

func (c *webCommand) devicesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "devices", Short: "List devices that are signed in, and those that wait", Args: noArgs,
		Example: "  nanobot web devices\n  nanobot web devices --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := c.home.load()
			if err != nil {
				return err
			}

			list, err := control.To(l).Devices(cmd.Context())
			if err != nil {
				return err
			}
			return c.show(asJSON, list, func() error { return c.printDevices(list) })
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *webCommand) printDevices(list control.Devices) error {
	if len(list.Devices)+len(list.Waiting) == 0 {
		c.say("No device is signed in. Open the web interface with: nanobot web\n")
		return nil
	}

	if len(list.Waiting) > 0 {
		t := c.table("WAITING", "DEVICE", "ADDRESS")
		for _, p := range list.Waiting {
			address := p.Address
			if p.Local {
				address += c.in(" (a program on this machine)")
			}
			t.row(p.Digits, p.Name, address)
		}

		if err := t.Flush(); err != nil {
			return err
		}
		c.say("\nIf a device shows these digits and is yours: nanobot web approve DIGITS\n")
	}

	if len(list.Devices) == 0 {
		return nil
	}

	t := c.table("ID", "DEVICE", "ADDRESS", "SIGNED IN", "LAST USED")
	for _, d := range list.Devices {
		t.row(d.ID, d.Name, d.Address, d.Created.Local().Format(time.DateTime), d.Seen.Local().Format(time.DateTime))
	}
	return t.Flush()
}

func (c *webCommand) approveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "approve DIGITS", Short: "Let a device sign in", Args: cobra.ExactArgs(1),
		Example: "  nanobot web approve 481516",
		RunE: func(cmd *cobra.Command, args []string) error {
			allowed := control.Decision{Digits: withoutSpaces(args[0]), Allow: true}
			return c.change(cmd.Context(), allowed, "The device signs in now.")
		},
	}
}

func (c *webCommand) denyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "deny DIGITS", Short: "Refuse a device", Args: cobra.ExactArgs(1),
		Example: "  nanobot web deny 481516",
		RunE: func(cmd *cobra.Command, args []string) error {
			denied := control.Decision{Digits: withoutSpaces(args[0])}
			return c.change(cmd.Context(), denied, "The device is refused.")
		},
	}
}

// withoutSpaces returns digits as they are compared: a page shows them in groups.
func withoutSpaces(digits string) string { return strings.ReplaceAll(digits, " ", "") }

func (c *webCommand) revokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "Sign a device out", Args: cobra.ExactArgs(1),
		Example: "  nanobot web devices\n  nanobot web revoke 1a2b3c4d",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.change(cmd.Context(), control.Decision{Revoke: args[0]}, "The device is signed out.")
		},
	}
}

func (c *webCommand) change(ctx context.Context, change control.Decision, done string) error {
	l, err := c.home.load()
	if err != nil {
		return err
	}
	if err := control.To(l).Decide(ctx, change); err != nil {
		return err
	}
	fmt.Fprintln(c.Out, c.in(done))
	return nil
}
