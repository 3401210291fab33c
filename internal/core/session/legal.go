package session

import (
	"fmt"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// SuffixStart returns where the last n records begin when the cut is moved back
// to the nearest user record, so that no turn is torn apart. n <= 0 keeps
// nothing.
func SuffixStart(recs []Record, n int) int {
	if n <= 0 {
		return len(recs)
	}
	i := max(len(recs)-n, 0)
	for i > 0 && (i == len(recs) || recs[i].Role != llm.User || recs[i].Command || recs[i].Mark()) {
		i--
	}
	return i
}

// CheckLegal says why a history could not be sent as it is: a tool result
// without its call, a call without exactly one result before the next message,
// two user messages in a row, or a beginning other than a user message.
// Command records are passed over, because they are never sent. The mark of an
// interrupted turn is joined to the message behind it.
func CheckLegal(recs []Record) error {
	open := map[string]bool{} // calls that wait for a result
	begun, lastUser := false, false
	for i, r := range recs {
		if r.Command {
			continue
		}

		if r.Role == llm.ToolRole {
			if !open[r.ToolCallID] {
				return fmt.Errorf("record %d: a result for %q, which no call waits for", i, r.ToolCallID)
			}
			delete(open, r.ToolCallID)
			lastUser = false
			continue
		}

		if len(open) > 0 {
			return fmt.Errorf("record %d: %d calls before it have no result", i, len(open))
		}
		if r.Role == llm.User && lastUser && !r.Mark() {
			return fmt.Errorf("record %d: two user messages in a row", i)
		}
		if !begun && r.Role != llm.User && r.Role != llm.System && !r.Delivery {
			return fmt.Errorf("record %d: the history begins with %s", i, r.Role)
		}

		begun = begun || r.Role == llm.User
		lastUser = r.Role == llm.User && !r.Mark()
		for _, c := range r.ToolCalls {
			open[c.ID] = true
		}
	}

	if len(open) > 0 {
		return fmt.Errorf("%d calls at the end have no result", len(open))
	}
	return nil
}
