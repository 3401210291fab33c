package approve

import (
	"strings"
	"unicode"
)

// Answer is what a person meant.
type Answer string

// The answers. Turn and Session are a yes that also covers what follows.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Turn    Answer = "turn"
	Session Answer = "session"
)

// ParseAnswer understands short answers in several languages, numbers for the
// options in the order they are shown, and thumbs. Anything else is a no, and
// the text is returned for the model to read: somebody who writes a sentence
// has not said yes.
func ParseAnswer(text string) (a Answer, remark string) {
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
		return Turn, ""
	case "4", "session", "always", "yes session", "yes always", "always allow", "allow always", "for this session", "yes for this session", "this session", "all",
		"总是", "始终", "一直", "永远", "总是允许", "始终允许", "一直允许", "本会话", "本次会话", "會話", "会话", "總是", "始終",
		"immer", "sitzung", "ja immer", "immer erlauben", "toujours", "siempre", "sempre", "いつも", "항상", "всегда":
		return Session, ""
	}
	return No, strings.TrimSpace(text)
}
