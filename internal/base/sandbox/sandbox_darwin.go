package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// means has nothing to remember: there is one way here.
type means struct{}

const seatbelt = "/usr/bin/sandbox-exec"

// open uses the system's own sandbox. It is deprecated, but every version of
// the system still has it.
func (b *Box) open(ctx context.Context) error {
	if b.o.Mode != Auto && b.o.Mode != Hide {
		return fmt.Errorf("there is no %q sandbox on macOS: set tools.exec.sandbox to \"auto\" or \"none\"", b.o.Mode)
	}
	if err := exec.CommandContext(ctx, seatbelt, "-p", "(version 1)(allow default)", "/usr/bin/true").Run(); err != nil {
		return fmt.Errorf("sandbox-exec does not work here (%w): set tools.exec.sandbox to \"none\" to run commands without a sandbox", err)
	}

	b.level = Level{Mode: b.o.Mode, Missing: []string{
		"limits, namespaces and a system call filter, which macOS does not have", "network \"proxy\"",
	}}
	return nil
}

func (b *Box) canFreeze() bool { return false }

func (b *Box) wrapFreezable(*exec.Cmd, Profile) (func() error, func(), error) {
	return nil, nil, errCannotFreeze
}

func (b *Box) wrap(cmd *exec.Cmd, p Profile) (func(), error) {
	if p.Network == NetProxy {
		return nil, errors.New("network \"proxy\" is not available on macOS: use \"none\"")
	}

	if b.o.Mode == Hide {
		cmd.Args = append([]string{seatbelt, "-p", p.seatbeltHide(), cmd.Path}, cmd.Args[min(1, len(cmd.Args)):]...)
		cmd.Path = seatbelt
		return func() {}, nil
	}

	temp, err := os.MkdirTemp(b.o.TempDir, "nanobot-")
	if err != nil {
		return nil, fmt.Errorf("private directory: %w", err)
	}

	cmd.Env = append(slices.Clip(cmd.Env), "TMPDIR="+temp)
	if !slices.ContainsFunc(cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, "HOME=") }) {
		home := filepath.Join(temp, privateHome)
		if err := os.Mkdir(home, 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("private home: %w", err), os.RemoveAll(temp))
		}
		cmd.Env = append(cmd.Env, "HOME="+home)
	}

	cmd.Args = append([]string{seatbelt, "-p", p.seatbelt(temp), cmd.Path}, cmd.Args[min(1, len(cmd.Args)):]...)
	cmd.Path = seatbelt
	return func() { _ = os.RemoveAll(temp) }, nil
}

// seatbelt returns the profile in the system's own language; of two rules for a path
// the later one counts.
func (p Profile) seatbelt(temp string) string {
	var b strings.Builder
	rule := func(action string, paths ...string) {
		for _, path := range paths {
			fmt.Fprintf(&b, "(%s (subpath %s))\n", action, quoted(path))
		}
	}

	b.WriteString("(version 1)\n(deny default)\n(import \"system.sb\")\n(allow process-fork)\n(allow process-exec)\n" +
		"(allow signal (target same-sandbox))\n(allow sysctl-read)\n(allow file-read-metadata)\n" +
		"(allow file-read* file-write-data (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/tty\"))\n")
	rule("allow file-read*", "/usr", "/bin", "/sbin", "/opt", "/System", "/Library/Developer", "/Library/Apple",
		"/private/etc/ssl", "/private/var/db/dyld", "/private/var/select")
	rule("allow file-read*", p.ReadOnly...)
	rule("allow file-read* file-write*", append([]string{p.Workspace, temp}, p.ReadWrite...)...)

	for _, path := range p.ReadOnly {
		if within(path, p.Workspace) {
			rule("deny file-write*", path)
		}
	}

	rule("deny file-read* file-write*", p.Protected...)
	// The Keychain answers every program of the user.
	b.WriteString("(deny mach-lookup (global-name \"com.apple.SecurityServer\") (global-name \"com.apple.securityd.xpc\"))\n")
	if p.Network == NetHost {
		b.WriteString("(allow network*)\n(allow file-read* (literal \"/private/etc/resolv.conf\") (literal \"/private/etc/hosts\"))\n" +
			"(allow mach-lookup (global-name \"com.apple.mDNSResponder\") (global-name \"com.apple.SystemConfiguration.DNSConfiguration\"))\n")
	}
	return b.String()
}

// seatbeltHide leaves everything as it is but the protected places, and opens
// again what the command may use inside of them.
func (p Profile) seatbeltHide() string {
	var b strings.Builder
	b.WriteString("(version 1)\n(allow default)\n")
	for _, path := range p.Protected {
		fmt.Fprintf(&b, "(deny file-read* file-write* (subpath %s))\n", quoted(path))
	}

	for _, path := range append([]string{p.Workspace}, p.ReadWrite...) {
		fmt.Fprintf(&b, "(allow file-read* file-write* (subpath %s))\n", quoted(path))
	}

	for _, path := range p.ReadOnly {
		fmt.Fprintf(&b, "(allow file-read* (subpath %s))\n", quoted(path))
	}

	for _, path := range p.Protected { // what is closed inside of what was opened
		if within(path, p.Workspace) {
			fmt.Fprintf(&b, "(deny file-read* file-write* (subpath %s))\n", quoted(path))
		}
	}
	return b.String()
}

// quoted returns a string of the profile language.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
