package memory

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Limits of what a model may find in one go.
const (
	maxFindings     = 100
	maxFindingChars = 1000
)

// Target says what a finding is about.
type Target string

// The targets.
const (
	UserFile   Target = "USER"
	SoulFile   Target = "SOUL"
	MemoryFile Target = "MEMORY"
	NewSkill   Target = "SKILL"
)

// finding is one line of an analysis.
type finding struct {
	Target Target  `json:"target"`
	Remove bool    `json:"remove,omitempty"`
	Skill  string  `json:"skill,omitempty"` // the name, for NewSkill
	Text   string  `json:"text"`
	Cites  []int64 `json:"cites,omitempty"` // cursors of the entries it comes from, as the model says
}

// String returns the finding as the model wrote it, without what it cites.
func (f finding) String() string {
	switch {
	case f.Target == NewSkill:
		return "[SKILL] " + f.Skill + ": " + f.Text
	case f.Remove:
		return "[" + string(f.Target) + "-REMOVE] " + f.Text
	}
	return "[" + string(f.Target) + "] " + f.Text
}

// analysis holds what could be read of an answer.
type analysis struct {
	findings []finding
	skips    int // lines that say there is nothing
	unknown  int // lines that are neither
}

var (
	findingLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("(?i)^(?:[-*+•]\\s+|\\d{1,3}[.)]\\s+)?[*`_]*\\[\\s*(USER|SOUL|MEMORY|SKILL|SKIP)(?:\\.md)?(?:([-_ ])(REMOVE))?\\s*\\][*`_]*\\s*:?\\s*(.*)$")
	})
	findingCites = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\s*[(\[（]\s*#\d{1,16}(?:[\s,;、，]*#?\d{1,16})*\s*[)\]）][.。]?\s*$`)
	})
	citedNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d+`) })
	skillName   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+){0,7}$`) })
)

// parseFindings reads an analysis. Models decorate what they write, so bullets,
// emphasis, the case of tags and ".md" do not matter; lines that are no
// findings are counted and otherwise ignored.
func parseFindings(s string) (a analysis) {
	for line := range strings.SplitSeq(text.Valid(s), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "```") {
			continue
		}

		switch strings.ToLower(strings.Trim(line, "()[]*`_. ")) {
		case "skip", "nothing", "none":
			a.skips++
			continue
		}

		f, ok := parseFinding(line)
		switch {
		case ok && f.Target == "SKIP":
			a.skips++
		case !ok || len(a.findings) == maxFindings:
			a.unknown++
		case !slices.ContainsFunc(a.findings, func(o finding) bool { return o.String() == f.String() }):
			a.findings = append(a.findings, f)
		}
	}
	return a
}

func parseFinding(line string) (f finding, ok bool) {
	m := findingLine().FindStringSubmatch(line)
	if m == nil {
		return f, false
	}

	f.Target, f.Remove = Target(strings.ToUpper(m[1])), m[3] != ""
	body := text.Label(m[4], 0)
	if f.Target == "SKIP" {
		return f, !f.Remove
	}

	for at := findingCites().FindStringIndex(body); at != nil; at = findingCites().FindStringIndex(body) {
		for _, n := range citedNumber().FindAllString(body[at[0]:], -1) {
			c, err := strconv.ParseInt(n, 10, 64)
			if err == nil && !slices.Contains(f.Cites, c) {
				f.Cites = append(f.Cites, c)
			}
		}
		body = strings.TrimSpace(body[:at[0]])
	}

	if f.Target == NewSkill {
		name, desc, found := strings.Cut(body, ":")
		f.Skill, body = strings.ToLower(strings.Trim(strings.TrimSpace(name), "*`")), strings.TrimSpace(desc)
		if !found || f.Remove || len(f.Skill) > 64 || !skillName().MatchString(f.Skill) {
			return f, false
		}
	}

	f.Text = text.Ellipsis(body, maxFindingChars)
	return f, strings.ContainsFunc(f.Text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}

var orderWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(always|never|must|should|shall|ought|needs? to|has to|have to|from now on|remember|ignore|disregard|forward\w*|sends?|sent|cc|bcc|copy|copies|copied|e-?mail\w*|wants?|wishes|asks?|post|upload|publish|execute|run|install|download|delete|transfer|pay|buy|reply|respond|tell|instruct\w*|don'?t|do not|immer|stets|niemals|sollte|muss|siempre|nunca|debe|toujours|jamais|doit|sempre|deve|всегда|никогда)\b` +
		`|[\w.+-]+@[\w-]+\.\w|总是|總是|始终|始終|必须|必須|务必|務必|永远|永遠|不要|应该|應該|以后|记住|記住|转发|轉發|发送|發送|忽略|抄送|必ず|常に|決して|送信|転送|無視|항상|반드시|절대|무시|전달|보내`)
})

// isOrder reports whether a text may be meant to steer the assistant. It errs
// on the side of yes: it is only asked about content from outside, and a fact
// it mistakes can still be written down by hand.
func isOrder(f finding) bool {
	return f.Target == SoulFile || orderWords().MatchString(f.Text)
}
