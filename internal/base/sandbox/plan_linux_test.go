package sandbox

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPlanTravels writes down names of any bytes and reads them again.
func TestPlanTravels(t *testing.T) {
	t.Parallel()
	p := plan{
		Profile: Profile{
			Workspace: "/w \xff\xfe", ReadOnly: []string{"/a\n", "/é"}, ReadWrite: []string{"/\x00x"}, Protected: []string{"/p\xc3"},
			Network: NetProxy, ProxySocket: "/s\x80", ProxyCerts: "/c", Limits: Limits{Processes: 3},
		},
		Command: "/bin/\xf0", Dir: "/d", Home: "/h", Temp: "/t\xff", Links: []string{"/from", "/to"},
		Spaces: unix.CLONE_NEWUSER | unix.CLONE_NEWNET, identity: identity{UID: 7, GID: 8, Agent: 9, Group: 10}, DropEnv: 1, Version: planVersion,
	}
	before := slices.Clone(p.Profile.ReadOnly)
	data, err := p.encode()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Profile.ReadOnly, before) {
		t.Errorf("the plan itself has changed: %q", p.Profile.ReadOnly)
	}
	got, err := decodePlan(bytes.NewReader(data))
	if err != nil || !reflect.DeepEqual(*got, p) {
		t.Errorf("%v: got %+v, want %+v", err, got, p)
	}
	other := bytes.Replace(data, []byte(`"Version":5`), []byte(`"Version":4`), 1)
	if _, err := decodePlan(bytes.NewReader(other)); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("a plan of another version: %v", err)
	}
	for i := range data {
		if _, err := decodePlan(bytes.NewReader(data[:i])); err == nil {
			t.Errorf("%d of %d bytes were a plan", i, len(data))
		}
	}
}

func TestPerform(t *testing.T) {
	t.Parallel()
	r := newRoutine()
	s := &r.run
	lax := s.add("open", "nothing", unix.SYS_OPENAT, atCWD, "/nowhere/file", 0, 0)
	lax.lax, lax.skip = true, 1
	s.add("left", "out", unix.SYS_CLOSE, 1<<20)
	s.add("be", "fine", unix.SYS_CLOSE, 1<<20).fine = unix.EBADF
	s.add("open", "null", unix.SYS_OPENAT, atCWD, "/dev/null", unix.O_CLOEXEC, 0).save = true
	s.add("close", "null", unix.SYS_CLOSE, saved)
	s.add("fail", "here", unix.SYS_CLOSE, 1<<20)
	i, e := perform(s.steps)
	if i != 5 || e != unix.EBADF {
		t.Errorf("step %d, %v; want 5, %v", i, e, unix.EBADF)
	}
	for c, want := range map[complaint]string{
		{scriptRun, i, e}:                 "fail here: bad file descriptor",
		{scriptLeave, -1, syscall.EAGAIN}: "start the command: resource temporarily unavailable",
		{9, 9, syscall.EIO}:               "start the command: input/output error",
	} {
		if got := r.explain(c).Error(); got != want {
			t.Errorf("%v: %q, want %q", c, got, want)
		}
	}
}
