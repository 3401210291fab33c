package web

// Code is a refusal, for tests.
type Code = code

// Codes are the refusals, for tests.
func Codes() []Code { return codes() }
