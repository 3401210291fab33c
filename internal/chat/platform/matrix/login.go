package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// account is who we are there, in the file that a login leaves. The Python
// nanobot wrote the first two fields.
type account struct {
	Token  string `json:"access_token"`
	Device string `json:"device_id"`
	User   string `json:"user_id,omitempty"`
}

const sessionFile = "session.json"

// login finds a token that the homeserver takes: that of an earlier login,
// else a new one by the password, else the one of the configuration.
func (b *bot) login(ctx context.Context) error {
	saved := b.saved(ctx)
	if b.o.Password.IsZero() {
		saved = account{Token: b.o.AccessToken.Reveal(), Device: b.o.DeviceID}
	}

	if saved.Token != "" {
		err := b.resume(ctx, saved)
		if err == nil || b.o.Password.IsZero() || !loggedOut(err) && !errors.Is(err, errOtherAccount) {
			return b.refusedLogin(err)
		}
		b.deps.Log.WarnContext(ctx, "the saved login is not valid any more; logging in by password", "err", err)
		b.client.token.Store(nil)
	}

	body := map[string]any{
		"type": "m.login.password", "identifier": map[string]string{"type": "m.id.user", "user": b.o.UserID},
		"password": b.o.Password.Reveal(), "initial_device_display_name": "nanobot",
	}
	if saved.Device != "" && saved.User == b.o.UserID { // the same device keeps its keys
		body["device_id"] = saved.Device
	}

	var got account
	if err := b.client.call(ctx, http.MethodPost, clientV3+"/login", body, &got); err != nil {
		return b.refusedLogin(err)
	}
	if got.User != b.o.UserID {
		return chat.Fatal(fmt.Errorf("the login is %q, but channels.%s.userId is %q", got.User, b.deps.Name, b.o.UserID))
	}
	if err := b.save(got); err != nil {
		return err
	}

	b.use(got)
	return nil
}

var errOtherAccount = errors.New("the token belongs to another account")

// resume asks whose token it is.
func (b *bot) resume(ctx context.Context, a account) error {
	b.use(a)
	var me struct {
		User   string `json:"user_id"`
		Device string `json:"device_id"`
	}
	if err := b.client.call(ctx, http.MethodGet, clientV3+"/account/whoami", nil, &me); err != nil {
		return err
	}
	if me.User != b.o.UserID {
		return fmt.Errorf("%w: %q instead of %q", errOtherAccount, me.User, b.o.UserID)
	}

	if me.Device != "" {
		a.Device = me.Device
	}

	b.use(a)
	return nil
}

func (b *bot) use(a account) {
	s := httpsafe.NewSecret(a.Token)
	b.client.token.Store(&s)
	b.device = a.Device
}

// refusedLogin makes an error fatal if only another configuration helps.
func (b *bot) refusedLogin(err error) error {
	section := "channels." + b.deps.Name
	e := refusal(err)
	switch {
	case errors.Is(err, errOtherAccount):
		return chat.Fatal(fmt.Errorf("%w; check %s.userId and %s.accessToken", err, section, section))
	case loggedOut(err):
		return chat.Fatal(fmt.Errorf("the homeserver refuses the access token (%w); set %s.password, or a new accessToken", err, section))
	case e != nil && e.Code == "M_FORBIDDEN":
		return chat.Fatal(fmt.Errorf("the homeserver refuses the login (%w); check %s.userId and %s.password", err, section, section))
	case e != nil && (e.Code == "M_USER_DEACTIVATED" || e.Code == "M_UNRECOGNIZED" || e.Status == http.StatusNotFound):
		return chat.Fatal(fmt.Errorf("login: %w; check %s.homeserver and %s.userId", err, section, section))
	}

	return err
}

// saved returns what an earlier login left.
func (b *bot) saved(ctx context.Context) (a account) {
	data, err := os.ReadFile(filepath.Join(b.dir, sessionFile))
	if err == nil {
		err = json.Unmarshal(data, &a)
	}

	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.deps.Log.WarnContext(ctx, "the saved login cannot be read; logging in by password", "file", sessionFile, "err", err)
		return account{}
	}
	// One of the Python nanobot has keys that we cannot read: its device stays
	// its own.
	if a.User == "" {
		return account{}
	}
	return a
}

func (b *bot) save(a account) error {
	data, err := json.Marshal(a) //nolint:gosec // the file is there to keep the token, for us alone
	if err != nil {
		return err
	}
	return diskio.WriteFile(filepath.Join(b.dir, sessionFile), append(data, '\n'), 0o600)
}
