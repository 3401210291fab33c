// Package phrase says in a person's language what nanobot itself says in a chat and in
// the terminal: pairing codes, replies to commands, questions, notices, help, errors.
// Answers of the model are not its business.
//
// The code names a sentence by its English words, which are also what people read
// without a translation. The other languages are tables from these words; a test
// compares them with the calls in the tree, so that none is missing or left over.
package phrase

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// The languages there are sentences in.
const (
	English = "en"
	Chinese = "zh"
)

// Language returns the language for a tag such as "zh-Hans-CN" or "en_GB", "" if
// there are no sentences in it.
func Language(tag string) string {
	base, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(tag, "_", "-")), "-")
	switch base {
	case English, Chinese:
		return base
	}
	return ""
}

type key struct{}

// With returns a context whose work speaks to a person in this language.
func With(ctx context.Context, language string) context.Context {
	if language == From(ctx) {
		return ctx
	}
	return context.WithValue(ctx, key{}, language)
}

// From returns the language of a context, "" if it has none.
func From(ctx context.Context) string {
	language, _ := ctx.Value(key{}).(string)
	return language
}

// Of says a sentence in the language of the context. With arguments it is a
// format as in package fmt.
func Of(ctx context.Context, english string, args ...any) string {
	return In(From(ctx), english, args...)
}

// In is Of for a language.
func In(language, english string, args ...any) string {
	sentence := english
	if language == Chinese {
		if zh, ok := fromEnglish()[english]; ok {
			sentence = zh
		}
	}

	if len(args) == 0 {
		return sentence
	}

	said := slices.Clone(args)
	for i, a := range said {
		switch a := a.(type) {
		case Sentence:
			said[i] = a.In(language)
		case error:
			said[i] = Recognize(language, a.Error())
		}
	}

	return fmt.Sprintf(sentence, said...)
}

// Sentence is said later, when it is known to whom. It may be an argument of
// another sentence.
type Sentence struct {
	english string
	args    []any
	count   bool // english is a noun, of which there are so many
}

// Later returns a sentence as in Of.
func Later(english string, args ...any) Sentence { return Sentence{english: english, args: args} }

// In returns the sentence in a language.
func (s Sentence) In(language string) string {
	if !s.count {
		return In(language, s.english, s.args...)
	}
	noun := In(language, s.english)
	if s.args[0] != 1 && language != Chinese {
		noun += "s"
	}
	return fmt.Sprint(s.args[0]) + " " + noun
}

// String returns the sentence in English, for logs and models.
func (s Sentence) String() string { return s.In(English) }

// Count says how many of something there are; what is an English noun in the
// singular.
func Count(ctx context.Context, n int, what string) string { return Counted(n, what).In(From(ctx)) }

// Counted is Count, said later.
func Counted(n int, what string) Sentence {
	return Sentence{english: what, args: []any{n}, count: true}
}

// fromEnglish is the table of Chinese sentences, made when the first is needed.
var fromEnglish = sync.OnceValue(func() map[string]string {
	tables := [][][2]string{chinese(), chineseTerminal(), chineseHelp(), chineseErrors()}
	size := 0
	for _, pairs := range tables {
		size += len(pairs)
	}

	table := make(map[string]string, size)
	for _, pairs := range tables {
		for _, p := range pairs {
			table[p[0]] = p[1]
		}
	}
	return table
})
