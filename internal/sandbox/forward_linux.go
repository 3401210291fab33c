package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// proxyPort is where the proxy is inside a private network, in which
	// nothing else listens.
	proxyPort = 3128
	// maxForwards bounds the connections of one command.
	maxForwards = 64
)

// proxyVariables point programs at the proxy. Programs disagree about the case.
func proxyVariables() []string {
	var out []string
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		out = append(out, fmt.Sprintf("%s=http://127.0.0.1:%d", name, proxyPort))
	}
	return append(out, "no_proxy=localhost,127.0.0.1,::1", "NO_PROXY=localhost,127.0.0.1,::1")
}

// network prepares the private network: the loopback interface and, for a
// proxy, a listener whose other side is outside.
func (h *helper) network(s *script) error {
	if h.plan.Spaces&unix.CLONE_NEWNET == 0 {
		return nil
	}
	request := &struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: unix.IFF_UP | unix.IFF_RUNNING}
	copy(request.name[:], "lo")
	s.add("socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0).save = true
	s.add("start the loopback interface", unix.SYS_IOCTL, saved, unix.SIOCSIFFLAGS, unsafe.Pointer(request))
	s.add("close", unix.SYS_CLOSE, saved)
	if h.plan.Profile.Network != NetProxy {
		return nil
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	h.receive, h.send = pair[0], pair[1]
	h.forward = &forwarder{socket: h.plan.Profile.ProxySocket}
	address := &unix.RawSockaddrInet4{Family: unix.AF_INET, Port: swap(proxyPort), Addr: [4]byte{127, 0, 0, 1}}
	s.add("socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0).save = true
	s.add("bind the proxy port", unix.SYS_BIND, saved, unsafe.Pointer(address), unsafe.Sizeof(*address))
	s.add("listen on the proxy port", unix.SYS_LISTEN, saved, maxForwards)
	s.add("dup", unix.SYS_DUP3, saved, passFD, unix.O_CLOEXEC)
	s.add("close", unix.SYS_CLOSE, saved)
	rights := unix.UnixRights(passFD)
	s.pin.Pin(&rights[0])
	data := []byte{1}
	s.pin.Pin(&data[0])
	vector := &unix.Iovec{Base: &data[0]}
	vector.SetLen(1)
	s.pin.Pin(vector)
	message := &unix.Msghdr{Iov: vector, Control: &rights[0]}
	message.SetIovlen(1)
	message.SetControllen(len(rights))
	s.add("hand over the listener", unix.SYS_SENDMSG, h.send, unsafe.Pointer(message), 0)
	s.add("close", unix.SYS_CLOSE, passFD)
	return nil
}

// swap puts a port into network order.
func swap(port uint16) uint16 {
	b := [2]byte{byte(port >> 8), byte(port)}
	return *(*uint16)(unsafe.Pointer(&b))
}

// forwarder carries connections made inside the private network to the proxy.
// It does not look at what they carry: the proxy decides.
type forwarder struct {
	socket string
	slots  chan struct{}
}

// start receives the listener from the child.
func (f *forwarder) start(from int) error {
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
	return f.listen(fds[0])
}

// listen serves a listening socket until the helper ends.
func (f *forwarder) listen(fd int) error {
	file := os.NewFile(uintptr(fd), "listener")
	l, err := net.FileListener(file)
	_ = file.Close()
	if err != nil {
		return fmt.Errorf("listener: %w", err)
	}
	go f.serve(l)
	return nil
}

func (f *forwarder) serve(l net.Listener) {
	f.slots = make(chan struct{}, maxForwards)
	for {
		f.slots <- struct{}{}
		in, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { <-f.slots }()
			f.carry(in)
		}()
	}
}

func (f *forwarder) carry(in net.Conn) {
	defer func() { _ = in.Close() }()
	var d net.Dialer
	out, err := d.Dial("unix", f.socket)
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

func halfClose(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
	}
}
