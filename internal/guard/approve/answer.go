package approve

import "github.com/nanobot-go/nanobot/internal/bus"

// Answer says what a person meant.
type Answer string

// The answers. Turn and Session are a yes that also covers what follows.
const (
	Yes     Answer = bus.Yes
	No      Answer = bus.No
	Turn    Answer = bus.ForTurn
	Session Answer = bus.ForSession
)

// ParseAnswer understands what tool.Call.Ask returned: the name of an option,
// or a short word for it in one of several languages. Anything else is a no,
// and the text is returned for the model to read: whoever writes a sentence
// has not said yes.
func ParseAnswer(text string) (a Answer, remark string) {
	option, remark := bus.Understand(text)
	return Answer(option), remark
}
