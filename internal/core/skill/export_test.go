package skill

// Pack is pack for the tests, which are outside of the package.
var Pack = pack

// Limits and words for the tests.
const (
	MaxBody = maxBody
	Scheme  = scheme
)

// Text is text for the tests.
func (s Skill) Text() string { return s.text() }

// Summary lists the skills the model may load.
func (l *Library) Summary() string { return l.refresh().summary }

// Active is the full text of the always-skills that are available.
func (l *Library) Active() string { return l.refresh().active }
