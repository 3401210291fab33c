package launcher

import (
	"errors"
	"syscall"
	"unsafe"
)

// Program is everything a launcher has to do for one command. The agent fills
// it in; New makes an empty one.
type Program struct {
	// Before is performed by the launcher itself. With namespaces, Setup is
	// performed by their first process, which then forks, performs Leave and
	// stays to reap; the fork performs Run. Without, the child performs Run
	// alone. Run ends with SYS_EXECVE, whose arguments the launcher fills in.
	Before, Setup, Leave, Run Script

	Spaces uintptr // namespaces to make, as flags of clone
	Inner  bool    // bubblewrap has made the namespaces
	// Watch is the number of processes at which the launcher ends the command,
	// where the kernel does not count them; 0 is none. With PIDMax, a setting of
	// the namespace that the launcher is in, the kernel does if it is accepted.
	Watch, PIDMax int
	DropEnv       int    // leading variables meant for the launcher alone
	Temp          string // removed when the agent is gone
	// Proxy is a socket outside. Connections to the listener that Before left at
	// ListenFD, or that Setup sends through SendFD, are carried there.
	Proxy string

	memory memory
}

// Descriptors that prepared memory can mention before they exist.
const (
	PassFD   = 200
	RulesFD  = 201
	SendFD   = 202
	ListenFD = 203
)

// Saved as the first argument stands for the result of the last step that
// saved one.
const Saved = ^uintptr(0) - 1

// AtCWD is AT_FDCWD.
const AtCWD = ^uintptr(99)

// New makes an empty program.
func New() *Program {
	p := &Program{memory: memory{data: make([]byte, 0, 16<<10)}}
	for _, s := range p.scripts() {
		s.memory = &p.memory
	}
	return p
}

func (p *Program) scripts() [4]*Script { return [4]*Script{&p.Before, &p.Setup, &p.Leave, &p.Run} }

// Script is a list of system calls.
type Script struct {
	steps  []Step
	labels []byte
	memory *memory
}

// Step is one system call. It is sent as it lies in memory.
type Step struct {
	nr   uintptr
	args [6]uintptr
	// Fine is an error that is none.
	Fine syscall.Errno
	refs uint8 // which arguments are a Ref
	// Skip is how many of the following steps are left out after an error that
	// is none.
	Skip uint8
	Lax  bool // every error is none
	Save bool // later steps may use the result
}

// Ref is a place in the memory that travels with the program.
type Ref uint32

// memory is what steps point to. The launcher has it at another address.
type memory struct {
	data   []byte
	points []uint32 // words that hold a Ref, to be made an address
	own    []uint32 // 32-bit numbers that become the launcher's process number
	negate []uint32 // the same, negative
}

// Add appends a call. Strings become addresses of texts with a zero at the end.
// verb and object say what the step is for, should it fail. The result is valid
// until the next call.
func (s *Script) Add(verb, object string, nr uintptr, args ...any) *Step {
	if s.steps == nil {
		s.steps = make([]Step, 0, 192)
	}
	st := Step{nr: nr}
	for i, a := range args {
		switch v := a.(type) {
		case nil:
		case int:
			st.args[i] = uintptr(v)
		case uintptr:
			st.args[i] = v
		case Ref:
			st.args[i], st.refs = uintptr(v), st.refs|1<<i
		case string:
			st.args[i], st.refs = uintptr(s.memory.text(v)), st.refs|1<<i
		default:
			panic("sandbox: no system call takes such an argument")
		}
	}
	s.steps = append(s.steps, st)
	s.labels = append(append(append(append(s.labels, verb...), 0), object...), 0)
	return &s.steps[len(s.steps)-1]
}

// Write puts text into a file that exists. If lax, no error matters.
func (s *Script) Write(path, text string, lax bool) {
	open := s.Add("open", path, syscall.SYS_OPENAT, AtCWD, path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	open.Save, open.Lax, open.Skip = true, lax, 2
	s.Add("write", path, syscall.SYS_WRITE, Saved, text, len(text)).Lax = lax
	s.Add("close", path, syscall.SYS_CLOSE, Saved)
}

func (m *memory) text(s string) Ref {
	at := Ref(len(m.data)) //nolint:gosec // a program is small
	m.data = append(append(m.data, s...), 0)
	return at
}

// Put keeps a copy of a value without pointers.
func Put[T any](p *Program, v T) Ref {
	m := &p.memory
	for len(m.data)%16 != 0 {
		m.data = append(m.data, 0)
	}
	at := Ref(len(m.data)) //nolint:gosec // a program is small
	m.data = append(m.data, unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v))...)
	return at
}

// PutList is Put for values that lie one after the other.
func PutList[T any](p *Program, list []T) Ref {
	var first Ref
	for i, v := range list {
		if i == 0 {
			first = Put(p, v)
		} else {
			p.memory.data = append(p.memory.data, raw(unsafe.Slice(&v, 1))...)
		}
	}
	return first
}

// Point makes the pointer at a place lead to another place.
func (p *Program) Point(at, to Ref) {
	*(*uintptr)(unsafe.Pointer(&p.memory.data[at])) = uintptr(to)
	p.memory.points = append(p.memory.points, uint32(at))
}

// Own puts the launcher's process number, or its negative, at a place.
func (p *Program) Own(at Ref, negative bool) {
	if negative {
		p.memory.negate = append(p.memory.negate, uint32(at))
	} else {
		p.memory.own = append(p.memory.own, uint32(at))
	}
}

const (
	version = 2
	// MaxSize bounds an encoded program: what every user may put into a pipe.
	MaxSize = 1 << 20
)

