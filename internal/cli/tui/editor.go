package tui

import (
	"slices"
	"strings"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
)

// action says what the chat must do after a key.
type action int

const (
	actNone action = iota
	actSubmit
	actInterrupt
	actLeave
	actClearScreen
	actSuspend
)

// editor is the input: text of one or more lines with a cursor. It knows
// nothing of the terminal; keys go in, and layout says what to show.
type editor struct {
	text     []rune
	pos      int
	killed   []rune
	hist     *history
	recall   int      // index into the history; len(entries) is the text being written
	draft    []rune   // that text, while an older entry is shown
	pastes   []string // that are shown folded: pasteRune+i stands for the one at i
	complete completion
	search   *search
	language string // of package phrase
}

const (
	pasteRune  = 0xf0000 // private use: it is not typed, and pasted text is cleaned of it
	maxPasted  = 10      // lines of a paste that are shown
	pasteLimit = 0xfff   // folded pastes of one chat
)

// paste inserts pasted text, folded into one rune if it is long.
func (e *editor) paste(s string) {
	if strings.Count(strings.TrimRight(s, "\n"), "\n") < maxPasted || len(e.pastes) > pasteLimit {
		e.insert(s)
		return
	}
	e.pastes = append(e.pastes, s)
	e.insert(string(rune(pasteRune + len(e.pastes) - 1))) //nolint:gosec // at most pasteLimit of them
}

// pasted returns the paste that a rune stands for.
func (e *editor) pasted(r rune) (s string, ok bool) {
	if i := int(r - pasteRune); i >= 0 && i < len(e.pastes) {
		return e.pastes[i], true
	}
	return "", false
}

// folded returns the text as it is shown, unfolded the text as it is sent.
func (e *editor) folded() string   { return e.expand(e.pasteLabel) }
func (e *editor) unfolded() string { return e.expand(func(s string) string { return s }) }

