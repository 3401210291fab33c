package security_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
)

// placeAttempts put something else in place of a folder that the running
// gateway opens, and try what can be done with devices.
func placeAttempts() []attempt {
	var list []attempt
	for _, place := range []string{"memory", "sessions", "skills", "project", "cron", "generated", "media", "share", ".git", ".nanobot/tool-results"} {
		list = append(list, attempt{
			route: fmt.Sprintf("a gateway runs: a command puts a FIFO in place of the folder `%s`", place), expect: "contained: the gateway goes on answering, also after a restart",
			own: []string{".nanobot/workspace/.git"}, // a clean command may do anything to the owner's repository
			config: func(a *trial) {
				a.chats()
				a.write(filepath.Join(a.ws, "project", "a.txt"), "mine\n")
			},
			run: func(a *trial) {
				a.gate.start()
				a.gate.say(ada, "install the package", a.pkg(fmt.Sprintf(`P=%s; rm -rf "$P"; mv "$P" .aside; mkdir -p "$(dirname "$P")"; mkfifo "$P"; ls -ld "$P"`, place)))
				inside := place + "/a.txt"
				a.gate.say(ada, "go on", read(inside), write(inside, "x"), patch(place+"/b/c.txt", "x"), call{"edit_file", edit(inside, "mine", "yours")}, call{"list_dir", jsonOf("path", place)},
					call{"grep", `{"pattern":"mine","path":".","output_mode":"content"}`}, call{"glob", `{"pattern":"**/*.txt"}`}, call{"message", fmt.Sprintf(`{"content":"x","media":[%q]}`, inside)}, sh("ls"))
				a.gate.tg.Say(ada, "/undo force")
				a.gate.say(ada, "and then?", call{"search_sessions", `{"query":"weather"}`})
				a.gate.start()
				got := a.gate.say(ada, "are you there?", read("notes.txt"))
				a.backup()
				if len(a.void) > 0 || !strings.Contains(got, "Buy milk.") {
					a.broke("the gateway does not answer: %q %v", got, a.void)
				}
			},
		})
	}
	return append(list, deviceAttempts()...)
}

// deviceAttempts use only orders that change nothing if they are carried out:
// a device gets the mode and the owner that it has.
func deviceAttempts() []attempt {
	var list []attempt
	for _, device := range []string{"/dev/null", "/dev/zero", "/dev/urandom", "/dev/full", "/dev/tty"} {
		list = append(list, attempt{
			route: fmt.Sprintf("a command changes the mode, the owner and the times of `%s`", device), expect: "contained: a device of the machine is not changed",
			run: func(a *trial) {
				before, err := os.Stat(device)
				if err != nil {
					a.shows(false, "%v", err)
					return
				}
				st, _ := before.Sys().(*syscall.Stat_t)
				a.turn("install the package", a.pkg(fmt.Sprintf(`chmod %o %s && echo changed-the-mode; chown %d:%d %s && echo changed-the-owner; touch -c -r %s %s && echo changed-the-times; ls -l %s; echo tried`,
					before.Mode().Perm(), device, st.Uid, st.Gid, device, device, device, device)))
				got := strings.Join(a.model.lastResults(), "\n")
				a.shows(strings.Contains(got, "tried"), "it did not try: %s", got)
				for _, what := range []string{"changed-the-mode", "changed-the-owner"} {
					if strings.Contains(got, what) {
						a.broke("a command has %s of %s", what, device)
					}
				}
				after, err := os.Stat(device)
				if err != nil || after.Mode() != before.Mode() {
					a.broke("%s was %v and is %v, %v", device, before.Mode(), after, err)
				}
			},
		})
	}
	for _, c := range [][2]string{
		{"a device node for the disk", `mknod d b 8 0; mknod d2 b 253 0; mknod d3 b 259 0; for d in d d2 d3; do dd if=$d of=got bs=512 count=1 && echo got-a-device; done`},
		{"a device node for memory", `mknod m c 1 1; mknod k c 1 2; mknod p c 1 4; for d in m k p; do dd if=$d of=got bs=16 count=1 && echo got-a-device; done`},
		{"a device node in its `/tmp` and `/dev/shm`", `for d in /tmp /dev/shm ~; do mknod $d/z c 1 5 && head -c 4 $d/z | wc -c | grep 4 && echo got-a-device; done`},
		{"a device node made in namespaces of its own", `unshare -rm sh -c 'mknod n c 1 5 && head -c 4 n | wc -c | grep 4 && echo got-a-device; mount -t devtmpfs x /mnt && ls /mnt && echo got-a-device'`},
	} {
		list = append(list, attempt{
			route: "a command makes " + c[0], expect: "refused by the kernel, and nothing reads it",
			run: func(a *trial) {
				a.turn("install the package", a.pkg(c[1]))
				if strings.Contains(strings.Join(a.model.lastResults(), "\n"), "got-a-device") {
					a.broke("it has a device")
				}
				a.housework()
			},
		})
	}
	list = append(list, attempt{
		route: "a socket of another program lies in the workspace, and one a command made; tools read, send and list them", expect: "refused: only regular files are opened",
		run: func(a *trial) {
			l, err := listenUnix(filepath.Join(a.ws, "s"))
			if err != nil {
				a.shows(false, "%v", err)
				return
			}
			defer l.Close()
			a.turn("look", a.pkg(`python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("mine")'`), read("s"), read("mine"), write("s", "x"), call{"message", `{"content":"x","media":["s"]}`}, call{"edit_file", edit("mine", "a", "b")},
				call{"grep", `{"pattern":"x","path":".","output_mode":"content"}`}, call{"list_dir", `{"path":"."}`})
			if n := l.visits.Load(); n > 0 {
				a.broke("the program spoke to a socket of the workspace %d times", n)
			}
			if info, err := os.Lstat(filepath.Join(a.ws, "s")); err != nil || info.Mode()&os.ModeSocket == 0 {
				a.broke("the socket was replaced: %v", err)
			}
			a.housework()
		},
	})
	return list
}

// counting is a socket that counts who speaks to it.
type counting struct {
	net.Listener
	visits atomic.Int64
	done   chan struct{}
}

// listenUnix opens a socket under a name that may be long.
func listenUnix(path string) (*counting, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))) //nolint:noctx // at once
	if err != nil {
		return nil, err
	}
	c := &counting{Listener: l, done: make(chan struct{})}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the descriptor in its name is closed
	}
	go func() {
		defer close(c.done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.visits.Add(1)
			_ = conn.Close()
		}
	}()
	return c, nil
}

func (c *counting) Close() error {
	err := c.Listener.Close()
	<-c.done
	return err
}