// header comes first. Both sides are the same program, so memory travels as it is.
type header struct {
	version, stepSize, size uint32
	dropEnv, watch, pidMax  uint32
	inner                   bool
	spaces                  uint64
	sections                [sectionCount]struct{ at, size uint32 }
}

const (
	sectionSteps  = 0 // of the four scripts
	sectionLabels = 4
	sectionMemory = 8 + iota - 2
	sectionPoints
	sectionOwn
	sectionNegate
	sectionTemp
	sectionProxy
	sectionCount
)

// Encode writes the program down.
func (p *Program) Encode() ([]byte, error) {
	h := header{
		version: version, stepSize: uint32(unsafe.Sizeof(Step{})), dropEnv: uint32(p.DropEnv), //nolint:gosec // small
		watch: uint32(p.Watch), pidMax: uint32(p.PIDMax), inner: p.Inner, spaces: uint64(p.Spaces), //nolint:gosec // far below the limit
	}
	out := make([]byte, unsafe.Sizeof(h), 32<<10)
	put := func(section int, data []byte) {
		for len(out)%16 != 0 {
			out = append(out, 0)
		}
		h.sections[section].at, h.sections[section].size = uint32(len(out)), uint32(len(data)) //nolint:gosec // checked below
		out = append(out, data...)
	}
	for i, s := range p.scripts() {
		put(sectionSteps+i, raw(s.steps))
		put(sectionLabels+i, s.labels)
	}
	put(sectionMemory, p.memory.data)
	put(sectionPoints, raw(p.memory.points))
	put(sectionOwn, raw(p.memory.own))
	put(sectionNegate, raw(p.memory.negate))
	put(sectionTemp, []byte(p.Temp))
	put(sectionProxy, []byte(p.Proxy))
	if len(out) > MaxSize {
		return nil, errors.New("the profile names too many paths")
	}
	h.size = uint32(len(out)) //nolint:gosec // checked
	copy(out, raw([]header{h}))
	return out, nil
}

// raw is a list as it lies in memory.
func raw[T any](list []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(*new(T))))
}

// check says what is wrong with a header, if something is.
func (h *header) check() string {
	switch {
	case h.version != version || h.stepSize != uint32(unsafe.Sizeof(Step{})):
		return "read the plan: the helper is of another version than the agent; restart the agent"
	case h.size > MaxSize || uintptr(h.size) < unsafe.Sizeof(*h):
		return notProgram
	}
	for _, s := range h.sections {
		if s.at%16 != 0 || uint64(s.at)+uint64(s.size) > uint64(h.size) {
			return notProgram
		}
	}
	return ""
}

const notProgram = "read the plan: this is none"

// decode takes over an encoded program, which must lie at a multiple of 16, and
// puts addresses into it. pid is the launcher's own. The result says what is
// wrong, if something is. It works without the Go runtime.
func (p *Program) decode(data []byte, pid int32) (problem string) {
	if uintptr(len(data)) < unsafe.Sizeof(header{}) {
		return notProgram
	}
	h := (*header)(unsafe.Pointer(&data[0]))
	if problem := h.check(); problem != "" {
		return problem
	}
	if uintptr(len(data)) != uintptr(h.size) {
		return notProgram
	}
	p.DropEnv, p.Watch, p.PIDMax, p.Inner, p.Spaces = int(h.dropEnv), int(h.watch), int(h.pidMax), h.inner, uintptr(h.spaces)
	p.Temp, p.Proxy = h.text(data, sectionTemp), h.text(data, sectionProxy)
	p.memory = memory{
		data: h.section(data, sectionMemory), points: list[uint32](h.section(data, sectionPoints)),
		own: list[uint32](h.section(data, sectionOwn)), negate: list[uint32](h.section(data, sectionNegate)),
	}
	for i, s := range p.scripts() {
		s.steps, s.labels, s.memory = list[Step](h.section(data, sectionSteps+i)), h.section(data, sectionLabels+i), &p.memory
	}
	if !p.settle(pid) {
		return notProgram
	}
	return ""
}

func (h *header) section(data []byte, i int) []byte {
	s := h.sections[i]
	return data[s.at : s.at+s.size]
}

func (h *header) text(data []byte, i int) string {
	b := h.section(data, i)
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func list[T any](data []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/int(unsafe.Sizeof(*new(T))))
}

// settle replaces places by addresses, if all of them are inside.
func (p *Program) settle(pid int32) bool {
	m := &p.memory
	size := uintptr(len(m.data))
	base := uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))
	for _, at := range m.points {
		if uintptr(at)+unsafe.Sizeof(base) > size || at%uint32(unsafe.Sizeof(base)) != 0 {
			return false
		}
		word := (*uintptr)(unsafe.Pointer(&m.data[at]))
		if *word >= size {
			return false
		}
		*word += base
	}
	if !m.fill(m.own, pid) || !m.fill(m.negate, -pid) {
		return false
	}
	for _, s := range p.scripts() {
		for i := range s.steps {
			st := &s.steps[i]
			for a := range st.args {
				if st.refs&(1<<a) == 0 {
					continue
				}
				if st.args[a] >= size {
					return false
				}
				st.args[a] += base
			}
		}
	}
	return true
}

// fill puts a number at some places, if all of them are inside.
func (m *memory) fill(places []uint32, n int32) bool {
	for _, at := range places {
		if uintptr(at)+4 > uintptr(len(m.data)) || at%4 != 0 {
			return false
		}
		*(*int32)(unsafe.Pointer(&m.data[at])) = n
	}
	return true
}
