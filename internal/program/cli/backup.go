package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/quantity"
)

// Backup is `rshub backup`.
func Backup(env Env) *cobra.Command {
	return new(clientFlags).onHub(env, "print what is in the backup as JSON", &cobra.Command{
		Use: "backup FILE", Short: "Make a backup of a running hub", Args: Exactly("file"),
		Long: `Writes a backup of a running hub to FILE, or to standard output for -. It has all
topics with their retained notifications, and all subscriptions with their secrets,
cursors, gaps and pending requests. FILE appears when it is complete, and only its
owner can read it. If something in the store is damaged or cannot be read, it has
everything else, and the command exits with 6.

The hub first writes the backup to its own disk, at full speed, and then sends it, so
a slow connection delays nothing. The command needs the operator's token; a reader's
token is refused.

With --seal-key-file at the hub the secrets of subscribers are sealed in the file.
The key is not in it: keep it elsewhere, ` + "`rshub restore`" + ` needs it. Without a key at the
hub, the file has the secrets as plain text.`,
		Example: `  rshub backup /backup/rshub-$(date +%F).jsonl
  rshub backup - | zstd > rshub.jsonl.zst`,
	}, func(r *run, args []string) error {
		ctx, stop := signal.NotifyContext(r.cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		b := &backup{run: r, progress: NewProgress(r.cmd.ErrOrStderr(), nil)}
		name := args[0]
		var err error
		if name == "-" {
			if r.json {
				return Fail(ExitUsage, "--json needs a FILE: standard output is the backup")
			}
			err = b.write(ctx, Document(r.cmd.OutOrStdout()))
		} else {
			err = atomicfile.Output(name, func(w io.Writer) error { return b.write(ctx, w) })
		}
		b.progress.End("")
		if err != nil {
			return err
		}
		return b.report(name)
	})
}

// backup is one run of `rshub backup`.
type backup struct {
	*run
	progress *Progress
	size     int64
	first    bytes.Buffer // the beginning of the file
	last     []byte       // the end of the file
	summary  backupSummary
}

// write copies the backup from the hub.
func (b *backup) write(ctx context.Context, to io.Writer) error {
	b.progress.Show(0, 0, "the hub writes the backup to its disk")
	resp, err := b.client.patient().send(ctx, http.MethodPost, "/api/v1/backup", nil, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	buf := make([]byte, 1<<16)
	for err == nil {
		var n int
		n, err = resp.Body.Read(buf)
		if _, writeErr := to.Write(buf[:n]); writeErr != nil {
			return writeErr
		}
		b.look(buf[:n])
		b.progress.Show(b.size, max(resp.ContentLength, 0), "received "+quantity.BytesText(b.size))
	}
	if ctx.Err() != nil {
		return Fail(ExitFailure, "interrupted")
	}
	if err != io.EOF { //nolint:errorlint // a reader returns it as it is
		return Fail(ExitPartial, "the connection to %s broke off after %s of %s: %w\nRepeat the backup", b.client.base, quantity.BytesText(b.size), quantity.BytesText(resp.ContentLength), err)
	}
	return b.end()
}

// The first and the last line of a backup are shorter than this.
const edge = 1 << 12

// look keeps the edges of the file.
func (b *backup) look(p []byte) {
	b.size += int64(len(p))
	if room := edge - b.first.Len(); room > 0 {
		b.first.Write(p[:min(room, len(p))])
	}
	b.last = append(b.last, p[max(0, len(p)-edge):]...)
	b.last = b.last[max(0, len(b.last)-edge):]
}

// backupSummary is what a backup says about itself in its first and last lines.
type backupSummary struct {
	Store         string `json:"store"`
	Secrets       string `json:"secrets"`
	Notifications int    `json:"notifications"`
	Topics        int    `json:"topics"`
	Subscriptions int    `json:"subscriptions"`
	Damaged       int    `json:"damaged"` // notifications, topics and subscriptions that are not in it
	Bytes         int64  `json:"bytes"`
}

// end reads the edges of a whole file.
func (b *backup) end() error {
	first, _, _ := bytes.Cut(b.first.Bytes(), []byte("\n"))
	text := bytes.TrimSpace(b.last)
	last := text[bytes.LastIndexByte(text, '\n')+1:]
	b.summary.Bytes = b.size
	if json.Unmarshal(first, &b.summary) != nil || json.Unmarshal(last, &b.summary) != nil || b.summary.Secrets == "" {
		return b.client.stranger("it did not send a backup")
	}
	return nil
}

// report prints what is in the backup.
func (b *backup) report(name string) error {
	s, out := b.summary, b.cmd.ErrOrStderr()
	if b.json {
		if err := WriteJSON(b.cmd.OutOrStdout(), s); err != nil {
			return err
		}
		return WithoutDamaged(s.Damaged)
	}
	say(out, "%s: %s, %s and %s; %s.\n", Line(name), quantity.Count(s.Notifications, "notification", "notifications"),
		quantity.Count(s.Topics, "topic", "topics"), quantity.Count(s.Subscriptions, "subscription", "subscriptions"), quantity.BytesText(s.Bytes))
	if s.Secrets == "plain" {
		say(out, "The secrets of subscribers are in it as plain text, because this hub has no --seal-key-file.\n")
	}
	return WithoutDamaged(s.Damaged)
}

// WithoutDamaged is the error of a command that wrote a whole file, except n things that are
// damaged in the store or cannot be read; nil for 0.
func WithoutDamaged(n int) error {
	if n == 0 {
		return nil
	}
	return Fail(ExitPartial, "the file has everything except %s that the store has and that cannot be read; the log of the hub names them, and so does `rshub check` of a stopped hub",
		quantity.Count(n, "notification, topic or subscription", "notifications, topics and subscriptions"))
}
