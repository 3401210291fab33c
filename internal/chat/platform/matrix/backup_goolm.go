//go:build goolm

package matrix

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/crypto"
	"maunium.net/go/mautrix/crypto/backup"
	"maunium.net/go/mautrix/crypto/ssss"
	"maunium.net/go/mautrix/crypto/utils"
	mxevent "maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

const (
	roomKeys   = clientV3 + "/room_keys"
	backupPart = 100 // keys in one request
	secretLen  = 32
)

// errOtherBackup says that our key of the backup does not open it.
var errOtherBackup = errors.New("the key backup of the account was replaced")

// copies is the backup of the account on the homeserver that we use.
type copies struct {
	key     *backup.MegolmBackupKey
	version id.KeyBackupVersion
}

// backupKey is one key in the backup.
type backupKey struct {
	Index     uint32                                                 `json:"first_message_index"`
	Forwarded int                                                    `json:"forwarded_count"`
	Verified  bool                                                   `json:"is_verified"`
	Data      *backup.EncryptedSessionData[backup.MegolmSessionData] `json:"session_data"`
}

func (m *machine) copies() *copies {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saved
}

func (m *machine) useCopies(c *copies) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saved = c
}

// secret returns one that the device was given, nil if it was not.
func (m *machine) secret(ctx context.Context, name id.Secret) ([]byte, error) {
	text, err := m.olm.CryptoStore.GetSecret(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read a saved secret: %w", err)
	}

	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil || len(raw) != secretLen {
		raw, _ = hex.DecodeString(text) // as earlier versions wrote them
	}

	if len(raw) != secretLen {
		return nil, nil
	}
	return raw, nil
}

func (m *machine) saveSecret(ctx context.Context, name id.Secret, raw []byte) error {
	return m.olm.CryptoStore.PutSecret(ctx, name, unpadded(raw))
}

// openBackup begins to use the backup of the account if we have its key, and
// reports whether there is one.
func (m *machine) openBackup(ctx context.Context) (exists bool, err error) {
	var on struct {
		Algorithm id.KeyBackupAlgorithm `json:"algorithm"`
		Version   id.KeyBackupVersion   `json:"version"`
		Auth      backup.MegolmAuthData `json:"auth_data"`
	}

	err = m.bot.client.call(ctx, http.MethodGet, roomKeys+"/version", nil, &on)
	switch {
	case is(err, "M_NOT_FOUND"), is(err, "M_UNRECOGNIZED"):
		return false, nil
	case err != nil:
		return false, err
	}

	raw, err := m.secret(ctx, id.SecretMegolmBackupV1)
	if err != nil || raw == nil {
		return true, err
	}

	key, err := backup.MegolmBackupKeyFromBytes(raw)
	if err != nil {
		return true, err
	}
	if on.Algorithm != id.KeyBackupAlgorithmMegolmBackupV1 || on.Auth.PublicKey.String() != unpadded(key.PublicKey().Bytes()) {
		return true, errOtherBackup
	}

	m.useCopies(&copies{key: key, version: on.Version})
	return true, nil
}

// saveKeys copies keys that the backup does not have. What fails is tried again
// after the next sync.
func (m *machine) saveKeys(ctx context.Context) {
	c := m.copies()
	if c == nil || !m.fresh.Swap(false) {
		return
	}

	err := m.upload(ctx, c)
	switch {
	case err == nil:
		return
	case is(err, "M_WRONG_ROOM_KEYS_VERSION"), is(err, "M_NOT_FOUND"):
		m.useCopies(nil)
		m.bot.deps.Log.WarnContext(ctx, "the key backup was replaced or deleted and is not used any more", "fix", m.bot.fix(), "err", err)
		return
	}

	m.fresh.Store(true)
	if ctx.Err() == nil && m.bot.once("backup") {
		m.bot.deps.Log.WarnContext(ctx, "keys cannot be copied into the key backup; it is tried again", "err", err)
	}
}

