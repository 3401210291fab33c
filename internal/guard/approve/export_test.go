package approve

// The answers for the tests, which are outside of the package.
const (
	Yes          = yes
	No           = no
	ForTurn      = forTurn
	ForSession   = forSession
	NetworkProxy = networkProxy
)

// Answer is answer for the tests.
type Answer = answer

// ParseAnswer is parseAnswer for the tests.
var ParseAnswer = parseAnswer
