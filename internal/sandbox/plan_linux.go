package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// plan is what the agent tells the helper. It travels through a pipe, which
// then stays open: its end means that the agent has ended.
type plan struct {
	Profile Profile
	Dir     string
	Home    string
	Temp    string   // private temporary directory of this call
	Links   []string // pairs: a name of the profile that is a link, and where it leads
	Spaces  int64    // namespaces to make, as flags of clone
	NoProc  bool     // no process file system can be mounted
	PIDMax  bool     // the number of processes is a setting of the process namespace
	ABI     int64    // of Landlock; 0 leaves it out
	Inner   bool     // bubblewrap has made the namespaces
	OwnNet  bool     // Inner, and the network is a private one
	Trial   bool     // do everything but run the command
	DropEnv int64    // leading variables meant for the helper alone
}

const (
	planVersion = 1
	// maxPlan is what fits into a pipe that nobody reads yet.
	maxPlan = 60 << 10
)

// fields visits everything of a plan in order. The same list writes and reads
// it: JSON would take the helper longer than the work itself.
func (p *plan) fields(c *codec) {
	f := &p.Profile
	for _, s := range []*string{&f.Workspace, &f.ProxySocket, (*string)(&f.Network), &p.Dir, &p.Home, &p.Temp} {
		c.text(s)
	}
	for _, l := range []*[]string{&f.ReadOnly, &f.ReadWrite, &f.Protected, &p.Links} {
		c.list(l)
	}
	for _, b := range []*bool{&p.NoProc, &p.PIDMax, &p.Inner, &p.OwnNet, &p.Trial} {
		c.flag(b)
	}
	l := &f.Limits
	for _, n := range []*int64{&p.Spaces, &p.ABI, &p.DropEnv, &l.Processes, &l.Memory, &l.FileSize, &l.Files, &l.CPU} {
		c.number(n)
	}
}

// codec writes values after each other when reading is false, and reads them
// back otherwise. The first thing that does not fit makes it fail for good.
type codec struct {
	reading, failed bool
	data            []byte
}

func (c *codec) number(n *int64) {
	if !c.reading {
		c.data = binary.AppendVarint(c.data, *n)
		return
	}
	v, size := binary.Varint(c.data)
	if size <= 0 {
		c.failed, size = true, len(c.data)
	}
	*n, c.data = v, c.data[size:]
}

func (c *codec) flag(b *bool) {
	var n int64
	if *b {
		n = 1
	}
	c.number(&n)
	*b = n == 1
}

func (c *codec) text(s *string) {
	n := int64(len(*s))
	c.number(&n)
	switch {
	case !c.reading:
		c.data = append(c.data, *s...)
	case n < 0 || n > int64(len(c.data)):
		c.failed = true
	default:
		*s, c.data = string(c.data[:n]), c.data[n:]
	}
}

func (c *codec) list(l *[]string) {
	n := int64(len(*l))
	c.number(&n)
	if c.reading {
		if n < 0 || n > int64(len(c.data)) { // each takes a byte at least
			c.failed = true
			return
		}
		*l = make([]string, n)
	}
	for i := range *l {
		c.text(&(*l)[i])
	}
}

func (p *plan) write(w io.Writer) error {
	c := codec{data: make([]byte, 5, 4096)}
	p.fields(&c)
	if len(c.data) > maxPlan {
		return errors.New("the profile names too many paths")
	}
	c.data[0] = planVersion
	binary.BigEndian.PutUint32(c.data[1:], uint32(len(c.data)-5)) //nolint:gosec // bounded above
	_, err := w.Write(c.data)
	return err
}

func readPlan(r io.Reader) (*plan, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	if head[0] != planVersion {
		return nil, errors.New("the helper is of another version than the agent; restart the agent")
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxPlan {
		return nil, errors.New("not a plan")
	}
	c := codec{reading: true, data: make([]byte, n)}
	if _, err := io.ReadFull(r, c.data); err != nil {
		return nil, err
	}
	p := new(plan)
	if p.fields(&c); c.failed || len(c.data) > 0 {
		return nil, errors.New("not a plan")
	}
	return p, nil
}

// rootDir is where the new file system is put together: a directory that every
// machine has and nothing is taken from.
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

// systemPaths are the directories programs live in.
func systemPaths() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu", "/snap"}
}

// etcPaths are the settings ordinary programs read. Accounts, keys, tokens and
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

// accounts are stand-ins for the user and group lists: one user, and nobody.
func (p *plan) accounts() map[string]string {
	uid, gid := os.Getuid(), os.Getgid()
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

// hidden lists the protected paths that a grant would otherwise show.
func (p *plan) hidden() []string {
	granted := slices.Concat([]string{p.Profile.Workspace}, p.Profile.ReadOnly, p.Profile.ReadWrite, systemPaths(), etcPaths())
	return slices.DeleteFunc(slices.Clone(p.Profile.Protected), func(path string) bool {
		return !slices.ContainsFunc(granted, func(dir string) bool { return within(path, dir) })
	})
}
