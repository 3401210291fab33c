package llm

import (
	"bytes"
	"math"
	"strconv"
)

// Count is a number of tokens as a server writes it: servers send 12, 12.0 and "12".
// A number that no call has (negative, not finite, beyond any window) is kept as
// Unbelievable, so that whoever counts can tell it from no number.
type Count int

// Unbelievable stands for a reported number that cannot be.
const Unbelievable Count = -1

// maxCount is more tokens than any call has.
const maxCount = 1_000_000_000

// UnmarshalJSON implements json.Unmarshaler. What is not a number counts as absent.
func (c *Count) UnmarshalJSON(data []byte) error {
	*c = 0
	text := string(bytes.Trim(data, `" `))
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil && !math.IsInf(n, 0): // beyond the range of numbers is Inf
		return nil
	case !(n >= 0 && n <= maxCount): // also NaN
		*c = Unbelievable
	default:
		*c = Count(math.Ceil(n))
	}

	return nil
}

// SumCounts adds numbers; the sum is Unbelievable if one of them is.
func SumCounts(counts ...Count) int {
	sum := 0
	for _, c := range counts {
		if c < 0 {
			return int(Unbelievable)
		}
		sum += int(c)
	}
	return sum
}
