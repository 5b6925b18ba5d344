package cli

import (
	"encoding/json"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/egress"
)

// validateFlags are those of `rshub validate`.
type validateFlags struct {
	json, strict, follow, dev bool
	most                      int
	pause                     Span
	allow                     []string
}

// Validate is `rshub validate`.
func Validate() *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate FILE|URL|-",
		Short: "Check a document against every rule of ResourceSync",
		Long: `Check a ResourceSync document of any kind: a notification, a list, a dump or its
package, an archive, an index. It is read from a file, from an http or https URL
or from standard input (-), and may be compressed with gzip where its name
ends in .gz or HTTP says so.

What is wrong is told line by line, with the place and the rule: FAIL, or WARN for
what readers should tolerate, such as former versions of the specification. A
document without FAIL ends with PASS and what it is. Notifications are held to
the rules of a hub. A package of a dump (ZIP) is compared with its manifest.

With --follow the documents that an index, a Source Description, a Capability
List or an archive lists are checked as well, before it, and whether they agree
with it and each other: capability, links, intervals and times. They are
fetched one after another.

Exits 0, or 1 where a document fails, 3 where there is none, 4 where its
address is one that is not called or its server refuses, 5 where the server can't
be reached.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0])
		},
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object for each document")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "fail where there would be a warning")
	cmd.Flags().BoolVar(&f.follow, "follow", false, "check the documents that are listed, too, and whether they agree")
	f.most = 1000
	cmd.Flags().Var(AtLeast(&f.most, 1), "max-documents", "look at `N` documents at most with --follow")
	f.pause = Span(100 * time.Millisecond)
	cmd.Flags().Var(&f.pause, "pause", "`TIME` between two requests to one host")
	cmd.Flags().StringSliceVar(&f.allow, "allow-cidr", nil, "private or loopback `RANGE` that URLs may be in; repeatable")
	cmd.Flags().BoolVar(&f.dev, "dev", false, "allow loopback and private addresses")
	return cmd
}

func (f *validateFlags) run(cmd *cobra.Command, name string) error {
	client, err := f.client()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	w := &walk{
		inputs: inputs{stdin: cmd.InOrStdin(), client: client, pause: time.Duration(f.pause)},
		strict: f.strict, follow: f.follow, left: f.most, seen: make(map[string]*document),
		report: func(v *verdict) error {
			if f.json {
				return json.NewEncoder(out).Encode(v)
			}
			return v.print(out)
		},
	}
	valid, err := w.start(cmd.Context(), name)
	if err == nil && !valid {
		err = &Error{Code: ExitFailure}
	}
	return err
}

func (f *validateFlags) client() (*egress.Client, error) {
	var o egress.Options
	if f.dev {
		o.Allow = egress.DevAllow()
	}
	for _, s := range f.allow {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, Fail(ExitUsage, "--allow-cidr %q is not a range of addresses; write it like 10.0.0.0/8 or fd00::/8", s)
		}
		o.Allow = append(o.Allow, p)
	}
	c, err := egress.New(o)
	if err != nil {
		return nil, Fail(ExitUsage, "--allow-cidr: %w", err)
	}
	return c, nil
}