func (e *editor) expand(paste func(string) string) string {
	var b strings.Builder
	for _, r := range e.text {
		if s, ok := e.pasted(r); ok {
			b.WriteString(paste(s))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (e *editor) pasteLabel(s string) string {
	return phrase.In(e.language, "[%d pasted lines]", strings.Count(strings.TrimRight(s, "\n"), "\n")+1)
}

func newEditor(h *history, commands []Command, language string) *editor {
	return &editor{hist: h, recall: len(h.entries), complete: completion{commands: commands}, language: language}
}

// empty clears the editor and returns what it held.
func (e *editor) empty() string {
	s := e.unfolded()
	e.set("")
	e.draft = nil
	e.recall = len(e.hist.entries)
	return s
}

func (e *editor) set(s string) {
	e.text = []rune(s)
	e.pos = len(e.text)
}

func (e *editor) insert(s string) {
	r := []rune(s)
	e.text = slices.Insert(e.text, e.pos, r...)
	e.pos += len(r)
}

func (e *editor) remove(from, to int) []rune {
	cut := slices.Clone(e.text[from:to])
	e.text = slices.Delete(e.text, from, to)
	e.pos = from
	return cut
}

// key applies one key press.
func (e *editor) key(k key) action {
	if e.search != nil && e.searchKey(k) {
		return actNone
	}
	if k.code == keyTab || k.code == keyBackTab {
		e.tab(k.code == keyBackTab)
		return actNone
	}
	if k.code == keyUp && e.walk(-1) || k.code == keyDown && e.walk(1) {
		return actNone
	}

	e.complete.reset()
	switch k.code {
	case keyRune:
		e.insert(string(k.r))
	case keyPaste:
		e.paste(k.text)
	case keyNewline:
		e.insert("\n")
	case keyEnter:
		if e.continued() {
			return actNone
		}
		return actSubmit

	case keyInterrupt:
		return actInterrupt
	case keyEOF:
		if len(e.text) == 0 {
			return actLeave
		}
		e.remove(e.pos, e.right())

	case keyClearScreen:
		return actClearScreen
	case keySuspend:
		return actSuspend
	case keySearch:
		e.search = &search{at: len(e.hist.entries), before: slices.Clone(e.text)}
	default:
		if !e.move(k.code) {
			e.erase(k.code)
		}
	}

	return actNone
}

// continued turns a backslash before the end of the text into a line break.
func (e *editor) continued() bool {
	n := len(e.text)
	if e.pos != n || n == 0 || e.text[n-1] != '\\' || n > 1 && e.text[n-2] == '\\' {
		return false
	}
	e.text[n-1] = '\n'
	return true
}

func (e *editor) move(c keyCode) bool {
	switch c {
	case keyLeft:
		e.pos = e.left()
	case keyRight:
		e.pos = e.right()
	case keyWordLeft:
		e.pos = e.wordLeft()
	case keyWordRight:
		e.pos = e.wordRight()
	case keyHome:
		e.pos = e.lineStart()
	case keyEnd:
		e.pos = e.lineEnd()
	case keyUp:
		e.up()
	case keyDown:
		e.down()
	default:
		return false
	}
	return true
}

func (e *editor) erase(c keyCode) {
	switch c {
	case keyBackspace:
		e.remove(e.left(), e.pos)
	case keyDelete:
		e.remove(e.pos, e.right())
	case keyKillLeft:
		e.killed = e.remove(e.lineStart(), e.pos)
	case keyKillRight:
		end := e.lineEnd()
		if end == e.pos && end < len(e.text) {
			end++ // at the end of a line: join with the next
		}
		e.killed = e.remove(e.pos, end)

	case keyKillWordLeft:
		e.killed = e.remove(e.wordLeft(), e.pos)
	case keyKillWordRight:
		from := e.pos
		e.killed = e.remove(from, e.wordRight())
	case keyYank:
		e.insert(string(e.killed))
	}
}

// left and right step over a rune together with the marks that combine with it.
func (e *editor) left() int {
	i := e.pos
	for i > 0 {
		if i--; e.text[i] == '\n' || runeWidth(e.text[i]) > 0 {
			break
		}
	}
	return i
}

func (e *editor) right() int {
	i := e.pos
	for i < len(e.text) {
		if i++; i == len(e.text) || e.text[i] == '\n' || runeWidth(e.text[i]) > 0 {
			break
		}
	}
	return i
}

func (e *editor) wordLeft() int {
	i := e.pos
	for i > 0 && !isWord(e.text[i-1]) {
		i--
	}
	for i > 0 && isWord(e.text[i-1]) {
		i--
	}
	return i
}

func (e *editor) wordRight() int {
	i := e.pos
	for i < len(e.text) && !isWord(e.text[i]) {
		i++
	}
	for i < len(e.text) && isWord(e.text[i]) {
		i++
	}
	return i
}

func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '_'
}

func (e *editor) lineStart() int {
	i := e.pos
	for i > 0 && e.text[i-1] != '\n' {
		i--
	}
	return i
}

func (e *editor) lineEnd() int {
	i := e.pos
	for i < len(e.text) && e.text[i] != '\n' {
		i++
	}
	return i
}

// up goes to the line above, or to the previous input from the first line.
func (e *editor) up() {
	start := e.lineStart()
	if start == 0 {
		e.recallEntry(e.recall - 1)
		return
	}
	column := e.pos - start
	e.pos = start - 1
	e.pos = min(e.lineStart()+column, start-1)
}

func (e *editor) down() {
	end := e.lineEnd()
	if end == len(e.text) {
		e.recallEntry(e.recall + 1)
		return
	}
	column := e.pos - e.lineStart()
	e.pos = end + 1
	e.pos = min(end+1+column, e.lineEnd())
}

func (e *editor) recallEntry(i int) {
	n := len(e.hist.entries)
	if i < 0 || i > n || i == e.recall {
		return
	}

	if e.recall == n {
		e.draft = slices.Clone(e.text)
	}

	e.recall = i
	if i == n {
		e.set(string(e.draft))
		return
	}
	e.set(e.hist.entries[i])
}

// layout cuts the text into rows of at most width columns, the first after
// prompt, and says where the cursor is.
func (e *editor) layout(prompt line, width int) (rows []line, row, col int) {
	indent := blanks(min(prompt.width(), width/2))
	now := slices.Clone(prompt)
	used := now.width()
	fold := func() {
		rows = append(rows, now)
		now, used = slices.Clone(indent), len(indent)
	}
	for i, r := range e.text {
		shown := line{{r: r}}
		if s, ok := e.pasted(r); ok {
			shown = styled(e.pasteLabel(s), dim)
		} else if r == '\t' {
			shown = blanks(tabStop)
		}

		w := min(shown.width(), width-len(indent))
		if r != '\n' && used+w > width {
			fold()
		}
		if i == e.pos {
			row, col = len(rows), used
		}

		if r == '\n' {
			fold()
			continue
		}

		for _, c := range shown {
			if w = runeWidth(c.r); used+w > width {
				fold()
			}
			now, used = append(now, c), used+w
		}
	}

	if e.pos == len(e.text) {
		row, col = len(rows), used
	}
	return append(rows, now), row, col
}

// search is a search back through the history, as in a shell.
type search struct {
	query  string
	at     int
	before []rune
}

// searchKey handles a key while searching; false ends the search and leaves the
// key to be handled as usual.
func (e *editor) searchKey(k key) bool {
	s := e.search
	switch k.code {
	case keyRune:
		s.query += string(k.r)
		s.at = len(e.hist.entries)
	case keySearch:
	case keyBackspace:
		if r := []rune(s.query); len(r) > 0 {
			s.query = string(r[:len(r)-1])
		}
		s.at = len(e.hist.entries)

	case keyInterrupt, keyEscape:
		e.set(string(s.before))
		e.search = nil
		return true
	default:
		e.search = nil
		return false
	}

	if i, ok := e.hist.search(s.query, s.at); ok && s.query != "" {
		s.at = i
		e.set(e.hist.entries[i])
	}
	return true
}

// label stands before the input while searching.
