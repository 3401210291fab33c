package agent

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/text"
)

// receiptNotice is a line for the user when a reply claims work that the
// receipts of its turn contradict: no call succeeded. Otherwise it is "".
func receiptNotice(reply string, rs []bus.Receipt) string {
	for _, r := range rs {
		if r.Status == "ok" {
			return ""
		}
	}
	switch {
	case len(rs) == 0 && claims(reply):
		return "No tool ran in this turn; nothing was changed."
	case len(rs) > 0 && (claims(reply) || claimsDone(reply)):
		if len(rs) == 1 {
			return fmt.Sprintf("The only tool call of this turn (%s) did not succeed; what the reply says was not done.", rs[0].Name)
		}
		return fmt.Sprintf("All %d tool calls of this turn failed; what the reply says was not done.", len(rs))
	}
	return ""
}

// claimRules tell a sentence that claims completed work on something outside
// the chat (a file, a message, a command) in one language. All matching is on
// lower-case text. The rules are meant to miss rather than to accuse: a wrong
// notice under an honest reply costs more trust than a missing one.
type claimRules struct {
	// did matches the claim: who did it and the verb, or the thing and the verb.
	did *regexp.Regexp
	// thing matches what work is done on. A file name counts in any language.
	thing *regexp.Regexp
	// not matches what makes a sentence no claim: failure, conditions, the
	// past, and words that point to the text of the reply itself.
	not *regexp.Regexp
}

// claims reports whether a reply says that work was done.
func claims(reply string) bool {
	shows := strings.Contains(reply, "```") // the work may be the text shown
	for s := range sentences(reply) {
		if !mentionsWork(s) {
			continue
		}
		named := fileName().MatchString(s)
		for _, r := range rulesFor(s) {
			at := r.did.FindStringIndex(s)
			if at == nil || r.not.MatchString(s) || adjective(s[at[1]:]) {
				continue
			}
			if named || !shows && r.thing.MatchString(s) {
				return true
			}
		}
	}
	return false
}

// claimsDone reports whether a reply says that something is done without saying
// what. That is only suspicious when calls were made and failed.
func claimsDone(reply string) bool {
	for s := range sentences(reply) {
		if doneWord().MatchString(s) {
			return true
		}
		if !mentionsWork(s) {
			continue
		}
		for _, r := range rulesFor(s) {
			if r.did.MatchString(s) && !r.not.MatchString(s) {
				return true
			}
		}
	}
	return false
}

// adjective reports whether what follows a verb makes it describe a noun, as in
// "已删除的文件", the deleted file.
func adjective(rest string) bool {
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest, " "))
	return r == '的' || r == '之'
}

// sentences yields the sentences of a reply in lower case, without code blocks,
// quotations, headings, questions and marks at the beginning.
func sentences(reply string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		code := false
		for line := range strings.Lines(ends(reply)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
				code = !code
				continue
			}
			if code || line == "" || line[0] == '>' || line[0] == '|' || line[0] == '#' {
				continue
			}
			for _, s := range splitSentences(strings.ToLower(strings.ReplaceAll(line, "’", "'"))) {
				if s != "" && !strings.HasSuffix(s, "?") && !strings.HasSuffix(s, "？") && !yield(s) {
					return
				}
			}
		}
	}
}

// judged is how many bytes at either end of a long reply are read: claims are
// made there, and judging must not take time.
const judged = 3000

func ends(reply string) string {
	if len(reply) <= 2*judged {
		return reply
	}
	return text.Cut(reply[:judged], judged) + "\n" + strings.ToValidUTF8(reply[len(reply)-judged:], "")
}

// splitSentences cuts a line behind the marks that end a sentence. A dot inside
// a file name ends nothing.
func splitSentences(line string) (out []string) {
	start := 0
	cut := func(end int) {
		out = append(out, strings.TrimLeftFunc(strings.TrimSpace(line[start:end]), func(r rune) bool {
			return r != '`' && r != '"' && r != '\'' && r != '/' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}))
		start = end
	}
	for i, r := range line {
		end := i + utf8.RuneLen(r)
		switch r {
		case '。', '！', '？', '；':
			cut(end)
		case '.', '!', '?', ';':
			if next, _ := utf8.DecodeRuneInString(line[end:]); end == len(line) || unicode.IsSpace(next) {
				cut(end)
			}
		}
	}
	cut(len(line))
	return out
}

var fileName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|[^\w.])[~\w./\\-]*[\w-]\.(txt|md|json|jsonl|ya?ml|toml|ini|cfg|conf|csv|tsv|xlsx?|docx?|pptx?|pdf|py|go|rs|ts|tsx|jsx|sh|bash|ps1|html?|css|sql|log|xml|env|png|jpe?g|svg|c|h|cpp|java|kt|rb|php|ipynb)\b`)
})

var doneWord = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(all )?(done|finished|completed|all set|fertig|erledigt|c'est fait|terminé|listo|hecho|pronto|feito|concluído|готово|сделано|已完成|完成了|搞定|完了しました|できました|완료)([\s.!,:。！，]|$)`)
})

// rulesFor picks the rules of the languages a sentence can be written in.
func rulesFor(s string) []claimRules {
	var kana, han, hangul, cyrillic bool
	for _, r := range s {
		switch {
		case r < 0x400:
		case unicode.In(r, unicode.Hiragana, unicode.Katakana):
			kana = true
		case unicode.Is(unicode.Han, r):
			han = true
		case unicode.Is(unicode.Hangul, r):
			hangul = true
		case unicode.Is(unicode.Cyrillic, r):
			cyrillic = true
		}
	}
	switch {
	case kana:
		return japaneseClaims()
	case han:
		return chineseClaims()
	case hangul:
		return koreanClaims()
	case cyrillic:
		return russianClaims()
	}
	return latinClaims()
}
