package resourcesync

import (
	"errors"
	"io"
	"time"
)

// Counts tells how many entries say what.
type Counts struct{ Created, Updated, Deleted int }

// Notification is what a notification says as a whole.
type Notification struct {
	Capability  string
	Legacy      bool
	From, Until time.Time
	Up          string
	Counts      Counts
	Entries     int
}

// CheckNotification is provisional.
func CheckNotification(io.Reader, Limits) (Notification, error) {
	return Notification{}, errors.New("not there yet")
}
