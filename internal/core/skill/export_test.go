package skill

// Pack is pack for the tests, which are outside of the package.
var Pack = pack