func (m *machine) upload(ctx context.Context, c *copies) error {
	list, err := m.olm.CryptoStore.GetGroupSessionsWithoutKeyBackupVersion(ctx, c.version).AsList()
	if err != nil {
		return err
	}

	for len(list) > 0 {
		part := list[:min(backupPart, len(list))]
		list = list[len(part):]
		rooms := map[id.RoomID]map[string]map[id.SessionID]backupKey{}
		for _, s := range part {
			k, err := encryptKey(c.key, s)
			if err != nil {
				return err
			}
			if rooms[s.RoomID] == nil {
				rooms[s.RoomID] = map[string]map[id.SessionID]backupKey{"sessions": {}}
			}
			rooms[s.RoomID]["sessions"][s.ID()] = k
		}

		if err := m.bot.client.call(ctx, http.MethodPut, roomKeys+"/keys"+c.query(), map[string]any{"rooms": rooms}, nil); err != nil {
			return err
		}

		for _, s := range part {
			s.KeyBackupVersion = c.version
			if err := m.olm.CryptoStore.PutGroupSession(ctx, s); err != nil {
				return err
			}
		}
	}

	return nil
}

func (c *copies) query() string {
	return "?" + url.Values{"version": {c.version.String()}}.Encode()
}

// encryptKey returns a key of a session in the form of the backup.
func encryptKey(key *backup.MegolmBackupKey, s *crypto.InboundGroupSession) (backupKey, error) {
	first := s.Internal.FirstKnownIndex()
	exported, err := s.Internal.Export(first)
	if err != nil {
		return backupKey{}, err
	}

	data := backup.MegolmSessionData{
		Algorithm:          id.AlgorithmMegolmV1,
		ForwardingKeyChain: append([]string{}, s.ForwardingChains...),
		SenderClaimedKeys:  backup.SenderClaimedKeys{Ed25519: s.SigningKey},
		SenderKey:          s.SenderKey,
		SessionKey:         string(exported),
	}

	locked, err := backup.EncryptSessionData(key, data)
	return backupKey{Index: first, Forwarded: len(s.ForwardingChains), Data: locked}, err
}

// restore fetches the keys of a session from the backup.
func (m *machine) restore(ctx context.Context, room id.RoomID, session id.SessionID) bool {
	c := m.copies()
	if c == nil {
		return false
	}

	var got backupKey
	err := m.bot.client.call(ctx, http.MethodGet, path(roomKeys+"/keys", room.String(), session.String())+c.query(), nil, &got)
	if is(err, "M_NOT_FOUND") {
		return false
	}

	if err == nil && got.Data == nil {
		err = errors.New("the backup has no data of it")
	}

	var data *backup.MegolmSessionData
	if err == nil {
		data, err = got.Data.Decrypt(c.key)
	}
	if err == nil {
		_, err = m.olm.ImportRoomKeyFromBackup(ctx, c.version, room, session, data)
	}
	if err != nil {
		m.bot.deps.Log.WarnContext(ctx, "a key cannot be restored from the key backup", "room", room, "err", err)
	}
	return err == nil
}

// recovery implements keeper.
func (m *machine) recovery(ctx context.Context) (r recovery, err error) {
	_, err = m.olm.SSSS.GetDefaultKeyID(ctx)
	if r.storage = err == nil; errors.Is(err, ssss.ErrNoDefaultKeyID) {
		err = nil
	}
	if err == nil {
		r.backup, err = m.openBackup(ctx)
	}
	if errors.Is(err, errOtherBackup) {
		err = nil
	}

	r.ours, r.signed = m.copies() != nil, m.signed.Load()
	return r, err
}

