package approve

import "github.com/nanobot-go/nanobot/internal/bus"

// answer says what a person meant.
type answer string

// The answers. forTurn and forSession are a yes that also covers what follows.
const (
	yes        answer = bus.Yes
	no         answer = bus.No
	forTurn    answer = bus.ForTurn
	forSession answer = bus.ForSession
)

// parseAnswer understands what tool.Call.Ask returned: the name of an option,
// or a short word for it in one of several languages. Anything else is a no,
// and the text is returned for the model to read: whoever writes a sentence
// has not said yes.
func parseAnswer(text string) (a answer, remark string) {
	option, remark := bus.Understand(text)
	return answer(option), remark
}
