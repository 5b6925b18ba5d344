package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/resourcesync"
)

// verdict is what `rshub validate --json` prints.
type verdict struct {
	File  string `json:"file"`
	Valid bool   `json:"valid"`

	Capability string    `json:"capability,omitempty"`
	Legacy     bool      `json:"legacy,omitempty"`
	From       time.Time `json:"from,omitzero"`
	Until      time.Time `json:"until,omitzero"`
	Up         string    `json:"up,omitempty"`
	Entries    int       `json:"entries"`
	Created    int       `json:"created"`
	Updated    int       `json:"updated"`
	Deleted    int       `json:"deleted"`

	Kind    string `json:"kind,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message,omitempty"`
}

// Validate is `rshub validate`.
func Validate() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "validate FILE|-",
		Short: "Check a change notification against every rule of ResourceSync",
		Long: `Check a change or framework notification, read from a file or from standard
input (-), against the rules that a hub applies to the document itself. Prints
one line: PASS and what it is, or FAIL with the place, the rule and what is
wrong. Exits 0, or 1 where it fails.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := validate(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			} else {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), v.line())
			}
			if err == nil && !v.Valid {
				err = &Error{Code: ExitFailure}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the verdict as a JSON object")
	return cmd
}

// validate checks the document in a file. Its error is that of getting at the
// document, not what is wrong with it.
func validate(name string, stdin io.Reader) (verdict, error) {
	in := stdin
	switch {
	case name == "-":
	case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
		return verdict{}, Fail(ExitUsage, "a URL can't be checked yet, only a file or - for standard input; fetch it first:\n  curl -fsS '%s' | rshub validate -", name)
	default:
		f, err := os.Open(name) //nolint:gosec // the user names the file
		if errors.Is(err, fs.ErrNotExist) {
			return verdict{}, Fail(ExitNotFound, "there is no file %s; name one, or - for standard input", name)
		}
		if err != nil {
			return verdict{}, err
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	n, err := resourcesync.CheckNotification(in, resourcesync.DefaultLimits)
	var wrong *resourcesync.Error
	switch {
	case errors.As(err, &wrong):
		return verdict{File: name, Kind: wrong.Kind.String(), Rule: wrong.Rule, Line: wrong.Line, Column: wrong.Column, Message: wrong.Msg}, nil
	case err != nil:
		return verdict{}, fmt.Errorf("reading %s: %w", name, err)
	}
	return verdict{
		File: name, Valid: true, Capability: n.Capability, Legacy: n.Legacy, From: n.From, Until: n.Until, Up: n.Up,
		Entries: n.Entries, Created: n.Counts.Created, Updated: n.Counts.Updated, Deleted: n.Counts.Deleted,
	}, nil
}

// line is the verdict for a person.
func (v verdict) line() string {
	if !v.Valid {
		return plain(fmt.Sprintf("FAIL %s:%d:%d: %s (%s: %s)", v.File, v.Line, v.Column, v.Message, v.Kind, v.Rule))
	}
	s := fmt.Sprintf("PASS %s: %s", v.File, v.Capability)
	if v.Legacy {
		s += " (by a former name)"
	}
	if !v.From.IsZero() || !v.Until.IsZero() {
		s += fmt.Sprintf(" from %s until %s", instant(v.From), instant(v.Until))
	}
	noun := "entries"
	if v.Entries == 1 {
		noun = "entry"
	}
	return plain(fmt.Sprintf("%s, %d %s: %d created, %d updated, %d deleted", s, v.Entries, noun, v.Created, v.Updated, v.Deleted))
}