// unlock implements keeper.
func (m *machine) unlock(ctx context.Context, text string) error {
	raw := utils.DecodeBase58RecoveryKey(strings.Join(strings.Fields(text), ""))
	if raw == nil {
		return errRecoveryKey
	}

	name, about, err := m.olm.SSSS.GetDefaultKeyData(ctx)
	if errors.Is(err, ssss.ErrNoDefaultKeyID) { // an old client made it for the backup alone
		return m.unlockBackup(ctx, raw)
	}
	if err != nil {
		return err
	}

	key, err := about.VerifyRecoveryKey(name, text)
	if err != nil && !errors.Is(err, ssss.ErrUnverifiableKey) {
		return errRecoveryKey
	}
	if err := m.importSigning(ctx, key); err != nil {
		return err
	}

	raw, err = m.olm.SSSS.GetDecryptedAccountData(ctx, mxevent.AccountDataMegolmBackupKey, key)
	switch {
	case errors.Is(err, mautrix.MNotFound), errors.Is(err, ssss.ErrNotEncryptedForKey):
		return nil // there is no backup
	case err != nil:
		return err
	}
	return m.unlockBackup(ctx, raw)
}

func (m *machine) unlockBackup(ctx context.Context, raw []byte) error {
	if err := m.saveSecret(ctx, id.SecretMegolmBackupV1, raw); err != nil {
		return err
	}
	exists, err := m.openBackup(ctx)
	if errors.Is(err, errOtherBackup) || err == nil && !exists {
		return errRecoveryKey
	}
	m.fresh.Store(true)
	return err
}

// importSigning fetches the keys that sign from the account, and signs the device.
func (m *machine) importSigning(ctx context.Context, key *ssss.Key) error {
	err := m.olm.FetchCrossSigningKeysFromSSSS(ctx, key)
	if errors.Is(err, mautrix.MNotFound) || errors.Is(err, ssss.ErrNotEncryptedForKey) {
		return nil
	}
	if err != nil {
		return err
	}
	if m.olm.CrossSigningKeys.MasterKey.PublicKey().String() != m.shown.master {
		m.olm.CrossSigningKeys = nil
		return errors.New("the recovery key holds keys that the account does not use any more: reset the recovery key in another client")
	}
	if err := m.saveSigning(ctx, m.olm.CrossSigningKeys); err != nil {
		return err
	}
	return m.signDevice(ctx)
}

func (m *machine) saveSigning(ctx context.Context, keys *crypto.CrossSigningKeysCache) error {
	return errors.Join(
		m.saveSecret(ctx, id.SecretXSMaster, keys.MasterKey.Seed()),
		m.saveSecret(ctx, id.SecretXSSelfSigning, keys.SelfSigningKey.Seed()),
		m.saveSecret(ctx, id.SecretXSUserSigning, keys.UserSigningKey.Seed()),
	)
}

// loadSigning takes the keys that sign which an earlier start saved.
func (m *machine) loadSigning(ctx context.Context) error {
	if m.shown.master == "" {
		return nil
	}

	var seeds [3][]byte
	for i, name := range []id.Secret{id.SecretXSMaster, id.SecretXSSelfSigning, id.SecretXSUserSigning} {
		raw, err := m.secret(ctx, name)
		if err != nil || raw == nil {
			return err
		}
		seeds[i] = raw
	}

	if err := m.olm.ImportCrossSigningKeys(crypto.CrossSigningSeeds{MasterKey: seeds[0], SelfSigningKey: seeds[1], UserSigningKey: seeds[2]}); err != nil {
		return err
	}
	if m.olm.CrossSigningKeys.MasterKey.PublicKey().String() != m.shown.master {
		m.olm.CrossSigningKeys = nil
		return errors.New("another client has reset the keys of the account that sign devices")
	}
	return nil
}

// signDevice lets the account vouch for the device.
func (m *machine) signDevice(ctx context.Context) error {
	if m.signed.Load() {
		return nil
	}
	if err := m.olm.SignOwnDevice(ctx, m.olm.OwnIdentity()); err != nil {
		return err
	}
	m.signed.Store(true)
	return m.olm.SignOwnMasterKey(ctx)
}

