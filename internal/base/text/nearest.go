package text

import (
	"slices"
	"strings"
)

// Distance returns the number of single-character insertions, deletions,
// replacements and swaps of neighbours that turn a into b.
func Distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}

	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}

		before, last, row = last, row, before
	}

	return last[len(y)]
}

// maxWord bounds the words compared; a longer one is not a typing mistake.
const maxWord = 100

// Nearest returns the candidate that word was probably meant to be, or "":
// one with the same letters and digits (case, order and separators aside), or
// else the first with the smallest Distance, which must be at most 2 and less
// than half the length of word.
func Nearest(word string, candidates []string) string {
	if word == "" || len(word) > maxWord {
		return ""
	}

	low := strings.ToLower(word)
	letters := sortedLetters(low)
	best, bestDistance := "", min(2, (len([]rune(word))-1)/2)+1
	for _, c := range candidates {
		if len(c) > maxWord {
			continue
		}

		lowC := strings.ToLower(c)
		if letters != "" && sortedLetters(lowC) == letters {
			return c
		}

		if d := Distance(low, lowC); d < bestDistance {
			best, bestDistance = c, d
		}
	}

	return best
}

// NearestRatio returns the first candidate most similar to word, or "" when
// none is similar by at least ratio. Similarity is twice the length of the
// longest common subsequence divided by the length of both words; 0.6 suits
// command names, where a wrong suggestion costs little. People get the first letter
// right: a candidate with another one must be a single typing error away.
func NearestRatio(word string, candidates []string, ratio float64) string {
	if word == "" || len(word) > maxWord {
		return ""
	}

	best, bestRatio := "", 0.0
	for _, c := range candidates {
		if len(c) > maxWord {
			continue
		}

		low, lowC := strings.ToLower(word), strings.ToLower(c)
		if !sameFirst(low, lowC) && Distance(low, lowC) > 1 {
			continue
		}

		if r := similarity(low, lowC); r >= ratio && r > bestRatio {
			best, bestRatio = c, r
		}
	}

	return best
}

// sameFirst reports whether two words begin with the same letter; a slash before both
// does not count.
func sameFirst(a, b string) bool {
	x, y := []rune(strings.TrimPrefix(a, "/")), []rune(strings.TrimPrefix(b, "/"))
	return len(x) > 0 && len(y) > 0 && x[0] == y[0]
}

func similarity(a, b string) float64 {
	x, y := []rune(a), []rune(b)
	last, row := make([]int, len(y)+1), make([]int, len(y)+1)
	for i := range x {
		for j := range y {
			if x[i] == y[j] {
				row[j+1] = last[j] + 1
			} else {
				row[j+1] = max(last[j+1], row[j])
			}
		}
		last, row = row, last
	}

	return 2 * float64(last[len(y)]) / float64(max(len(x)+len(y), 1))
}

func sortedLetters(s string) string {
	r := []rune(strings.Map(func(r rune) rune {
		if strings.ContainsRune("_-. /", r) {
			return -1
		}
		return r
	}, s))
	slices.Sort(r)
	return string(r)
}
