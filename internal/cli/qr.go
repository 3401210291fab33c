package cli

import (
	"strings"

	"rsc.io/qr"
)

// qrMargin is the empty border that readers need, in modules.
const qrMargin = 2

// qrCode draws a QR code of characters, two rows of modules per line. White is
// drawn and black is left out, since most terminals are dark.
func qrCode(text string) (string, error) {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return "", err
	}

	white := func(x, y int) bool { return !code.Black(x, y) } // also outside of the code
	var b strings.Builder
	for y := -qrMargin; y < code.Size+qrMargin; y += 2 {
		for x := -qrMargin; x < code.Size+qrMargin; x++ {
			upper, lower := white(x, y), white(x, y+1) && y+1 < code.Size+qrMargin
			switch {
			case upper && lower:
				b.WriteString("█")
			case upper:
				b.WriteString("▀")
			case lower:
				b.WriteString("▄")
			default:
				b.WriteString(" ")
			}
		}
		b.WriteString("\n")
	}

	return strings.TrimRight(b.String(), "\n"), nil
}
