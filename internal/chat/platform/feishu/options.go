package feishu

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// options is the section of the configuration.
type options struct {
	account
	Instances []account `json:"instances" doc:"Several apps; each has the settings of the section and an id, and inherits what it does not set."`
}

// account are the settings of one app.
type account struct {
	chat.Common
	AppID             string          `json:"appId" setup:"yes" doc:"App ID, which begins with cli_."`
	AppSecret         httpsafe.Secret `json:"appSecret" setup:"yes" doc:"App Secret."`
	Domain            string          `json:"domain" enum:"feishu|lark" doc:"Where the app lives: Feishu (China) or Lark (international)."`
	Mode              string          `json:"mode" enum:"socket|webhook" doc:"How events arrive: by a connection to Feishu, or by requests of Feishu."`
	EncryptKey        httpsafe.Secret `json:"encryptKey" doc:"Encrypt Key of the app's events; for mode webhook."`
	VerificationToken httpsafe.Secret `json:"verificationToken" doc:"Verification Token of the app's events; for mode webhook."`
	WebhookPath       string          `json:"webhookPath" doc:"Path of the request URL; for mode webhook."`
	WebhookListenHost string          `json:"webhookListenHost" doc:"Address that receives requests, if webhookListenPort is set."`
	WebhookListenPort int             `json:"webhookListenPort" min:"0" max:"65535" doc:"Port that receives requests; 0 is the gateway's own."`
	ReactEmoji        string          `json:"reactEmoji" doc:"Reaction on a message that is being worked on, such as THUMBSUP or OnIt; empty is none."`
	DoneEmoji         string          `json:"doneEmoji" doc:"Reaction on a message that was answered, such as DONE; empty is none."`
	FailEmoji         string          `json:"failEmoji" doc:"Reaction on a message whose turn failed, such as CrossMark; empty is none."`
	ToolHintPrefix    string          `json:"toolHintPrefix" doc:"Stands before each line that names a tool."`
	ReplyToMessage    bool            `json:"replyToMessage" doc:"Answers quote the message; in groups they begin a topic."`
	TopicIsolation    bool            `json:"topicIsolation" doc:"Each topic of a group is a conversation of its own."`
	RespondToAtAll    bool            `json:"respondToAtAll" doc:"A message to all members of a group names the bot, too."`
	APIBaseURL        string          `json:"apiBaseUrl" doc:"Address of the API, instead of the one of domain."`
	AccountsBaseURL   string          `json:"accountsBaseUrl" doc:"Address of the accounts server, instead of the one of domain."`
	IdentityKey       string          `json:"identityKey" doc:"The app that allowFrom and owners were written for, as domain:appId; for another app both count as empty. Logins write it."`
	ID                string          `json:"id" doc:"Name of one of several apps: letters, digits, - and _."`
	InstanceID        string          `json:"instanceId" doc:"Older name of id."`
	Name              string          `json:"name" doc:"Ignored; older versions wrote it."`
	DisplayName       string          `json:"displayName" doc:"Ignored; older versions wrote it."`
	AvatarURL         string          `json:"avatarUrl" doc:"Ignored; older versions wrote it."`
	IdentityFetchedAt json.RawMessage `json:"identityFetchedAt" doc:"Ignored; older versions wrote it."`
}

const (
	domainLark  = "lark"
	modeSocket  = "socket"
	modeWebhook = "webhook"
)

func defaults() *options {
	return &options{account: account{
		Domain:            "feishu",
		Mode:              modeSocket,
		WebhookPath:       "/feishu",
		WebhookListenHost: "127.0.0.1",
		ReactEmoji:        "THUMBSUP",
		ToolHintPrefix:    "🔧",
		TopicIsolation:    true,
		RespondToAtAll:    true,
	}}
}

// decode reads the section of one app. Needed: it can connect.
func decode(section json.RawMessage, needed bool) (account, error) {
	o, err := chat.Read(section, defaults())
	if err != nil || !needed {
		return o.account, err
	}
	if err := o.complete(); err != nil {
		return o.account, chat.Fatal(err)
	}
	return o.account, nil
}

