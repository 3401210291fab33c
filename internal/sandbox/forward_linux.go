package sandbox

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nanobot-go/nanobot/internal/sandbox/launcher"
)

// proxyPort is where the proxy is inside a private network, in which nothing
// else listens.
const proxyPort = 3128

// proxyVariables point programs at the proxy. Programs disagree about the case.
func proxyVariables() []string {
	var out []string
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		out = append(out, fmt.Sprintf("%s=http://127.0.0.1:%d", name, proxyPort))
	}
	return append(out, "no_proxy=localhost,127.0.0.1,::1", "NO_PROXY=localhost,127.0.0.1,::1",
		fmt.Sprintf("RSYNC_PROXY=127.0.0.1:%d", proxyPort),
		"NODE_USE_ENV_PROXY=1", // else its own fetch does not look at the others
	)
}

// innerCerts is where the certificates of a proxy are for a command.
const innerCerts = "/run/nanobot-certs.pem"

// certVariables point programs at the certificates. Those that are not named
// here read the file of the system, which is replaced as well.
func certVariables() []string {
	const list = `SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE PIP_CERT NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO CARGO_HTTP_CAINFO
		AWS_CA_BUNDLE DENO_CERT HEX_CACERTS_PATH PERL_LWP_SSL_CA_FILE COMPOSER_CAFILE npm_config_cafile`
	var out []string
	for name := range strings.FieldsSeq(list) {
		out = append(out, name+"="+innerCerts)
	}
	return append(out, "npm_config_audit=false") // it would send the list of packages
}

// systemCerts are the files that programs read certificates from.
func systemCerts() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem", "/etc/pki/tls/cert.pem", "/var/lib/ca-certificates/ca-bundle.pem",
	}
}

// certPlaces puts the certificates of the proxy where programs look for them.
func (p *plan) certPlaces() []place {
	if p.Profile.Network != NetProxy || p.Profile.ProxyCerts == "" {
		return nil
	}
	source := p.Profile.ProxyCerts
	out := []place{{at: innerCerts, kind: bindRead, source: source}}
	shown := slices.Concat(systemPaths(), etcPaths())
	replace := func(at string) {
		same := func(e place) bool { return e.at == at }
		if !slices.ContainsFunc(out, same) {
			out = append(out, place{at: at, kind: bindRead, source: source})
		}
	}
	for _, name := range systemCerts() {
		// Nothing is put behind a link: what it leads to is replaced.
		target, err := filepath.EvalSymlinks(name)
		if err != nil || !slices.ContainsFunc(shown, func(dir string) bool { return within(target, dir) }) {
			continue
		}
		replace(target)
		if direct, err := os.Readlink(name); err == nil && slices.Contains(etcPaths(), name) && !intoUsr(name, direct) {
			replace(name) // it is not a link inside
		}
	}
	return out
}

// network prepares the private network: the loopback interface and, for a
// proxy, a listener whose other side is outside.
func (p *plan) network(out *launcher.Program) {
	if p.Spaces&unix.CLONE_NEWNET == 0 {
		return
	}
	request := struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: unix.IFF_UP | unix.IFF_RUNNING}
	copy(request.name[:], "lo")
	s := &out.Setup
	s.Add("make", "a socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0).Save = true
	s.Add("start", "the loopback interface", unix.SYS_IOCTL, launcher.Saved, unix.SIOCSIFFLAGS, launcher.Put(out, request))
	s.Add("close", "a socket", unix.SYS_CLOSE, launcher.Saved)
	if p.Profile.Network != NetProxy {
		return
	}
	listen(out, s, launcher.PassFD)
	var message unix.Msghdr
	message.SetIovlen(1)
	control := unix.UnixRights(launcher.PassFD)
	message.SetControllen(len(control))
	var vector unix.Iovec
	vector.SetLen(1)
	data, rights := launcher.Put(out, byte(1)), launcher.PutList(out, control)
	iov, at := launcher.Put(out, vector), launcher.Put(out, message)
	out.Point(iov+launcher.Ref(unsafe.Offsetof(vector.Base)), data)
	out.Point(at+launcher.Ref(unsafe.Offsetof(message.Iov)), iov)
	out.Point(at+launcher.Ref(unsafe.Offsetof(message.Control)), rights)
	s.Add("hand over", "the listener", unix.SYS_SENDMSG, launcher.SendFD, at, 0)
	s.Add("close", "a socket", unix.SYS_CLOSE, launcher.PassFD)
}

// listen adds the steps that make a listener for the proxy.
func listen(out *launcher.Program, s *launcher.Script, fd int) {
	address := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: inOrder(proxyPort), Addr: [4]byte{127, 0, 0, 1}}
	s.Add("make", "a socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0).Save = true
	s.Add("bind", "the proxy port", unix.SYS_BIND, launcher.Saved, launcher.Put(out, address), unsafe.Sizeof(address))
	s.Add("listen on", "the proxy port", unix.SYS_LISTEN, launcher.Saved, launcher.MaxForwards)
	s.Add("keep", "the listener", unix.SYS_DUP3, launcher.Saved, fd, unix.O_CLOEXEC)
	s.Add("close", "a socket", unix.SYS_CLOSE, launcher.Saved)
}

// inOrder puts a port into the order of the network.
func inOrder(port uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, port))
}
