package web

import "encoding/json"

// Decode reads the payload of an action that the program adds, as strictly as
// those here are read.
func Decode(payload json.RawMessage, into any) error { return decode(payload, into) }
