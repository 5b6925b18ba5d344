package app

import (
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/program/config"
)

// adminToken is a token of the operator's listener, read again when its file changes.
type adminToken struct {
	fromFiles
	log *zap.Logger
	now atomic.Pointer[config.Secret]
}

// newAdminToken starts with a token that was already read from its file.
func newAdminToken(what, file string, token config.Secret, log *zap.Logger) *adminToken {
	t := &adminToken{log: log}
	t.fromFiles = fromFiles{what: what, file: file, load: t.read}
	t.files.Take(file)
	t.now.Store(&token)
	return t
}

// get returns the token that is in force.
func (t *adminToken) get() string { return string(*t.now.Load()) }

// read reads the file again. If it is wrong, the old token stays in force.
func (t *adminToken) read() (detail string, err error) {
	t.files.Take(t.file)
	token, exposed, err := config.ReadAdminToken(t.file)
	if err != nil {
		t.log.Error("the "+t.what+" could not be read again; the earlier token stays in force", zap.String("event", "token_reload_failed"),
			zap.String("file", t.file), zap.Error(err))
		return "", err
	}
	if exposed {
		t.log.Warn("everyone on this machine may read or change the "+t.what+"; prevent that with: chmod o= "+t.file, zap.String("event", "token_exposed"))
	}
	detail = "the same as before"
	if token != *t.now.Load() {
		detail = "another one than before"
	}
	t.now.Store(&token)
	t.log.Info("the "+t.what+" was read again", zap.String("event", "token_reloaded"), zap.String("file", t.file), zap.String("token", detail))
	return detail, nil
}
