package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// plan is what the agent tells the helper. It travels through a pipe, which
// then stays open: its end means that the agent has ended.
type plan struct {
	Version int
	Profile Profile
	Dir     string
	Home    string
	Private string            // directory of this call: root (a mount point) and tmp
	Links   map[string]string // names of the profile that are links, and where they lead
	Spaces  uintptr           // namespaces to make, as flags of clone
	NoProc  bool              // no process file system can be mounted
	PIDMax  bool              // the number of processes is a setting of the process namespace
	ABI     int               // of Landlock; 0 leaves it out
	Inner   bool              // bubblewrap has made the namespaces
	OwnNet  bool              // Inner, and the network is a private one
	Trial   bool              // do everything but run the command
	DropEnv int               // leading variables meant for the helper alone
}

const (
	planVersion = 1
	// maxPlan is what fits into a pipe that nobody reads yet.
	maxPlan = 60 << 10
)

func (p *plan) write(w io.Writer) error {
	p.Version = planVersion
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if len(data) > maxPlan {
		return errors.New("the profile names too many paths")
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)) //nolint:gosec // bounded above
	return err
}

func readPlan(r io.Reader) (*plan, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxPlan {
		return nil, errors.New("not a plan")
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	p := new(plan)
	if err := json.Unmarshal(data, p); err != nil {
		return nil, err
	}
	if p.Version != planVersion {
		return nil, errors.New("the helper is of another version than the agent; restart the agent")
	}
	return p, nil
}

func (p *plan) rootDir() string { return filepath.Join(p.Private, "root") }
func (p *plan) tempDir() string { return filepath.Join(p.Private, "tmp") }

func (p *plan) ownNet() bool   { return p.Spaces&unix.CLONE_NEWNET != 0 || p.OwnNet }
func (p *plan) ownFiles() bool { return p.Spaces&unix.CLONE_NEWNS != 0 || p.Inner }

// systemPaths are the directories programs live in.
func systemPaths() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu", "/snap"}
}

// etcPaths are the settings ordinary programs read. Accounts, keys, tokens and
// the settings of services are not among them.
func etcPaths() []string {
	const list = `alternatives bash.bashrc bash_completion.d bashrc ca-certificates ca-certificates.conf
		crypto-policies debian_version environment.d fonts gai.conf gitattributes gitconfig host.conf hosts
		hostname inputrc java-8-openjdk java-11-openjdk java-17-openjdk java-21-openjdk ld.so.cache ld.so.conf ld.so.conf.d
		locale.alias locale.conf localtime login.defs lsb-release magic magic.mime mailcap manpath.config maven
		mime.types nsswitch.conf os-release perl pki/ca-trust pki/tls/cert.pem pki/tls/certs pki/tls/openssl.cnf profile profile.d
		protocols python2.7 python3 resolv.conf rpc services shells skel ssl/cert.pem ssl/certs ssl/openssl.cnf
		static terminfo texmf timezone xattr.conf xdg zsh`
	var out []string
	for name := range strings.FieldsSeq(list) {
		out = append(out, "/etc/"+name)
	}
	return out
}

func devices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
}

// accounts are stand-ins for the user and group lists: one user, and nobody.
func (p *plan) accounts() map[string]string {
	uid, gid := os.Getuid(), os.Getgid()
	home := p.Home
	if home == "" || strings.ContainsAny(home, ":\n") {
		home = "/"
	}
	passwd, group := fmt.Sprintf("nanobot:x:%d:%d:nanobot:%s:/bin/sh\n", uid, gid, home), fmt.Sprintf("nanobot:x:%d:\n", gid)
	if uid != nobody {
		passwd += "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
	}
	if gid != nobody {
		group += "nogroup:x:65534:\n"
	}
	return map[string]string{"/etc/passwd": passwd, "/etc/group": group}
}

const nobody = 65534

// hidden lists the protected paths that a grant would otherwise show.
func (p *plan) hidden() []string {
	granted := slices.Concat([]string{p.Profile.Workspace}, p.Profile.ReadOnly, p.Profile.ReadWrite, systemPaths(), etcPaths())
	return slices.DeleteFunc(slices.Clone(p.Profile.Protected), func(path string) bool {
		return !slices.ContainsFunc(granted, func(dir string) bool { return within(path, dir) })
	})
}
