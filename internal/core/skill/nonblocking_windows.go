package skill

// nonBlocking is not a flag here: opening a file never waits for a writer.
const nonBlocking = 0
