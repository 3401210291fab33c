package daemon

import (
	"errors"
	"net"
	"os"
	"strconv"
	"time"
)

// Notifier tells the service manager that started us how we are. Without one
// it does nothing.
type Notifier struct {
	addr  string
	every time.Duration
}

// NewNotifier reads what the service manager said in the environment.
func NewNotifier(getenv func(string) string) Notifier {
	n := Notifier{addr: getenv("NOTIFY_SOCKET")}
	us, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if pid := getenv("WATCHDOG_PID"); err == nil && us > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.every = time.Duration(us) * time.Microsecond / 2
	}
	return n
}

// Watchdog returns how often Tell("WATCHDOG=1") is expected; 0 is never.
func (n Notifier) Watchdog() time.Duration { return n.every }

// active reports whether a service manager listens.
func (n Notifier) active() bool { return n.addr != "" }

// Send passes a state such as READY=1 to the service manager.
func (n Notifier) Send(state string) error {
	if n.addr == "" {
		return nil
	}
	if n.addr[0] != '/' && n.addr[0] != '@' {
		return errors.New("NOTIFY_SOCKET is not a local socket")
	}

	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.addr, Net: "unixgram"})
	if err != nil {
		return err
	}

	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
}
