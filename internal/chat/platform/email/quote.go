package email

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// attribution recognises the line that mail programs write above what they
// quote, in the languages they most often do.
var attribution = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(on\b.*\bwrote|am\b.*\bschrieb\b.*|le\b.*\ba écrit|el\b.*\bescribió|il\b.*\bha scritto|em\b.*\bescreveu|op\b.*\bschreef\b.*|.*\bnapisał\(?a?\)?|.*写道|.*寫道|.*のメール|.*님이 작성)\s*[:：]$`)
})

// divider recognises the line above what Outlook and others append unmarked.
var divider = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^[-_* ]{2,}\s*(original message|original appointment|ursprüngliche nachricht|message d'origine|mensaje original|messaggio originale|mensagem original|oorspronkelijk bericht|原始邮件|原始郵件)\s*[-_* ]{2,}$`)
})

// headerLine recognises the lines of a header that stands in a text.
var headerLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^\*?(from|sent|date|to|cc|subject|von|gesendet|datum|an|betreff|de|envoyé|à|objet|para|enviado|asunto|发件人|发送时间|收件人|主题)\s*[:：]\*?\s*\S`)
})

// forward recognises the line above a mail that is passed on.
var forward = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?im)^\s*(-{2,}\s*(forwarded message|weitergeleitete nachricht|message transféré|mensaje reenviado|转发的?邮件)[^\n]*|begin forwarded message:)\s*$`)
})

// forwarded reports whether a mail passes on what another person wrote.
func forwarded(subject, body string) bool {
	prefix, _, ok := strings.Cut(strings.ToLower(subject), ":")
	if ok {
		switch strings.TrimSpace(prefix) {
		case "fw", "fwd", "wg", "tr", "rv", "enc", "i", "转发", "轉寄":
			return true
		}
	}
	return forward().MatchString(body)
}

// ownWords takes the history away that stands below an answer, and the
// signature. If nothing would be left, or answers stand between quotes,
// everything stays.
func ownWords(body string) string {
	lines := strings.Split(body, "\n")
	end, tail := len(lines), quotedTail(lines)
	for i := range lines {
		if beginsHistory(lines, i, tail) {
			end = i
			break
		}
	}

	own := lines[:end]
	for i, l := range own {
		if l == "-- " || l == "--\r" || l == "--" && len(own)-i <= 12 {
			own = own[:i]
			break
		}
	}

	if out := strings.TrimSpace(strings.Join(own, "\n")); out != "" {
		return out
	}
	return strings.TrimSpace(body)
}

// typed splits a mail into what its sender wrote and what they passed on or
// answer between the lines. What stands below an answer as its history is
// neither: it is left out. A subject that says that the mail is passed on makes
// all of it another person's, where the text does not say where that begins.
func typed(subject, body string) (own, others string) {
	if at := forward().FindStringIndex(body); at != nil {
		return strings.TrimSpace(body[:at[0]]), strings.TrimSpace(body[at[0]:])
	}
	if forwarded(subject, body) {
		return "", strings.TrimSpace(body)
	}

	var mine, theirs []string
	for l := range strings.SplitSeq(ownWords(body), "\n") {
		if bare := strings.TrimSpace(l); strings.HasPrefix(bare, ">") || attribution().MatchString(bare) {
			theirs = append(theirs, l)
		} else {
			mine = append(mine, l)
		}
	}

	own, others = strings.TrimSpace(strings.Join(mine, "\n")), strings.TrimSpace(strings.Join(theirs, "\n"))
	if n := headerBlock(own); n >= 0 { // nothing but the history of a mail was in it
		return strings.TrimSpace(own[:n]), strings.TrimSpace(own[n:] + "\n" + others)
	}
	return own, others
}

// headerBlock returns where the header of another mail begins in a text, -1 if there
// is none.
func headerBlock(body string) int {
	lines, at := strings.SplitAfter(body, "\n"), 0
	for i := range lines {
		n := 0
		for _, l := range lines[i:min(i+6, len(lines))] {
			if !headerLine().MatchString(strings.TrimSpace(l)) {
				break
			}
			n++
		}

		if n >= 3 || divider().MatchString(strings.TrimSpace(lines[i])) {
			return at
		}
		at += len(lines[i])
	}

	return -1
}

// beginsHistory reports whether only what was written earlier follows. Tail is
// where the quotes begin that end the text.
func beginsHistory(lines []string, i, tail int) bool {
	l := strings.TrimSpace(lines[i])
	switch {
	case l == "":
		return false
	case divider().MatchString(l):
		return true
	case strings.HasPrefix(l, ">"):
		return i >= tail
	case attribution().MatchString(l):
		return i+1 >= tail
	case i+1 < len(lines) && len(l) < 120 && attribution().MatchString(l+" "+strings.TrimSpace(lines[i+1])):
		return i+2 >= tail // broken over two lines
	}

	n := 0
	for _, h := range lines[i:min(i+6, len(lines))] {
		if !headerLine().MatchString(strings.TrimSpace(h)) {
			break
		}
		n++
	}
	return n >= 3
}

// quotedTail returns the first of the lines at the end that are all quoted or empty.
// It is looked for once: asking for every line whether only quotes follow would
// make a long mail of nothing but quotes cost hours.
func quotedTail(lines []string) int {
	for i, l := range slices.Backward(lines) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, ">") {
			return i + 1
		}
	}
	return 0
}
