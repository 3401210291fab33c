package owntool

import (
	"context"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

type askUserInput struct {
	Question string   `json:"question" min:"1" max:"4000"`
	Options  []string `json:"options,omitempty" max:"10"`
}

// AskUser ends the turn with a question. The answer is the person's next
// message, whenever it comes, so nothing has to be kept open meanwhile.
func AskUser() tool.Tool {
	return tool.Func(tool.Tool{
		Name: "ask_user", Exclusive: true, Trusted: true,
		Description: "Ask the user something you cannot find out yourself. Ends the turn; the answer is their next message.",
	}, func(ctx context.Context, c tool.Call, in askUserInput) (tool.Result, error) {
		if c.Publish == nil {
			return tool.Fail(tool.Unsupported, "no person is listening; put the question into your answer"), nil
		}

		var text strings.Builder
		text.WriteString(strings.TrimSpace(in.Question))
		for i, o := range in.Options {
			fmt.Fprintf(&text, "\n%d. %s", i+1, o)
		}

		err := c.Publish(ctx, bus.Outbound{
			Kind: bus.Message, Route: c.Route, ReplyTo: c.Route.MessageID, Text: text.String(),
			Question: &bus.Question{ID: c.ID, Text: in.Question, Options: in.Options, Clean: !c.Tainted},
		})
		if err != nil {
			return tool.Result{}, err
		}

		res := tool.Text("The question was put to the user. The answer is their next message.")
		res.EndTurn = true
		return res, nil
	})
}
