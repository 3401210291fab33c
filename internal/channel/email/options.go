package email

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/mail"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// options is the section of the configuration.
type options struct {
	channel.Common
	ConsentGranted bool `json:"consentGranted"`

	IMAPHost     string          `json:"imapHost"`
	IMAPPort     int             `json:"imapPort"`
	IMAPUsername string          `json:"imapUsername"`
	IMAPPassword httpsafe.Secret `json:"imapPassword"`
	IMAPMailbox  string          `json:"imapMailbox"`
	IMAPUseSSL   bool            `json:"imapUseSsl"`

	SMTPHost     string          `json:"smtpHost"`
	SMTPPort     int             `json:"smtpPort"`
	SMTPUsername string          `json:"smtpUsername"`
	SMTPPassword httpsafe.Secret `json:"smtpPassword"`
	SMTPUseTLS   bool            `json:"smtpUseTls"`
	SMTPUseSSL   bool            `json:"smtpUseSsl"`
	FromAddress  string          `json:"fromAddress"`

	AutoReplyEnabled    bool     `json:"autoReplyEnabled"`
	PollIntervalSeconds int      `json:"pollIntervalSeconds"`
	Idle                bool     `json:"idle"`
	MarkSeen            bool     `json:"markSeen"`
	MaxBodyChars        int      `json:"maxBodyChars"`
	SubjectPrefix       string   `json:"subjectPrefix"`
	VerifyDKIM          bool     `json:"verifyDkim"`
	VerifySPF           bool     `json:"verifySpf"`
	TrustedAuthservIDs  []string `json:"trustedAuthservIds"`
	SessionPerThread    bool     `json:"sessionPerThread"`

	AllowedAttachmentTypes []string `json:"allowedAttachmentTypes"`
	MaxAttachmentSize      int64    `json:"maxAttachmentSize"`
	MaxAttachments         int      `json:"maxAttachmentsPerEmail"`

	PostAction              string          `json:"postAction"`
	PostActionMoveMailbox   string          `json:"postActionMoveMailbox"`
	PostActionExpunge       bool            `json:"postActionExpunge"`
	PostActionIgnoreSkipped bool            `json:"postActionIgnoreSkipped"`
	OAuthSection            json.RawMessage `json:"oauth"`

	oauth *oauthOptions
	via   *url.URL // nil: no proxy
}

const (
	postDelete = "delete"
	postMove   = "move"
)

func defaults() *options {
	return &options{
		IMAPPort: 993, IMAPMailbox: "INBOX", IMAPUseSSL: true, SMTPPort: 587, SMTPUseTLS: true,
		AutoReplyEnabled: true, PollIntervalSeconds: 30, Idle: true, MarkSeen: true, MaxBodyChars: 12000, SubjectPrefix: "Re: ",
		VerifyDKIM: true, VerifySPF: true, MaxAttachmentSize: 2_000_000, MaxAttachments: 5, PostActionIgnoreSkipped: true,
	}
}

func decode(section json.RawMessage) (options, error) {
	o := *defaults()
	if err := channel.Decode(section, &o); err != nil {
		return o, err
	}
	if err := o.check(); err != nil {
		return o, channel.Fatal(err)
	}
	return o, nil
}

func (o *options) check() error {
	if !o.ConsentGranted {
		return errors.New("consentGranted: set it to true if the agent may read this mailbox and answer from it")
	}
	if err := o.checkOAuth(); err != nil {
		return err
	}
	for _, need := range []struct{ key, value string }{
		{"imapHost", o.IMAPHost},
		{"imapUsername", o.IMAPUsername},
		{"imapPassword", o.password(o.IMAPPassword)},
		{"smtpHost", o.SMTPHost},
		{"smtpUsername", o.SMTPUsername},
		{"smtpPassword", o.password(o.SMTPPassword)},
		{"imapMailbox", o.IMAPMailbox},
	} {
		if need.value == "" {
			return fmt.Errorf("%s is missing", need.key)
		}
		if strings.ContainsAny(need.value, "\r\n\x00") {
			return fmt.Errorf("%s: no line ends", need.key)
		}
	}
	if o.FromAddress == "" {
		o.FromAddress = o.SMTPUsername
		if !strings.Contains(o.FromAddress, "@") {
			o.FromAddress = o.IMAPUsername
		}
	}
	if o.Proxy != "" {
		var err error
		if o.via, err = httpsafe.ParseProxy(o.Proxy); err != nil {
			return err
		}
	}
	if _, err := mail.ParseAddress(o.FromAddress); err != nil {
		return errors.New("fromAddress: name the address that mails are sent from")
	}
	return o.checkLimits()
}

// password is what stands for a password in the check: with oauth none is needed.
func (o *options) password(s httpsafe.Secret) string {
	if o.oauth != nil {
		return "none"
	}
	return s.Reveal()
}

func (o *options) checkLimits() error {
	switch {
	case o.IMAPPort < 1 || o.IMAPPort > 65535:
		return errors.New("imapPort: 1 to 65535")
	case o.SMTPPort < 1 || o.SMTPPort > 65535:
		return errors.New("smtpPort: 1 to 65535")
	case !o.SMTPUseSSL && !o.SMTPUseTLS && !loopback(o.SMTPHost):
		return errors.New("smtpUseTls: a password goes to another machine only with TLS")
	case o.PollIntervalSeconds < 1 || o.MaxBodyChars < 1 || o.MaxAttachmentSize < 0 || o.MaxAttachments < 0:
		return errors.New("pollIntervalSeconds and maxBodyChars must be at least 1, limits of attachments not negative")
	case strings.ContainsAny(o.SubjectPrefix, "\r\n"):
		return errors.New("subjectPrefix: no line ends")
	}
	o.PollIntervalSeconds = max(o.PollIntervalSeconds, 5)
	for _, g := range o.AllowedAttachmentTypes {
		if _, err := path.Match(strings.ToLower(g), "a/b"); err != nil {
			return fmt.Errorf("allowedAttachmentTypes: %q is not a pattern such as image/*", g)
		}
	}
	switch o.PostAction {
	case "", postDelete:
		return nil
	case postMove:
		if o.PostActionMoveMailbox == "" {
			return errors.New("postActionMoveMailbox: name the mailbox that mails are moved to")
		}
		return nil
	}
	return fmt.Errorf("postAction: %q is neither delete nor move", o.PostAction)
}

// caps: mails are long, so nothing is split, and files go with the text. They
// are never edited and know no typing, so only whole answers are sent.
func (o *options) caps() channel.Caps {
	return channel.Caps{MaxMedia: o.MaxAttachmentSize, Together: math.MaxInt}
}

// own are the addresses that are ours, in lower case.
func (o *options) own() []string {
	out := []string{address(o.FromAddress)}
	for _, a := range []string{o.SMTPUsername, o.IMAPUsername} {
		if strings.Contains(a, "@") {
			out = append(out, address(a))
		}
	}
	return out
}

func (o *options) poll() time.Duration { return time.Duration(o.PollIntervalSeconds) * time.Second }

func (o *options) imapAddress() string { return net.JoinHostPort(o.IMAPHost, strconv.Itoa(o.IMAPPort)) }
func (o *options) smtpAddress() string { return net.JoinHostPort(o.SMTPHost, strconv.Itoa(o.SMTPPort)) }

// address is the bare address in lower case.
func address(s string) string {
	if a, err := mail.ParseAddress(s); err == nil {
		s = a.Address
	}
	return strings.ToLower(strings.TrimSpace(s))
}

// loopback reports whether a host is this machine, where TLS protects nothing.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
