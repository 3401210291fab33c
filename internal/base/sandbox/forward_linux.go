package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
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

// systemCerts returns the files that programs read certificates from.
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
// proxy, a listener that the child sends out.
func (p *plan) network(out *routine, send int) {
	if p.Spaces&unix.CLONE_NEWNET == 0 {
		return
	}

	request := struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: unix.IFF_UP | unix.IFF_RUNNING}

	copy(request.name[:], "lo")
	s := &out.setup
	s.add("make", "a socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0).save = true
	s.add("start", "the loopback interface", unix.SYS_IOCTL, saved, unix.SIOCSIFFLAGS, hold(out, request))
	s.add("close", "a socket", unix.SYS_CLOSE, saved)
	if p.Profile.Network != NetProxy {
		return
	}

	address := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: inOrder(proxyPort), Addr: [4]byte{127, 0, 0, 1}}
	s.add("make", "a socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0).save = true
	s.add("bind", "the proxy port", unix.SYS_BIND, saved, hold(out, address), unsafe.Sizeof(address))
	s.add("listen on", "the proxy port", unix.SYS_LISTEN, saved, maxForwards)
	s.add("keep", "the listener", unix.SYS_DUP3, saved, passFD, unix.O_CLOEXEC)
	s.add("close", "a socket", unix.SYS_CLOSE, saved)
	rights := unix.UnixRights(passFD)
	vector := unix.Iovec{Base: new(byte)}
	vector.SetLen(1)
	message := unix.Msghdr{Iov: &vector, Control: &rights[0]}
	message.SetIovlen(1)
	message.SetControllen(len(rights))
	s.add("hand over", "the listener", unix.SYS_SENDMSG, send, hold(out, message), 0)
	s.add("close", "a socket", unix.SYS_CLOSE, passFD)
}

// inOrder puts a port into the order of the network.
func inOrder(port uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, port))
}

// maxForwards bounds the connections of one command to its proxy.
const maxForwards = 64

// forwardFrom receives the listener that a child made and carries its
// connections to a socket, until the helper ends.
func forwardFrom(from int, socket string) error {
	data, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n, cn, _, _, err := unix.Recvmsg(from, data, control, unix.MSG_CMSG_CLOEXEC)
	_ = unix.Close(from)
	if err != nil || n == 0 {
		return errors.New("no listener for the proxy was made")
	}

	messages, err := unix.ParseSocketControlMessage(control[:cn])
	if err != nil || len(messages) == 0 {
		return errors.New("no listener for the proxy came over")
	}

	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return errors.New("no listener for the proxy came over")
	}

	file := os.NewFile(uintptr(fds[0]), "listener")
	defer func() { _ = file.Close() }()
	l, err := net.FileListener(file)
	if err != nil {
		return err
	}

	go forward(l, socket)
	return nil
}

// forwardInner is the same for the network that bubblewrap made, in which the
// helper itself is.
func forwardInner(socket string) error {
	l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(proxyPort)) //nolint:noctx // it does not wait
	if err != nil {
		return err
	}
	go forward(l, socket)
	return nil
}

// forward carries connections made inside the private network to the proxy. It
// does not look at what they carry: the proxy decides.
func forward(l net.Listener, socket string) {
	slots := make(chan struct{}, maxForwards)
	for {
		slots <- struct{}{}
		in, err := l.Accept()
		if errors.Is(err, unix.ECONNABORTED) {
			<-slots
			continue
		}
		if err != nil {
			return
		}

		go func() {
			defer func() { <-slots }()
			carry(in, socket)
		}()
	}
}

// carry joins a connection with one to the proxy.
func carry(in net.Conn, socket string) {
	defer func() { _ = in.Close() }()
	out, err := net.Dial("unix", socket) //nolint:noctx // it does not wait
	if err != nil {
		return
	}

	defer func() { _ = out.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(out, in)
		halfClose(out)
	}()

	_, _ = io.Copy(in, out)
	halfClose(in)
	<-done
}

// halfClose says that no more will be written.
func halfClose(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
