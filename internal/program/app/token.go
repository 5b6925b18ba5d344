package app

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/program/config"
)

// adminToken is the operator's token, read again when its file changes.
type adminToken struct {
	file string
	log  *zap.Logger
	now  atomic.Pointer[config.Secret]

	mu    sync.Mutex // of a check
	files ingress.Watched
}

// newAdminToken takes a token that was read of its file.
func newAdminToken(file string, token config.Secret, log *zap.Logger) *adminToken {
	t := &adminToken{file: file, log: log}
	t.files.Take(file)
	t.now.Store(&token)
	return t
}

// get is the token at this moment.
func (t *adminToken) get() string { return string(*t.now.Load()) }

func (t *adminToken) check(time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files.Changed() {
		_, _ = t.load() // it is logged
	}
}

func (t *adminToken) reload(time.Time) (admin.Reloaded, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	detail, err := t.load()
	return admin.Reloaded{What: "operator's token", File: t.file, Detail: detail}, err
}

func (t *adminToken) load() (detail string, err error) {
	t.files.Take(t.file)
	token, exposed, err := config.ReadAdminToken(t.file)
	if err != nil {
		t.log.Error("the operator's token could not be read again; the one of before stays in force", zap.String("event", "token_reload_failed"),
			zap.String("file", t.file), zap.Error(err))
		return "", err
	}
	if exposed {
		t.log.Warn("everyone on this machine may read or change the operator's token; prevent that with: chmod o= "+t.file, zap.String("event", "token_exposed"))
	}
	detail = "the same as before"
	if token != *t.now.Load() {
		detail = "another one than before"
	}
	t.now.Store(&token)
	t.log.Info("the operator's token was read again", zap.String("event", "token_reloaded"), zap.String("file", t.file), zap.String("token", detail))
	return detail, nil
}
