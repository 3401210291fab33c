package record

// NewPlayer and PlayerOptions are for the tests, which are outside of the package.
var NewPlayer = newPlayer

type PlayerOptions = playerOptions

// Differences is differences for the tests.
func (p *Player) Differences() []Difference { return p.differences() }
