package telegram

import "context"

func transcriber(said <-chan string) func(context.Context, string) string {
	return func(context.Context, string) string { return <-said }
}
