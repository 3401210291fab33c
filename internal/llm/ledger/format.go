package ledger

import (
	"fmt"
	"strconv"
)

// Dollars writes an amount with the digits that matter: cents from a dollar
// on, more for less.
func Dollars(v float64) string {
	switch {
	case v == 0:
		return "$0"
	case v < 0.00005:
		return "<$0.0001"
	case v < 0.9995:
		return "$" + strconv.FormatFloat(v, 'f', 4, 64)
	}
	return "$" + strconv.FormatFloat(v, 'f', 2, 64)
}

// shortCount writes a number of tokens in at most five characters.
func shortCount(n int64) string {
	switch {
	case n < 1000:
		return strconv.FormatInt(n, 10)
	case n < 999_950:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	case n < 999_950_000:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1fG", float64(n)/1e9)
}
