package email

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// awayNotice reports whether a mail is an automatic reply by its subject: some
// programs that say that their owner is away mark their mails in no other way.
// Before is the subject of the last mail of the same sender, "" if none is known.
//
// People write about absences as well, so only the forms count that programs
// use: a known phrase alone, or before the subject of the mail that is answered.
// Of a phrase that people use, too, that subject must be that of an answer, or
// of the thread, or the mail must refer to another one. A person who answers has
// the word for that first ("Re: Out of office"), and stays in the thread.
func awayNotice(l letter, before string) bool {
	subject := fold(l.subject)
	if before != "" && fold(stem(before)) == subject {
		return false
	}

	for phrase, program := range awayPhrases() {
		rest, ok := strings.CutPrefix(subject, phrase)
		if !ok {
			continue
		}
		if rest = strings.TrimSpace(strings.Trim(rest, " .!")); rest == "" {
			return true
		}

		about, ok := afterMark(rest)
		if !ok {
			continue
		}

		answersMail := l.answers != "" || len(l.refs) > 0 || stem(about) != about
		ourSubject := before != "" && stem(about) == fold(stem(before))
		if program || answersMail || ourSubject {
			return true
		}
	}

	return false
}

// afterMark returns what stands behind the mark that divides a phrase from a subject.
func afterMark(s string) (string, bool) {
	for _, mark := range []string{":", "：", "-", "–", "—", "|"} {
		if rest, ok := strings.CutPrefix(s, mark); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// stem returns a subject without the words that say that it is an answer, in the
// languages of common programs.
func stem(subject string) string {
	for range 10 {
		subject = strings.TrimSpace(subject)
		word, rest, ok := cutColon(subject)
		if !ok || !slices.Contains([]string{"re", "aw", "antw", "antwort", "sv", "vs", "odp", "ynt", "rif", "res", "r", "回复", "回覆", "答复", "返信"}, fold(word)) {
			return subject
		}
		subject = rest
	}
	return subject
}

func cutColon(s string) (before, after string, ok bool) {
	i := strings.IndexAny(s, ":：")
	if i < 0 {
		return s, "", false
	}
	return strings.TrimSpace(s[:i]), strings.TrimLeft(s[i:], ":："), true
}

// fold returns a text as phrases are compared: in small letters, with single spaces,
// one kind of apostrophe and composed accents.
func fold(s string) string {
	s = strings.NewReplacer("’", "'", "_", " ").Replace(norm.NFC.String(strings.ToLower(s)))
	return strings.Join(strings.FieldsFunc(s, unicode.IsSpace), " ")
}

// awayPhrases returns what such subjects begin with. True are those that only
// programs use.
func awayPhrases() map[string]bool {
	return map[string]bool{
		// English
		"automatic reply": true, "automatic response": true, "automated reply": true, "automated response": true,
		"auto reply": true, "auto-reply": true, "autoreply": true, "auto response": true, "auto-response": true, "autoresponse": true,
		"out of office reply": true, "out of office autoreply": true, "out of office auto-reply": true, "vacation reply": true,
		"out of office": false, "out of the office": false, "out-of-office": false, "ooo": false,
		// German
		"automatische antwort": true, "abwesenheitsnotiz": true, "abwesenheitsnachricht": true, "abwesenheitsmeldung": true,
		"abwesenheitsbenachrichtigung": true, "nicht im büro": false,
		// French
		"réponse automatique": true, "reponse automatique": true, "message d'absence": false, "absence du bureau": false, "absent du bureau": false, //nolint:misspell // French
		// Spanish, Portuguese, Italian
		"respuesta automática": true, "respuesta automatica": true, "fuera de la oficina": false, "fuera de oficina": false,
		"resposta automática": true, "resposta automatica": true, "fora do escritório": false,
		"risposta automatica": true, "fuori sede": false, "fuori ufficio": false,
		// Dutch and the languages of the North
		"automatisch antwoord": true, "afwezigheidsbericht": true, "niet op kantoor": false,
		"automatiskt svar": true, "automatisk svar": true, "autosvar": true, "frånvaromeddelande": true, "fraværsmelding": true, "fraværsbesked": true,
		"automaattinen vastaus": true, "poissaoloilmoitus": true,
		// Polish, Czech, Slovak, Hungarian, Turkish
		"automatyczna odpowiedź": true, "odpowiedź automatyczna": true, "automatická odpověď": true, "automatická odpoveď": true,
		"automatikus válasz": true, "otomatik yanıt": true,
		// Russian, Ukrainian
		"автоматический ответ": true, "автоответ": true, "автоматична відповідь": true, "вне офиса": false,
		// Chinese, Japanese, Korean
		"自动回复": true, "自动答复": true, "自動回覆": true, "自動回復": true, "自動答覆": true, "不在办公室": false,
		"自動返信": true, "自動応答": true, "不在通知": true, "자동 회신": true, "자동 응답": true, "자동응답": true, "부재중": false,
	}
}
