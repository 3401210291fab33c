package mattermost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/nanobot-go/nanobot/internal/base/recent"
)

// keyProp is the prop of a post that bears the key of what it was made of.
const keyProp = "nanobot_key"

// keys find what was posted already.
type keys struct {
	calls    *client
	sent     *recent.Map[string, string] // posts by channel and key
	searched *recent.Map[string, bool]   // channels in which we looked for keys
}

func newKeys(c *client) *keys {
	return &keys{calls: c, sent: recent.New[string, string](memory), searched: recent.New[string, bool](memory)}
}

// find returns the post of a key: one that an earlier try or an earlier process made
// without learning of it, "" if there is none. The server itself knows keys for
// half a minute only.
func (k *keys) find(ctx context.Context, me, chat, key string) (string, error) {
	if id, ok := k.sent.Get(chat + "/" + key); ok || k.searched.Has(chat) {
		return id, nil
	}

	var list posts
	path := fmt.Sprintf("/channels/%s/posts?per_page=%d&skipFetchThreads=true", chat, pageSize)
	if err := k.calls.call(ctx, http.MethodGet, path, nil, &list); err != nil {
		return "", err
	}

	for _, p := range list.Posts {
		if found := p.prop(keyProp); found != "" && p.UserID == me && p.DeleteAt == 0 {
			k.sent.Put(chat+"/"+found, p.ID)
		}
	}

	k.searched.Put(chat, true)
	id, _ := k.sent.Get(chat + "/" + key)
	return id, nil
}

// hash makes a key short, and shows nothing of it.
func hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:13])
}
