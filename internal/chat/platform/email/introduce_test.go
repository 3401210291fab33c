package email

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

// Some providers open no mailbox for a program that did not say who it is.
func TestIntroducesItself(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		suspicious(conn)
	})
	defer wg.Wait()
	defer l.Close()
	r := newRig(t, newProvider(t, serverOptions{}), nil)
	r.o.IMAPPort = l.Addr().(*net.TCPAddr).Port
	m, err := r.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.close()
}

// suspicious is a server that opens the mailbox only after ID.
func suspicious(conn net.Conn) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(conn, format+"\r\n", args...) }
	say("* OK [CAPABILITY IMAP4rev1 ID AUTH=PLAIN] ready")
	known := false
	for in := bufio.NewScanner(conn); in.Scan(); {
		tag, rest, _ := strings.Cut(in.Text(), " ")
		switch verb, _, _ := strings.Cut(strings.ToUpper(rest), " "); verb {
		case "AUTHENTICATE":
			say("+ ")
			in.Scan()
			say("%s OK [CAPABILITY IMAP4rev1 ID] in", tag)
		case "CAPABILITY":
			say("* CAPABILITY IMAP4rev1 ID")
			say("%s OK done", tag)
		case "ID":
			known = strings.Contains(rest, `"nanobot"`)
			say("* ID NIL")
			say("%s OK done", tag)
		case "SELECT":
			if !known {
				say("%s NO SELECT Unsafe Login. Please contact the provider for help", tag)
				continue
			}
			say("* 0 EXISTS")
			say("* FLAGS (\\Seen)")
			say("* OK [UIDVALIDITY 7] ok")
			say("* OK [UIDNEXT 1] ok")
			say("%s OK [READ-WRITE] done", tag)
		case "LOGOUT":
			say("* BYE see you")
			say("%s OK done", tag)
			return
		default:
			say("%s BAD what?", tag)
		}
	}
}