// enroll implements keeper. The account knows of the recovery key when all that
// it opens is there.
func (m *machine) enroll(ctx context.Context) (string, error) {
	key, err := m.olm.SSSS.GenerateAndUploadKey(ctx, "")
	if err != nil {
		return "", err
	}

	if keys := m.olm.CrossSigningKeys; keys != nil {
		if err := m.olm.UploadCrossSigningKeysToSSSS(ctx, key, keys); err != nil {
			return "", err
		}
	}

	secret, err := backup.NewMegolmBackupKey()
	if err != nil {
		return "", err
	}

	auth := map[string]any{"public_key": unpadded(secret.PublicKey().Bytes())}
	signatures := map[string]string{}
	if signatures["ed25519:"+m.bot.device], err = m.olm.GetAccount().SignJSON(auth); err != nil {
		return "", err
	}

	if keys := m.olm.CrossSigningKeys; keys != nil {
		if signatures["ed25519:"+keys.MasterKey.PublicKey().String()], err = keys.MasterKey.SignJSON(auth); err != nil {
			return "", err
		}
	}

	auth["signatures"] = map[string]any{m.bot.o.UserID: signatures}
	body := map[string]any{"algorithm": id.KeyBackupAlgorithmMegolmBackupV1, "auth_data": auth}
	if err := m.bot.client.call(ctx, http.MethodPost, roomKeys+"/version", body, nil); err != nil {
		return "", err
	}
	if err := m.olm.SSSS.SetEncryptedAccountData(ctx, mxevent.AccountDataMegolmBackupKey, secret.Bytes(), key); err != nil {
		return "", err
	}
	if err := m.olm.SSSS.SetDefaultKeyID(ctx, key.ID); err != nil {
		return "", err
	}
	if err := m.unlockBackup(ctx, secret.Bytes()); err != nil {
		return "", err
	}

	m.saveKeys(ctx)
	return key.RecoveryKey(), nil
}

// own implements voucher.
func (m *machine) own(context.Context) (map[string]string, error) {
	out := map[string]string{"ed25519:" + m.bot.device: m.olm.GetAccount().SigningKey().String()}
	if keys := m.olm.CrossSigningKeys; keys != nil {
		master := keys.MasterKey.PublicKey().String()
		out["ed25519:"+master] = master
	}
	return out, nil
}

// of implements voucher.
func (m *machine) of(ctx context.Context, user, device string) (map[string]string, error) {
	d, err := m.olm.GetOrFetchDevice(ctx, id.UserID(user), id.DeviceID(device))
	if err != nil {
		return nil, err
	}

	out := map[string]string{"ed25519:" + device: d.SigningKey.String()}
	keys, err := m.olm.GetCrossSigningPublicKeys(ctx, id.UserID(user))
	if err == nil && keys != nil {
		out["ed25519:"+keys.MasterKey.String()] = keys.MasterKey.String()
	}
	return out, err
}

// trust implements voucher.
func (m *machine) trust(ctx context.Context, user, device string, names []string) error {
	d, err := m.olm.GetOrFetchDevice(ctx, id.UserID(user), id.DeviceID(device))
	if err != nil {
		return err
	}

	d.Trust = id.TrustStateVerified
	if err := m.olm.CryptoStore.PutDevice(ctx, d.UserID, d); err != nil {
		return err
	}

	have := m.olm.CrossSigningKeys != nil
	for _, name := range names {
		master := strings.TrimPrefix(name, "ed25519:")
		switch {
		case user == m.bot.o.UserID && master == device && have:
			err = m.olm.SignOwnDevice(ctx, d)
		case master == device:
		case user == m.bot.o.UserID && !have:
			err = m.olm.SignOwnMasterKey(ctx)
		case user != m.bot.o.UserID && have:
			err = m.olm.SignUser(ctx, id.UserID(user), id.Ed25519(master))
		}

		if err != nil {
			return err
		}
	}

	return nil
}
