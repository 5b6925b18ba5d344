package admin

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"
)

// Backup is a backup of a hub.
type Backup struct {
	Content io.ReadCloser
	Size    int64 // bytes of Content
}

// Errors of Options.Backup that the operator can do something about.
var (
	ErrBackupRuns = errors.New("another backup of this hub is being made or read")
	ErrBackupRoom = errors.New("there is no room for a backup")
)

// backupStall is how long a client may take to read backupChunk bytes of a backup.
const (
	backupStall = 2 * time.Minute
	backupChunk = 32 << 10
)

// makeBackup is a change because it writes a file on the hub, and gives away all that the hub
// has.
func (a *api) makeBackup(r *http.Request) (any, zap.Field, error) {
	if err := noBody(r); err != nil {
		return nil, zap.Skip(), err
	}
	b, err := a.Backup(r.Context())
	switch {
	case errors.Is(err, ErrBackupRuns):
		return nil, zap.Skip(), refuse(http.StatusConflict, "Another backup of this hub is being made, or a client still reads it; wait until that is done.")
	case errors.Is(err, ErrBackupRoom):
		return nil, zap.Skip(), refuse(http.StatusInsufficientStorage, "The hub writes a backup to its own disk before it sends it: %v.", err)
	case err != nil:
		return nil, zap.Skip(), err
	}
	return b, zap.Int64("bytes", b.Size), nil
}

// write sends the backup. A client that reads too slowly, or not at all, gets only a part of
// it, and notices by the Content-Length.
func (b *Backup) write(w http.ResponseWriter) error {
	defer func() { _ = b.Content.Close() }() // it was only read
	h := w.Header()
	h.Set("Content-Type", "application/jsonl")
	h.Set("Content-Length", strconv.FormatInt(b.Size, 10))
	h.Set("Content-Disposition", `attachment; filename="rshub-backup.jsonl"`)
	slow := http.NewResponseController(w)
	for left := b.Size; left > 0; {
		_ = slow.SetWriteDeadline(time.Now().Add(backupStall)) // not every ResponseWriter of a test supports that
		n, err := io.CopyN(w, b.Content, min(left, backupChunk))
		if left -= n; err != nil {
			panic(http.ErrAbortHandler) // so that the client notices that the backup is not whole
		}
	}
	return nil
}
