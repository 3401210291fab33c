package text

// SplitThink is splitThink for the tests, which are outside of the package.
var SplitThink = splitThink
