package text

import (
	"math"
	"sync/atomic"
	"unicode/utf8"
)

// Tokens estimates how many tokens a model counts for s: a quarter of a token
// per ASCII byte, one per Chinese, Japanese or Korean character, half a token
// per byte of anything else, rounded up. It does not need a vocabulary;
// Calibration corrects it with what a provider really counted.
func Tokens(s string) int {
	quarters := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			quarters++
			i++
			continue
		}

		r, size := utf8.DecodeRuneInString(s[i:])
		if eastAsian(r) {
			quarters += 4
		} else {
			quarters += 2 * size
		}

		i += size
	}

	return (quarters + 3) / 4
}

// eastAsian reports scripts whose characters are about one token each.
func eastAsian(r rune) bool {
	switch {
	case r < 0x1100:
		return false
	case r <= 0x11FF, // Hangul letters
		r >= 0x2E80 && r <= 0xA4CF, // radicals, kana, Han, Yi
		r >= 0xAC00 && r <= 0xD7FF, // Hangul syllables
		r >= 0xF900 && r <= 0xFAFF, // compatibility Han
		r >= 0xFE30 && r <= 0xFE4F, // vertical punctuation
		r >= 0xFF00 && r <= 0xFFEF, // full-width forms
		r >= 0x20000 && r <= 0x3FFFF:
		return true
	}
	return false
}

// Calibration learns how far Tokens is off for one model. The zero value
// changes nothing; it may be shared by any number of goroutines.
type Calibration struct {
	bits atomic.Uint64 // math.Float64bits of the factor; 0 = nothing learned
}

// The factor moves a quarter of the way to each new observation and never
// leaves [0.5, 2]: one odd report, such as a count without cached tokens, must
// not make the prompt budget useless.
const (
	calibrationStep = 0.25
	calibrationMin  = 0.5
	calibrationMax  = 2.0
)

// Observe records that a prompt estimated at estimated tokens, before any
// correction, was counted as actual by the provider. Non-positive numbers are
// ignored.
func (c *Calibration) Observe(estimated, actual int) {
	if estimated <= 0 || actual <= 0 {
		return
	}

	ratio := min(max(float64(actual)/float64(estimated), calibrationMin), calibrationMax)
	for {
		old := c.bits.Load()
		f := factor(old)
		f += calibrationStep * (ratio - f)
		if c.bits.CompareAndSwap(old, math.Float64bits(f)) {
			return
		}
	}
}

// Factor returns the learned ratio of counted to estimated tokens, 1 at first.
func (c *Calibration) Factor() float64 { return factor(c.bits.Load()) }

// Apply corrects an estimate, rounding up.
func (c *Calibration) Apply(estimated int) int {
	return int(math.Ceil(float64(estimated) * c.Factor()))
}

func factor(bits uint64) float64 {
	if bits == 0 {
		return 1
	}
	return math.Float64frombits(bits)
}
