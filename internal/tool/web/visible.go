package web

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// invisible says that a reader of the page does not see an element: whoever
// hides text from people may mean it for the model.
func invisible(tag atom.Atom, list []html.Attribute) bool {
	open := false
	for _, a := range list {
		switch a.Key {
		case "hidden":
			return true
		case "aria-hidden":
			if strings.EqualFold(a.Val, "true") {
				return true
			}
		case "open":
			open = true
		case "width", "height":
			if tag == atom.Img && small(a.Val) {
				return true
			}
		case "style":
			if tag != atom.Img && hiddenStyle(a.Val) {
				return true
			}
		case "class":
			if tag != atom.Img && hiddenClass(a.Val) {
				return true
			}
		}
	}

	return tag == atom.Dialog && !open
}

// small recognises the size of pictures that count visitors.
func small(s string) bool { return s == "0" || s == "1" || s == "0px" || s == "1px" }

// hiddenClass knows the names style sheets in wide use hide by. One that hides
// on small screens only is not meant.
func hiddenClass(class string) bool {
	hidden := false
	for c := range strings.FieldsSeq(class) {
		switch c {
		case "sr-only", "visually-hidden", "visuallyhidden", "screen-reader-text", "hidden", "d-none", "invisible", "is-hidden", "a-offscreen":
			hidden = true
		}

		if _, shown, ok := strings.Cut(c, ":"); ok && (shown == "block" || shown == "flex" || shown == "grid" || strings.HasPrefix(shown, "inline") || strings.HasPrefix(shown, "table")) {
			return false
		}
		if strings.HasPrefix(c, "d-") && (strings.HasSuffix(c, "-block") || strings.HasSuffix(c, "-flex") || strings.HasSuffix(c, "-inline") || strings.HasSuffix(c, "-grid")) {
			return false
		}
	}

	return hidden
}

// hiddenStyle reads the declarations of a style attribute.
func hiddenStyle(style string) bool {
	for decl := range strings.SplitSeq(style, ";") {
		name, value, ok := strings.Cut(decl, ":")
		if !ok {
			continue
		}

		name = strings.ToLower(strings.TrimSpace(name))
		value = strings.ToLower(strings.TrimSpace(strings.ReplaceAll(value, "!important", "")))
		zero := strings.Trim(value, "0.pxemrt%") == "" && strings.Contains(value, "0") && !strings.ContainsAny(value, "123456789")
		switch name {
		case "display":
			if value == "none" {
				return true
			}
		case "visibility":
			if value == "hidden" || value == "collapse" {
				return true
			}
		case "opacity", "font-size", "width", "height", "max-height", "max-width", "zoom":
			if zero {
				return true
			}
		case "left", "top", "right", "bottom", "text-indent", "margin-left", "margin-top":
			if far(value) {
				return true
			}
		case "clip":
			if strings.HasPrefix(value, "rect(0") || strings.HasPrefix(value, "rect(1px") {
				return true
			}
		case "clip-path":
			if strings.HasPrefix(value, "inset(50%") || strings.HasPrefix(value, "inset(100%") || strings.HasPrefix(value, "circle(0") {
				return true
			}
		case "transform":
			if strings.Contains(value, "scale(0)") {
				return true
			}
		case "color":
			if value == "transparent" {
				return true
			}
		}
	}
	return false
}

// far recognises places outside of every screen: -999px and beyond.
func far(value string) bool {
	digits, ok := strings.CutPrefix(value, "-")
	if !ok {
		return false
	}
	n := 0
	for n < len(digits) && digits[n] >= '0' && digits[n] <= '9' {
		n++
	}
	return n >= 4 || n == 3 && digits[:3] >= "900"
}

// oneLine is text of strangers on one line: tags removed, entities decoded,
// white space collapsed, at most n characters.
func oneLine(s string, n int) string {
	if len(s) > 16*n {
		s = text.Cut(s, 16*n)
	}
	if strings.ContainsAny(s, "<&") {
		s = stripTags(s)
	}
	return text.Label(s, n)
}
