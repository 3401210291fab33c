package image

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parseRatio reads "16:9".
func parseRatio(s string) (w, h int, ok bool) {
	a, b, found := strings.Cut(s, ":")
	w, errW := strconv.Atoi(strings.TrimSpace(a))
	h, errH := strconv.Atoi(strings.TrimSpace(b))
	return w, h, found && errW == nil && errH == nil && w > 0 && h > 0 && w <= 100 && h <= 100
}

// parseSize reads "1024x768".
func parseSize(s string) (w, h int, ok bool) {
	a, b, found := strings.Cut(strings.ToLower(s), "x")
	w, errW := strconv.Atoi(a)
	h, errH := strconv.Atoi(b)
	return w, h, found && errW == nil && errH == nil && w > 0 && h > 0 && w <= 8192 && h <= 8192
}

// pixels returns a size with the asked ratio whose longer side is 1024, 2048 or
// 4096, both sides multiples of 8. A size in pixels is taken as it is.
func (o order) pixels() (w, h int) {
	if w, h, ok := parseSize(o.size); ok {
		return w, h
	}

	long := 1024.0
	switch strings.ToUpper(o.size) {
	case "2K":
		long = 2048
	case "4K":
		long = 4096
	}

	a, b, _ := parseRatio(o.ratio)
	round := func(f float64) int { return max(int(math.Round(f/8))*8, 8) }
	if a >= b {
		return int(long), round(long * float64(b) / float64(a))
	}
	return round(long * float64(a) / float64(b)), int(long)
}

// nearest picks from sizes the one whose ratio is closest to the asked one. A
// size in pixels is taken as it is.
func (o order) nearest(sizes ...string) string {
	if _, _, ok := parseSize(o.size); ok {
		return strings.ToLower(o.size)
	}

	a, b, _ := parseRatio(o.ratio)
	want := math.Log(float64(a) / float64(b))
	best, off := "", math.Inf(1)
	for _, s := range sizes {
		w, h, _ := parseSize(s)
		if d := math.Abs(math.Log(float64(w)/float64(h)) - want); d < off {
			best, off = s, d
		}
	}
	return best
}

func sizeText(w, h int) string { return fmt.Sprintf("%dx%d", w, h) }
