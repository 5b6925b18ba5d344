package journal

import "context"

// MaxNotes is how many notes a store keeps, the latest.
const MaxNotes = 2000

// Notebook keeps short texts that hubs write for operators. They are no promise: the latest may
// be lost in a crash. It may be shared between goroutines.
type Notebook interface {
	// Note adds texts, the oldest first.
	Note(ctx context.Context, texts ...[]byte) error
	// Notes returns the texts that are kept, the latest first. The caller owns them.
	Notes(ctx context.Context) ([][]byte, error)
}