// Check says which setting is wrong or missing.
func (o *account) Check() error {
	switch o.Domain = strings.ToLower(strings.TrimSpace(o.Domain)); o.Domain {
	case "", "feishu":
		o.Domain = "feishu"
	case domainLark:
	default:
		return fmt.Errorf("domain: %q is not feishu or lark", o.Domain)
	}

	o.AppID = strings.TrimSpace(o.AppID)
	host := map[string]string{"feishu": "feishu.cn", domainLark: "larksuite.com"}[o.Domain]
	o.APIBaseURL = strings.TrimRight(cmp.Or(o.APIBaseURL, "https://open."+host), "/")

	for name, address := range map[string]string{"apiBaseUrl": o.APIBaseURL, "accountsBaseUrl": o.accounts()} {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil {
			return fmt.Errorf("%s: not an http address without a query", name)
		}
	}

	switch o.Mode {
	case modeSocket, modeWebhook:
	default:
		return fmt.Errorf("mode: %q is not socket or webhook", o.Mode)
	}

	if id := cmp.Or(o.ID, o.InstanceID, defaultInstance); !validID(id) {
		return fmt.Errorf("id: %q has other characters than letters, digits, - and _", id)
	}
	if !strings.HasPrefix(o.WebhookPath, "/") || strings.ContainsAny(o.WebhookPath, " {}") {
		return errors.New("webhookPath: must begin with / and hold no blanks or braces")
	}
	return nil
}

// complete reports what is missing to connect.
func (o *account) complete() error {
	switch {
	case o.AppID == "":
		return errors.New(`appId is missing: run "nanobot channels login", or create an app at open.feishu.cn`)
	case o.AppSecret.IsZero():
		return errors.New("appSecret is missing: it is in the app's settings under Credentials & Basic Info")
	case o.Mode == modeWebhook && o.EncryptKey.IsZero() && o.VerificationToken.IsZero():
		return errors.New("encryptKey or verificationToken is needed for mode webhook: else requests of strangers would be accepted")
	}
	return nil
}

// accounts returns the address of the accounts server.
func (o *account) accounts() string {
	switch {
	case o.AccountsBaseURL != "":
		return strings.TrimRight(o.AccountsBaseURL, "/")
	case o.Domain == domainLark:
		return "https://accounts.larksuite.com"
	}
	return "https://accounts.feishu.cn"
}

// identity returns which app this is.
func identity(domain, appID string) string {
	if appID = strings.TrimSpace(appID); appID == "" {
		return ""
	}
	if strings.EqualFold(strings.TrimSpace(domain), domainLark) {
		return domainLark + ":" + appID
	}
	return "feishu:" + appID
}

// caps returns the limits of the platform. A card has 30 KB of JSON, in which a byte
// of text takes two at worst.
func (o *account) caps() chat.Caps {
	c := chat.Caps{
		MaxChars:       14000,
		Unit:           markdown.Bytes,
		EditEvery:      500 * time.Millisecond,
		GroupEditEvery: 500 * time.Millisecond,
		MaxMedia:       maxFile,
		OneMessage:     true,
		Settles:        true,
		Keys:           true,
		Quotes:         true,
		Hint:           o.hint,
		Group:          func(r bus.Route) bool { return strings.HasPrefix(r.ChatID, "oc_") },
		Rate: chat.Rate{
			Total: chat.Limit{Count: 15, Per: time.Second},
			Chat:  chat.Limit{Count: 4, Per: time.Second},
			Edit:  chat.Limit{Count: 10, Per: time.Second},
		},
	}
	if o.Streaming != nil && !*o.Streaming {
		c.EditEvery, c.GroupEditEvery = 0, 0
	}
	return c
}

// hint returns how the names of tools are shown: a line for each call.
func (o *account) hint(text string) string {
	var lines []string
	for _, call := range calls(text) {
		lines = append(lines, strings.TrimSpace(o.ToolHintPrefix+" "+call))
	}
	return strings.Join(lines, "\n")
}

