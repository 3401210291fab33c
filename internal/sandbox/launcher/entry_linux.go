//go:build amd64 || arm64

package launcher

import "unsafe"

// LinkerFlag makes a program begin at entry. It is empty where there is none.
const LinkerFlag = "-E github.com/nanobot-go/nanobot/internal/sandbox/launcher.entry"

// entry is where a program begins that was linked with LinkerFlag. A launcher
// then does its work before the Go runtime starts, which would take longer than
// all that a launcher does for a short command. Without the flag the same
// happens when packages are initialised.
func entry()

var _, _ = entry, early // the linker and entry use them

// early takes over in a process that has no Go runtime: nothing in it may
// allocate, panic, defer or wait by other means than a system call. It returns
// if the runtime is to be started; what was begun is in self then.
//
// stack is what the kernel left: the number of arguments, pointers to these, a
// nil, and pointers to the variables.
func early(stack unsafe.Pointer) {
	const word = unsafe.Sizeof(stack)
	n := *(*int)(stack)
	argv := unsafe.Add(stack, word)
	if n < 3 || !isName(*(**byte)(argv)) {
		return
	}
	self.holdSignals()
	self.begin(argv, unsafe.Add(argv, uintptr(n+1)*word))
	self.attendAlone(true)
}

// isName reports whether a text with a zero at its end makes a launcher.
func isName(text *byte) bool {
	is := func(name string) bool {
		// A shorter text differs at its end.
		for i := range len(name) {
			if *(*byte)(unsafe.Add(unsafe.Pointer(text), i)) != name[i] {
				return false
			}
		}
		return *(*byte)(unsafe.Add(unsafe.Pointer(text), len(name))) == 0
	}
	return is(Name) || is(InnerName)
}
