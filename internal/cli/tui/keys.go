package tui

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

type keyCode int

const (
	keyNone keyCode = iota
	keyRune
	keyPaste // text holds what was pasted
	keyEnter
	keyNewline
	keyTab
	keyBackTab
	keyEscape
	keyUp
	keyDown
	keyLeft
	keyRight
	keyWordLeft
	keyWordRight
	keyHome
	keyEnd
	keyBackspace
	keyDelete
	keyKillWordLeft
	keyKillWordRight
	keyKillLeft
	keyKillRight
	keyYank
	keySearch
	keyInterrupt
	keyEOF // Ctrl-D: delete, or leave at an empty line
	keyClearScreen
	keySuspend
)

// keysHelp goes with the list of commands.
const keysHelp = `Keys:
  Enter                 send, during a turn too
  Alt-Enter, Ctrl-J     start a new line; \ at the end of a line does, too
  Up, Down              go through earlier messages, or the commands after /
  Tab                   complete a command
  Ctrl-R                search earlier messages
  Ctrl-C                stop the turn or clear the input; again leaves
  Ctrl-D                leave
  Ctrl-L, Ctrl-Z        clear the screen; suspend until fg`

type key struct {
	code keyCode
	r    rune
	text string
}

// decoder turns the bytes a terminal sends into keys. Sequences may arrive in
// pieces; an escape byte with nothing after it stays pending until flush.
type decoder struct {
	buf     []byte
	pasting bool
}

const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// feed takes bytes and returns the keys that are complete.
func (d *decoder) feed(p []byte) []key {
	d.buf = append(d.buf, p...)
	var out []key
	for len(d.buf) > 0 {
		k, n := d.next()
		if n == 0 {
			break
		}
		d.buf = d.buf[n:]
		if k.code != keyNone {
			out = append(out, k)
		}
	}

	if len(d.buf) == 0 {
		d.buf = nil
	}
	return out
}

// waiting reports whether a lone escape byte or an unfinished sequence is held.
func (d *decoder) waiting() bool { return len(d.buf) > 0 && !d.pasting }

// flush gives up on an unfinished sequence: a lone escape is the Esc key.
func (d *decoder) flush() []key {
	if !d.waiting() {
		return nil
	}
	lone := len(d.buf) == 1 && d.buf[0] == 0x1b
	d.buf = nil
	if lone {
		return []key{{code: keyEscape}}
	}
	return nil
}

// next decodes the key at the start of the buffer; 0 bytes means it is incomplete.
func (d *decoder) next() (key, int) {
	if d.pasting {
		end := bytes.Index(d.buf, []byte(pasteEnd))
		if end < 0 {
			return key{}, 0
		}
		d.pasting = false
		return key{code: keyPaste, text: pasted(string(d.buf[:end]))}, end + len(pasteEnd)
	}

	c := d.buf[0]
	switch {
	case c == 0x1b:
		return d.escape()
	case c < 0x20 || c == 0x7f:
		return key{code: controlKey(c)}, 1
	case !utf8.FullRune(d.buf):
		return key{}, 0
	}

	r, n := utf8.DecodeRune(d.buf)
	if unsafeRune(r) || r >= pasteRune && r <= pasteRune+pasteLimit {
		return key{}, n
	}
	return key{code: keyRune, r: r}, n
}

// pasted makes pasted text fit for the editor: line feeds only, no controls.
func pasted(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(s, "\uFFFD"))
	return strings.Map(func(r rune) rune {
		if unsafeRune(r) || r >= pasteRune && r <= pasteRune+pasteLimit {
			return -1
		}
		return r
	}, s)
}

func controlKey(c byte) keyCode {
	switch c {
	case 'A' - '@':
		return keyHome
	case 'B' - '@':
		return keyLeft
	case 'C' - '@':
		return keyInterrupt
	case 'D' - '@':
		return keyEOF
	case 'E' - '@':
		return keyEnd
	case 'F' - '@':
		return keyRight
	case 'H' - '@', 0x7f:
		return keyBackspace
	case 'I' - '@':
		return keyTab
	case 'J' - '@':
		return keyNewline
	case 'K' - '@':
		return keyKillRight
	case 'L' - '@':
		return keyClearScreen
	case 'M' - '@':
		return keyEnter
	case 'N' - '@':
		return keyDown
	case 'P' - '@':
		return keyUp
	case 'R' - '@':
		return keySearch
	case 'U' - '@':
		return keyKillLeft
	case 'W' - '@':
		return keyKillWordLeft
	case 'Y' - '@':
		return keyYank
	case 'Z' - '@':
		return keySuspend
	}
	return keyNone
}

func (d *decoder) escape() (key, int) {
	if len(d.buf) < 2 {
		return key{}, 0
	}

	switch c := d.buf[1]; c {
	case '[':
		return d.csi()
	case 'O':
		if len(d.buf) < 3 {
			return key{}, 0
		}
		return key{code: finalKey(d.buf[2], "")}, 3

	case '\r', '\n':
		return key{code: keyNewline}, 2
	case 'b':
		return key{code: keyWordLeft}, 2
	case 'f':
		return key{code: keyWordRight}, 2
	case 'd':
		return key{code: keyKillWordRight}, 2
	case 0x7f, 'H' - '@':
		return key{code: keyKillWordLeft}, 2
	case 0x1b:
		return key{code: keyEscape}, 1
	}

	return key{}, 2
}

// csi decodes ESC [ parameters final.
func (d *decoder) csi() (key, int) {
	const longest = 32 // no key is longer; beyond it the bytes are garbage
	for i := 2; i < len(d.buf) && i < longest; i++ {
		c := d.buf[i]
		if c >= 0x40 && c <= 0x7e {
			params := string(d.buf[2:i])
			if params == "200" && c == '~' {
				d.pasting = true
				return key{}, len(pasteStart)
			}
			return key{code: finalKey(c, params)}, i + 1
		}

		if c < 0x20 {
			return key{}, i
		}
	}

	if len(d.buf) >= longest {
		return key{}, longest
	}
	return key{}, 0
}

// finalKey maps the end of a sequence and its parameters to a key. Shift, Alt
// or Ctrl with Enter arrives only from terminals with an extended protocol.
func finalKey(final byte, params string) keyCode {
	first, modifier, _ := strings.Cut(params, ";")
	modified := modifier != "" && modifier != "1"
	switch final {
	case 'A':
		return keyUp
	case 'B':
		return keyDown
	case 'C':
		if modified {
			return keyWordRight
		}
		return keyRight

	case 'D':
		if modified {
			return keyWordLeft
		}
		return keyLeft

	case 'H':
		return keyHome
	case 'F':
		return keyEnd
	case 'M':
		return keyEnter
	case 'Z':
		return keyBackTab
	case 'u':
		if first == "13" && modified {
			return keyNewline
		}
	case '~':
		switch first {
		case "1", "7":
			return keyHome
		case "4", "8":
			return keyEnd
		case "3":
			return keyDelete
		case "27":
			if strings.HasSuffix(params, ";13") {
				return keyNewline
			}
		}
	}

	return keyNone
}
