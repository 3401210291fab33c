package chat

import (
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// codeIntro begins the last line of a question that is answered in writing.
const codeIntro = "Answer with a word and the code: "

// answerLine says how a question is answered in writing. It is the last line
// of the message that asks, so that a reply to that message names the question.
func answerLine(language string, q *bus.Question) string {
	words := make([]string, len(q.Options))
	for i, o := range q.Options {
		words[i] = o + " " + q.Code
	}
	return phrase.In(language, codeIntro) + strings.Join(words, ", ")
}

// AskedIn finds the question in a message of ours, for platforms where a person
// can reply to it: its code and its options. Only the last line counts: above
// it stands what others may have written.
func AskedIn(text string) (q bus.Question, ok bool) {
	text = strings.TrimRight(text, " \n")
	line := text[strings.LastIndexByte(text, '\n')+1:]
	answers, ok := strings.CutPrefix(line, codeIntro)
	if !ok {
		answers, ok = strings.CutPrefix(line, phrase.In(phrase.Chinese, codeIntro))
	}

	if !ok {
		return q, false
	}

	q.Code = answers[strings.LastIndexByte(answers, ' ')+1:]
	for a := range strings.SplitSeq(answers, ", ") {
		if option, ours := strings.CutSuffix(a, " "+q.Code); ours {
			q.Options = append(q.Options, option)
		}
	}
	return q, q.Code != "" && len(q.Options) > 0
}
