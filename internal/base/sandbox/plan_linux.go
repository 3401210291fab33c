package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// plan holds what one command gets, in terms of this machine.
type plan struct {
	Profile Profile
	Command string // path of the program
	Dir     string
	Home    string
	Temp    string   // private temporary directory of this call
	Links   []string // pairs: a name of the profile that is a link, and where it leads
	Spaces  uintptr  // namespaces to make, as flags of clone
	NoProc  bool     // no process file system can be mounted
	PIDMax  bool     // the number of processes is a setting of the process namespace
	ABI     int      // of Landlock; 0 leaves it out
	Inner   bool     // bubblewrap makes the namespaces
	Hide    bool     // the disk as it is, except what is protected
	OwnNet  bool     // Inner, and the network is a private one
	Trial   bool     // do everything but run the command
	Control int      // descriptor for requests to freeze; 0 without
	Console string   // the terminal of the command; "" without
	DropEnv int      // leading variables meant for the helper alone
	identity
	Version int // of this type

	places []place // see layout
}

// identity are the numbers of a plan that the kernel gives.
type identity struct {
	UID, GID     int // of the command
	Agent, Group int // process number of the agent and its process group
}

// planVersion changes with the meaning of a plan: the helper's file may be newer.
const planVersion = 5

// encode writes the plan down.
func (p *plan) encode() ([]byte, error) {
	c := *p
	c.Version = planVersion
	c.texts(func(s string) string { // a name may be any bytes, and JSON holds characters
		wide := make([]rune, len(s))
		for i := range len(s) {
			wide[i] = rune(s[i])
		}
		return string(wide)
	})

	data, err := json.Marshal(&c)
	if len(data) > maxPlan {
		return nil, errors.New("the profile names too many paths")
	}
	return data, err
}

// maxPlan bounds a plan in bytes: every user may put as much into a pipe.
const maxPlan = 1 << 20

// decodePlan is the opposite of encode.
func decodePlan(from io.Reader) (*plan, error) {
	p := &plan{}
	if err := json.NewDecoder(from).Decode(p); err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	if p.Version != planVersion {
		return nil, errors.New("read the plan: the helper is of another version than the agent; restart the agent")
	}

	p.texts(func(s string) string {
		narrow := make([]byte, 0, len(s))
		for _, r := range s {
			narrow = append(narrow, byte(r)) //nolint:gosec // encode made it from a byte
		}
		return string(narrow)
	})
	return p, nil
}

// texts replaces every text of the plan.
func (p *plan) texts(change func(string) string) {
	f := &p.Profile
	for _, s := range []*string{&p.Command, &p.Dir, &p.Home, &p.Temp, &p.Console, &f.Workspace, &f.ProxySocket, &f.ProxyCerts} {
		*s = change(*s)
	}

	for _, list := range []*[]string{&p.Links, &f.ReadOnly, &f.ReadWrite, &f.Protected} {
		changed := make([]string, len(*list))
		for i, s := range *list {
			changed[i] = change(s)
		}
		*list = changed
	}
}

// rootDir returns where the new file system is put together: a directory that
// every machine has and nothing is taken from.
func (p *plan) rootDir() string {
	for _, dir := range []string{"/sys", "/boot", "/srv", "/media", "/mnt"} {
		used := slices.ContainsFunc(slices.Concat([]string{p.Profile.Workspace, p.Temp}, p.Profile.ReadOnly, p.Profile.ReadWrite),
			func(path string) bool { return within(path, dir) })
		if st, err := os.Stat(dir); err == nil && st.IsDir() && !used {
			return dir
		}
	}
	return p.Temp + "/" // does not work, and says where
}

func (p *plan) ownNet() bool   { return p.Spaces&unix.CLONE_NEWNET != 0 || p.OwnNet }
func (p *plan) ownFiles() bool { return p.Spaces&unix.CLONE_NEWNS != 0 || p.Inner }

// exact reports places that commands may have changed before: they are bound as
// they were looked at, or not at all.
func (p *plan) exact(path string) bool {
	f := p.Profile
	if f.Exact && (path == f.Workspace || slices.Contains(f.ReadOnly, path) || slices.Contains(f.ReadWrite, path)) {
		return true
	}
	return path != f.Workspace && within(path, f.Workspace)
}

// systemPaths returns the directories programs live in.
func systemPaths() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu", "/snap"}
}

// etcPaths returns the settings ordinary programs read. Accounts, keys, tokens and
// the settings of services are not among them.
func etcPaths() []string {
	const list = `alternatives ca-certificates.conf crypto-policies fonts gai.conf gitattributes gitconfig host.conf
		hostname hosts java-8-openjdk java-11-openjdk java-17-openjdk java-21-openjdk java-25-openjdk ld.so.cache
		localtime magic maven mime.types nsswitch.conf os-release pki/ca-trust pki/tls/cert.pem pki/tls/certs
		pki/tls/openssl.cnf profile profile.d protocols resolv.conf services ssl/cert.pem ssl/certs ssl/openssl.cnf
		static terminfo timezone`

	var out []string
	for name := range strings.FieldsSeq(list) {
		out = append(out, "/etc/"+name)
	}
	return out
}

func devices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
}

// accounts are stand-ins for the user and group lists: the user of the command
// and the account "nobody".
func (p *plan) accounts() map[string]string {
	uid, gid := p.UID, p.GID
	home := p.Home
	if home == "" || strings.ContainsAny(home, ":\n") {
		home = "/"
	}

	passwd, group := fmt.Sprintf("nanobot:x:%d:%d:nanobot:%s:/bin/sh\n", uid, gid, home), fmt.Sprintf("nanobot:x:%d:\n", gid)
	if uid != nobody {
		passwd += "nobody" + ":x:65534:65534:nobody:/:/usr/sbin/nologin\n"
	}
	if gid != nobody {
		group += "nogroup:x:65534:\n"
	}
	return map[string]string{"/etc/passwd": passwd, "/etc/group": group}
}

const nobody = 65534

// hidden lists the protected paths that a grant would otherwise show. What lies
// in a hidden folder is hidden with it, unless a grant is in between.
func (p *plan) hidden() []string {
	granted := slices.Concat([]string{p.Profile.Workspace}, p.Profile.ReadOnly, p.Profile.ReadWrite, systemPaths(), etcPaths())
	shown := func(path, below string) bool {
		return slices.ContainsFunc(granted, func(dir string) bool { return within(path, dir) && dir != below && within(dir, below) })
	}
	return slices.DeleteFunc(slices.Clone(p.Profile.Protected), func(path string) bool {
		return !shown(path, "/") || slices.ContainsFunc(p.Profile.Protected, func(around string) bool {
			return around != path && within(path, around) && !shown(path, around)
		})
	})
}
