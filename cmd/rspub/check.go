package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/engine/examine"
	"github.com/rshub/rshub/internal/program/cli"
)

// checkFlags are those of `rspub check`.
type checkFlags struct {
	call         cli.CallFlags
	sample, most int
	maxPackage   int64
	timeout      cli.Span
	json         bool
}

func checkCommand() *cobra.Command {
	f := checkFlags{sample: 20, most: 1000, maxPackage: 64 << 20, timeout: cli.Span(time.Minute)}
	cmd := &cobra.Command{
		Use: "check URL", Short: "Check a Source and report what is wrong with it", Args: cli.Exactly("Source"),
		Long: `Checks any Source as a subscriber sees it: its discovery, all its documents, a sample
of its resources and packages (length, hashes), the Link headers of its topics, and
whether its hubs answer. URL is the address of the site, of its Source Description, or
of any of its documents or resources. If that leads to no Source, the sitemaps that
robots.txt names are checked, as rssub would copy them. The rules for documents and
packages are those of rshub validate --follow.

Each line is PASS, WARN if some subscribers will have trouble, or FAIL. If a defect has
a place in a document, its line and column follow the URL.

Exits with 0, 1 if something failed, 3 if there is no Source, 4 if the server refuses
or its address may not be called, 5 if the server can't be reached.`,
		Example: `  rspub check https://example.org/
  rspub check --dev http://localhost:8090/`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.Var(cli.AtLeast(&f.sample, 0), "sample", "fetch `N` resources of each list; 0: none")
	flags.Var(cli.AtLeast(&f.most, 1), "max-documents", "read at most `N` documents")
	flags.Var(cli.Size(&f.maxPackage, 0), "max-package", "fetch packages of dumps up to this `SIZE`, such as 64MiB; 0: none")
	flags.Var(cli.Positive(&f.timeout), "timeout", "`TIME` for each request")
	flags.BoolVar(&f.json, "json", false, "print one JSON object for each finding, and one with the sums")
	f.call.Add(flags, "allow loopback and private addresses")
	return cmd
}

func (f *checkFlags) run(cmd *cobra.Command, url string) error {
	if err := cli.CheckAddress("URL", url); err != nil {
		return err
	}
	client, err := clientOf(&f.call)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := cmd.OutOrStdout()
	var broken error
	o := examine.Options{Client: client, Sample: cli.OrNone(f.sample), MaxDocuments: f.most, MaxPackage: cli.OrNone(f.maxPackage), Timeout: time.Duration(f.timeout)}
	result, err := examine.CheckSource(ctx, url, o, func(x examine.Finding) { broken = cmp.Or(broken, f.print(out, x)) })
	if err := cmp.Or(cli.Unread(err), broken); err != nil {
		return err
	}
	if err := f.summary(out, url, result); err != nil {
		return err
	}
	if result.Failed > 0 {
		return &cli.Error{Code: cli.ExitFailure}
	}
	return nil
}

func (f *checkFlags) print(out io.Writer, x examine.Finding) error {
	if f.json {
		return cli.WriteJSON(out, x)
	}
	_, err := fmt.Fprintln(out, cli.Line(x.String()))
	return err
}

func (f *checkFlags) summary(out io.Writer, url string, r examine.Result) error {
	if f.json {
		return cli.WriteJSON(out, struct {
			URL       string `json:"url"`
			Passed    int    `json:"passed"`
			Warned    int    `json:"warned"`
			Failed    int    `json:"failed"`
			Documents int    `json:"documents"`
			Resources int    `json:"resources"`
		}{url, r.Passed, r.Warned, r.Failed, r.Documents, r.Resources})
	}
	_, err := fmt.Fprintf(out, "%d passed, %s, %d failed; checked %s and %s\n", r.Passed, quantity.Count(r.Warned, "warning", "warnings"), r.Failed,
		quantity.Count(r.Documents, "document", "documents"), quantity.Count(r.Resources, "resource", "resources"))
	return err
}