// calls divides a hint at the commas that are not in quotes or parentheses.
func calls(text string) []string {
	var out []string
	depth, quote, from := 0, rune(0), 0
	for i, r := range text {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'' || r == '`':
			quote = r
		case strings.ContainsRune("([{", r):
			depth++
		case strings.ContainsRune(")]}", r):
			depth--
		case depth <= 0 && (r == '\n' || strings.HasPrefix(text[i:], ", ")):
			out = append(out, strings.TrimSpace(text[from:i]))
			from = i + 1
		}
	}

	return append(out, strings.TrimSpace(text[from:]))
}

// expand makes a section of each app. One whose lists were written for another
// app has none.
func expand(section json.RawMessage) (map[string]json.RawMessage, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(section, &top); err != nil {
		return nil, err
	}

	var list []json.RawMessage
	if err := json.Unmarshal(top["instances"], &list); err != nil || list == nil {
		if len(top["instances"]) > 0 && string(top["instances"]) != "null" {
			return nil, errors.New("instances: a list is needed")
		}
		delete(top, "instances")
		return map[string]json.RawMessage{"": encoded(own(top))}, nil
	}

	delete(top, "instances")

	out := map[string]json.RawMessage{}
	var errs []error
	for i, raw := range list {
		var item map[string]json.RawMessage
		if json.Unmarshal(raw, &item) != nil || item == nil {
			errs = append(errs, fmt.Errorf("instances.%d: an object is needed", i))
			continue
		}

		id := cmp.Or(word(item["id"]), word(item["instanceId"]), instanceID(i))
		name := id
		if id == defaultInstance {
			name = ""
		}

		switch _, twice := out[name]; {
		case !validID(id):
			errs = append(errs, fmt.Errorf("instances.%d: the id %q has other characters than letters, digits, - and _", i, id))
		case twice:
			errs = append(errs, fmt.Errorf("instances.%d: the id %q is used twice", i, id))
		default:
			all := maps.Clone(top)
			maps.Copy(all, item)
			out[name] = encoded(own(all))
		}
	}

	return out, errors.Join(errs...)
}

// merge puts a patch of one of several apps into the list of them. An app that is
// in the list under another id stays there, with its own people: of two entries for
// one app, the second would be refused.
func merge(section json.RawMessage, name string, patch map[string]any) (map[string]any, bool) {
	var top struct {
		Instances []map[string]any `json:"instances"`
	}
	if json.Unmarshal(section, &top) != nil || top.Instances == nil {
		return patch, name == ""
	}

	named, same := -1, -1
	for i, item := range top.Instances {
		first, _ := item["id"].(string)
		second, _ := item["instanceId"].(string)
		third, _ := item["instance_id"].(string)
		if named < 0 && cmp.Or(first, second, third, instanceID(i)) == cmp.Or(name, defaultInstance) {
			named = i
		}
		if app, ok := item["appId"].(string); ok && app != "" && app == patch["appId"] {
			same = i
		}
	}

	if same >= 0 && same != named {
		patch = maps.Clone(patch)
		delete(patch, "allowFrom")
		delete(patch, "owners")
		named = same
	}

	if named < 0 {
		return nil, false
	}

	maps.Copy(top.Instances[named], patch)
	return map[string]any{"instances": top.Instances}, true
}

const defaultInstance = "default"

// instanceID returns the id of an app that has none.
func instanceID(i int) string {
	if i == 0 {
		return defaultInstance
	}
	return fmt.Sprintf("assistant-%d", i+1)
}

func validID(id string) bool {
	return id != "" && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

func word(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // "" if it is something else
	return s
}

func encoded(section map[string]json.RawMessage) json.RawMessage {
	data, _ := json.Marshal(section) // it was JSON before
	return data
}

// own takes the lists of people away that were written for another app.
func own(section map[string]json.RawMessage) map[string]json.RawMessage {
	if key := word(section["identityKey"]); key != "" && key != identity(word(section["domain"]), word(section["appId"])) {
		delete(section, "allowFrom")
		delete(section, "owners")
	}
	return section
}
