package bus

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The options most questions offer. Turn and Session are a yes that also
// covers what follows.
const (
	Yes        = "yes"
	No         = "no"
	ForTurn    = "turn"
	ForSession = "session"
)

// Answer says which question a message answers, and how. An edge fills it in
// only from something that belongs to this one question: a button of its
// message, a reply to it, a field of a protocol.
type Answer struct {
	QuestionID string `json:"question_id"`      // Question.ID, or its Code
	Option     string `json:"option"`           // one of Question.Options, or words for it; see Choose
	Remark     string `json:"remark,omitempty"` // for the model to read, with a no
}

// IsAnsweredBy reports whether an answer names this question.
func (q *Question) IsAnsweredBy(a *Answer) bool {
	switch {
	case q == nil, a == nil, q.ID == "":
		return false
	case a.QuestionID == q.ID:
		return true
	}
	return q.Code != "" && strings.EqualFold(a.QuestionID, q.Code)
}

// Coded reads a text that names the question by its code: a word and the code,
// nothing else. After a no a remark may follow.
func (q *Question) Coded(text string) (Answer, bool) {
	if q == nil || q.Code == "" {
		return Answer{}, false
	}

	words := strings.Fields(text)
	i := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(strings.Trim(w, "`\"'.,;:!()"), q.Code) })
	if i < 1 {
		return Answer{}, false
	}

	a := Answer{QuestionID: q.ID, Option: strings.Join(words[:i], " "), Remark: strings.Join(words[i+1:], " ")}
	option, remark, ok := q.Choose(a.Option)
	if !ok || remark != "" || a.Remark != "" && option != No {
		return Answer{}, false // words around a code are a sentence, not an answer
	}
	return a, true
}

// Choose finds the option that a person means: by its name, by its number in
// the order shown, or by a short word in one of several languages. A text that
// is none of these is a no with a remark, if no is offered: whoever writes a
// sentence has not said yes. ok is false when nothing that is offered fits.
func (q *Question) Choose(text string) (option, remark string, ok bool) {
	text = strings.TrimSpace(text)
	if len(q.Options) == 0 {
		return text, "", text != ""
	}

	for _, o := range q.Options {
		if strings.EqualFold(o, text) {
			return o, "", true
		}
	}

	if n, err := strconv.Atoi(strings.Trim(text, "().# ")); err == nil && n >= 1 && n <= len(q.Options) {
		return q.Options[n-1], "", true
	}

	option, remark = Understand(text)
	if slices.Contains(q.Options, option) {
		return option, remark, true
	}

	for _, narrower := range []string{Yes, ForTurn} { // never more than was said
		if option != No && slices.Contains(q.Options, narrower) {
			return narrower, "", true
		}
	}
	return "", "", false
}

// Understand reads short answers in several languages, numbers for yes, no,
// turn and session in this order, and thumbs. Anything else is a no, with the
// text as the remark.
func Understand(text string) (option, remark string) {
	word := strings.TrimFunc(strings.ToLower(strings.TrimSpace(text)), func(r rune) bool {
		return unicode.IsPunct(r) || unicode.IsSpace(r) || r == '`' || r == '\ufe0f' || r >= 0x1f3fb && r <= 0x1f3ff
	})
	word = strings.Join(strings.FieldsFunc(word, func(r rune) bool { return unicode.IsSpace(r) || r == ',' || r == '，' }), " ")
	switch word {
	case "y", "yes", "yep", "yeah", "yup", "ok", "okay", "sure", "allow", "allowed", "approve", "approved", "accept", "go", "go ahead", "do it",
		"run it", "run", "fine", "confirm", "confirmed", "yes please", "1", "once", "allow once", "yes once", "true",
		"是", "是的", "好", "好的", "好吧", "可以", "行", "同意", "允许", "批准", "确认", "嗯", "对", "准", "执行", "是 的", "允許", "確認", "執行",
		"ja", "jawohl", "klar", "in ordnung", "einverstanden", "erlauben", "mach", "mach es", "oui", "d'accord", "si", "sí", "sì", "vale", "sim", "va bene",
		"はい", "うん", "いいよ", "許可", "네", "예", "응", "да", "ага", "tak", "evet", "हाँ", "نعم", "👍", "✅", "👌", "🆗", "✔":
		return Yes, ""

	case "n", "no", "nope", "nah", "not", "deny", "denied", "reject", "refuse", "stop", "cancel", "don't", "dont", "never", "2", "0", "false", "no thanks",
		"否", "不", "不是", "不行", "不要", "不可以", "不好", "不同意", "不允许", "不准", "拒绝", "取消", "别", "停", "不允許", "拒絕",
		"nein", "nö", "ne", "nicht", "abbrechen", "ablehnen", "non", "não", "nao", "いいえ", "だめ", "ダメ", "拒否", "아니", "아니요", "아니오", "нет", "nie", "hayır", "नहीं", "لا",
		"👎", "❌", "🚫", "✖", "🛑", "":
		return No, ""

	case "3", "turn", "this turn", "yes turn", "for this turn", "yes for this turn", "本轮", "这一轮", "本次", "本輪", "runde", "diese runde":
		return ForTurn, ""
	case "4", "session", "always", "yes session", "yes always", "always allow", "allow always", "for this session", "yes for this session", "this session", "all",
		"总是", "始终", "一直", "永远", "总是允许", "始终允许", "一直允许", "本会话", "本次会话", "本对话", "本次对话", "會話", "会话", "總是", "始終",
		"immer", "sitzung", "ja immer", "immer erlauben", "toujours", "siempre", "sempre", "いつも", "항상", "всегда":
		return ForSession, ""
	}

	return No, strings.TrimSpace(text)
}
