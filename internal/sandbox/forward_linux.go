package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	s.add("make", "a socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0).save = true
	s.add("start", "the loopback interface", unix.SYS_IOCTL, saved, unix.SIOCSIFFLAGS, unsafe.Pointer(request))
	s.add("close", "a socket", unix.SYS_CLOSE, saved)
	if h.plan.Profile.Network != NetProxy {
		return nil
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	h.receive, h.send = pair[0], pair[1]
	h.forward = &forwarder{socket: h.plan.Profile.ProxySocket}
	address := &unix.RawSockaddrInet4{Family: unix.AF_INET, Port: inOrder(proxyPort), Addr: [4]byte{127, 0, 0, 1}}
	s.add("make", "a socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0).save = true
	s.add("bind", "the proxy port", unix.SYS_BIND, saved, unsafe.Pointer(address), unsafe.Sizeof(*address))
	s.add("listen on", "the proxy port", unix.SYS_LISTEN, saved, maxForwards)
	s.add("keep", "the listener", unix.SYS_DUP3, saved, passFD, unix.O_CLOEXEC)
	s.add("close", "a socket", unix.SYS_CLOSE, saved)
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
	s.add("hand over", "the listener", unix.SYS_SENDMSG, h.send, unsafe.Pointer(message), 0)
	s.add("close", "a socket", unix.SYS_CLOSE, passFD)
	return nil
}

// inOrder puts a port into the order of the network.
func inOrder(port uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, port))
}

// forwarder carries connections made inside the private network to the proxy.
// It does not look at what they carry: the proxy decides. It does without
// package net, whose start the helper would have to wait for.
type forwarder struct {
	socket string
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
	f.listen(fds[0])
	return nil
}

// listen serves a listening socket until the helper ends.
func (f *forwarder) listen(fd int) {
	go func() {
		slots := make(chan struct{}, maxForwards)
		for {
			slots <- struct{}{}
			in, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
				<-slots
				continue
			}
			if err != nil {
				return
			}
			go func() {
				defer func() { <-slots }()
				f.carry(in)
			}()
		}
	}()
}

// carry joins a connection with one to the proxy.
func (f *forwarder) carry(fd int) {
	in := os.NewFile(uintptr(fd), "command") // not blocking, so it costs no thread
	defer func() { _ = in.Close() }()
	other, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	if unix.Connect(other, &unix.SockaddrUnix{Name: f.socket}) != nil || unix.SetNonblock(other, true) != nil {
		_ = unix.Close(other)
		return
	}
	out := os.NewFile(uintptr(other), "proxy")
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
func halfClose(f *os.File) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
}
