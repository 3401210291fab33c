package reach

// Named is named for the tests, which are outside of the package.
var Named = named
