package cli

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/engine/examine"
)

// validateFlags are those of `rshub validate`.
type validateFlags struct {
	json  bool
	pause Span
	call  CallFlags
	o     examine.Options
}

// Validate is `rshub validate`.
func Validate() *cobra.Command {
	f := validateFlags{
		pause: Span(100 * time.Millisecond),
		o:     examine.Options{MaxDocuments: 1000, MaxPackage: 64 << 20, Timeout: 2 * time.Minute},
	}
	cmd := &cobra.Command{
		Use:   "validate FILE|URL|-",
		Short: "Check a document against every rule of ResourceSync",
		Long: `Check a ResourceSync document of any kind: a notification, a list, a dump or its
package, an archive, an index. It is read from a file, from an http or https URL
or from standard input (-), and may be compressed with gzip where its name
ends in .gz or HTTP says so.

Each line reports one defect, with its place and its rule: FAIL, or WARN for what
readers should tolerate, such as former versions of the specification. A document
without FAIL ends with PASS and a description. Notifications have to pass the rules
of a hub. A package of a dump (ZIP) is compared with its manifest.

With --follow, validate also checks what an index, a Source Description, a Capability
List, an archive or a dump lists: each document, then whether it agrees with the list
and the others in capability, links, intervals and times. Of a dump it checks the
newest package, with its length and hashes. It fetches one document at a time.
rspub check uses the same rules; it finds the Source Description by itself, and also
checks resources, topics and hubs.

Exits 0, or 1 if a document fails, 3 if there is none, 4 if its address is one that
is not called or its server refuses, 5 if the server can't be reached.`,
		Args: Exactly("document"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print one JSON object for each document")
	flags.BoolVar(&f.o.Strict, "strict", false, "treat warnings as failures")
	flags.BoolVar(&f.o.Follow, "follow", false, "also check the listed documents, and whether they agree with the list")
	flags.Var(AtLeast(&f.o.MaxDocuments, 1), "max-documents", "with --follow, check at most `N` documents")
	flags.Var(Size(&f.o.MaxPackage, 0), "max-package", "with --follow, fetch packages of dumps up to this `SIZE`, such as 64MiB; 0: none")
	flags.Var(&f.pause, "pause", "`TIME` between two requests to one host")
	f.call.Add(flags, "allow loopback and private addresses")
	return cmd
}

func (f *validateFlags) run(cmd *cobra.Command, name string) error {
	allow, err := f.call.Ranges()
	if err != nil {
		return err
	}
	o := f.o
	o.Client, err = egress.New(egress.Options{UserAgent: "rshub-validate", Allow: allow})
	if err != nil {
		return Fail(ExitUsage, "--allow-cidr: %w", err)
	}
	o.Stdin, o.Pause = cmd.InOrStdin(), time.Duration(f.pause)
	o.MaxPackage = cmp.Or(o.MaxPackage, -1) // zero would be the default
	out := cmd.OutOrStdout()
	valid, err := examine.CheckDocument(cmd.Context(), name, o, func(d *examine.Document) error {
		if f.json {
			return WriteJSON(out, d)
		}
		for _, line := range d.All("") {
			if _, err := fmt.Fprintln(out, Line(line.String())); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && !valid {
		err = &Error{Code: ExitFailure}
	}
	return Unread(err)
}

// Unread gives an error of package examine its exit code.
func Unread(err error) error {
	for code, is := range map[int]error{ExitUsage: examine.ErrAddress, ExitNotFound: examine.ErrNotFound, ExitRefused: examine.ErrRefused, ExitUnreachable: examine.ErrUnreachable} {
		if errors.Is(err, is) {
			return Fail(code, "%w", err)
		}
	}
	return err
}
