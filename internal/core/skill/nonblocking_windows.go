package skill

// nonBlocking needs no flag here: opening a file never waits for a writer.
const nonBlocking = 0
