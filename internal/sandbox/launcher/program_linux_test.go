package launcher

import (
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// TestStartsEarly keeps out what is initialised late: a launcher would have to
// wait for it, and for everything else that happens to come before it.
func TestStartsEarly(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Skipf("no go tool, or no sources: %v", err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		switch dep {
		case "fmt", "strings", "bytes", "unicode", "reflect", "regexp", "net", "os/exec", "path/filepath", "log/slog", "encoding/binary":
			t.Errorf("the launcher depends on %s", dep)
		}
		if strings.Contains(dep, ".") && !strings.HasSuffix(dep, "sandbox/launcher") {
			t.Errorf("the launcher depends on %s", dep)
		}
	}
}

// sample is a program with everything in it.
func sample() *Program {
	p := New()
	p.Spaces, p.Inner, p.Watch, p.PIDMax, p.DropEnv, p.Temp, p.Proxy = 1<<30, true, 7, 307, 1, "/t \xff", "/s"
	p.Before.Add("do", "nothing", syscall.SYS_GETPID)
	p.Setup.Write("/file", "text", true)
	word := Put(p, uintptr(0))
	p.Point(word, p.memory.text("target"))
	numbers := PutList(p, []int32{0, 0, 3})
	p.Own(numbers, false)
	p.Own(numbers+4, true)
	st := p.Run.Add("look at", "a\nname", syscall.SYS_OPENAT, AtCWD, "name", word, nil, 5, uintptr(6))
	st.Fine, st.Skip, st.Save = syscall.ENOENT, 3, true
	p.Run.Add("run", "it", syscall.SYS_EXECVE)
	return p
}

func textAt(at uintptr) string {
	var out []byte
	for ; ; at++ {
		b := *(*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at)))
		if b == 0 {
			return string(out)
		}
		out = append(out, b)
	}
}

func TestProgramTravels(t *testing.T) {
	t.Parallel()
	data, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	p := New()
	if problem := p.decode(data, 4711); problem != "" {
		t.Fatal(problem)
	}
	if p.Spaces != 1<<30 || !p.Inner || p.Watch != 7 || p.PIDMax != 307 || p.DropEnv != 1 || p.Temp != "/t \xff" || p.Proxy != "/s" {
		t.Errorf("got %+v", p)
	}
	for i, want := range []int{1, 3, 0, 2} {
		if got := len(p.scripts()[i].steps); got != want {
			t.Errorf("script %d has %d steps, want %d", i, got, want)
		}
	}
	st := p.Run.steps[0]
	if st.args[0] != AtCWD || textAt(st.args[1]) != "name" || st.args[4] != 5 || st.args[5] != 6 ||
		st.Fine != syscall.ENOENT || st.Skip != 3 || !st.Save || st.Lax {
		t.Errorf("got %+v", st)
	}
	place := *(*unsafe.Pointer)(unsafe.Pointer(&st.args[2]))
	if got := textAt(*(*uintptr)(place)); got != "target" {
		t.Errorf("a pointer leads to %q", got)
	}
	if got := unsafe.Slice((*int32)(unsafe.Pointer(&p.memory.data[p.memory.own[0]])), 3); !slices.Equal(got, []int32{4711, -4711, 3}) {
		t.Errorf("got %v", got)
	}
	for c, want := range map[complaint]string{
		{scriptRun, 0, syscall.ENOENT}:    "look at a\nname: no such file or directory",
		{scriptRun, 1, syscall.EACCES}:    "run it: permission denied",
		{scriptSetup, 2, syscall.EIO}:     "close /file: input/output error",
		{scriptLeave, -1, syscall.EAGAIN}: "start the command: resource temporarily unavailable",
		{9, 9, syscall.EIO}:               "start the command: input/output error",
	} {
		if got := p.explain(c).Error(); got != want {
			t.Errorf("%v: %q, want %q", c, got, want)
		}
	}
}

// TestDamagedProgram cuts a program short and changes bytes of it: an error or
// a program, but no panic.
func TestDamagedProgram(t *testing.T) {
	t.Parallel()
	data, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		if New().decode(slices.Clone(data[:i]), 1) == "" {
			t.Errorf("%d of %d bytes were a program", i, len(data))
		}
		odd := slices.Clone(data)
		odd[i] ^= 0xff
		_ = New().decode(odd, 1)
	}
	big := New()
	for range 20000 {
		big.Setup.Add("bind", "/a/long/path", syscall.SYS_MOUNT, "/a/long/path")
	}
	if _, err := big.Encode(); err == nil {
		t.Error("a program that does not fit was encoded")
	}
}

func TestPerform(t *testing.T) {
	t.Parallel()
	p := New()
	s := &p.Run
	lax := s.Add("open", "nothing", syscall.SYS_OPENAT, AtCWD, "/nowhere/file", 0, 0)
	lax.Lax, lax.Skip = true, 1
	s.Add("left out", "", syscall.SYS_CLOSE, 1<<20)
	s.Add("fine", "", syscall.SYS_CLOSE, 1<<20).Fine = syscall.EBADF
	s.Add("open", "null", syscall.SYS_OPENAT, AtCWD, "/dev/null", syscall.O_CLOEXEC, 0).Save = true
	s.Add("close", "null", syscall.SYS_CLOSE, Saved)
	s.Add("fails", "", syscall.SYS_CLOSE, 1<<20)
	data, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got := New()
	if problem := got.decode(data, 1); problem != "" {
		t.Fatal(problem)
	}
	if i, e := perform(got.Run.steps); i != 5 || e != syscall.EBADF {
		t.Errorf("step %d, %v; want 5, %v", i, e, syscall.EBADF)
	}
}
