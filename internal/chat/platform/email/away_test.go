package email

import (
	"strings"
	"testing"
)

// Automatic replies are recognised by their subjects; a person who writes about
// an absence is heard.
func TestAwayNotice(t *testing.T) {
	t.Parallel()
	refer := letter{answers: "<1@example.org>"}
	for name, c := range map[string]struct {
		l      letter
		before string
		want   bool
	}{
		"Out of office":                            {want: true},
		"Out of Office: Re: Lunch":                 {want: true},
		"Out of Office: Lunch":                     {before: "Lunch", want: true},
		"Out of the office - Plan":                 {l: refer, want: true},
		"Re: Automatic reply: Lunch":               {l: refer},
		"Automatic reply: Lunch":                   {want: true},
		"AUTO-REPLY":                               {want: true},
		"AW: Abwesenheitsnotiz":                    {l: refer},
		"Automatische Antwort: Besuch":             {want: true},
		"Réponse automatique : Re: visite":         {want: true},
		"Re\u0301ponse automatique : visite":       {want: true},
		"Respuesta automática: visita":             {want: true},
		"Risposta automatica: visita":              {want: true},
		"Автоответ: визит":                         {want: true},
		"自动回复：见面":                                  {want: true},
		"回复：自动回复: 见面":                              {l: refer},
		"自動返信: 会議":                                 {want: true},
		"Out of office next week, please tell Bob": {},
		"Out of office: write me a notice":         {},
		"Out of office - text for the notice?":     {before: "Lunch"},
		"How do I set up an automatic reply":       {},
		"Automatic replying in Python":             {},
		"Draft an out of office reply":             {},
		"Abwesenheitsnotiz für August schreiben":   {},
		"自动回复功能怎么关":                                {},
		"Ooops":                                    {},
		"OOO tomorrow":                             {},
		"Out of office: a text":                    {l: refer, before: "Out of office: a text"},
		"Re: Out of office: a text":                {l: refer, before: "Out of office: a text"},
		"Re: Lunch":                                {},
		"":                                         {},
	} {
		c.l.subject = name
		if got := awayNotice(c.l, c.before); got != c.want {
			t.Errorf("%q (before: %q): %v, want %v", name, c.before, got, c.want)
		}
	}
	if awayNotice(letter{subject: strings.Repeat("re:", 100_000)}, "") {
		t.Error("an endless answer is an automatic reply")
	}
}
