package launcher

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// MaxForwards bounds the connections of one command to its proxy.
const MaxForwards = 64

// forwarder carries connections made inside the private network to the proxy.
// It does not look at what they carry: the proxy decides. It does without
// package net, whose start the launcher would have to wait for.
type forwarder struct {
	socket string
}

// start receives the listener from the child.
func (f *forwarder) start(from int) error {
	data, control := make([]byte, 1), make([]byte, syscall.CmsgSpace(4))
	n, cn, _, _, err := syscall.Recvmsg(from, data, control, syscall.MSG_CMSG_CLOEXEC)
	_ = syscall.Close(from)
	if err != nil || n == 0 {
		return errors.New("no listener for the proxy was made")
	}
	messages, err := syscall.ParseSocketControlMessage(control[:cn])
	if err != nil || len(messages) == 0 {
		return errors.New("no listener for the proxy came over")
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return errors.New("no listener for the proxy came over")
	}
	f.listen(fds[0])
	return nil
}

// listen serves a listening socket until the launcher ends.
func (f *forwarder) listen(fd int) {
	go func() {
		slots := make(chan struct{}, MaxForwards)
		for {
			slots <- struct{}{}
			in, _, err := syscall.Accept4(fd, syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK)
			if errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ECONNABORTED) {
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
	other, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	if syscall.Connect(other, &syscall.SockaddrUnix{Name: f.socket}) != nil || syscall.SetNonblock(other, true) != nil {
		_ = syscall.Close(other)
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
		_ = raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_WR) })
	}
}
